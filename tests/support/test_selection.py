"""A run loads the files of the tests that it chooses, and all of them."""

import pytest

from tests.support.selection import excluded_markers, has_no_test_for

pytestmark = pytest.mark.embedded


@pytest.mark.parametrize(
    ("expression", "markers"),
    [
        ("", set()),
        ("slow", set()),
        ("not slow", {"slow"}),
        ("not slow and not browser and not embedded", {"slow", "browser", "embedded"}),
        ("not slow and few_at_once ", {"slow"}),
        ("slow or not browser", set()),
        ("not slow or thorough and not browser", set()),
        ("not slow and (not attack or hypothesis) and not fault", {"slow", "fault"}),
        ("not (slow or browser)", set()),
        ("not slow and ((a and not b) or c)", set()),
    ],
)
def test_a_marker_is_excluded_where_no_test_with_it_is_chosen(expression, markers):
    assert excluded_markers(expression) == markers


@pytest.mark.parametrize(
    ("text", "is_left_out"),
    [
        ("pytestmark = pytest.mark.slow\n", True),
        ("pytestmark = [pytest.mark.embedded, pytest.mark.slow]\n", True),
        ("pytestmark = [\n    pytest.mark.embedded,\n    pytest.mark.timeout(3),\n    pytest.mark.slow,\n]\n", True),
        ("pytestmark = pytest.mark.embedded\n\n\n@pytest.mark.slow\ndef test_it(): ...\n", False),
        ("@pytest.mark.slow\ndef test_it(): ...\n", False),
        ("pytestmark = pytest.mark.parametrize('n', (1, pytest.param(2, marks=pytest.mark.slow)))\n", False),
        (
            "pytestmark = [\n    needs_redis,\n    pytest.mark.skipif(x[1]),\n    pytest.mark.slow,\n]\n",
            True,
        ),
        ("", False),
    ],
)
def test_a_file_is_left_out_if_all_its_tests_are(tmp_path, text, is_left_out):
    file = tmp_path / "test_it.py"
    file.write_text(f"import pytest\n\n{text}")
    assert has_no_test_for("not slow and not servers", file) == is_left_out
    assert not has_no_test_for("slow", file)
