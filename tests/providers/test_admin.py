"""Providers, models and prices in the console: what the API refuses is refused there too, beside the field."""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.utils import timezone

from providers.columns import LONGEST_CREDENTIAL, LONGEST_TIMEOUT, MAX_INTEGER
from providers.console.presets import PRESETS
from providers.formats import FORMATS
from providers.models import MOST_MODELS, Model, ModelPrice, Provider, ProviderCredential, ProviderFormat
from providers.services import add_credential, add_model, create_provider, end_price, set_price
from tests.support.console.forms import fields_of
from tests.support.provider import ScriptedProvider

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
PROVIDERS, MODELS, PRICES = (f"/admin/providers/{table}/" for table in ("provider", "model", "modelprice"))


@pytest.fixture
def provider() -> Provider:
    return create_provider(name="p", format_name="openai", url="https://llm.example.org/v1", auth_method="none")


@pytest.fixture
def price() -> ModelPrice:
    return set_price(model="gpt-5", currency="USD", input=1, output=2, valid_from=timezone.now())


def sent(console, path: str, **fields):
    """The answer to the form at this path, with these fields changed."""
    return console.post(path, fields_of(console.get(path).text) | fields)


def refused(console, path: str, **fields) -> dict[str, list[str]]:
    return sent(console, path, **fields).context["adminform"].form.errors


def test_each_of_several_problems_stands_beside_its_field(console):
    errors = refused(console, f"{PRICES}add/", model="m", currency="dol", input="1", output="-1")
    assert {name: len(told) for name, told in errors.items()} == {"currency": 1, "output": 1}
    assert "output" not in errors["currency"][0]


def test_a_new_provider_has_no_credential_to_keep(console, provider):
    sentence = "Leave empty to keep the credential"
    assert sentence not in console.get(f"{PROVIDERS}add/").text
    assert sentence in console.get(f"{PROVIDERS}{provider.pk}/change/").text


def test_a_price_is_for_the_model_by_the_name_at_its_provider(console):
    assert "The provider's name of the model" in console.get(f"{PRICES}add/").text


@pytest.mark.long
@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((f"{what}_timeout_seconds", LONGEST_TIMEOUT + 1) for what in ("connect", "first_byte", "idle", "total")),
        ("max_response_bytes", 0),
        ("priority", MAX_INTEGER + 1),
        ("weight", 0),
        ("weight", -1),
        ("weight", MAX_INTEGER + 1),
        ("cache_ttl_seconds", MAX_INTEGER + 1),
        ("secret", "x" * (LONGEST_CREDENTIAL + 1)),
    ],
)
def test_a_provider_has_the_bounds_of_the_api(console, provider, field, value):
    path = f"{PROVIDERS}{provider.pk}/change/"
    assert list(refused(console, path, auth_method="bearer", **{field: value})) == [field]
    before = Provider.objects.values().get()
    assert before["auth_method"] == "none"
    assert before["updated_at"] == provider.updated_at


def test_the_bounds_themselves_are_taken(console, provider):
    fields = {"connect_timeout_seconds": LONGEST_TIMEOUT, "max_response_bytes": 1, "priority": MAX_INTEGER}
    path = f"{PROVIDERS}{provider.pk}/change/"
    assert sent(console, path, auth_method="bearer", secret="x" * LONGEST_CREDENTIAL, **fields).status_code == 302
    assert Provider.objects.filter(**fields).exists()


def test_a_new_provider_has_so_many_models_and_no_more(console, provider):
    fields = {"name": "q", "url": provider.url, "format": provider.format_id, "auth_method": "none"}
    names = [f"m{number}" for number in range(MOST_MODELS + 1)]
    errors = refused(console, f"{PROVIDERS}add/", new_models="\n".join(names), **fields)
    assert errors == {"new_models": [f"Must be at most {MOST_MODELS}."]}
    assert Provider.objects.count() == 1


