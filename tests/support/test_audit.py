"""A known vulnerability fails the audit; a feed that cannot be reached does not, and is named."""

import pytest

from tests.support import audit

pytestmark = pytest.mark.embedded

SAFE = {"name": "django", "version": "5.2.19", "vulns": []}
UNSAFE = {"name": "old", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1", "2.0"]}]}
UNKNOWN = {"name": "other", "skip_reason": "Dependency not found"}


def test_nothing_known_is_good(capsys):
    assert audit.main({"pypi": ([SAFE, UNKNOWN], "")}.get) == 0
    assert capsys.readouterr().out == "pip-audit: 1 of 2 dependencies looked up at pypi.\n"


def test_a_known_vulnerability_fails(capsys):
    assert audit.main({"pypi": ([SAFE, UNSAFE], "")}.get) == 1
    assert "old 1.0: PYSEC-1, fixed in 1.1, 2.0\n" in capsys.readouterr().out


def test_the_second_feed_is_asked_if_the_first_knows_nothing(capsys):
    assert audit.main({"pypi": ([UNKNOWN], ""), "osv": ([UNSAFE], "")}.get) == 1
    assert "pypi cannot be used: it knows none" in capsys.readouterr().out


def test_without_any_feed_it_says_that_it_was_skipped(capsys):
    assert audit.main(lambda feed: ([], "no answer within 60 s")) == 0
    assert "SKIPPED" in capsys.readouterr().out


@pytest.mark.long
def test_both_lock_files_are_read_without_a_feed(monkeypatch):
    """Through the real program, which no feed answers here."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    dependencies, problem = audit.report_of("osv")
    assert dependencies == []
    assert "127.0.0.1" in problem or "proxy" in problem.lower()
