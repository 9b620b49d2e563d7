"""`manage.py quickstart` makes what is missing, says what somebody needs, and changes nothing that exists."""

import json
import re
import socket
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from accounts.models import User
from gateway_project.management.demo_port import demo_port
from gateway_project.management.quickstart import VENDORS, ollama_url, prepare_installation
from keys import secrets
from keys.models import ApiKey
from keys.services import rotate_key
from providers.formats import FORMATS
from providers.models import ModelPrice, Provider
from providers.pricing import public_prices
from providers.services import update_provider
from rules.models import Rule
from rules.services import create_rule
from telemetry.models import LogEntry
from tests.support.provider import ScriptedProvider, refusing_port
from tests.support.running import ROOT, free_port

pytestmark = [pytest.mark.django_db, pytest.mark.embedded, pytest.mark.long]


@pytest.fixture(autouse=True)
def var(settings, tmp_path):
    """A machine that never ran it."""
    settings.VAR_DIR = tmp_path / "var"
    return settings.VAR_DIR


@pytest.fixture(autouse=True)
def prices(monkeypatch):
    """The first public prices: to load all takes most of a second."""
    currency, listed = public_prices._table(public_prices.BUNDLED)
    monkeypatch.setattr(public_prices, "_table", lambda path: (currency, listed[:20]))
    return listed[:20]


def sentences_of(environment):
    """The sentences about what somebody would wonder about."""
    sentences = []
    prepare_installation(environment, tell=sentences.append)
    return sentences


def rows():
    return [list(model.objects.order_by("id").values()) for model in (User, ApiKey, Provider, Rule, ModelPrice)]


def test_a_first_run_makes_all_that_a_first_request_needs():
    prepared = prepare_installation({})
    admin = User.objects.admins().get()
    assert admin.check_password(prepared.adminPassword)
    assert admin.username == prepared.adminUser
    public_id, digest = secrets.parse_key(prepared.apiKey)
    assert bytes(ApiKey.objects.usable().get(public_id=public_id).digest) == digest
    assert Provider.objects.enabled().filter(models__name=prepared.model).exists()
    assert Rule.objects.enabled().count() == 1


def test_what_is_made_is_in_the_log_and_no_secret_is():
    first = prepare_installation({})
    entries = [
        message.partition(" ")[2] for message in LogEntry.objects.order_by("id").values_list("message", flat=True)
    ]
    items = [
        f"created {resource} {model.objects.earliest('id').pk}, by manage.py."
        for resource, model in {"users": User, "keys": ApiKey, "rules": Rule, "providers": Provider}.items()
    ]
    price = ModelPrice.objects.get(model="demo").pk
    assert entries[:5] == [*items, f"created prices {price}, by manage.py."]
    assert entries[5].startswith("loaded prices: ")
    assert len(entries) == 6
    entry = "".join(LogEntry.objects.values_list("payload", flat=True))
    assert first.adminPassword not in entry
    assert first.apiKey not in entry
    prepare_installation({})
    assert LogEntry.objects.count() == 6, "nothing was made"


def test_models_have_prices_the_demonstrations_too(prices):
    prepare_installation({})
    assert ModelPrice.objects.filter(provider__name="demo", model="demo").exists()
    bundled = ModelPrice.objects.filter(source="bundled").values_list("model", flat=True)
    assert set(bundled) == {price["model"] for price in prices}


def test_a_second_run_changes_nothing_and_says_the_same():
    first = prepare_installation({})
    before = rows()
    assert prepare_installation({}) == first
    assert rows() == before


def test_what_an_operator_changed_stays_changed():
    prepare_installation({})
    update_provider(Provider.objects.get(name="demo"), enabled=False, url="http://127.0.0.1:9/v1")
    Rule.objects.update(regex="nothing", enabled=False)
    User.objects.update(email="ann@example.org")
    before = rows()
    prepare_installation({})
    assert rows() == before


def test_a_password_that_was_set_by_somebody_else_is_not_known(var):
    prepare_installation({})
    (var / "secrets" / "quickstart.json").unlink()
    before = User.objects.values().get()
    again = prepare_installation({})
    assert again.adminPassword is None
    assert "`manage.py changepassword admin`" in " ".join(sentences_of({}))
    assert User.objects.values().get() == before


def test_a_key_whose_text_is_lost_stays_as_it_is(var):
    prepare_installation({})
    (var / "secrets" / "quickstart.json").write_text("{nonsense")
    assert prepare_installation({}).apiKey is None
    assert ApiKey.objects.usable().count() == 1