@pytest.mark.long
def test_a_models_longest_answer_has_the_bounds_of_the_api(console, provider):
    fields = {"provider": provider.pk, "name": "m", "max_output_tokens": MAX_INTEGER + 1}
    assert list(refused(console, f"{MODELS}add/", **fields)) == ["max_output_tokens"]
    assert not Model.objects.exists()


NEW_PRICE = {"model": "gpt-5", "currency": "USD", "input": "1", "output": "2"}
PAST, AHEAD = ({"valid_from_0": day, "valid_from_1": "00:00:00"} for day in ("2020-01-01", "2100-01-01"))


@pytest.mark.long
def test_a_price_does_not_begin_in_the_past(console, price):
    for path, fields in ((f"{PRICES}add/", NEW_PRICE | {"model": "other"}), (f"{PRICES}{price.pk}/change/", {})):
        errors = refused(console, path, **fields, **PAST)
        assert errors == {"valid_from": ["Must not be in the past: the cost of past requests does not change."]}
    assert ModelPrice.objects.count() == 1


def test_a_new_price_begins_now_unless_told(console):
    begun = timezone.now()
    assert sent(console, f"{PRICES}add/", **NEW_PRICE).status_code == 302
    assert begun <= ModelPrice.objects.get().valid_from <= timezone.now()
    assert sent(console, f"{PRICES}add/", **NEW_PRICE | {"model": "later"}, **AHEAD).status_code == 302
    assert ModelPrice.objects.get(model="later").valid_from.year == 2100


def test_a_changed_price_begins_now_however_old_the_one_before_is(console, price):
    ModelPrice.objects.update(valid_from=timezone.now() - timedelta(days=90))
    assert sent(console, f"{PRICES}{price.pk}/change/", input="3").status_code == 302
    assert timezone.now() - ModelPrice.objects.open().get().valid_from < timedelta(minutes=1)


@pytest.mark.long
def test_amounts_stand_there_without_zeros_that_say_nothing(console, price):
    set_price(model="cheap", currency="USD", input="0.00001", output=100)
    for row, shown in ((price, ["1", "2", "0"]), (ModelPrice.objects.get(model="cheap"), ["0.00001", "100", "0"])):
        fields = fields_of(console.get(f"{PRICES}{row.pk}/change/").text)
        assert [fields[name][0] for name in ("input", "output", "request")] == shown
    before = list(ModelPrice.objects.values())
    assert sent(console, f"{PRICES}{price.pk}/change/").status_code == 302
    assert list(ModelPrice.objects.values()) == before


def test_so_they_do_on_the_page_of_one_that_has_ended(console, price):
    end_price(price)
    page = console.get(f"{PRICES}{price.pk}/change/").text
    assert 'name="_save"' not in page
    assert not re.search(r"0\.0|E-|\.0", page.partition("<fieldset")[2].partition("</fieldset")[0])


CREDENTIALS = "/admin/providers/providercredential/"


@pytest.mark.long
def test_a_model_is_named_and_described_in_its_form(console, provider):
    fields = {"provider": provider.pk, "name": "fast", "upstream_name": "gpt-4o", "input_modalities": ["text"]}
    assert sent(console, f"{MODELS}add/", **fields).status_code == 302
    model = Model.objects.get()
    assert (model.upstream_name, model.input_modalities, model.output_modalities) == ("gpt-4o", ["text"], None)
    page = console.get(f"{MODELS}{model.pk}/change/").text
    assert 'placeholder="128000"' in page
    assert "as the public table says (text)" in page
    assert sent(console, f"{MODELS}{model.pk}/change/", context_length="5000", input_modalities=[]).status_code == 302
    model.refresh_from_db()
    assert (model.context_length, model.input_modalities) == (5_000, None)
    errors = refused(console, f"{MODELS}{model.pk}/change/", context_length="0", upstream_name="\u3164")
    assert list(errors) == ["context_length", "upstream_name"] or list(errors) == ["upstream_name", "context_length"]
    assert "gpt-4o" in console.get(MODELS).text


