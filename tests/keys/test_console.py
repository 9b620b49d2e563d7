"""API keys in the console: what the API refuses is refused there too, beside the field."""

import html
import json
import re
import shlex
from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from accounts.services import delete_user, update_user
from keys.admin import MAX_MATCHES
from keys.models import ApiKey
from keys.services import delete_keys, issue_key, update_key
from providers.services import create_provider
from tests.support.management import new_user

pytestmark = pytest.mark.either_store


def added(console, **fields):
    return console.post("/admin/keys/apikey/add/", {"name": "laptop", "permissions": ["work"], **fields})


def test_a_key_is_made_for_somebody_who_can_use_it(console):
    ann = new_user()
    delete_user(ann)
    answer = added(console, owner=ann.pk)
    assert answer.context["adminform"].form.errors == {"owner": ["Is deleted and cannot get keys."]}
    assert not ApiKey.objects.exists()


def test_a_key_is_made_for_a_time_to_come(console):
    answer = added(console, owner=new_user().pk, expiry_0="2020-01-01", expiry_1="00:00:00")
    assert answer.context["adminform"].form.errors == {"expiry": ["Must be in the future."]}
    assert added(console, owner=new_user().pk, expiry_0="2100-01-01", expiry_1="00:00:00").status_code == 200
    assert ApiKey.objects.get().expiry.year == 2100


@pytest.mark.long
def test_a_key_without_expiry_is_chosen_and_not_left_out(console):
    assert added(console, owner=new_user().pk, name="usual").status_code == 200
    assert ApiKey.objects.get(name="usual").expiry is not None
    assert added(console, owner=new_user().pk, name="for ever", never_expires="on").status_code == 200
    key = ApiKey.objects.get(name="for ever")
    assert key.expiry is None
    assert re.search(r">\s*never\s*<", console.get("/admin/keys/apikey/").text)
    assert "Empty: the key never expires." in console.get(f"/admin/keys/apikey/{key.pk}/change/").text
    day = {"expiry_0": "2100-01-01", "expiry_1": "00:00:00"}
    answer = added(console, owner=new_user().pk, name="both", never_expires="on", **day)
    assert answer.context["adminform"].form.errors.keys() == {"never_expires"}


def test_keys_that_expire_soon_are_listed(console):
    ann, now = new_user(), timezone.now()
    expiries = {"soon": now + timedelta(days=6), "later": now + timedelta(days=8), "never": None}
    keys = {name: issue_key(name=name, owner=ann, expiry=expiry).key for name, expiry in expiries.items()}
    keys["past"] = issue_key(name="past", owner=ann, expiry=now + timedelta(days=1)).key
    ApiKey.objects.filter(pk=keys["past"].pk).update(expiry=now)
    page = console.get("/admin/keys/apikey/?state=expiring")
    assert [key.name for key in page.context["cl"].result_list] == ["soon"]
    assert "Expiring within 7 days" in page.text


@pytest.mark.long
def test_a_bound_leaves_no_choice_of_a_key_without_expiry(console, settings):
    settings.GATEWAY_KEY_MAX_DAYS = 30
    page = console.get("/admin/keys/apikey/add/").text
    assert "never_expires" not in page
    assert "At most 30 days from now." in page
    answer = added(console, owner=new_user().pk, expiry_0="2100-01-01", expiry_1="00:00:00")
    assert "30 days" in answer.context["adminform"].form.errors["expiry"][0]
    assert added(console, owner=new_user().pk, never_expires="on").status_code == 200  # which the form does not have
    assert ApiKey.objects.get().expiry is not None


def to_try(page: str, which: str) -> str:
    """What the button below one of the requests to try copies."""
    assert f'data-copy="{which}"' in page
    return html.unescape(re.search(rf'id="{which}"[^>]*>(.*?)</pre>', page, re.DOTALL)[1])


def test_a_new_key_comes_with_a_request_for_a_shell_and_one_for_python(console):
    first, mine = (
        create_provider(name=name, format_name="openai", url="https://x.test/v1", auth_method="none", models=[model])
        for name, model in (("first", 'it\'s "large"'), ("mine", "small"))
    )
    for provider, model in ((first, 'it\'s "large"'), (mine, "small")):
        page = added(console, name=provider.name, owner=new_user().pk, provider=provider.pk).text
        *_, body = shlex.split(to_try(page, "as-curl"))
        assert json.loads(body)["model"] == model
        code = to_try(page, "as-python")
        compile(code, "snippet", "exec")
        assert f"model={json.dumps(model)}," in code


