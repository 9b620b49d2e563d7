"""The forms of the console, filled in without a browser."""

from html.parser import HTMLParser

Fields = dict[str, list[str]]


class _Reader(HTMLParser):
    """Reads what a browser would send of the first form whose id ends like those of tables."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: Fields = {}
        self._inside = False
        self._select: tuple[str, bool] | None = None  # its name, and whether it takes several
        self._textarea = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        name, value = values.get("name", ""), values.get("value", "")
        if tag == "form":
            self._inside = values.get("id", "").endswith("_form")
        elif not self._inside:
            return
        elif tag == "input" and name and values.get("type") not in ("submit", "checkbox", "radio"):
            self._add(name, value)
        elif tag == "input" and name and "checked" in values:
            self._add(name, value or "on")
        elif tag == "select":
            self._select = name, "multiple" in values
        elif tag == "option" and self._select:
            select, several = self._select
            if "selected" in values or (not several and select not in self.fields):
                self.fields[select] = [*(self.fields.get(select, []) if several else []), value]
        elif tag == "textarea" and name:
            self._textarea = name
            self._add(name, "")

    def handle_data(self, data: str) -> None:
        if self._textarea:
            self.fields[self._textarea][-1] += data.removeprefix("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False
        elif tag == "select":
            self._select = None
        elif tag == "textarea":
            self._textarea = ""

    def _add(self, name: str, value: str) -> None:
        self.fields.setdefault(name, []).append(value)


def fields_of(page: str) -> Fields:
    """The fields of a page's form as they stand, without its token."""
    reader = _Reader()
    reader.feed(page)
    reader.fields.pop("csrfmiddlewaretoken", None)
    return reader.fields