@pytest.mark.long
def test_a_credential_is_set_in_its_form_and_never_shown(console, provider):
    Provider.objects.update(auth_method="bearer")
    secret, fields = "sk-1234567890", {"provider": provider.pk, "name": "second"}
    assert list(refused(console, f"{CREDENTIALS}add/", **fields)) == ["secret"]
    assert list(refused(console, f"{CREDENTIALS}add/", secret="a\nb", **fields)) == ["secret"]
    assert sent(console, f"{CREDENTIALS}add/", secret=secret, weight="3", **fields).status_code == 302
    row = ProviderCredential.objects.get()
    assert row.weight == 3
    for path in (CREDENTIALS, f"{CREDENTIALS}{row.pk}/change/", f"{PROVIDERS}{provider.pk}/change/"):
        page = console.get(path).text
        assert "…7890" in page, path
        assert secret not in page, path
    assert sent(console, f"{CREDENTIALS}{row.pk}/change/", enabled="", requests_per_minute="5").status_code == 302
    changed = ProviderCredential.objects.get()
    assert (changed.requests_per_minute, changed.credential) == (5, row.credential)
    assert sent(console, f"{CREDENTIALS}{row.pk}/change/", secret="sk-0987654321").status_code == 302
    assert ProviderCredential.objects.get().credential_hint == "4321"
    assert "no longer sent with this credential" in console.get(f"{CREDENTIALS}{row.pk}/delete/").text
    console.post(f"{CREDENTIALS}{row.pk}/delete/", {"post": "yes"})
    assert not ProviderCredential.objects.exists()


def test_a_connection_is_tested_with_each_credential(console):
    with ScriptedProvider() as scripted:
        options = {"name": "local", "url": scripted.url, "format_name": "openai", "credential": "sk-of-the-provider"}
        row = create_provider(**options)
        add_credential(provider=row, name="second", credential="sk-of-another-account")
        scripted.answers(body={"data": [{"id": "a"}]}).answers(status=401)
        console.post(f"{PROVIDERS}{row.pk}/test/", {"post": "yes"})
        page = console.get(f"{PROVIDERS}{row.pk}/change/").text
        assert "Credential second: The provider refused the credential" in page
        authorizations = [seen.headers["authorization"] for seen in scripted.seen]
        assert authorizations == ["Bearer sk-of-the-provider", "Bearer sk-of-another-account"]


def test_a_model_with_another_name_here_is_not_added_again(console):
    with ScriptedProvider() as scripted:
        row = create_provider(name="local", url=scripted.url, format_name="openai")
        add_credential(provider=row, name="only", credential="sk-of-another-account")
        add_model(provider=row, name="fast", upstream_name="gpt-4o")
        scripted.answers(body={"data": [{"id": "gpt-4o"}, {"id": "new"}]})
        page = console.post(f"{PROVIDERS}{row.pk}/fetch-models/", {"post": "yes"}).text
        assert 'name="models" value="new"' in page
        assert "gpt-4o" not in page
        console.post(f"{PROVIDERS}{row.pk}/fetch-models/", {"_chosen": "1", "models": ["gpt-4o", "new"]})
        assert sorted(row.models.values_list("name", flat=True)) == ["fast", "new"]
        assert scripted.seen[0].headers["authorization"] == "Bearer sk-of-another-account"


def first_values(page: str) -> dict[str, str]:
    return {name: values[0] for name, values in fields_of(page).items()}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_fills_in_the_form(console, name):
    preset = PRESETS[name]
    page = console.get(f"{PROVIDERS}add/?preset={name}").text
    fields = first_values(page)
    assert (fields["url"], fields["auth_method"], fields["name"]) == (preset.url, preset.auth_method, name)
    assert ProviderFormat.objects.get(pk=fields["format"]).name == preset.format
    assert preset.keys_page in page
    assert ("for its list of models: enter their names" in page) == (name == "bedrock")


