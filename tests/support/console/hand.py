"""Goes through the console like a person, and counts clicks; all that is clicked could be reached by the keyboard."""

from tests.console.conftest import Console, stand_still
from tests.support.pace import slowness

# What is wrong for somebody without a mouse: a control that the Tab key passes by, or that does not show its focus.
FOCUS = """element => {
  const control = element.closest("a[href], button, input, select, textarea, summary, [role=button], label");
  if (!control) return `nothing to press at "${element.innerText}"`;
  if (control.tagName === "LABEL") return "";
  control.focus({focusVisible: true, preventScroll: true});
  if (control.tabIndex < 0 || document.activeElement !== control) return `no focus for ${control.outerHTML}`;
  const {outlineStyle, outlineWidth} = getComputedStyle(control);
  const isVisible = outlineStyle !== "none" && parseFloat(outlineWidth) >= 2;
  return isVisible ? "" : `nobody sees that ${control.outerHTML} has the focus`;
}"""


class Hand:
    """Clicks at a window, and counts."""

    def __init__(self, window: Console) -> None:
        self.window, self.page, self.clicks = window, window.page, 0
        window.page.set_default_timeout(10_000 * slowness())

    def click(self, what: str) -> None:
        """Click what a selector finds first, and wait for what follows."""
        self.clicks += 1
        target = self.page.locator(what).first
        assert target.evaluate(FOCUS) == ""
        target.click()
        stand_still(self.page)

    def drag(self, what: str, to: str) -> None:
        """Drag one element to the upper edge of another, and wait for the page that follows."""
        self.clicks += 1
        target = self.page.locator(to).first
        with self.page.expect_navigation():
            self.page.locator(what).first.drag_to(target, target_position={"x": 60, "y": 4})
        stand_still(self.page)

    def draw(self, start: str, end: str) -> None:
        """Draw with the mouse from one element to another, and wait for the page that follows: one click."""
        self.clicks += 1
        boxes = [self.page.locator(what).first.bounding_box() for what in (start, end)]
        (x, y), (last_x, last_y) = [(box["x"] + 5, box["y"] + 20) for box in boxes]
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        self.page.mouse.move(last_x, last_y, steps=3)
        with self.page.expect_navigation():
            self.page.mouse.up()
        stand_still(self.page)

    def press(self, what: str, key: str = "Enter") -> None:
        """Press a key where a selector finds something, and wait for the page that follows."""
        target = self.page.locator(what).first
        assert target.evaluate(FOCUS) == ""
        with self.page.expect_navigation():
            target.press(key)
        stand_still(self.page)

    def go(self, path: str) -> None:
        """Click an entry of the side bar."""
        self.click(f"#nav-sidebar a[href='/admin/{path}']")

    def search(self, text: str, kind: str) -> None:
        """Search from the keyboard, and open the first result of a kind."""
        self.page.keyboard.press("Control+k")
        self.page.keyboard.insert_text(text)
        self.click(f"dialog a:has-text('{kind}:')")
