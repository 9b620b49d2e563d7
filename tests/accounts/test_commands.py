"""manage.py createsuperuser and changepassword: the rules, the ended sessions and the log of the API."""

import io
import os
import pty
import subprocess
import sys
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from accounts.models import AuthenticatorApp, Session, User
from telemetry.audit.models import AuditEntry
from telemetry.models import LogEntry
from tests.support.management import PASSWORD, new_user
from tests.support.second_factor import new_app

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
NEW = "another long pass phrase"


@pytest.fixture
def types(monkeypatch):
    """What comes from standard input, which is no terminal here."""
    return lambda *lines: monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


def run(*arguments):
    out = io.StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


class TestCreateSuperuser:
    def test_makes_an_admin_and_an_entry(self, types):
        types("root", PASSWORD)
        run("createsuperuser")
        root = User.objects.admins().get()
        assert root.username == "root"
        assert root.check_password(PASSWORD)
        entry = LogEntry.objects.get()
        assert entry.message.endswith(f" created users {root.pk}, by manage.py.")
        assert PASSWORD not in entry.payload

    def test_asks_nothing_where_it_is_told_everything(self, monkeypatch):
        monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)
        run("createsuperuser", "--noinput", "--username", "root", "--email", "root@example.org")
        assert User.objects.get().email == "root@example.org"

    def test_wants_to_be_told_without_questions(self):
        with pytest.raises(CommandError, match="DJANGO_SUPERUSER_PASSWORD"):
            run("createsuperuser", "--noinput", "--username", "root")
        assert not User.objects.exists()

    @pytest.mark.parametrize(
        ("name", "password", "problem"), [("root", "x", "^password: "), ("Ann", PASSWORD, "^--username: .* exists")]
    )
    def test_refuses_what_the_api_refuses(self, monkeypatch, name, password, problem):
        new_user(username="ann")
        monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", password)
        with pytest.raises(CommandError, match=problem):
            run("createsuperuser", "--noinput", "--username", name)
        assert User.objects.get().username == "ann"
        assert not LogEntry.objects.exists()

    def test_names_all_that_is_wrong_by_its_options(self, monkeypatch):
        new_user(username="ann")
        monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)
        with pytest.raises(CommandError) as refused:
            run("createsuperuser", "--noinput", "--username", "ann", "--email", "nowhere")
        assert str(refused.value) == (
            "--email: Enter a valid email address. "
            "--username: A user named 'ann' exists already; deleted users keep their names."
        )


class TestChangePassword:
    @pytest.fixture
    def ann(self):
        ann = new_user(username="ann")
        Session.objects.create(user=ann, expires_at=timezone.now() + timedelta(days=1))
        return ann

    def test_ends_the_sessions_and_leaves_an_entry(self, types, ann):
        types(NEW)
        assert "ann" in run("changepassword", "ANN")
        ann.refresh_from_db()
        assert ann.check_password(NEW)
        assert not Session.objects.live().exists()
        entry = LogEntry.objects.get()
        assert entry.message.endswith(f" changed users {ann.pk}: newPassword, by manage.py.")
        assert NEW not in entry.payload

    @pytest.mark.parametrize("password", ["", "7 chars"])
    def test_refuses_a_password_that_the_api_refuses(self, types, ann, password):
        types(password)
        with pytest.raises(CommandError, match="^password: "):
            run("changepassword", "ann")
        assert Session.objects.live().exists()
        assert not LogEntry.objects.exists()

    @pytest.mark.parametrize("name", ["bob", "\udcff"])
    def test_says_that_there_is_no_such_user(self, name):
        with pytest.raises(CommandError, match=f"no user named {name!a}".replace("\\", r"\\")):
            run("changepassword", name)


@pytest.mark.long
@pytest.mark.parametrize(("again", "told"), [("one", "one"), ("two", "differ")])
def test_at_a_terminal_a_password_is_typed_twice(again, told):
    ours, theirs = pty.openpty()
    code = "from accounts.management.passwords import typed_password as typed; print(typed())"
    pipes = {"stdin": theirs, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "start_new_session": True}
    with subprocess.Popen([sys.executable, "-c", code], text=True, **pipes) as process:
        for prompt, answer in (("Password: ", "one"), ("\nPassword (again): ", again)):
            assert process.stdout.read(len(prompt)) == prompt
            os.write(ours, f"{answer}\n".encode())
        assert told in process.stdout.read()
    os.close(ours)
    os.close(theirs)


class TestRemoveSecondFactor:
    def test_removes_all_ends_sessions_and_leaves_an_entry(self, ann):
        new_app(ann)
        Session.objects.create(user=ann, expires_at=timezone.now() + timedelta(days=1))
        assert run("removesecondfactor", "ANN") == "ann has no second factor any more. All their sessions have ended.\n"
        assert not AuthenticatorApp.objects.exists()
        assert not Session.objects.live().exists()
        assert AuditEntry.objects.filter(action="remove second factor", resource_id=ann.pk).exists()

    @pytest.mark.parametrize(
        ("name", "problem"), [("bob", "no user named"), ("\udcff", "no user named"), ("ann", "has no second factor")]
    )
    def test_says_what_is_wrong(self, ann, name, problem):
        with pytest.raises(CommandError, match=problem):
            run("removesecondfactor", name)
