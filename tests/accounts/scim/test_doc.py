"""docs/scim.md: its commands work as they are written, and its bounds are those of the code."""

import os
import re
import shutil
import subprocess

import pytest

from accounts.models import User
from accounts.scim import kinds, operations, queries
from tests.accounts.scim.conftest import TOKEN
from tests.support.pace import patience
from tests.support.running import ROOT

pytestmark = pytest.mark.either_store

PAGE = (ROOT / "docs/scim.md").read_text()


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
def test_the_commands_work(directory, nobody):
    (script,) = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    environ = os.environ | {"GATEWAY": nobody.base, "GATEWAY_SCIM_TOKEN": TOKEN}
    command = ["bash", "-euo", "pipefail", "-c", script]
    output = subprocess.run(
        command, env=environ, capture_output=True, text=True, check=True, timeout=patience(20)
    ).stdout
    assert re.findall(r"HTTP/1.1 (\d+)", output) == ["200", "201", "200"]
    assert '"totalResults":1' in output
    assert User.objects.get().username == "alice@example.org"


def test_the_bounds_are_those_of_the_code():
    for text in (
        f"{queries.MAX_FILTER_LENGTH:,} characters, {queries.MAX_BRACKETS} brackets and {queries.MAX_CONDITIONS} cond",
        f"`count` ({queries.DEFAULT_COUNT}, at most {queries.MAX_COUNT})",
        f"about {kinds.MAX_MEMBERS_IN_LIST:,} members",
        f"{operations.MAX_OPERATIONS:,} operations",
    ):
        assert text in PAGE


@pytest.mark.parametrize("kind", kinds.KINDS.values(), ids=kinds.KINDS)
def test_what_can_be_filtered_and_sorted_by_is_listed(kind):
    row = re.search(rf"\| Filters of {kind.resource} \| `(.*?)` \|", PAGE)[1]
    documented = {name.lower() for name in row.split()}
    assert documented == set(kind.attributes) - {"meta.resourcetype"}
