"""What a licence allows at which moment."""

from datetime import UTC, date, datetime

import pytest

from licensing.signing import Claims
from licensing.terms import community_terms, licensed_terms, refused_terms

pytestmark = pytest.mark.either_store

LAST = date(2030, 12, 31)
TERMS = licensed_terms(Claims("enterprise", "Example Ltd", LAST, 100, 60))


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_a_licence_is_good_until_the_end_of_its_last_day():
    assert TERMS.problem(at("2030-12-31T23:59:59.999")) == ""
    assert "expired at the end of 2030-12-31" in TERMS.problem(at("2031-01-01T00:00:00"))


@pytest.mark.parametrize(
    ("moment", "days"),
    [("2030-12-01T00:00", 30), ("2030-12-30T23:59", 1), ("2030-12-31T12:00", 0), ("2031-01-02T01:00", -2)],
)
def test_it_counts_the_days_that_are_left(moment, days):
    assert TERMS.expires_in(at(moment)) == days


@pytest.mark.parametrize(
    ("moment", "word"),
    [
        ("2030-11-30T23:59", ""),
        ("2030-12-01T00:00", "expires in 30 days"),
        ("2030-12-30T12:00", "expires tomorrow"),
        ("2030-12-31T12:00", "expires today"),
        ("2031-01-01T00:00", "expired"),
    ],
)
def test_it_warns_from_thirty_days_before(moment, word):
    warning = TERMS.warning(at(moment))
    assert word in warning
    assert bool(word) == bool(warning)


def test_without_a_licence_nothing_expires_and_nothing_is_wrong():
    terms = community_terms(0, 300)
    assert (terms.has_key, terms.type, terms.expires_in(0.0), terms.expiry) == (False, "community", None, None)
    assert terms.problem(at("9999-12-31T00:00")) == terms.warning(at("9999-12-31T00:00")) == ""


def test_of_a_key_that_does_not_verify_nothing_counts():
    terms = refused_terms("Its signature is not the vendor's.", 5, 300)
    assert (terms.has_key, terms.type, terms.expiry, terms.max_active_uses) == (True, "invalid", None, 5)
    assert "signature" in terms.problem(0.0)
    assert terms.warning(0.0) == terms.problem(0.0) == terms.sentence(0.0)


def test_the_last_day_that_there_is_has_an_end():
    assert licensed_terms(Claims("t", "l", date.max, 0, 1)).problem(at("9999-12-31T23:59")) == ""


@pytest.mark.parametrize(
    ("moment", "warns", "refuses"),
    [
        ("2030-06-02T13:00", False, False),
        ("2030-06-02T11:30", False, False),
        ("2030-06-02T10:59", True, False),
        ("2030-06-01T12:00", True, False),
        ("2030-06-01T11:59", True, True),
        ("2001-01-01T00:00", True, True),
    ],
)
def test_a_clock_that_was_set_back_by_an_hour_is_told_and_by_more_than_a_day_refused(moment, warns, refuses):
    terms = licensed_terms(Claims("enterprise", "Example Ltd", LAST, 100, 60), latest_time=at("2030-06-02T12:00"))
    problem, warning = terms.problem(at(moment)), terms.warning(at(moment))
    assert (bool(warning), bool(problem)) == (warns, refuses)
    if warns:
        assert f"set back from 2030-06-02 12:00 to {moment.replace('T', ' ')} (UTC)" in warning
    if refuses:
        assert "corrected" in problem
