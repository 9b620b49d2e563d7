"""A journal belongs to its process while that lives, and afterwards to the first that adopts it."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from telemetry.journal import files as journals
from telemetry.journal.files import START
from tests.support.running import ROOT
from tests.telemetry.journal.test_files import contents

pytestmark = pytest.mark.embedded
WRITER = """
import sys, time
from pathlib import Path
from telemetry.journal.files import Journal
journal = Journal(Path(sys.argv[1]), segment_bytes=256 * 1024)
for number in range(100):
    journal.append_start(b"%d" % number)
print(journal.folder.name, flush=True)
time.sleep(60)
"""


@pytest.fixture
def writer(tmp_path):
    """A process that holds a journal open."""
    command = [sys.executable, "-c", WRITER, str(tmp_path / "root")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        process.folder = tmp_path / "root" / process.stdout.readline().strip()
        yield process
        process.kill()


def adoptable(root):
    results = []
    for folder, handle in journals.abandoned_journals(root, older_than=0):
        results.append(folder)
        os.close(handle)
    return results


def test_a_journal_belongs_to_its_process_while_that_lives_and_to_anyone_afterwards(writer):
    root = writer.folder.parent
    assert adoptable(root) == []
    assert journals.lock_folder(writer.folder) is None
    writer.kill()
    writer.wait()
    assert adoptable(root) == [writer.folder]
    assert contents(writer) == [(START, b"%d" % number) for number in range(100)]


def test_of_many_who_would_adopt_one_does(writer):
    writer.kill()
    writer.wait()
    with ThreadPoolExecutor(10) as pool:
        claims = list(pool.map(lambda _: journals.lock_folder(writer.folder), range(10)))
    assert sum(handle is not None for handle in claims) == 1
    os.close(next(handle for handle in claims if handle is not None))


def test_a_folder_just_made_is_left_alone(writer):
    writer.kill()
    writer.wait()
    assert list(journals.abandoned_journals(writer.folder.parent, older_than=60)) == []
    assert list(journals.abandoned_journals(writer.folder.parent / "nosuch")) == []


def test_a_clock_that_was_set_back_leaves_no_journal_behind(writer):
    writer.kill()
    writer.wait()
    tomorrow = time.time() + 86_400
    os.utime(writer.folder, (tomorrow, tomorrow))
    [(folder, handle)] = journals.abandoned_journals(writer.folder.parent)
    os.close(handle)
    assert folder == writer.folder
