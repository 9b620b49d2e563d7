"""The server against a checker of SCIM 2.0 that others wrote."""

from typing import TYPE_CHECKING

import httpx2
import pytest
from pydantic import BaseModel

pytestmark = pytest.mark.either_store

if TYPE_CHECKING:
    from scim2_tester import CheckResult

TOKEN = "a-token-of-the-directory-0123456789abcdef"
ALLOWED = {
    "SUCCESS",
    "SKIPPED",  # a search over all resource types, which is not supported
}


@pytest.fixture
def checker(nobody, settings):
    # Takes seconds to import: not in each process that collects tests.
    from scim2_client.engines.httpx2 import SyncSCIMClient
    from scim2_models import ScimProvider

    settings.GATEWAY_SCIM_TOKEN = TOKEN
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx2.Client(base_url=f"{nobody.base}/scim/v2", headers=headers, timeout=30) as client:
        yield SyncSCIMClient(client, provider=ScimProvider())


def only_adds(result: "CheckResult") -> bool:
    """Whether all that is wrong is that the server adds read-only parts to each value: RFC 7643, section 2.2.

    So are the type of an e-mail address and the name of a member; the checker compares with what it has sent.
    """
    data = result.data if isinstance(result.data, dict) else {}
    expected, actual = data.get("expected"), data.get("modify_actual")
    if not isinstance(expected, list) or not isinstance(actual, list) or len(expected) != len(actual):
        return False
    return all(is_part(one, other) for one, other in zip(expected, actual, strict=True))


def is_part(one: BaseModel, other: BaseModel) -> bool:
    values, all_values = one.model_dump(exclude_none=True), other.model_dump(exclude_none=True)
    added = all_values.keys() - values.keys()
    return added <= {"type", "primary", "display"} and values == {name: all_values[name] for name in values}


def test_the_checker_has_no_complaint(checker):
    from scim2_tester import check_server

    results = check_server(checker)
    complaints = [one for one in results if one.status.name not in ALLOWED and not only_adds(one)]
    assert "\n".join(f"{one.title} {one.resource_type}: {one.reason}" for one in complaints) == ""
    checked = {(one.title, one.resource_type) for one in results if one.status.name == "SUCCESS"}
    for title in ("object_creation", "object_query", "object_replacement", "object_deletion", "check_remove_attribute"):
        assert {(title, "User"), (title, "Group")} <= checked
