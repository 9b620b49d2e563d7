"""Changes to providers and their models."""

import pytest

from accounts.sso.services import create_identity_provider
from accounts.trusted_issuers.services import create_trusted_issuer
from gateway_project.errors import Conflict, NotFound, ValidationError
from providers.credentials import CredentialUnreadable, decrypt
from providers.formats import FORMATS
from providers.models import Model, Provider, ProviderFormat
from providers.services import add_model, change_model, create_provider, update_provider
from rules.guardrails.services import create_guardrail
from tests.support.promises import promise

pytestmark = pytest.mark.either_store

URL = "https://api.example.org/v1"


@pytest.fixture
def make(db):
    def make(**given):
        return create_provider(**{"name": "first", "url": URL, "format_name": "openai", **given})

    return make


def opened(provider, settings, origin=None):
    stored = Provider.objects.get(pk=provider.pk)
    return decrypt(stored.credential, origin=origin or stored.origin, keys=settings.GATEWAY_ENCRYPTION_KEYS)


def test_every_format_that_the_gateway_speaks_is_there(db):
    assert set(ProviderFormat.objects.values_list("name", flat=True)) == set(FORMATS)


def test_a_new_provider_offers_its_models_and_is_enabled(make):
    provider = make(models=["fast", "fast", "org/slow"], priority=5)
    assert list(provider.models.values_list("name", flat=True)) == ["fast", "org/slow"]
    assert list(Provider.objects.enabled()) == [provider]
    assert (provider.priority, provider.weight, provider.unknown_parameters) == (5, 1, "pass")


@pytest.mark.parametrize("format_name", [name for name, one in FORMATS.items() if one.strict])
def test_what_a_new_provider_would_refuse_a_request_for_is_dropped_unless_told(make, format_name):
    assert make(name="a", format_name=format_name).unknown_parameters == "drop"
    assert make(name="b", format_name=format_name, unknown_parameters="pass").unknown_parameters == "pass"


@promise("V-L21: a credential is shown by its last characters only", target="masked", suite="attack")
def test_the_credential_is_stored_sealed_and_shown_masked(make, settings):
    provider = make(credential="sk-1234567890")
    assert "1234" not in provider.credential
    assert provider.masked_credential == "…7890"
    assert opened(provider, settings) == "sk-1234567890"


@pytest.mark.parametrize("credential", ["${OPENAI_KEY}", "os.environ/OPENAI_KEY", "user:pass\tword"])
@promise("V-L19, V-M2: text that looks like a variable is text", target="stored as it stands", suite="attack")
def test_a_credential_is_literal_text(make, settings, credential):
    assert opened(make(credential=credential), settings) == credential


def test_a_credential_that_is_sent_encoded_may_hold_anything(make, settings):
    assert opened(make(credential="user:pass\twörd\n", auth_method="basic"), settings) == "user:pass\twörd\n"


@pytest.mark.parametrize(
    ("method", "credential", "word"),
    [
        ("bearer", "hidden\nkey", "line break"),
        ("x-api-key", "hidden\r\nX-Evil: 1", "line break"),
        ("bearer", "schlüssel-hidden€", "ASCII"),
        ("aws-sigv4", "hidden:schlüssel:token:eu-west-1", "ASCII"),
        ("basic", "hidden", "user:password"),
    ],
)
def test_a_credential_that_can_never_be_sent_is_refused_and_not_repeated(make, settings, method, credential, word):
    with pytest.raises(ValidationError, match=word, check=lambda error: error.field == "api_key") as refusal:
        make(credential=credential, auth_method=method)
    assert "hidden" not in refusal.value.message
    provider = make(credential="sk-1234567890")
    with pytest.raises(ValidationError, check=lambda error: error.field == "api_key"):
        update_provider(provider, credential=credential, auth_method=method)
    assert opened(provider, settings) == "sk-1234567890"


@pytest.mark.parametrize("method", ["aws-sigv4", "basic"])
def test_a_method_that_cannot_send_the_credential_that_stays_is_refused(make, method):
    provider = make(credential="sk-1234567890")
    with pytest.raises(ValidationError, check=lambda error: error.field == "auth_method") as refusal:
        update_provider(provider, auth_method=method)
    assert "7890" not in refusal.value.message
    assert Provider.objects.get().auth_method == "bearer"
    update_provider(provider, auth_method="x-api-key")
    update_provider(provider, auth_method=method, credential="")
    assert Provider.objects.get().auth_method == method


def test_of_a_credential_that_cannot_be_read_the_method_may_change(make, settings):
    provider = make(credential="sk-1234567890")
    settings.GATEWAY_ENCRYPTION_KEYS = ["another" * 8]
    update_provider(provider, auth_method="basic")
    assert Provider.objects.get().auth_method == "basic"