@pytest.mark.long
def test_an_address_fills_in_nothing_but_presets_and_known_models(console, provider):
    model = add_model(provider=provider, name="m")
    assert first_values(console.get(f"{PROVIDERS}add/?preset=evil&url=http://evil&name=evil").text)["name"] == ""
    price = first_values(console.get(f"{PRICES}add/?model={model.name}&provider={provider.pk}&currency=XYZ").text)
    assert (price["model"], price["provider"]) == ("m", str(provider.pk))
    assert price["currency"] != "XYZ"
    for provider_id in ("0", "x", "9" * 30, "²"):
        assert first_values(console.get(f"{PRICES}add/?model=m&provider={provider_id}").text)["model"] == ""
    assert first_values(console.get(f"{PRICES}add/?model=unknown").text)["model"] == ""
    assert first_values(console.get(f"{PRICES}add/?model={provider.name}/m").text)["model"] == "m"


@pytest.mark.long
def test_a_provider_that_is_saved_without_models_leads_to_fetching_them(console):
    answer = sent(console, f"{PROVIDERS}add/?preset=vllm", name="new")
    row = Provider.objects.get(name="new")
    assert answer.url == f"{PROVIDERS}{row.pk}/fetch-models/"
    assert "The provider has no models" in console.get(answer.url).text
    assert sent(console, f"{PROVIDERS}add/?preset=vllm", name="other", new_models="m").url == PROVIDERS


def test_defaults_are_values_and_what_few_change_is_folded_unless_it_has_an_error(console, settings):
    settings.GATEWAY_CONNECT_TIMEOUT, settings.GATEWAY_MAX_RESPONSE_BYTES = 7.0, 3 * 2**20
    page = console.get("/admin/providers/provider/add/").text
    assert "Empty: 7 s." in page
    assert 'placeholder="7"' in page
    assert "Empty: 3 MiB." in page
    assert page.count("<details>") == 4
    number = ProviderFormat.objects.get(name="openai").pk
    values = {"name": "p", "format": number, "url": "https://a.example", "priority": 1, "weight": "nothing"}
    answer = console.post("/admin/providers/provider/add/", values)
    assert answer.context["adminform"].form.errors.keys() >= {"weight"}
    assert answer.text.count("<details>") < 4


CHOICE = {"name": "new", "auth_method": "bearer", "secret": "sk-1", "_choose": "1"}


def test_all_that_is_wrong_with_a_new_provider_stands_beside_its_field_at_once(console, provider):
    with ScriptedProvider() as scripted:
        scripted.answers(status=401)
        values = CHOICE | {"name": provider.name, "url": scripted.url, "weight": "nothing"}
        errors = refused(console, f"{PROVIDERS}add/?preset=groq", **values)
    assert errors.keys() == {"name", "secret", "weight"}
    assert "A provider named 'p' exists already. <a " in unescape(errors["name"][0])
    assert "refused the credential" in errors["secret"][0]
    assert Provider.objects.count() == 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "field", "text"),
    [
        ({"status": 404}, "url", "no model list at /models below its URL"),
        ({"body": b"<html>"}, "url", "something that is not JSON"),
        ({"body": {"data": []}}, "new_models", "lists no models"),
    ],
)
def test_what_keeps_a_new_provider_from_answering_stands_beside_what_to_change(console, script, field, text):
    with ScriptedProvider() as scripted:
        scripted.answers(**script)
        errors = refused(console, f"{PROVIDERS}add/?preset=groq", url=scripted.url, **CHOICE)
    assert list(errors) == [field]
    assert text in errors[field][0]
    assert not Provider.objects.exists()