def test_a_password_that_was_changed_since_is_not_printed():
    prepare_installation({})
    admin = User.objects.get()
    admin.set_password("another-password")
    admin.save()
    assert prepare_installation({}).adminPassword is None
    assert "`manage.py changepassword admin`" in " ".join(sentences_of({}))


def test_a_key_that_was_rotated_since_is_not_printed():
    prepare_installation({})
    rotate_key(ApiKey.objects.get())
    assert prepare_installation({}).apiKey is None
    assert "Rotate it in the console" in " ".join(sentences_of({}))


def test_a_deleted_key_is_replaced():
    first = prepare_installation({})
    ApiKey.objects.update(is_deleted=True)
    assert prepare_installation({}).apiKey != first.apiKey


def test_rules_that_exist_are_enough():
    create_rule(name="mine", user_id=0, regex="gpt.*")
    prepare_installation({})
    assert list(Rule.objects.values_list("name", flat=True)) == ["mine"]


def test_the_secrets_are_for_their_owner_alone(var):
    prepare_installation({})
    path = var / "secrets" / "quickstart.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0


def test_production_keeps_no_secrets_in_files(settings, var):
    settings.GATEWAY_MODE = "production"
    assert prepare_installation({}).apiKey
    assert not (var / "secrets").exists()


def test_production_has_no_demonstration_and_is_told_what_comes_next(settings):
    settings.GATEWAY_MODE = "production"
    printed = run()
    assert not Provider.objects.exists()
    assert "no provider yet" in printed
    assert "curl" not in printed


def test_each_known_provider_speaks_a_format_that_is_there():
    assert {vendor.format_name for vendor in VENDORS} <= set(FORMATS)


@pytest.mark.parametrize("known", VENDORS, ids=lambda known: known.name)
def test_a_credential_in_the_environment_is_a_provider(known):
    assert known.base_url({}) == known.url
    nobody = f"http://127.0.0.1:{refusing_port()}"  # at the real address somebody would be asked
    prepare_installation({known.variable: " sk-1234567890 ", known.variable.replace("_API_KEY", "_BASE_URL"): nobody})
    provider = Provider.objects.get(name=known.name)
    assert (provider.url, provider.format.name) == (nobody, known.format_name)
    assert provider.auth_method == known.auth_method
    assert provider.masked_credential == "…7890"
    assert set(provider.models.values_list("name", flat=True)) == set(known.models)


def test_it_says_which_provider_it_makes():
    nobody = f"http://127.0.0.1:{refusing_port()}"
    environment = {"OPENAI_API_KEY": "sk-1234567890", "OPENAI_BASE_URL": nobody}
    assert sentences_of(environment) == [f"The provider openai is created from the environment: {nobody}, 2 models."]
    assert sentences_of(environment) == []


def test_of_a_provider_that_is_not_running_yet_it_says_how_its_models_come():
    [line] = sentences_of({"OLLAMA_HOST": f"127.0.0.1:{refusing_port()}"})
    assert "0 models. Once it answers, `Fetch models`" in line


def test_a_provider_that_cannot_be_made_stops_nothing():
    assert (
        "must begin with http:// or https://"
        in sentences_of({"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": "ftp://here"})[0]
    )
    assert list(Provider.objects.values_list("name", flat=True)) == ["demo"]


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://127.0.0.1:8000/v1", "sk-1234567890"),
        ("http://localhost:8000/v1", "sk-1234567890"),
        ("https://gateway.example/v1", "sk-1234567890"),
        ("https://gateway.example", "sk-1234567890"),
        ("https://elsewhere.example/v1", "svc_1234567890"),
    ],
)
def test_the_gateway_is_no_provider_of_its_own(settings, url, key):
    """docs/clients.md has these variables exported, and `make run` may follow in the same shell."""
    settings.GATEWAY_BASE_URL, settings.PORT = "https://gateway.example", 8000
    assert (
        "No provider is created for OPENAI_API_KEY: it"
        in sentences_of({"OPENAI_API_KEY": key, "OPENAI_BASE_URL": url})[0]
    )
    assert list(Provider.objects.values_list("name", flat=True)) == ["demo"]


def test_an_empty_credential_is_none():
    prepare_installation({"OPENAI_API_KEY": "  ", "OLLAMA_HOST": ""})
    assert list(Provider.objects.values_list("name", flat=True)) == ["demo"]


