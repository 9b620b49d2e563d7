"""manage.py rotate_encryption_key"""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from gateway_project.api.audit import operator
from gateway_project.key_file import KeyFile, local_secret
from providers.credentials import decrypt, is_sealed_with
from providers.models import Provider, ProviderCredential
from providers.services import add_credential, create_provider, update_provider
from telemetry.models import LogEntry

OLD, NEW = "the old key of more than thirty-two characters", "the new key of more than thirty-two characters"
SECRET = "sk-1234567890"
pytestmark = [pytest.mark.django_db, pytest.mark.either_store]


@pytest.fixture(autouse=True)
def _old_key(settings):
    settings.GATEWAY_ENCRYPTION_KEYS = [OLD]


def make(name, **given):
    return create_provider(
        **{"name": name, "url": f"https://{name}.example", "format_name": "openai", "credential": SECRET + name} | given
    )


def rotate(*options) -> str:
    """What it says, none of which is a secret."""
    out = StringIO()
    try:
        call_command("rotate_encryption_key", *options, stdout=out)
    finally:
        assert SECRET not in out.getvalue()
        assert OLD not in out.getvalue()
        assert NEW not in out.getvalue()
    return out.getvalue()


def logged() -> list[str]:
    """What the log tells of it, without who it was."""
    told = LogEntry.objects.filter(entry_type="Message").order_by("id").values_list("message", flat=True)
    return [message.removeprefix(operator()) for message in told]


def opened(name, *keys):
    row = Provider.objects.get(name=name)
    return decrypt(row.credential, origin=row.origin, keys=keys)


def test_every_credential_is_rewritten_once_and_the_old_key_can_go(settings):
    for name in ("one", "two"):
        make(name)
    make("off", enabled=False)
    make("none", credential="")
    settings.GATEWAY_ENCRYPTION_KEYS = [NEW, OLD]
    make("three")
    assert rotate() == "Credentials re-encrypted: 3; already under this key: 1.\n"
    for name in ("one", "two", "three", "off"):
        assert opened(name, NEW) == SECRET + name
        assert Provider.objects.get(name=name).masked_credential == f"…{(SECRET + name)[-4:]}"
    assert Provider.objects.get(name="none").credential == ""
    settings.GATEWAY_ENCRYPTION_KEYS = [NEW]
    assert rotate() == "Credentials re-encrypted: 0; already under this key: 4.\n"
    assert logged() == [" re-encrypted the credentials of providers: 3, by manage.py."]


def test_further_credentials_are_rewritten_too(settings):
    row = make("one")
    good = add_credential(provider=row, name="second", credential=f"{SECRET}second")
    lost = add_credential(provider=row, name="third", credential=SECRET)
    ProviderCredential.objects.filter(pk=lost.pk).update(credential=lost.credential[:-4] + "AAA=")
    settings.GATEWAY_ENCRYPTION_KEYS = [NEW, OLD]
    with pytest.raises(CommandError, match=r"1 could not be decrypted and stay as they were: one \(third\)\. "):
        rotate()
    good.refresh_from_db()
    assert decrypt(good.credential, origin=row.origin, keys=[NEW]) == f"{SECRET}second"
    assert logged() == [" re-encrypted the credentials of providers: 2, by manage.py."]
    lost.refresh_from_db()
    assert not is_sealed_with(lost.credential, NEW)


def test_what_cannot_be_decrypted_is_named_and_left_alone_and_the_rest_is_done(settings):
    make("one")
    lost, altered = make("lost"), make("altered")
    Provider.objects.filter(pk=altered.pk).update(credential=altered.credential[:-4] + "AAA=")
    settings.GATEWAY_ENCRYPTION_KEYS = ["another key of more than thirty-two characters"]
    update_provider(lost, credential=SECRET)
    before = set(Provider.objects.filter(name__in=["lost", "altered"]).values_list("credential", flat=True))
    settings.GATEWAY_ENCRYPTION_KEYS = [NEW, OLD]
    with pytest.raises(CommandError, match=r"2 could not be decrypted and stay as they were: lost, altered\. "):
        rotate()
    assert opened("one", NEW) == SECRET + "one"
    assert logged() == [" re-encrypted the credentials of providers: 1, by manage.py."]
    assert set(Provider.objects.filter(name__in=["lost", "altered"]).values_list("credential", flat=True)) == before


def test_keys_of_the_environment_are_not_made_or_dropped_here():
    for option in ("--new-key", "--drop-old-keys"):
        with pytest.raises(CommandError, match="GATEWAY_ENCRYPTION_KEYS"):
            rotate(option)


def test_a_local_instance_makes_its_new_key_and_drops_the_old_one_later(settings, tmp_path):
    settings.GATEWAY_ENCRYPTION_KEYS = keys = KeyFile(local_secret(tmp_path / "encryption_key"))
    make("one")
    (old,) = keys
    assert rotate("--new-key").startswith("Credentials re-encrypted: 1;")
    new, kept = KeyFile(keys.path)
    assert (kept, opened("one", new)) == (old, SECRET + "one")
    assert is_sealed_with(make("two").credential, new)
    assert rotate("--drop-old-keys").endswith("Old keys dropped: 1.\n")
    assert list(KeyFile(keys.path)) == [new]
    assert logged() == [
        " created a new encryption key, by manage.py.",
        " re-encrypted the credentials of providers: 1, by manage.py.",
        " dropped old encryption keys: 1, by manage.py.",
    ]


def test_no_key_is_dropped_while_a_credential_cannot_be_read(settings, tmp_path):
    make("lost")
    settings.GATEWAY_ENCRYPTION_KEYS = keys = KeyFile(local_secret(tmp_path / "encryption_key"))
    keys.prepend("a newer key of more than thirty-two characters")
    with pytest.raises(CommandError, match="lost"):
        rotate("--drop-old-keys")
    assert len(KeyFile(keys.path)) == 2
