"""What administrators come for, each within so many clicks from the first page; typing and keys are no clicks."""

import json
from urllib.parse import urlsplit

from keys.models import ApiKey
from licensing.models import Limit
from licensing.services import set_limit
from providers.models import ModelPrice, Provider
from providers.services import delete_provider
from telemetry.models import LogEntry
from tests.console.conftest import stand_still
from tests.support.console.hand import Hand
from tests.support.provider import ScriptedProvider


def text_of(hand: Hand) -> str:
    return hand.page.inner_text("#main")


def test_who_spent_most_is_found_with_three_clicks(hand, world):
    world.provider().answers(text="Lisbon")
    world.allow()
    world.price(100_000, 200_000)
    world.entry(world.ask())
    hand.go("statistics/")
    hand.page.select_option("#id_by", "user")
    hand.click("#main button:text-is('Show')")
    hand.click("th a:text-is('Cost')")
    assert "$" in hand.page.locator("tbody tr").first.inner_text()
    assert hand.clicks <= 3


def test_from_a_refused_request_to_the_rules_that_were_considered_with_three_clicks(hand, world):
    world.provider()
    rule = world.allow(effect="deny")
    entry = world.entry(world.ask())
    assert entry.status == 403
    hand.go("telemetry/logentry/")
    hand.click(f"#result_list a[href*='/{entry.pk}/']")
    hand.click("dt:text-is('Error') + dd a")
    assert hand.page.locator("[data-sentences] li").count() > 0
    assert rule.name in hand.page.inner_text("#rules")
    assert hand.clicks <= 3


def test_from_a_request_over_its_limit_to_that_limit_with_three_clicks(hand, world):
    limit = set_limit(user=world.user, measure="requests", window="day", amount=1)
    world.provider().answers(text="Lisbon")
    world.allow()
    world.ask()
    entry = world.entry(world.ask())
    assert entry.status == 429
    hand.go("telemetry/logentry/")
    hand.click(f"#result_list a[href*='/{entry.pk}/']")
    hand.click("dt:text-is('Error') + dd a")
    assert hand.page.url.endswith(f"/licensing/limit/{limit.pk}/change/")
    assert hand.clicks <= 3


def test_a_filter_of_the_log_is_saved_with_three_clicks_used_with_two_and_deleted_with_one(hand, world):
    world.provider().answers(text="Lisbon")
    world.allow()
    entry = world.entry(world.ask())
    name, page = world.name("theirs"), hand.page
    hand.go("telemetry/logentry/")
    hand.click("text=Filters")
    page.fill("#changelist-filter [name=user]", world.user.username)
    hand.press("#changelist-filter [name=user]")
    hand.click("summary:has-text('Save this filter')")
    page.fill(".console-saving [name=name]", name)
    hand.press(".console-saving [name=name]")
    assert hand.clicks <= 3
    hand.window.open("")
    hand.clicks = 0
    hand.go("telemetry/logentry/")
    hand.click(f"[aria-label='Saved filters'] a:text-is('{name}')")
    assert hand.clicks <= 2
    assert page.locator("#result_list tbody tr").count() == 1
    assert page.locator(f"#result_list a[href*='/{entry.pk}/']").count() == 1
    assert hand.window.check() == []
    hand.click(f"[aria-label='Delete the filter {name}']")
    assert name not in text_of(hand)


def test_a_setting_is_found_with_one_click(hand):
    hand.go("system/")
    hand.page.fill("#setting-search", "idle time")
    hand.press("#setting-search")
    assert hand.page.locator("[data-settings] dt").all_inner_texts() == ["GATEWAY_IDLE_TIMEOUT"]
    assert hand.clicks <= 1


def test_two_models_answer_side_by_side_with_two_clicks(hand, world):
    first, second = (world.provider(world.name("side")) for _ in range(2))
    world.allow(everyone="user")
    first.answers(text="Lisbon")
    second.answers(text="Porto")
    page = hand.page
    hand.go("playground/")
    for field, provider in (("model", first), ("second", second)):
        page.fill(f"[name={field}]", world.row(provider).models.get().name)
    page.fill("[name=prompt]", "What is the capital of Portugal?")
    hand.click("#playground [type=submit]")
    for place in (0, 1):
        page.locator("[data-note]", has_text="complete after").nth(place).wait_for()
    assert page.locator("[data-answer]").all_inner_texts() == ["Lisbon", "Porto"]
    assert hand.window.check() == []
    assert hand.clicks <= 2


def test_a_leaked_key_is_blocked_with_three_clicks(hand, world):
    issued = world.new_key()
    hand.search(issued.text, "API key")
    hand.click("a[href$='/lock/']")
    hand.click("#main [type=submit]")
    assert ApiKey.objects.get(pk=issued.key.pk).locked_time is not None
    assert "Locked" in hand.page.locator("[data-state]").inner_text()
    assert hand.clicks <= 3


