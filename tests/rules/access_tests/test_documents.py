"""Access tests as YAML, and manage.py access-tests."""

import json
from io import StringIO

import pytest
import yaml
from django.core.management import CommandError, call_command

from accounts.services import delete_group
from gateway_project.errors import ValidationError
from keys.services import issue_key
from rules.access_tests.documents import MAX_BYTES, read_document, write_document
from rules.access_tests.importing import import_access_tests
from rules.access_tests.models import AccessTest
from rules.access_tests.services import create_access_test
from rules.models import Rule
from telemetry.audit.models import AuditEntry

pytestmark = [pytest.mark.django_db, pytest.mark.either_store]
ESCAPED = [  # what YAML can write and PostgreSQL cannot store
    *((member, text) for member in ("name", "user", "key", "provider") for text in ("a\\0", "\\ud800")),
    ("\\ud800", "a"),
    ("\\0", "a"),
]
GOOD = {"name": "n", "model": "m", "expected": "allowed", "user": "ann"}


def exported() -> str:
    return write_document(AccessTest.objects.shown())


def document(*entries: object) -> str:
    copies = json.loads(json.dumps(entries))  # YAML would refer to what stands there twice
    return yaml.safe_dump({"access-tests": copies})


def rows() -> list[dict]:
    shown = ("name", "description", "user_id", "group_id", "key_name", "model", "provider_id", "expected")
    return list(AccessTest.objects.order_by("name").values(*shown))


def command(*arguments: str) -> str:
    output = StringIO()
    call_command("access-tests", *arguments, stdout=output)
    return output.getvalue()


