"""What a rule would do stands beside its form before anything is saved, with scripts and without."""

import pytest

from rules.models import Rule
from tests.console.conftest import stand_still
from tests.support.thoroughness import first_of

SHOWN = "document.querySelector('[data-preview]').innerText.includes({!r})"


@pytest.mark.parametrize("look", first_of("phone", "light", "dark"))
def test_the_preview_follows_the_form_beside_or_below_it(console, world, look):
    world.provider()
    count = Rule.objects.count()
    window = console(look)
    page = window.page
    window.open("rules/rule/add/")
    page.select_option("#id_audience", "everyone")
    page.fill("#id_regex", world.model)
    page.wait_for_function(SHOWN.format("allows 1 model"))
    shown = page.inner_text("[data-preview]")
    assert world.model in shown
    assert "everyone" in shown
    page.select_option("#id_effect", "deny")
    page.wait_for_function(SHOWN.format("denies 1 model"))
    form, preview = (page.locator(one).bounding_box() for one in ("#id_regex", "[data-preview]"))
    is_beside = preview["x"] >= form["x"] + form["width"]
    is_below = preview["y"] >= form["y"] + form["height"]
    assert (is_beside, is_below) == ((False, True) if look == "phone" else (True, False))
    assert window.check() == []
    assert Rule.objects.count() == count


def test_the_preview_stays_in_sight_of_the_last_field(console, world):
    world.provider()
    world.allow()
    window = console()
    page = window.page
    window.open(f"rules/rule/{Rule.objects.latest('pk').pk}/change/")
    page.wait_for_function(SHOWN.format("It allows"))
    page.locator("#id_provider + .select2-container").scroll_into_view_if_needed()
    page.mouse.wheel(0, 2000)
    page.wait_for_timeout(200)
    box = page.locator("[data-preview]").bounding_box()
    assert 0 <= box["y"] < 500


def test_the_preview_has_a_button_without_scripts(visitor, world):
    world.provider()
    world.allow()
    rule = Rule.objects.latest("pk")
    window = visitor(java_script_enabled=False)
    window.sign_in()
    page = window.page
    window.open(f"rules/rule/{rule.pk}/change/")
    assert f"It applies to the user {world.user.username}" in page.inner_text("[data-preview]")
    page.select_option("#id_effect", "deny")
    page.fill("#id_regex", world.model)
    page.click("[name=_preview]")
    stand_still(page)
    assert "It denies 1 model" in page.inner_text("[data-preview]")
    assert page.input_value("#id_effect") == "deny"
    assert page.locator("[role=alert], .errornote").count() == 0
    rule.refresh_from_db()
    assert (rule.effect, rule.regex == world.model) == ("allow", False)
    page.click("[name=_save]")
    stand_still(page)
    rule.refresh_from_db()
    assert rule.effect == "deny"
    assert window.problems == []


def test_the_preview_of_a_new_rule_has_a_button_without_scripts(visitor, world):
    world.provider()
    window = visitor(java_script_enabled=False)
    window.sign_in()
    page = window.page
    window.open("rules/rule/add/")
    page.fill("#id_name", name := world.name("drafted"))
    page.select_option("#id_audience", "everyone")
    page.fill("#id_regex", world.model)
    page.click("[name=_preview]")
    stand_still(page)
    assert "It allows 1 model" in page.inner_text("[data-preview]")
    assert page.input_value("#id_name") == name
    assert not Rule.objects.filter(name=name).exists()
