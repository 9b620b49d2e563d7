"""Names on the wire and in Python."""

import pytest

from gateway_project.api.names import camel, snake

pytestmark = pytest.mark.either_store


@pytest.mark.parametrize(("python_name", "name"), [("display_name", "displayName"), ("id", "id"), ("", "")])
def test_names_in_python_and_on_the_wire(python_name, name):
    assert camel(python_name) == name


@pytest.mark.parametrize("name", ["", "display_name", "Display", "a.b", "é"])
def test_what_is_no_name_of_the_wire_has_no_translation(name):
    assert snake(name) is None


@pytest.mark.parametrize(
    ("path", "attributes"),
    [
        ("/guardrails/", {"name": "g", "type": "pii", "parameters": {"": 1}}),
        ("/what-if/", {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z", "aliases": [{"": 1}]}),
    ],
)
def test_an_empty_name_is_refused_as_an_unknown_one(admin, path, attributes):
    response = admin.post(path, **attributes)
    assert response.status_code == 400, response.text
    assert response.json()["exception"] == "ValidationError"
