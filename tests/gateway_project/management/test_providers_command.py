"""manage.py providers list | test"""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from providers.models import ProviderCredential
from providers.services import create_provider, update_provider
from telemetry.models import LogEntry
from tests.support.provider import ScriptedProvider
from tests.support.provider_answers import Answer

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "sk-secret-of-the-provider"


@pytest.fixture
def scripted():
    with ScriptedProvider() as provider:
        yield provider


@pytest.fixture
def row(scripted):
    return create_provider(
        name="first", url=scripted.url, format_name="openai", credential=SECRET, models=["small", "big"]
    )


def run(*arguments):
    out = StringIO()
    try:
        call_command("providers", *arguments, stdout=out)
    except CommandError as error:
        return out.getvalue(), str(error)
    return out.getvalue(), ""


def test_it_asks_for_one_token(row, scripted):
    out, error = run("test", "first", "--model", "small")
    assert error == ""
    assert out.startswith("first, small: answered within ")
    (request,) = scripted.seen
    assert request.headers["authorization"] == f"Bearer {SECRET}"
    assert (request.json["model"], request.json["max_tokens"]) == ("small", 1)
    assert not LogEntry.objects.filter(entry_type="WorkRequest").exists()
    assert LogEntry.objects.get(entry_type="Message").message.endswith("tested first, by manage.py.")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"status": 500}, "ProviderError"),
        ({"status": 401, "body": {"error": {"message": f"{SECRET} is wrong"}}}, "ProviderError"),
        ({"status": 429}, "ProviderOverloaded"),
        ({"body": b"no JSON"}, "ProviderError"),
        ({"raw": b""}, "ProviderError"),
    ],
)
def test_it_says_what_went_wrong_and_exits_with_an_error(row, scripted, answer, words):
    scripted.default = Answer(**answer)
    out, error = run("test")
    assert words in out
    assert SECRET not in out
    assert error == "1 of 1 tests failed."


def test_a_refused_request_shows_that_the_provider_works(row, scripted):
    scripted.default = Answer(status=400)
    assert run("test")[1] == ""


@pytest.mark.long
def test_it_ends_in_time(row, scripted, monkeypatch):
    monkeypatch.setattr("gateway_project.work.failover.checking.CHECK_SECONDS", 0.5)
    scripted.default = Answer(silent=True)
    out, error = run("test")
    assert "ProviderTimeout" in out
    assert error


def test_nobody_is_there(row):
    update_provider(row, url="http://127.0.0.1:1/v1")
    out, _ = run("test")
    assert "ConnectionRefusedError" in out


def test_each_credential_is_tested(row, scripted):
    from providers.services import add_credential

    add_credential(provider=row, name="second", credential="sk-another-one-of-it")
    assert ProviderCredential.objects.count() == 1
    out, error = run("test")
    assert error == ""
    assert [request.headers["authorization"] for request in scripted.seen] == [
        f"Bearer {SECRET}",
        "Bearer sk-another-one-of-it",
    ]
    assert "credential 0" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("test", "second"), "No enabled provider with a usable credential is named 'second'"),
        (("test", "first", "--model", "huge"), "first has no model named 'huge'."),
    ],
)
def test_what_does_not_exist_is_named(row, arguments, words):
    assert words in run(*arguments)[1]


def test_without_a_provider_there_is_nothing_to_test():
    assert run("test")[1] == "There is no enabled provider with a model to ask for."


def test_the_list(row):
    update_provider(create_provider(name="second", url="https://b.example/v1", format_name="anthropic"), enabled=False)
    out, _ = run("list")
    headings, first, second = out.splitlines()
    assert headings.split()[:5] == ["id", "name", "state", "format", "models"]
    assert first.split()[1:7] == ["first", "enabled", "openai", "2", "0", "0"]
    assert second.split()[1:5] == ["second", "disabled", "anthropic", "0"]
    assert SECRET not in out