METADATA_HOSTS = (
    ["169.254.169.254", "169.254.169.254.", "[fd00:ec2::254]", "[FD00:EC2:0:0:0:0:0:254]", "100.100.100.200"]
    + ["168.63.129.16", "[::ffff:168.63.129.16]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::1]", "[fe80::1%25eth0]"]
    + ["metadata.google.internal", "METADATA.google.internal.", "metadata.goog", "metadata", "instance-data"]
    + ["2852039166", "0xA9FEA9FE", "0251.0376.0251.0376", "025177524776", "0xa9.254.0xa9.254", "169.254.43518"]
    + ["169.16689662", "1684301000", "0x64646464", "2822734096", "0xa8.63.129.16", "0250.077.0201.020", "0", "127.1"]
)


@pytest.mark.parametrize("host", METADATA_HOSTS)
@promise("A metadata address is refused when it is saved", target="400 in every spelling", suite="attack")
def test_a_metadata_address_is_refused_when_it_is_saved(make, host):
    with pytest.raises(ValidationError, match="must name another host", check=lambda error: error.field == "url"):
        make(url=f"http://{host}:8080/v1")
    provider = make(url=URL)
    with pytest.raises(ValidationError, match="must name another host", check=lambda error: error.field == "url"):
        update_provider(provider, url=f"http://{host}/")
    assert Provider.objects.get().url == URL


@pytest.mark.parametrize("host", METADATA_HOSTS)
@promise("A metadata address is refused when it is saved", target="400 in every spelling", suite="attack")
def test_so_is_that_of_a_guardrail_an_issuer_and_an_identity_provider(db, host):
    for field, save in (
        ("parameters.url", lambda url: create_guardrail(name="remote", type="http", parameters={"url": url})),
        (
            "jwks_url",
            lambda url: create_trusted_issuer(
                name="i", audience="a", issuer="https://issuer.example.org", jwks_url=url
            ),
        ),
        ("issuer", lambda url: create_trusted_issuer(name="i", audience="a", issuer=url)),
        ("issuer", lambda url: create_identity_provider(name="sso", slug="sso", issuer=url, client_id="c")),
    ):
        with pytest.raises(ValidationError, check=lambda error, field=field: error.field == field):
            save(f"https://{host}/path")


def test_a_private_address_is_refused_when_it_is_saved_where_only_public_ones_are_called(make, settings):
    settings.GATEWAY_PROVIDER_NETWORKS = "public"
    for host in ("10.0.0.1", "127.0.0.1", "[::1]", "[fd12::1]"):
        with pytest.raises(ValidationError, match="not a public address"):
            make(url=f"http://{host}/v1")
    assert make(url="https://8.8.8.8/v1").pk


@pytest.mark.parametrize(
    "url", ["http://localhost:11434/api", "http://my_model.local.:80", "http://[::1]:8080", "http://10.0.0.1/%20"]
)
def test_hosts_have_names_and_addresses(make, url):
    assert make(url=url).url == url


@promise("V-L21: a credential is shown by its last characters only", target="masked", suite="attack")
def test_a_short_credential_is_not_hinted_at(make):
    assert make(credential="hunter2").masked_credential == "…"
    assert make(name="second").masked_credential == ""


def test_a_masked_credential_makes_no_new_provider(make):
    with pytest.raises(ValidationError, match="masked"):
        make(credential="…7890")


def test_a_masked_or_missing_credential_changes_nothing(make, settings):
    provider = make(credential="sk-1234567890")
    update_provider(provider, credential="…7890", name="renamed")
    update_provider(provider, priority=1)
    assert opened(provider, settings) == "sk-1234567890"
    assert Provider.objects.get().name == "renamed"


def test_a_credential_can_be_replaced_and_cleared(make, settings):
    provider = make(credential="sk-1234567890")
    update_provider(provider, credential="sk-abcdefghij")
    assert opened(provider, settings) == "sk-abcdefghij"
    update_provider(provider, credential="")
    assert (Provider.objects.get().credential, Provider.objects.get().masked_credential) == ("", "")


@pytest.mark.parametrize(
    "url", ["http://api.example.org/v1", "https://evil.example/v1", "https://api.example.org:8443/v1"]
)
@pytest.mark.parametrize("masked", [{}, {"credential": "…7890"}])
def test_a_changed_origin_clears_the_credential(make, url, masked):
    provider = make(credential="sk-1234567890")
    update_provider(provider, url=url, **masked)
    stored = Provider.objects.get()
    assert (stored.url, stored.credential, stored.credential_hint) == (url, "", "")


def test_a_changed_origin_keeps_the_credential_that_comes_with_it(make, settings):
    provider = make(credential="sk-1234567890")
    update_provider(provider, url="https://other.example/v1", credential="sk-abcdefghij")
    assert opened(provider, settings) == "sk-abcdefghij"