def test_the_key_of_a_suspicious_request_is_blocked_with_four_clicks(hand, world):
    world.provider().answers(text="Lisbon")
    world.allow()
    entry = world.entry(world.ask())
    hand.go("telemetry/logentry/")
    hand.click(f"#result_list a[href*='/{entry.pk}/']")
    hand.click("text=Lock this key")
    hand.click("#main [type=submit]")
    assert ApiKey.objects.get(pk=entry.key_id).locked_time is not None
    assert LogEntry.objects.filter(message__endswith=f"changed keys {entry.key_id}: locked.").exists()
    assert hand.clicks <= 4


def test_a_missing_price_is_set_with_four_clicks(hand, world):
    scripted = world.provider()
    scripted.answers(text="Lisbon")
    world.allow()
    world.entry(world.ask())
    hand.go("statistics/")
    hand.page.select_option("#id_by", "model")
    hand.click("#main button:text-is('Show')")
    hand.click(f"tbody tr:has(th:has-text('{world.model}')) a:has-text('without a price')")
    assert hand.page.input_value("#id_model") == world.model
    hand.page.fill("#id_currency", "USD")
    hand.page.fill("#id_input", "1")
    hand.page.fill("#id_output", "2")
    hand.click("[name=_save]")
    assert ModelPrice.objects.filter(model=world.model, provider=world.row(scripted)).exists()
    assert hand.clicks <= 4


def test_a_provider_is_tested_and_saved_with_its_models_with_three_clicks(hand, world):
    with ScriptedProvider() as scripted:
        scripted.answers(status=401).answers(body={"data": [{"id": world.name("small")}, {"id": world.name("large")}]})
        hand.search("groq", "Action")
        assert hand.page.get_attribute("a[rel=noreferrer]", "href") == "https://console.groq.com/keys"
        hand.page.fill("#id_name", name := world.name("groq"))
        hand.page.fill("#id_url", scripted.url)
        hand.page.fill("#id_secret", "sk-wrong")
        hand.click("text=Test and choose models")
        assert "The provider refused the credential" in text_of(hand)
        assert not Provider.objects.filter(name=name).exists()
        assert hand.window.check() == []
        hand.page.fill("#id_secret", "sk-right")
        hand.clicks -= 1  # whoever enters the right one at once needs no second test
        hand.click("text=Test and choose models")
        assert "lists 2 models" in text_of(hand)
        assert hand.window.check() == []
        hand.click("text=Add the chosen models")
        provider = Provider.objects.get(name=name)
        assert provider.models.count() == 2
        assert [seen.headers["authorization"] for seen in scripted.seen] == ["Bearer sk-wrong", "Bearer sk-right"]
        assert hand.clicks <= 3
        delete_provider(provider)


def test_models_of_a_provider_are_chosen_in_every_look(console, world):
    scripted = world.provider()
    provider, listed = world.row(scripted), [world.name("one"), world.name("x" * 150), world.name("three")]
    scripted.answers(body={"data": [{"id": name} for name in listed]})
    window = console()
    window.open(f"providers/provider/{provider.pk}/fetch-models/")
    window.page.click("#main [type=submit]")
    stand_still(window.page)
    assert window.check_looks() == {}
    window.page.uncheck("[data-every]")
    assert window.page.locator("[name=models]:checked").count() == 0
    window.page.check(f"[value='{listed[2]}']")
    window.page.click("text=Add the chosen models")
    stand_still(window.page)
    assert set(provider.models.values_list("name", flat=True)) == {world.model, listed[2]}
    assert window.problems == []


def test_what_a_user_has_used_is_shown_with_two_clicks(hand, world):
    world.provider().answers(text="Lisbon")
    world.allow()
    world.entry(world.ask())
    hand.search(world.user.username, "User")
    hand.click("a:text-is('Usage')")
    assert "Requests" in text_of(hand)
    assert hand.clicks <= 2


def test_which_provider_fails_and_why_is_shown_with_one_click(hand, world):
    broken = world.provider()
    broken.answers(status=500)
    world.allow()
    world.ask()
    hand.go("providers/provider/")
    row = hand.page.locator("#result_list tr", has_text=world.row(broken).name).inner_text()
    assert "Failing" in row
    assert "1 of 1 attempts in the last 10 minutes, last error ProviderError" in row
    assert hand.clicks <= 1


