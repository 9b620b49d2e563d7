"""Processes that are killed and databases that go away while records are shipped: nothing is lost or repeated."""

import os
import subprocess
import sys
import time
from datetime import timedelta
from urllib.parse import quote

import pytest
from django.core.management import call_command
from django.db import OperationalError, connection
from django.db.models import Sum

from telemetry.journal import files as journals
from telemetry.journal.adoption import adopt_journal
from telemetry.models import JournalPosition, LogEntry, UsageHour
from tests.support.running import ROOT
from tests.support.usage_entries import HOUR
from tests.telemetry.conftest import serve, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]
postgresql_only = pytest.mark.skipif(
    not os.environ.get("DATABASE_URL", "").startswith("postgres"), reason="a database behind a network"
)

WORKER = """
import contextlib, sys, threading, time
from pathlib import Path
import django
django.setup()
from django.db import DatabaseError
from telemetry.usage import rollups
from telemetry.journal.files import Journal
from telemetry.journal.shipping import Shipper
from tests.telemetry.conftest import entry
from tests.support.usage_entries import HOUR
root = Path(sys.argv[1])
journal = Journal(root, segment_bytes=256 * 1024)
shipper = Shipper(journal, root)
shipping = threading.Thread(target=lambda: [shipper.ship() for _ in iter(int, 1)], daemon=True)
shipping.start()

def merge():
    while True:
        with contextlib.suppress(DatabaseError):
            rollups.merge_hour(HOUR)
            rollups.merge_day(rollups.floor_day(HOUR))
        time.sleep(0.01)

threading.Thread(target=merge, daemon=True).start()
for number in range(100_000):
    opened = journal.append_start(entry(f"{sys.argv[2]}-{number}"))
    journal.append_end(opened, entry(f"{sys.argv[2]}-{number}", outcome="completed"), lambda: b"{}")
    print(number, flush=True)
"""


def database_url():
    values = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{values['NAME']}"
    return f"postgresql://{quote(values['USER'])}@{values['HOST']}:{values['PORT']}/{values['NAME']}"


def test_processes_killed_at_any_moment_lose_nothing_and_repeat_nothing(tmp_path, capsys):
    environ = os.environ | {"DJANGO_SETTINGS_MODULE": "gateway_project.settings", "DATABASE_URL": database_url()}
    written = {}
    for run, patience in enumerate((0.0, 0.05, 0.11, 0.23)):
        command = [sys.executable, "-c", WORKER, str(tmp_path), str(run)]
        with subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            time.sleep(patience)
            process.kill()
            written[run] = 1 + sum(1 for line in process.stdout if line.endswith("\n"))
        for folder, handle in journals.abandoned_journals(tmp_path, older_than=0):
            adopt_journal(folder)
            os.close(handle)
    result = stored()
    assert set(result.values()) == {1}
    assert {f"{run}-{number}" for run, count in written.items() for number in range(count)} <= result.keys()
    assert len(stored(outcome="aborted")) <= len(written)
    assert not JournalPosition.objects.exists()
    call_command("verify_usage", start=HOUR, end=HOUR + timedelta(days=1))
    assert "the difference between log and usage is 0" in capsys.readouterr().out
    counted = UsageHour.objects.aggregate(requests=Sum("requests"))["requests"]
    assert counted == LogEntry.objects.filter(entry_type="WorkRequest").count() == len(result)


def arrived(number):
    """Whether so many entries are there; this process's own connections were cut as well."""
    try:
        return LogEntry.objects.count() >= number
    except OperationalError:
        connection.close()
        return False


@pytest.mark.servers
@postgresql_only
def test_while_the_database_is_away_the_journal_waits_and_then_everything_arrives_once(
    journal, shipper, database_proxy
):
    serve(journal, "r1")
    assert shipper.ship()
    database_proxy.refuse()
    for number in range(2, 400):
        serve(journal, f"r{number}")
    assert not shipper.ship()
    database_proxy.heal()
    assert shipper.ship()
    assert stored() == {f"r{number}": 1 for number in range(1, 400)}


@pytest.mark.servers
@postgresql_only
def test_a_connection_that_breaks_again_and_again_repeats_nothing(journal, shipper, database_proxy):
    shipper.start()
    for number in range(1500):
        serve(journal, f"r{number}")
        if number % 300 == 0:
            database_proxy._close_all()
        time.sleep(0.0005)
    deadline = time.monotonic() + 20
    while not arrived(1500) and time.monotonic() < deadline:
        time.sleep(0.1)
    shipper.stop()
    assert stored() == {f"r{number}": 1 for number in range(1500)}
