"""Codes of authenticator apps, after RFC 6238, and recovery codes."""

import base64

import pytest

from accounts.second_factor import codes

pytestmark = pytest.mark.either_store

RFC_SECRET = base64.b32encode(b"12345678901234567890").decode()


def test_codes_are_those_of_the_standard():
    """Appendix B of RFC 6238, its last six digits."""
    for moment, code in ((59, "287082"), (1111111109, "081804"), (2000000000, "279037")):
        assert codes.matching_step(RFC_SECRET, code, at=moment) == moment // 30


def test_clocks_may_differ_by_one_step():
    moment = 2000000000
    steps = [codes.matching_step(RFC_SECRET, "279037", at=moment + 30 * shift) for shift in (-2, -1, 0, 1, 2)]
    assert steps == [None, *[moment // 30] * 3, None]


def test_a_code_is_read_as_people_type_it():
    assert codes.normalize_code(" 287 082\n") == "287082"
    assert codes.normalize_code("ABCD-efgh 2345-jkmn") == "abcdefgh2345jkmn"
    assert not codes.is_app_code("２８７０８２")


def test_recovery_codes_are_ten_distinct_ones_and_stored_as_the_users_own():
    recovery_codes = codes.new_recovery_codes()
    assert len(set(recovery_codes)) == 10
    digests = {codes.digest_of(recovery_codes[0], 1), codes.digest_of(recovery_codes[0].upper(), 1)}
    assert len(digests) == 1
    assert codes.digest_of(recovery_codes[0], 2) not in digests
