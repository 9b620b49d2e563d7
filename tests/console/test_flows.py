"""What an administrator does in the console, from the first provider to the first answer."""

import json
from urllib.parse import urlsplit

import pytest

from accounts import services as accounts
from accounts.models import User
from accounts.sessions import end_sessions
from keys.models import ApiKey
from providers.models import Provider
from rules.models import Rule
from telemetry.models import LogEntry
from tests.console.conftest import PASSWORD, USERNAME, stand_still
from tests.support.load import wait_until

CREDENTIAL = "sk-typed-in-the-browser"
PROMPT = "What is the capital of Portugal?"


def submit(page) -> None:
    page.click("button[name=_save], input[name=_save]")
    stand_still(page)


def choose(page, field: str, text: str) -> None:
    """Pick a row in one of the fields that search as one types."""
    page.click(f"#id_{field} + .select2-container")
    page.locator(".select2-container--open .select2-search__field").fill(text)
    page.locator(".select2-results__option", has_text=text).first.click()


def make_provider(window, name: str, model: str, url: str) -> Provider:
    """One that is filled in by hand, and never shows its credential."""
    page = window.page
    window.open("providers/provider/add/")
    page.fill("#id_name", name)
    page.select_option("#id_format", label="openai")
    page.fill("#id_url", url)
    page.fill("#id_secret", CREDENTIAL)
    page.fill("#id_new_models", f"{model}\n")
    submit(page)
    provider = Provider.objects.get(name=name)
    assert [row.name for row in provider.models.all()] == [model]
    assert CREDENTIAL not in provider.credential
    window.open(f"providers/provider/{provider.pk}/change/")
    assert CREDENTIAL not in page.content()
    return provider


def make_rule(window, name: str, model: str) -> Rule:
    """One for everybody, whose preview tells what it lets through."""
    page = window.page
    window.open("rules/rule/add/")
    page.fill("#id_name", name)
    page.select_option("#id_audience", "everyone")
    page.fill("#id_regex", f"{model}.*")
    page.wait_for_function("document.querySelector('[data-preview]').innerText.includes('allows 1 model')")
    submit(page)
    rule = Rule.objects.get(name=name)
    assert rule.everyone
    return rule


def make_key(window, name: str) -> tuple[ApiKey, str]:
    """One of the administrator's, which is shown once."""
    page = window.page
    window.open("keys/apikey/add/")
    page.fill("#id_name", name)
    choose(page, "owner", USERNAME)
    submit(page)
    shown = page.inner_text("#key")
    key = ApiKey.objects.get(name=name)
    assert shown.startswith(f"svc_{key.public_id}_")
    window.open(f"keys/apikey/{key.pk}/change/")
    assert shown not in page.content()
    return key, shown


def ask(window, model: str, key: str, secret: str = "") -> str:
    """What the playground shows as the answer, with the key that is chosen or typed."""
    page = window.page
    window.open("playground/")
    page.fill("[name=model]", model)
    page.select_option("[name=key]", key)
    if secret:
        page.fill("[name=secret]", secret)
    else:
        assert page.is_hidden("[name=secret]")
    page.fill("[name=prompt]", PROMPT)
    page.check("[name=bypass]")
    page.click("button[type=submit] >> text=Send")
    page.wait_for_function("document.querySelector('[data-note]')?.innerText.includes('complete after')")
    return page.inner_text("[data-answer]")


def test_from_a_provider_to_an_answer_in_the_playground(console, world):
    scripted, window = world.provider(world.name("unused")), console()
    name, model = world.name("browser"), world.name("browser-model")
    provider = make_provider(window, name, model, scripted.url)
    rule = make_rule(window, name, model)
    key, shown = make_key(window, name)
    for choice in (("",), (key.public_id,), ("other", shown)):
        scripted.answers(text="Lisbon, I think.")
        assert ask(window, model, *choice) == "Lisbon, I think."
        assert scripted.seen[-1].headers["authorization"] == f"Bearer {CREDENTIAL}"
    assert window.problems == []
    requests = LogEntry.objects.filter(username=USERNAME, model=model).order_by("pk").values_list("key_id", flat=True)
    wait_until(lambda: list(requests.all()) == [None, key.pk, key.pk], 10, "an entry with the key of each")
    entries = LogEntry.objects.filter(entry_type="Message", username=USERNAME).values_list("message", "payload")
    messages = " ".join(f"{message} {payload}" for message, payload in entries)
    for what in (f"created providers {provider.pk}", f"created rules {rule.pk}", f"created keys {key.pk}"):
        assert what in messages
    assert CREDENTIAL not in messages
    assert shown not in messages
    Rule.objects.filter(pk=rule.pk).delete()


def send(hand, prompt: str, count: int) -> None:
    """Send the next message, and wait until so many answers are complete."""
    hand.page.fill("[name=prompt]", prompt)
    hand.click("#playground [type=submit]")
    hand.page.wait_for_function(
        "count => [...document.querySelectorAll('[data-note]')]"
        ".filter(note => note.innerText.includes('complete')).length == count",
        arg=count,
    )