@pytest.mark.long
def test_a_new_provider_whose_url_or_credential_is_not_valid_is_not_asked(console):
    with ScriptedProvider() as scripted:
        errors = refused(console, f"{PROVIDERS}add/?preset=azure", **CHOICE)
        assert errors == {"url": ["Replace RESOURCE with your own."]}
        address = scripted.url.replace("http", "ftp", 1)
        assert list(refused(console, f"{PROVIDERS}add/", **CHOICE | {"url": address})) == ["format", "url"]
        assert scripted.seen == []


@pytest.mark.long
def test_a_method_that_signs_each_request_leads_to_entering_the_models_by_hand(console):
    values = CHOICE | {"url": "https://bedrock-runtime.eu-west-1.amazonaws.com", "auth_method": "aws-sigv4"}
    errors = refused(console, f"{PROVIDERS}add/?preset=bedrock", **values | {"secret": "a:b"})
    assert list(errors) == ["new_models"]


@pytest.mark.long
def test_models_are_chosen_among_those_that_a_new_provider_lists(console):
    with ScriptedProvider() as scripted:
        scripted.answers(body={"data": [{"id": name} for name in ("a", "<b>", "c")]})
        page = sent(console, f"{PROVIDERS}add/?preset=groq", url=scripted.url, new_models="c", **CHOICE).text
    row = Provider.objects.get()
    assert "sk-1" not in page
    assert re.findall(r'name="models" value="([^"]*)"', page) == ["a", "&lt;b&gt;"]
    assert list(row.models.values_list("name", flat=True)) == ["c"]
    console.post(f"{PROVIDERS}{row.pk}/fetch-models/", {"_chosen": "1", "models": ["<b>"]})
    assert sorted(row.models.values_list("name", flat=True)) == ["<b>", "c"]


@pytest.mark.long
def test_a_provider_of_cohere_is_asked_at_its_own_list_by_the_form_and_by_the_button(console):
    number = ProviderFormat.objects.get(name="cohere").pk
    with ScriptedProvider() as scripted:
        for _ in range(2):
            scripted.answers(body={"models": [{"name": "command-a"}]})
        url = scripted.url.replace("/v1", "/v2")
        page = sent(console, f"{PROVIDERS}add/?preset=cohere", **CHOICE | {"url": url, "format": number}).text
        assert 'name="models" value="command-a"' in page
        again = console.post(f"{PROVIDERS}{Provider.objects.get().pk}/fetch-models/", {}).text
        assert 'name="models" value="command-a"' in again
        assert {request.path for request in scripted.seen} == {"/v1/models?page_size=1000"}


@pytest.mark.parametrize("values", [{}, {"models": ["m"], "_none": ""}])
def test_whoever_chooses_no_model_for_a_provider_without_any_is_warned(console, provider, values):
    console.post(f"{PROVIDERS}{provider.pk}/fetch-models/", {"_chosen": "1", **values})
    assert not provider.models.exists()
    assert "The provider has no models, so no request is sent to it." in console.get(PROVIDERS).text


def test_a_provider_that_lists_very_many_models_offers_the_first_ones_and_says_so(console, provider):
    with ScriptedProvider() as scripted:
        Provider.objects.update(url=scripted.url)
        scripted.answers(body={"data": [{"id": f"m{number}"} for number in range(1200)]})
        page = console.post(f"{PROVIDERS}{provider.pk}/fetch-models/", {"post": "yes"}).text
    assert page.count('name="models"') == 900
    assert "lists 300 more models" in page


def test_a_new_provider_says_what_the_default_of_its_format_does(console):
    *first, last = sorted(name for name, one in FORMATS.items() if one.strict)
    text = f"Default for the formats {', '.join(first)} and {last}: drop them. Default for all others: pass them on."
    assert text in console.get(f"{PROVIDERS}add/").text


def test_each_price_of_tokens_says_of_how_many(console):
    form = console.get("/admin/providers/modelprice/add/").context["adminform"].form
    names = {"input", "output", "cache_read", "cache_write", "cache_write_hour", "reasoning"}
    assert {name for name in names if not form.fields[name].help_text.startswith("Per million tokens")} == set()