def test_where_nothing_is_offered_yet_the_request_has_a_place_for_the_model(console):
    assert '"model": "MODEL"' in to_try(added(console, owner=new_user().pk).text, "as-curl")


@pytest.mark.long
def test_a_key_whose_owner_is_refused_is_not_called_usable(console):
    ann, ben = new_user(username="ann"), new_user(username="ben")
    pages = [f"/admin/keys/apikey/{issue_key(owner=owner, name='k').key.pk}/change/" for owner in (ann, ben)]
    assert "Active" in console.get(pages[0]).text
    update_user(ann, is_active=False)
    delete_user(ben)
    for page, result in zip(pages, ("Owner inactive", "Owner deleted"), strict=True):
        for answer in (console.get(page), console.get("/admin/keys/apikey/")):
            assert result in answer.text
            assert "Active" not in re.sub(r'<a href="\?state=.*?</a>', "", answer.text, flags=re.DOTALL)  # the filter


def offered(console, app: str, model: str, field: str) -> list[str]:
    values = {"app_label": app, "model_name": model, "field_name": field, "term": ""}
    return [row["text"] for row in console.get("/admin/autocomplete/", values).json()["results"]]


@pytest.mark.long
def test_forms_offer_nobody_and_no_key_that_is_deleted(console):
    ann, ben = new_user(username="ann"), new_user(username="ben")
    old, new = (issue_key(owner=ann, name=name).key for name in ("old", "new"))
    delete_user(ben)
    delete_keys([old])
    for form in (("keys", "apikey", "owner"), ("rules", "rule", "user"), ("licensing", "limit", "user")):
        assert "ann" in offered(console, *form)
        assert "ben" not in offered(console, *form)
    assert offered(console, "licensing", "limit", "key") == [str(new)]
    for rest in ("accounts/user/?q=ben", "keys/apikey/?q=old"):  # lists go on finding them
        assert "deleted" in console.get(f"/admin/{rest}").text


@pytest.mark.parametrize("cut", [1000, 20, 14])
def test_a_key_that_was_found_somewhere_is_found_here_by_what_was_found(console, cut):
    issued = issue_key(owner=new_user(), name="leaked")
    issue_key(owner=issued.key.owner, name="another")
    page = console.get("/admin/keys/apikey/", {"q": issued.text[:cut], "state": "usable"}, follow=True)
    request = page.redirect_chain[0][0]  # and the secret goes no further
    assert request == f"?q={issued.key.public_id}&state=usable"
    assert [key.name for key in page.context["cl"].result_list] == ["leaked"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "offered"),
    [({}, {"lock", "expire"}), ({"locked": True}, {"unlock", "expire"}), ({"expire": True}, {"lock"})],
)
def test_a_key_has_buttons_for_what_can_be_done_with_it(console, changes, offered):
    key = issue_key(owner=new_user(), name="k").key
    update_key(key, **changes)
    page = console.get(f"/admin/keys/apikey/{key.pk}/change/").text
    assert {action for action in ("lock", "unlock", "expire") if f"/{key.pk}/{action}/" in page} == offered


@pytest.mark.long
def test_keys_are_filtered_by_what_the_list_says_of_them(console):
    users = dict.fromkeys(("usable", "locked", "expired", "deleted"), new_user())
    users |= {state: new_user() for state in ("owner inactive", "owner deleted")}
    over = {"locked": True, "expire": True}  # said first: that it is locked, and before that whose it is
    values = {"locked": over, "expired": {"expire": True}, "owner inactive": over, "owner deleted": {}}
    for state, owner in users.items():
        update_key(issue_key(owner=owner, name=state).key, **values.get(state, {}))
    delete_keys(ApiKey.objects.filter(name="deleted"))
    update_user(users["owner inactive"], is_active=False)
    type(ann := users["owner deleted"]).objects.filter(pk=ann.pk).update(is_deleted=True)  # and their keys are not yet
    for state in users:
        rows = console.get("/admin/keys/apikey/", {"state": state}).context["cl"].result_list
        assert [key.name for key in rows] == [state]