def test_what_is_exported_can_be_imported(scene):
    issue_key(owner=scene.ann, name="laptop")
    create_access_test(
        name="Ümlaut: 'yes'",
        description="two\nlines",
        user_id=scene.ann.pk,
        key_name="laptop",
        model="openai/gpt-5",
        provider_id=scene.provider.pk,
        expected="denied",
    )
    text, before = exported(), rows()
    result = import_access_tests(read_document(text))
    assert (result.created, result.changed, result.unchanged) == ([], [], 3)
    AccessTest.objects.exclude(name="Ann may").delete()
    AccessTest.objects.update(model="other")
    result = import_access_tests(read_document(text))
    assert (set(result.created), result.changed) == ({"Interns may not", "Ümlaut: 'yes'"}, ["Ann may"])
    assert (rows(), exported().splitlines().sort()) == (before, text.splitlines().sort())
    assert "2 created, 1 changed, 0 unchanged." in AuditEntry.objects.filter(action="import").latest("pk").message
    delete_group(scene.interns)
    assert "Interns" not in exported()


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "not YAML"),
        ("!!python/object/apply:os.system [ls]", "one member"),
        ("\0", "not YAML"),
        ("[" * 5000, "not YAML"),
        ("", "one member"),
        ("[]", "one member"),
        ("access-tests: 5", "one member"),
        ("tests: []", "one member"),
        (document(*[GOOD] * 1001), "at most 1,000"),
        ("#" * (MAX_BYTES + 1), "KiB"),
        (document(5), "access-tests[0]: must be an object"),
        (document(GOOD | {"colour": "red"}), "access-tests[0].colour"),
        (document(GOOD | {"name": 5}), "access-tests[0].name: must be a text"),
        (document(GOOD | {"name": ["x"]}), "access-tests[0].name"),
        (document(GOOD | {"model": None}), "access-tests[0].model: is missing"),
        (document(GOOD | {"expected": "perhaps"}), "access-tests[0].expected"),
        (document(GOOD, GOOD), "access-tests[1].name"),
        (document(GOOD | {"user": "nobody"}), "user: there is no user"),
        (document(GOOD | {"user": None}), "exactly one"),
        (document(GOOD | {"group": "interns"}), "exactly one"),
        (document(GOOD | {"provider": "none"}), "provider: there is no provider"),
        (document(GOOD | {"key": "none"}), "no key named"),
        (document(GOOD | {"model": "x" * 301}), "model"),
        (document(GOOD, GOOD | {"name": "x" * 101}), "access-tests[1]"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_and_nothing_is_stored(scene, text, words):
    with pytest.raises(ValidationError) as refusal:
        import_access_tests(read_document(text))
    assert words in refusal.value.sentence
    assert AccessTest.objects.count() == 2


def test_the_command_runs_all_tests(scene):
    assert command() == "2 of 2 access tests hold.\n"
    Rule.objects.update(enabled=False)
    output = StringIO()
    with pytest.raises(CommandError, match=r"1 of 2 access tests hold\.") as error:
        call_command("access-tests", stdout=output)
    assert error.value.returncode == 1
    assert output.getvalue() == (
        "FAILS  Ann may: gpt-5 should be allowed. No rule allows ann to use the model gpt-5. Rule Ann is disabled.\n"
    ).replace(" Rule Ann is disabled.", "")


def test_the_command_imports_and_exports(scene, tmp_path):
    file = tmp_path / "tests.yaml"
    assert command("--export", str(file)) == ""
    assert command("--export") == file.read_text()
    AccessTest.objects.all().delete()
    assert command("--import", str(file)) == "2 created, 0 changed, 0 unchanged.\n"
    file.write_text("a: [")
    for arguments in (["--import", str(file)], ["--import", str(tmp_path)], ["--export", str(tmp_path)]):
        with pytest.raises(CommandError):
            command(*arguments)


def test_failing_tests_are_let_pass_for_a_reason_that_the_audit_keeps(scene):
    create_access_test(name="never", user_id=scene.ann.pk, model="nobody-has-this", expected="allowed")
    with pytest.raises(CommandError, match="2 of 3"):
        command()
    output = command("--override", "The model comes on Monday.")
    assert "FAILS  never" in output
    assert "2 of 3 access tests hold." in output
    entry = AuditEntry.objects.get(resource="access-tests", action="override")
    after = json.loads(entry.after)
    assert after["reason"] == "The model comes on Monday."
    assert [row["name"] for row in after["accessTests"]] == ["never"]
    for arguments, words in (
        (["--override", "a\nb"], "printable"),
        (["--override", "a", "--export"], "cannot be combined"),
    ):
        with pytest.raises(CommandError, match=words):
            command(*arguments)
    assert AuditEntry.objects.filter(resource="access-tests", action="override").count() == 1


BOMB = "\n".join(["l0: &l0 {a: b}", *(f"l{n}: &l{n} {{<<: [{', '.join([f'*l{n - 1}'] * 10)}]}}" for n in range(1, 10))])


@pytest.mark.parametrize("text", [BOMB, "a: &a [*a]"])
def test_a_file_with_references_is_refused_before_it_grows(text):
    with pytest.raises(ValidationError, match="reference"):
        read_document(text)


@pytest.mark.parametrize(
    "value", ["!!timestamp x", "!!bool x", "!!int ''", "1:" * 20_000 + "1.5", "5", "2026-01-01", "yes"]
)
def test_what_is_no_text_is_never_read(value):
    with pytest.raises(ValidationError, match="must be a text"):
        read_document(f"access-tests: [{{name: {value}, model: m, expected: allowed}}]")


@pytest.mark.parametrize(("member", "text"), ESCAPED)
def test_a_text_that_cannot_be_stored_is_an_error_of_its_member(console, scene, member, text):
    members = {name: f'"{value}"' for name, value in GOOD.items()} | {member: f'"{text}"'}
    lines = [f'  "{name}": {value}' for name, value in members.items()]
    content = "\n".join(["access-tests:", "-", *lines])
    with pytest.raises(ValidationError) as error:
        read_document(content)
    assert error.value.field.startswith("access-tests[0].")
    page = console.post("/admin/rules/accesstest/import/", {"text": content})
    assert page.status_code == 200
    assert "Access-tests[0]." in page.text