def test_ollama_is_asked_for_its_models():
    with ScriptedProvider() as ollama:
        ollama.answers(body={"models": [{"name": "llama3:8b"}]})
        prepare_installation({"OLLAMA_HOST": f"127.0.0.1:{ollama.port}/"})
    provider = Provider.objects.get(name="ollama")
    assert (provider.url, provider.auth_method) == (f"http://127.0.0.1:{ollama.port}/api", "none")
    assert list(provider.models.values_list("name", flat=True)) == ["llama3:8b"]


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080/api"),
        ("gpu.example", "http://gpu.example:11434/api"),
        ("gpu.example/", "http://gpu.example:11434/api"),
        ("https://gpu.example", "https://gpu.example/api"),
        ("https://gpu.example:8443/ollama/", "https://gpu.example:8443/ollama/api"),
        ("0.0.0.0", "http://127.0.0.1:11434/api"),
        (":8080", "http://127.0.0.1:8080/api"),
        ("[::]:8080", "http://127.0.0.1:8080/api"),
        ("[::1]", "http://[::1]:11434/api"),
        ("gpu:nonsense", "http://gpu:nonsense"),
    ],
)
def test_the_address_of_ollama_is_read_as_ollama_reads_it(host, url):
    assert ollama_url(host) == url


def test_an_ollama_that_cannot_be_asked_stops_nothing():
    prepare_installation({"OLLAMA_HOST": f"http://127.0.0.1:{refusing_port()}"})
    assert Provider.objects.get(name="ollama").models.count() == 0


def test_an_ollama_at_a_metadata_address_stops_nothing():
    prepare_installation({"OLLAMA_HOST": "http://169.254.169.254"})
    assert not Provider.objects.filter(name="ollama").exists()


def test_a_provider_that_exists_keeps_its_credential():
    with ScriptedProvider() as ollama:
        environ = {"OLLAMA_HOST": f"http://127.0.0.1:{ollama.port}"}
        prepare_installation(environ)
        update_provider(Provider.objects.get(name="ollama"), credential="sk-of-my-own", auth_method="bearer")
        before = rows()
        prepare_installation(environ)
        assert rows() == before


def run(*arguments):
    output = StringIO()
    call_command("quickstart", *arguments, stdout=output)
    return output.getvalue()


def test_the_command_prints_one_json_object(settings):
    printed = json.loads(run("--json"))
    assert printed.keys() == {"baseUrl", "adminUser", "adminPassword", "apiKey", "model"}
    assert printed["baseUrl"] == settings.GATEWAY_BASE_URL
    assert all(type(value) is str and value for value in printed.values())
    assert json.loads(run("--json")) == printed


def test_the_command_prints_what_to_paste(settings):
    printed, key = run(), prepare_installation({}).apiKey
    assert f"Authorization: Bearer {key}" in printed
    exports = dict(re.findall(r"^  export (\w+)=(\S+)$", printed, re.MULTILINE))
    password = json.loads(run("--json"))["adminPassword"]
    assert exports == {"GATEWAY": settings.GATEWAY_BASE_URL, "GATEWAY_KEY": key, "ADMIN_PASSWORD": password}
    start = (ROOT / "README.md").read_text().partition("## Documentation")[0]
    shown = re.findall(r"^export (\w+)=", start, re.MULTILINE)
    assert shown == [*exports], "README.md shows what is printed"
    assert "curl " in printed
    assert "{{" not in printed


def test_the_demonstration_provider_is_expected_where_its_row_says():
    assert demo_port() is None
    prepare_installation({})
    provider = Provider.objects.get(name="demo")
    assert f":{demo_port()}/" in provider.url
    update_provider(provider, url="https://demo.example.org/v1")
    assert demo_port() is None


def test_the_demonstration_provider_follows_the_port_in_use(settings):
    prepare_installation({})
    settings.GATEWAY_DEMO_PORT += 10
    prepare_installation({})
    assert demo_port() == settings.GATEWAY_DEMO_PORT


def test_a_port_that_is_taken_is_said_before_anything_is_promised(settings):
    with socket.create_server(("127.0.0.1", 0)) as taking:
        settings.HOST, settings.PORT = "127.0.0.1", taking.getsockname()[1]
        with pytest.raises(CommandError, match=rf"^Port {settings.PORT} is taken: PORT=\d+ make run$"):
            run("--before-serving")
        assert not User.objects.exists()
        assert "export GATEWAY_KEY" in run()  # who does not serve does not need it


def test_a_port_of_the_demonstration_that_is_taken_is_said_too(settings):
    with socket.create_server(("127.0.0.1", 0)) as taking:
        settings.HOST, settings.PORT = "127.0.0.1", free_port()
        settings.GATEWAY_DEMO_PORT = taking.getsockname()[1]
        with pytest.raises(CommandError, match=r"is taken: GATEWAY_DEMO_PORT=\d+ make run$"):
            run("--before-serving")