def test_a_conversation_goes_on_with_its_own_answers(hand, world):
    scripted = world.provider(world.name("talk"))
    world.allow(everyone="user")
    page = hand.page
    hand.go("playground/")
    page.fill("[name=model]", world.row(scripted).models.get().name)
    page.fill("[name=system]", "Be brief.")
    hand.click("text=Parameters")
    page.fill("[name=temperature]", "0.5")
    page.fill("[name=max_tokens]", "64")
    for number, (prompt, text) in enumerate((("Capital of Portugal?", "Lisbon"), ("And of Spain?", "Madrid")), 1):
        scripted.answers(text=text)
        send(hand, prompt, number)
    request = json.loads(scripted.seen[-1].body)
    assert [(message["role"], message["content"]) for message in request["messages"]] == [
        ("system", "Be brief."),
        ("user", "Capital of Portugal?"),
        ("assistant", "Lisbon"),
        ("user", "And of Spain?"),
    ]
    assert (request["temperature"], request["max_tokens"]) == (0.5, 64)
    hand.click("text=Log entry >> nth=1")
    assert hand.clicks <= 5  # the page, its parameters, two turns, the log entry
    assert "telemetry/logentry/" in page.url
    assert hand.window.check() == []


def test_a_model_beside_itself_has_two_conversations(hand, world):
    scripted = world.provider(world.name("talk"))
    world.allow(everyone="user")
    page = hand.page
    hand.go("playground/")
    for field in ("model", "second"):
        page.fill(f"[name={field}]", world.row(scripted).models.get().name)
    page.check("[name=bypass]")
    scripted.answers(text="Lisbon").answers(text="Porto")
    send(hand, "The largest city?", 2)
    send(hand, "And then?", 4)
    histories = [json.loads(request.body)["messages"] for request in scripted.seen[-2:]]
    assert {history[1]["content"] for history in histories} == {"Lisbon", "Porto"}


def test_an_answer_says_who_served_it_how_fast_and_for_how_much(hand, world):
    scripted = world.provider(world.name("talk"))
    world.allow(everyone="user")
    model = world.row(scripted).models.get().name
    world.price(10, 20, model=model)
    usage = {"prompt_tokens": 1_000, "completion_tokens": 500, "total_tokens": 1_500}
    scripted.answers(text="Lisbon", usage=usage)
    page = hand.page
    hand.go("playground/")
    page.fill("[name=model]", model)
    send(hand, PROMPT, 1)
    page.wait_for_selector("[data-note] a")
    note = page.inner_text("[data-note]")
    assert note.startswith(f"{world.row(scripted).name} MISS: first token after ")
    assert " ms, 1.0k input tokens, 500 output tokens, " in note
    assert page.get_by_title("1,000 input tokens").is_visible()
    assert ", 1 attempt, " in note
    assert "0.02" in note, "its cost: a thousand tokens for 10 and half a thousand for 20 a million"


def test_a_new_conversation_forgets_the_one_before(hand, world):
    scripted = world.provider(world.name("talk"))
    world.allow(everyone="user")
    page = hand.page
    hand.go("playground/")
    page.fill("[name=model]", world.row(scripted).models.get().name)
    for prompt in ("First", "Second"):
        scripted.answers(text="An answer")
        send(hand, prompt, 1)
        hand.click("text=New conversation")
    assert [message["content"] for message in json.loads(scripted.seen[-1].body)["messages"]] == ["Second"]


def test_an_error_is_red_and_the_message_stays_for_another_try(console, world):
    window = console()
    page = window.page
    window.open("playground/")
    page.fill("[name=model]", world.name("nobody-has-this"))
    page.fill("[name=prompt]", PROMPT)
    page.click("button[type=submit] >> text=Send")
    page.wait_for_selector("[data-note].console-problem[role=alert]")
    assert page.input_value("[name=prompt]") == PROMPT
    assert page.get_by_role("link", name="Log entry").get_attribute("href")
    assert [problem for problem in window.check() if "403" not in problem] == []
    page.wait_for_selector("[data-note] >> text=Explain")
    assert ".. Log entry" not in page.inner_text("[data-note]")
    page.click("[data-note] >> text=Explain")
    stand_still(page)
    assert urlsplit(page.url).path.startswith("/admin/explain/entry/")
    assert "refused" in page.inner_text("#main")


def test_tools_that_are_not_json_are_not_sent(console, world):
    window = console()
    page = window.page
    window.open("playground/")
    page.click("text=Parameters")
    page.fill("[name=tools]", "[{")
    assert "The list of tools is not JSON" in page.inner_text("[data-problem]")
    page.fill("[name=tools]", "")
    assert page.is_hidden("[data-problem]")
    page.fill("[name=schema]", '{"type": "object", "nullable": true}')
    assert '"nullable": True' in page.inner_text("#as-python")


