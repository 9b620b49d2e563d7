"""The theme's style sheet is compiled for its own pages: a class that it lacks does nothing, and nobody is told."""

import re
from importlib.util import find_spec
from pathlib import Path

from tests.support.running import ROOT

TEMPLATES = (*sorted(ROOT.glob("templates/console/*.html")), ROOT / "templates/admin/index.html")
OWN = ROOT / "gateway_project/static/gateway"
STYLES = (
    Path(find_spec("unfold").submodule_search_locations[0]) / "static/unfold/css/styles.css",
    OWN / "console.css",
)
TAGS = re.compile(r"{%.*?%}|{{.*?}}", re.DOTALL)
IN_TEMPLATES = re.compile(r'class="([^"]*)"')
IN_SCRIPTS = re.compile(r'className = "([^"]*)"')


def used() -> dict[str, str]:
    """The classes of our own templates and scripts, each with a file that has it."""
    values = {}
    for path in TEMPLATES:
        for text in IN_TEMPLATES.findall(TAGS.sub(" ", path.read_text())):
            values |= dict.fromkeys(text.split(), path.name)
    for path in OWN.glob("*.js"):
        for text in IN_SCRIPTS.findall(path.read_text()):
            values |= dict.fromkeys(text.split(), path.name)
    return values


def defined_classes() -> set[str]:
    """The classes that the style sheets have rules for, as templates write them."""
    text = "".join(path.read_text() for path in STYLES)
    return {name.replace("\\", "") for name in re.findall(r"\.((?:\\.|[\w-])+)", text)}


def test_every_class_of_a_template_has_a_rule():
    classes = used()
    assert len(classes) > 50
    assert {name: where for name, where in classes.items() if name not in defined_classes()} == {}
