"""Every page of the console, in light and dark and on a phone: no errors, nothing hidden, accessible."""

import pytest
from django.contrib import admin
from django.urls import reverse

from gateway_project.console.tables import ReadOnlyAdmin
from tests.console.conftest import LOOKS
from tests.support.thoroughness import first_of


def lists() -> list[str]:
    """The paths of all tables below /admin/."""
    return [f"{model._meta.app_label}/{model._meta.model_name}/" for model in admin.site._registry]


def forms() -> list[str]:
    """The paths of the forms for new rows."""
    tables = (model._meta for model, its in admin.site._registry.items() if not isinstance(its, ReadOnlyAdmin))
    return [f"{table.app_label}/{table.model_name}/add/" for table in tables]


def pages() -> list[str]:
    """The paths of the pages that are no table's."""
    routes = {route for route, _ in admin.site._pages.values() if "<" not in route}
    return ["", *sorted(routes - admin.site.parts)]


@pytest.mark.timeout(400)  # some fifty pages, each of which the browser and axe go through
@pytest.mark.parametrize("paths", first_of(pages, lists, forms, values=2))
def test_a_page_is_whole(console, paths):
    window = console()
    for path in paths():
        window.open(path)
        assert window.check_looks() == {}, path


@pytest.mark.parametrize(
    ("look", "style"),
    first_of(
        ("dark", "html.dark h1 { color: #222; background: #000 }"),
        ("light", "html:not(.dark) h1 { color: #ddd; background: #fff }"),
        ("phone", "@media (max-width: 500px) { body { min-width: 900px } }"),
    ),
)
def test_what_is_wrong_in_one_look_is_found(console, look, style):
    window = console()
    window.open("accounts/role/")
    window.page.add_style_tag(content=style)
    assert look in window.check_looks(every=True)


def test_a_wrong_address_has_a_whole_page_with_a_way_back(console):
    window = console()
    window.open("nowhere/")
    assert all("404" in problem for problem in window.problems)
    window.problems.clear()
    assert window.check_looks() == {}
    window.page.click("text=Back to the overview")
    window.page.wait_for_url(f"{window.url}/admin/")


def test_the_sign_in_is_whole(visitor):
    for look in LOOKS:
        window = visitor(look)
        window.open("")
        assert window.check() == []
    assert reverse("admin:login") in window.page.url