@pytest.mark.parametrize("url", ["https://api.example.org/v2?x=1", "https://API.example.org:443/v1"])
def test_a_changed_path_or_spelling_keeps_the_credential(make, settings, url):
    provider = make(credential="sk-1234567890")
    update_provider(provider, url=url)
    assert opened(provider, settings) == "sk-1234567890"


@promise("V-L26: a ciphertext opens in its own row alone", target="unreadable elsewhere", suite="attack")
def test_a_stored_credential_opens_nothing_in_another_row(make, settings):
    here, there = make(credential="sk-1234567890"), make(name="second", url="https://evil.example")
    Provider.objects.filter(pk=there.pk).update(credential=here.credential)
    with pytest.raises(CredentialUnreadable):
        opened(there, settings)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.example.org",
        "ftp://api.example.org",
        "https://",
        "https:///v1",
        "https://:443/v1",
        "https://api.example.org:port/v1",
        "https://api.example.org:99999/v1",
        "https://user@api.example.org/v1",
        "https://user:secret@api.example.org/v1",
        "https://@api.example.org/v1",
        "https://api.example.org/v1#part",
        "https://api.example.org/v1#",
        "https://api.example.org\\@evil.example/",
        "https://api.exam\nple.org/v1",
        " https://api.example.org/v1",
        "https://api.example.org/v1\t",
        "https://[::1/v1",
        "file:///etc/passwd",
        "http://*",
        "http://%61",
        "http://a..b",
        "http://bücher.example",
        "http://example.org/bücher",
    ],
)
def test_a_url_leads_to_one_host_over_http_or_https(make, url):
    with pytest.raises(ValidationError, check=lambda error: error.field == "url"):
        make(url=url)
    provider = make()
    with pytest.raises(ValidationError, check=lambda error: error.field == "url"):
        update_provider(provider, url=url)
    assert Provider.objects.get().url == URL


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "a/b"},
        {"name": "x" * 101},
        {"auth_method": "magic"},
        {"weight": 0},
        {"priority": -1},
        {"cache_scope": "planet"},
        {"unknown_parameters": "maybe"},
        {"connect_timeout_seconds": 0},
        {"connect_timeout_seconds": 1e-300},
        {"idle_timeout_seconds": float("inf")},
        {"total_timeout_seconds": float("nan")},
        {"first_byte_timeout_seconds": "soon"},
        {"max_response_bytes": -1},
        {"cache_ttl_seconds": -1},
    ],
)
def test_what_cannot_be_stored_is_refused(make, wrong):
    with pytest.raises(ValidationError, check=lambda error: error.field == next(iter(wrong))):
        make(**wrong)
    provider = make()
    with pytest.raises(ValidationError):
        update_provider(provider, **wrong)
    assert Provider.objects.get().name == "first"


def test_an_unknown_format_or_option_is_refused(make):
    with pytest.raises(ValidationError, check=lambda error: error.field == "format"):
        make(format_name="nosuch")
    with pytest.raises(TypeError):
        make(is_nice=True)
    with pytest.raises(TypeError):
        update_provider(make(), credential_hint="7890")


def test_a_name_that_exists_is_a_conflict(make):
    provider = make()
    with pytest.raises(Conflict, match="first"):
        make()
    make(name="second")
    with pytest.raises(Conflict, match="second"):
        update_provider(provider, name="second")
    assert update_provider(provider, name="first", format_name="anthropic").format.name == "anthropic"


def test_a_wrong_model_leaves_no_provider(make):
    with pytest.raises(ValidationError):
        make(models=["fast", ""])
    assert not Provider.objects.exists()


def test_a_provider_has_each_model_once(make):
    provider, second = make(models=["fast"]), make(name="second")
    with pytest.raises(Conflict, match="fast"):
        add_model(provider=provider, name="fast")
    assert add_model(provider=second, name="fast").provider == second
    for name in ("", "x" * 201, "fast "):
        with pytest.raises(ValidationError, check=lambda error: error.field == "name"):
            add_model(provider=second, name=name)
    assert Model.objects.of(second).count() == 1


def test_a_change_of_a_provider_that_is_gone_finds_nothing(make):
    provider = make()
    Provider.objects.all().delete()
    with pytest.raises(NotFound):
        update_provider(provider, name="second")


def test_a_model_that_was_removed_meanwhile_is_not_brought_back(make):
    model = make(models=["m"]).models.get()
    Model.objects.all().delete()
    with pytest.raises(NotFound):
        change_model(model, name="n")
    assert not Model.objects.exists()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("notaurl", "begin with http:// or https://"),
        ("api.openai.com/v1", "begin with http:// or https://"),
        ("api.openai.com:443/v1", "begin with http:// or https://"),
        ("ftp://api.openai.com/v1", "begin with http:// or https://"),
        ("https:///v1", "must name a host"),
        ("https://api.openai.com:port/v1", "cannot be read: Port"),
    ],
)
def test_what_is_wrong_with_a_url_is_said(make, url, words):
    with pytest.raises(ValidationError, match=words):
        make(url=url)
