"""API keys in the console: what the API refuses is refused there too, beside the field."""

from accounts.services import delete_user, update_user
from keys.models import ApiKey
from keys.services import delete_keys, issue_key
from tests.management import new_user


def added(console, **fields):
    return console.post("/admin/keys/apikey/add/", {"name": "laptop", "permissions": ["work"], **fields})


def test_a_key_is_made_for_somebody_who_can_use_it(console):
    ann = new_user()
    delete_user(ann)
    answer = added(console, owner=ann.pk)
    assert answer.context["adminform"].form.errors == {"owner": ["is deleted, and gets no keys."]}
    assert not ApiKey.objects.exists()


def test_a_key_is_made_for_a_time_to_come(console):
    answer = added(console, owner=new_user().pk, expiry_0="2020-01-01", expiry_1="00:00:00")
    assert answer.context["adminform"].form.errors == {"expiry": ["must lie in the future."]}
    assert added(console, owner=new_user().pk, expiry_0="2100-01-01", expiry_1="00:00:00").status_code == 200
    assert ApiKey.objects.get().expiry.year == 2100


def test_a_key_whose_owner_is_refused_is_not_called_usable(console):
    ann, ben = new_user(username="ann"), new_user(username="ben")
    pages = [f"/admin/keys/apikey/{issue_key(owner=owner, name='k').key.pk}/change/" for owner in (ann, ben)]
    assert "usable" in console.get(pages[0]).text
    update_user(ann, is_active=False)
    delete_user(ben)
    for page, told in zip(pages, ("owner inactive", "owner deleted"), strict=True):
        for answer in (console.get(page), console.get("/admin/keys/apikey/")):
            assert told in answer.text
            assert "usable" not in answer.text


def offered(console, app: str, model: str, field: str) -> list[str]:
    asked = {"app_label": app, "model_name": model, "field_name": field, "term": ""}
    return [row["text"] for row in console.get("/admin/autocomplete/", asked).json()["results"]]


def test_forms_offer_nobody_and_no_key_that_is_deleted(console):
    ann, ben = new_user(username="ann"), new_user(username="ben")
    old, new = (issue_key(owner=ann, name=name).key for name in ("old", "new"))
    delete_user(ben)
    delete_keys([old])
    for form in (("keys", "apikey", "owner"), ("rules", "rule", "user"), ("licensing", "limit", "user")):
        assert "ann" in offered(console, *form)
        assert "ben" not in offered(console, *form)
    assert offered(console, "licensing", "limit", "key") == [str(new)]
    for kept in ("accounts/user/?q=ben", "keys/apikey/?q=old"):  # lists go on finding them
        assert "deleted" in console.get(f"/admin/{kept}").text