def test_a_limit_that_is_used_up_is_raised_with_three_clicks(hand, world):
    limit = set_limit(user=world.user, measure="requests", window="day", amount=1)
    world.provider().answers(text="Lisbon")
    world.allow()
    world.entry(world.ask())
    hand.go("licensing/limit/")
    row = hand.page.locator("#result_list tr", has_text=world.user.username)
    assert "Used up" in row.inner_text()
    hand.click(f"#result_list tr:has-text('{world.user.username}') a")
    hand.page.fill("#id_amount", "10")
    hand.click("[name=_save]")
    assert Limit.objects.get(pk=limit.pk).amount == 10
    assert hand.clicks <= 3


def test_who_changed_something_is_shown_with_three_clicks(hand, world, administrator):
    key = world.new_key().key
    administrator.post(f"keys/apikey/{key.pk}/lock/", post="yes")
    hand.go("telemetry/logentry/")
    hand.click(".console-tabs >> text=Audit")
    hand.click(f"#result_list tr:has-text('changed keys {key.pk}') a")
    assert f"changed keys {key.pk}: locked" in text_of(hand)
    assert hand.clicks <= 3


def test_a_logged_request_is_sent_again_with_four_clicks(hand, world):
    world.provider().answers(text="Lisbon")
    world.allow(everyone="user")
    entry = world.entry(world.ask("Capital of Portugal?"))
    hand.go("telemetry/logentry/")
    hand.click(f"#result_list a[href*='/{entry.pk}/']")
    hand.click("text=Open in playground")
    assert hand.page.input_value("[name=prompt]") == "Capital of Portugal?"
    hand.click("#playground [type=submit]")
    hand.page.wait_for_function("document.querySelector('[data-note]')?.innerText.includes('complete after')")
    assert hand.clicks <= 4


def test_a_period_is_drawn_on_the_histogram_with_two_clicks_or_opened_by_a_bar(hand, world):
    world.provider().answers(text="Lisbon")
    world.allow()
    world.entry(world.ask())
    hand.go("telemetry/logentry/")
    bars = hand.page.locator("[data-histogram] a")
    hand.draw("[data-histogram] a >> nth=20", "[data-histogram] a >> nth=22")
    assert hand.clicks <= 2
    query = urlsplit(hand.page.url).query
    assert bars.first.get_attribute("data-start")[11:] in query.replace("%3A", ":")
    assert "timestamp_to_0=" in query
    address = bars.nth(1).get_attribute("href")
    hand.page.goto(f"{hand.window.url}/admin/telemetry/logentry/{address}")
    assert hand.window.check() == []


def test_a_conversation_is_read_in_every_look(console, orm):
    body = {"messages": [{"role": "user", "content": "<b>Why?</b>"}, {"role": "tool", "content": "x" * 400}]}
    entry = LogEntry.objects.create(
        entry_type="WorkRequest", outcome="completed", payload=json.dumps({"request": body, "response": "Because."})
    )
    window = console()
    window.open(f"telemetry/logentry/{entry.pk}/change/")
    turns = window.page.locator("[data-conversation] article").all_inner_texts()
    assert [turn.split("\n")[0] for turn in turns] == ["User", "Tool", "Assistant"]
    assert "<b>Why?</b>" in turns[0]
    assert window.check_looks() == {}
    entry.delete()


def test_a_key_with_a_limit_is_made_and_tried_with_three_clicks(hand, world):
    name = world.name("laptop")
    hand.go("keys/apikey/")
    hand.click("a[href$='/keys/apikey/add/']")
    hand.page.fill("#id_name", name)
    hand.page.focus("#id_owner + .select2-container [role=combobox]")
    hand.page.keyboard.press("Enter")
    hand.page.keyboard.insert_text(world.user.username)
    hand.page.locator(".select2-results__option--highlighted", has_text=world.user.username).wait_for()
    hand.page.keyboard.press("Enter")
    hand.page.select_option("#id_limit_measure", "requests")
    hand.page.fill("#id_limit_amount", "500")
    hand.click("[name=_save]")
    key = ApiKey.objects.get(name=name)
    assert key.owner == world.user
    assert key.limits.get().amount == 500
    assert hand.page.inner_text("#key") in hand.page.locator("pre, code", has_text="curl").first.inner_text()
    assert hand.clicks <= 3


def test_a_key_is_rotated_with_three_clicks_and_its_secret_lives_on_for_a_day(hand, world):
    issued = world.new_key()
    hand.search(issued.text, "API key")
    hand.click("a[href$='/rotate/']")
    hand.page.select_option("[name=hours]", label="24 hours")
    hand.click("#main [type=submit]")
    assert hand.page.inner_text("#key") != issued.text
    assert ApiKey.objects.get(pk=issued.key.pk).former_public_id == issued.key.public_id
    assert hand.clicks <= 3