RESTRICTIONS = {
    "models": "gpt-.*\r\n\r\n  fast ",
    "networks": "192.0.2.7\r\n2001:DB8::/32",
    "not_before_0": "2026-01-01",
    "not_before_1": "00:00:00",
    "tags": "team=search\r\nnote = a=b",
    "max_tokens_per_request": "500",
    "content_logging": "redacted",
}


def test_restrictions_are_read_from_lines_and_shown_in_them(console):
    assert added(console, owner=new_user().pk, **RESTRICTIONS).status_code == 200
    key = ApiKey.objects.get()
    assert key.model_patterns == ["gpt-.*", "fast"]
    assert key.networks == ["192.0.2.7/32", "2001:db8::/32"]
    assert key.tags == {"team": "search", "note": "a=b"}
    assert (key.not_before.year, key.max_tokens_per_request, key.content_logging) == (2026, 500, "redacted")
    form = console.get(f"/admin/keys/apikey/{key.pk}/change/").context["adminform"].form
    assert form["models"].value() == "gpt-.*\nfast"
    assert form["tags"].value() == "note=a=b\nteam=search"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("models", "gpt-.*\n(", "Line 2 this is not a valid RE2 pattern"),
        ("networks", "10.0.0.1/8", "Line 1 has bits set after its prefix: write 10.0.0.0/8."),
        ("tags", "a b=c", "Must have names of 1 to 64"),
        ("max_tokens_per_request", "0", "greater than or equal to 1"),
    ],
)
def test_a_wrong_restriction_is_named_beside_its_field(console, field, value, words):
    errors = added(console, owner=new_user().pk, **{field: value}).context["adminform"].form.errors
    assert errors.keys() == {field}
    assert words in errors[field][0]


def changed(console, key, **fields):
    """The response to the key's form with these fields changed."""
    page = f"/admin/keys/apikey/{key.pk}/change/"
    form = console.get(page).context["adminform"].form
    values = {field.html_name: field.value() for field in form}
    expiry = key.expiry
    values |= {"expiry_0": f"{expiry:%Y-%m-%d}" if expiry else "", "expiry_1": f"{expiry:%H:%M:%S}" if expiry else ""}
    data = {name: value for name, value in values.items() if value is not None} | {"_seen": form.first_digest}
    return console.post(page, data | fields)


@pytest.mark.long
def test_restrictions_permissions_and_expiry_are_changed_later(console):
    key = issue_key(owner=new_user(), name="laptop", models=["gpt-.*"], expiry=None).key
    answer = changed(
        console, key, models="fast", permissions=["models.create"], expiry_0="2100-01-01", expiry_1="00:00:00"
    )
    assert answer.status_code == 302, answer.context["adminform"].form.errors
    key.refresh_from_db()
    assert (key.model_patterns, key.permissions, key.expiry.year) == (["fast"], ["models.create"], 2100)
    assert changed(console, key, models="", expiry_0="", expiry_1="").status_code == 302
    key.refresh_from_db()
    assert (key.model_patterns, key.permissions, key.expiry) == ([], ["models.create"], None)


def test_the_examples_for_anthropic_and_javascript_name_the_key_and_the_model(console):
    page = added(console, owner=new_user().pk).text
    text = html.unescape(re.search(r'<code id="key"[^>]*>(.*?)</code>', page)[1])
    compile(to_try(page, "as-anthropic"), "snippet", "exec")
    for code in (to_try(page, "as-anthropic"), to_try(page, "as-javascript")):
        assert text in code
        assert '"MODEL"' in code


def rotated(console, key, hours):
    return console.post(f"/admin/keys/apikey/{key.pk}/rotate/", {"hours": hours})


def test_a_rotation_asks_how_long_the_current_secret_lives(console):
    key = issue_key(owner=new_user(), name="k").key
    assert "7 days" in console.get(f"/admin/keys/apikey/{key.pk}/rotate/").text
    former = key.public_id
    assert "This is the only time" in rotated(console, key, "1").text
    key.refresh_from_db()
    assert key.former_public_id == former
    assert 3500 < (key.former_until - timezone.now()).total_seconds() <= 3600


