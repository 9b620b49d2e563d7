"""What a page costs who looks at it: bytes that are transferred after the first visit, and parts that move."""

from tests.console.conftest import Console

MAX_BYTES = 150_000  # of a page and all that it loads, once the browser has seen the site
MAX_SHIFT = 0.02  # of the window, which nobody notices: web.dev calls up to 0.1 good
WATCH = """
  window.shift = 0;
  new PerformanceObserver(list => list.getEntries().forEach(entry => window.shift += entry.value))
    .observe({ type: 'layout-shift', buffered: true });
"""


class Scale:
    """Opens pages of a window and measures each; `slowdown` is how many times slower its processor is made."""

    def __init__(self, window: Console, *, slowdown: int = 1) -> None:
        self._window = window
        self._figures: dict[str, tuple[float, float]] = {}
        self._received: list[float] = []
        window.page.add_init_script(WATCH)
        session = window.page.context.new_cdp_session(window.page)
        session.send("Network.enable")
        session.send("Emulation.setCPUThrottlingRate", {"rate": slowdown})
        session.on("Network.loadingFinished", lambda event: self._received.append(event["encodedDataLength"]))

    def open(self, path: str) -> None:
        """Go to a page, and note its bytes and its shift."""
        self._received.clear()
        self._window.open(path)
        self._figures[path] = sum(self._received), self._window.page.evaluate("window.shift")

    def problems(self) -> dict[str, tuple[float, float]]:
        """The pages that are too heavy, that move, or of which nothing was received."""
        return {
            path: (size, shift)
            for path, (size, shift) in self._figures.items()
            if not 1000 < size <= MAX_BYTES or shift > MAX_SHIFT
        }