def test_tools_and_schema_are_sent_with_the_message(hand, world):
    scripted = world.provider(world.name("tools"))
    world.allow(everyone="user")
    scripted.answers(text="{}")
    page = hand.page
    hand.go("playground/")
    page.fill("[name=model]", world.row(scripted).models.get().name)
    hand.click("text=Parameters")
    tools, schema = [{"type": "function", "function": {"name": "weather"}}], {"type": "object", "properties": {}}
    page.fill("[name=tools]", json.dumps(tools))
    page.fill("[name=schema]", json.dumps(schema))
    send(hand, PROMPT, 1)
    assert hand.clicks <= 3
    request = json.loads(scripted.seen[-1].body)
    assert request["tools"] == tools
    assert request["response_format"] == {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def test_an_answer_of_the_second_provider_says_how_many_attempts_it_took(hand, world):
    model = world.name("twice")
    first, second = world.provider(model, priority=1), world.provider(model, priority=2)
    world.allow(everyone="user")
    first.answers(status=503)
    second.answers(text="Lisbon")
    page = hand.page
    hand.go("playground/")
    page.fill("[name=model]", model)
    send(hand, PROMPT, 1)
    note = page.inner_text("[data-note]")
    assert note.startswith(world.row(second).name)
    assert "2 attempts" in note


def test_an_image_is_sent_with_the_message(hand, world):
    scripted = world.provider(world.name("see"))
    world.allow(everyone="user")
    scripted.answers(text="A dot")
    page = hand.page
    hand.go("playground/")
    page.fill("[name=model]", world.row(scripted).models.get().name)
    hand.click("text=Parameters")
    page.set_input_files("[name=images]", {"name": "dot.png", "mimeType": "image/png", "buffer": b"dot"})
    send(hand, "What is it?", 1)
    assert hand.clicks <= 3
    text, image = json.loads(scripted.seen[-1].body)["messages"][-1]["content"]
    assert (text["text"], image["image_url"]["url"]) == ("What is it?", "data:image/png;base64,ZG90")


def test_the_playground_shows_the_request_as_code_that_works(console, world):
    window = console()
    window.open("playground/")
    window.page.fill("[name=model]", "some-model")
    window.page.fill("[name=prompt]", "It's 'quoted'")
    body = window.page.inner_text("#as-curl").split(" -d '", 1)[1].rsplit("'", 1)[0].replace("'\\''", "'")
    assert json.loads(body)["messages"] == [{"role": "user", "content": "It's 'quoted'"}]


def test_a_key_gets_another_name(console, world):
    key, name = world.new_key().key, world.name("renamed")
    window = console()
    window.open(f"keys/apikey/{key.pk}/change/")
    window.page.fill("#id_name", name)
    submit(window.page)
    key.refresh_from_db()
    assert key.name == name


def test_a_key_is_locked_only_after_a_question(console, world):
    key = world.new_key().key
    window = console()
    window.open(f"keys/apikey/{key.pk}/lock/")
    key.refresh_from_db()
    assert key.locked_time is None
    assert "refused until it is unlocked" in window.page.inner_text("#main")
    window.page.click("#main button[type=submit]")
    stand_still(window.page)
    key.refresh_from_db()
    assert key.locked_time is not None
    assert window.check() == []


def test_what_a_service_refuses_is_told_at_its_field(console, world):
    window = console()
    window.open("rules/rule/add/")
    window.page.fill("#id_name", world.name("rule"))
    window.page.select_option("#id_audience", "everyone")
    window.page.fill("#id_regex", "(unclosed")
    submit(window.page)
    assert "not a valid RE2 pattern" in window.page.inner_text("#main")
    assert window.page.input_value("#id_regex") == "(unclosed"


@pytest.mark.slow  # test_row_pages.py has a page of each kind
@pytest.mark.timeout(300)  # many pages, each in three looks
def test_rows_have_whole_pages(console, world):
    world.provider()
    key, rule = world.new_key().key, world.allow()
    provider = Provider.objects.order_by("-pk").first()
    for path in (
        f"providers/provider/{provider.pk}/change/",
        f"keys/apikey/{key.pk}/change/",
        f"rules/rule/{rule.pk}/change/",
        f"accounts/user/{world.user.pk}/change/",
        f"accounts/user/{world.user.pk}/delete/",
    ):
        window = console()
        window.open(path)
        assert window.check_looks() == {}, path


class TestSigningIn:
    def test_a_wrong_password_says_what_the_api_says(self, visitor):
        window = visitor()
        window.sign_in(password="wrong")
        assert "The user name or the password is wrong." in window.page.inner_text("body")

    def test_who_is_no_admin_stays_outside(self, visitor, world):
        user = world.new_user()
        window = visitor()
        window.sign_in(username=user.username, password="a long pass phrase")
        assert "for users with the role admin" in window.page.inner_text("body")

    def test_a_login_that_was_ended_is_out_at_once(self, visitor, world):
        accounts.create_user(username=world.name("admin"), password=PASSWORD, roles=["admin"])
        name = f"admin-{world.number}"
        user = User.objects.filter(username__startswith=name).get()
        window = visitor()
        window.sign_in(username=user.username)
        window.open("accounts/user/")
        assert "login" not in window.page.url
        end_sessions(user=user)
        window.open("accounts/user/")
        assert "/login/" in window.page.url