@pytest.mark.parametrize("hours", ["", "2", "-1", "x"])
def test_a_rotation_takes_none_but_the_offered_times(console, hours):
    key = issue_key(owner=new_user(), name="k").key
    public_id = key.public_id
    assert 'role="alert"' in rotated(console, key, hours).text
    key.refresh_from_db()
    assert key.public_id == public_id


def with_limit(console, owner, measure: str = "", amount: str = "", **fields):
    """The answer to the form of a new key with a limit."""
    fields = {"limit_measure": measure, "limit_amount": amount, "limit_window": "day", **fields}
    return added(console, owner=owner.pk, **fields)


@pytest.mark.parametrize(
    ("measure", "amount", "window"), [("cost", "0.25", "day"), ("concurrent", "3", "none"), ("requests", "0", "day")]
)
def test_a_key_gets_its_limit_with_it(console, measure, amount, window):
    assert with_limit(console, new_user(), measure, amount).status_code == 200
    limit = ApiKey.objects.get().limits.get()
    assert (limit.measure, limit.window, limit.amount) == (measure, window, Decimal(amount))


@pytest.mark.parametrize(
    ("measure", "amount", "window", "field"),
    [
        ("requests", "", "day", "limit_amount"),
        ("requests", "many", "day", "limit_amount"),
        ("requests", "1.5", "day", "limit_amount"),
        ("requests", "-1", "day", "limit_amount"),
        ("cost", "0.0000001", "day", "limit_amount"),
        ("cost", "1e400", "day", "limit_amount"),
        ("cost", "1e9999999999", "day", "limit_amount"),
        ("requests", "1", "", "limit_window"),
        ("requests", "1", "week", "limit_window"),
        ("speed", "1", "day", "limit_measure"),
        ("", "1", "day", "limit_measure"),
    ],
)
def test_a_limit_that_is_not_valid_makes_no_key_and_says_why_beside_its_field(console, measure, amount, window, field):
    errors = with_limit(console, new_user(), measure, amount, limit_window=window).context["adminform"].form.errors
    assert {name: len(texts) for name, texts in errors.items()} == {field: 1}
    assert not ApiKey.objects.exists()


def test_a_key_without_a_limit_has_none_and_its_page_has_no_fields_for_one(console):
    assert with_limit(console, new_user()).status_code == 200
    key = ApiKey.objects.get()
    assert not key.limits.exists()
    assert "limit_amount" not in console.get(f"/admin/keys/apikey/{key.pk}/change/").text


def test_what_is_wrong_with_a_key_and_with_its_limit_is_said_at_once(console):
    answer = with_limit(console, new_user(), "requests", "many", name="")
    assert answer.context["adminform"].form.errors.keys() == {"name", "limit_amount"}


def found(console, text):
    page = console.get("/admin/keys/apikey/", {"q": text})
    return sorted(key.name for key in page.context["cl"].result_list), page.context["cl"].result_count


@pytest.mark.long
def test_a_search_finds_keys_by_their_names_their_ids_and_their_owners(console):
    ann, ben = new_user(username="Ann"), new_user(username="ben")
    laptop, _ = (issue_key(owner=ann, name=name).key for name in ("Big laptop", "server"))
    issue_key(owner=ben, name="small laptop")
    assert found(console, "LAPTOP") == (["Big laptop", "small laptop"], 2)
    assert found(console, "ann") == (["Big laptop", "server"], 2)
    assert found(console, "laptop ann") == (["Big laptop"], 1)
    assert found(console, '"laptop big"') == ([], 0)
    assert found(console, '"big laptop"') == (["Big laptop"], 1)
    assert found(console, laptop.public_id.upper()) == (["Big laptop"], 1)


def test_a_search_that_finds_many_keys_lists_them_all(console):
    owner, count = new_user(), MAX_MATCHES + 1
    ApiKey.objects.bulk_create(
        ApiKey(name=f"laptop {number}", owner=owner, public_id=f"{number:016}", digest=b"") for number in range(count)
    )
    names, total = found(console, "laptop")
    assert (len(names), total) == (30, count)
