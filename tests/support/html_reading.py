"""What a browser would make of a page: its elements, attributes and links, without running anything."""

from collections.abc import Iterator
from html.parser import HTMLParser

LINKS = ("href", "src", "action", "formaction", "data", "xlink:href", "srcdoc", "poster", "background")
SCHEMES = ("javascript:", "vbscript:", "data:text/html")


class Page(HTMLParser):
    """The elements of a page, and all its text in one piece."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, list[tuple[str, str]]]] = []
        self._pieces: list[str] = []
        self.feed(text)
        self.close()

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, [(name, value or "") for name, value in attrs]))

    def handle_data(self, data: str) -> None:
        self._pieces.append(data)

    def intrusions(self, mark: str) -> Iterator[str]:
        """Elements and attributes that are named after the mark, and links that run something."""
        for tag, attributes in self.elements:
            if mark in tag:
                yield f"element {tag}"
            for name, value in attributes:
                if mark in name:
                    yield f"attribute {name} of {tag}"
                if name in LINKS and value.strip().lower().startswith(SCHEMES):
                    yield f"{name}={value!r} of {tag}"
                if name.startswith("on") and mark in value:
                    yield f"{name}={value!r} of {tag}"
