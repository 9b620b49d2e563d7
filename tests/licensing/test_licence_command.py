"""manage.py licence: the vendor's and the operator's side of it."""

import io
import json
import stat

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from licensing.models import Licence
from telemetry.models import LogEntry
from tests.support.licences import Vendor, in_days

pytestmark = pytest.mark.either_store


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("licence", *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def pair(tmp_path, settings) -> dict[str, str]:
    """Keys as keygen prints them; the private one is in a file, the public one is set."""
    body = json.loads(run("keygen", "--json"))
    (tmp_path / "private").write_text(body["privateKey"])
    settings.GATEWAY_LICENCE_PUBLIC_KEY = body["publicKey"]
    return body


def issue(tmp_path, *, expiry: str = "2030-12-31", uses: str = "25", seconds: str = "60") -> str:
    options = ["--private-key", str(tmp_path / "private"), "--type", "enterprise", "--licensee", "Example Ltd"]
    return run("issue", *options, "--expiry", expiry, "--max-active-uses", uses, "--active-use-life-time", seconds)


def test_keygen_prints_a_new_pair(pair):
    assert pair.keys() == {"privateKey", "publicKey"}
    assert json.loads(run("keygen", "--json")) != pair


def test_issue_prints_the_key_alone(pair, tmp_path):
    printed = issue(tmp_path)
    assert printed.count("\n") == 1
    assert printed.count(".") == 2


def test_what_was_issued_is_installed_and_told(db, pair, tmp_path):
    key = issue(tmp_path).strip()
    assert "enterprise, for Example Ltd, valid until the end of 2030-12-31" in run("install", key)
    assert Licence.objects.get().key == key
    body = json.loads(run("status", "--json"))
    assert (body["hasKey"], body["valid"], body["maxActiveUses"], body["activeUseLifeTime"]) == (True, True, 25, 60)
    assert "Active uses: 25. Each ends 60 s" in run("status")


def test_a_key_is_read_from_a_file_or_from_standard_input(db, pair, tmp_path, monkeypatch):
    (tmp_path / "licence").write_text(issue(tmp_path))
    run("install", str(tmp_path / "licence"))
    for arguments in ([], ["-"]):
        key = issue(tmp_path)
        monkeypatch.setattr("sys.stdin", io.StringIO(key))
        run("install", *arguments)
        assert Licence.objects.get().key == key.strip()


@pytest.mark.parametrize("key", ["nonsense", "a.b.c", "/", "of another vendor"])
def test_a_key_that_does_not_verify_changes_nothing(db, pair, tmp_path, key):
    run("install", issue(tmp_path).strip())
    before = Licence.objects.get().key
    with pytest.raises(CommandError):
        run("install", Vendor().licence() if key == "of another vendor" else key)
    assert Licence.objects.get().key == before


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"expiry": "0030-12-31", "uses": "-1"}, "--max-active-uses: must be a whole number from 0 to"),
        ({"seconds": "0"}, "--active-use-life-time: must be a whole number from 1 to"),
    ],
)
def test_what_cannot_be_issued_is_said_with_the_option(pair, tmp_path, values, problem):
    with pytest.raises(CommandError, match=f"^{problem}"):
        issue(tmp_path, **values)


def test_a_refused_key_is_named_as_in_the_usage(db, pair):
    with pytest.raises(CommandError, match="^key: the key was not installed"):
        run("install", f"{'a' * 300}.b.c")


def test_an_empty_key_is_told_what_would_be_one(db, pair):
    with pytest.raises(CommandError, match="is empty: give the key, the file"):
        run("install", "")


def test_an_installation_is_in_the_log_as_through_the_api_and_the_key_is_not(db, pair, tmp_path):
    key = issue(tmp_path).strip()
    run("install", key)
    (entry,) = LogEntry.objects.filter(entry_type="Message")
    assert entry.message.endswith(" created licence: licenceKey, by manage.py.")
    body = json.loads(entry.payload)
    assert (body["resource"], body["operation"], body["attributes"]) == ("licence", "create", ["licenceKey"])
    assert (body["before"]["type"], body["after"]["hasKey"]) == ("community", True)
    assert key not in entry.payload
    with pytest.raises(CommandError):
        run("install", Vendor().licence())
    assert LogEntry.objects.count() == 1, "nothing was installed"


def test_status_without_a_licence(db):
    assert "community" in run("status")
    assert "Active uses: unlimited" in run("status")


def test_status_warns_ahead_of_expiry(db, pair, tmp_path, capsys):
    run("install", issue(tmp_path, expiry=in_days(31).isoformat()).strip())
    run("status")
    assert capsys.readouterr().err == ""
    run("install", issue(tmp_path, expiry=in_days(29).isoformat()).strip())
    run("status")
    assert "Warning: The licence expires in 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value"), [("expiry", "soon"), ("expiry", "2030-02-30"), ("uses", "-1"), ("seconds", "0")]
)
def test_what_could_not_be_read_back_is_not_issued(pair, tmp_path, name, value):
    with pytest.raises(CommandError):
        issue(tmp_path, **{name: value})


def test_a_private_key_goes_into_a_file_of_its_own_and_nowhere_else(tmp_path):
    path = tmp_path / "new" / "private"
    printed = run("keygen", "--private-key", str(path))
    private = path.read_text().strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert private not in printed
    assert "GATEWAY_LICENCE_PUBLIC_KEY=" in printed
    with pytest.raises(CommandError, match="exist"):
        run("keygen", "--private-key", str(path))
    assert path.read_text().strip() == private


@pytest.mark.parametrize("content", [None, "", "nonsense", "A" * 10_000])
def test_a_private_key_file_that_holds_none(tmp_path, content):
    if content is not None:
        (tmp_path / "private").write_text(content)
    with pytest.raises(CommandError):
        issue(tmp_path)
