"""docs/explain.md: a refusal that is solved in three steps, as written."""

import json
import os
import re
import subprocess

import pytest

from accounts.services import create_user
from keys.services import issue_key
from providers.services import create_provider
from rules.services import create_rule
from tests.support.management import PASSWORD, new_admin, token_of
from tests.support.pace import patience
from tests.support.provider import ScriptedProvider
from tests.support.running import ROOT

pytestmark = [pytest.mark.either_store, pytest.mark.long]

BLOCK = re.compile(r"^```sh\n(.*?)^```\n(?:```json\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
MORE = "…"


def assert_shown(shown, answer, place="answer"):
    """All that the page shows is in the answer."""
    if isinstance(shown, dict):
        for name, value in shown.items():
            assert_shown(value, answer[name], f"{place}.{name}")
    elif isinstance(shown, list):
        for number, value in enumerate(one for one in shown if one != MORE):
            assert_shown(value, answer[number], f"{place}[{number}]")
    else:
        assert shown == answer, place


def test_a_refusal_is_solved_in_three_steps(world):
    ana = create_user(username="ana", password=PASSWORD)
    issued = issue_key(owner=ana, name="notebook")
    rule = create_rule(name="Story models of Ana", regex="story-4.*", user_id=ana.pk)
    with ScriptedProvider() as provider:
        options = {"format_name": "openai", "auth_method": "bearer", "credential": "sk-secret-of-the-provider"}
        create_provider(name="story-house", url=provider.url, models=["story-5-mini"], **options)
        world.settle()
        environ = os.environ | {
            "GATEWAY": world.gateway.url,
            "KEY": issued.text,
            "ADMIN": token_of(new_admin()),
            "RULE": str(rule.pk),
            "USER_ID": str(ana.pk),
        }
        blocks = BLOCK.findall((ROOT / "docs/explain.md").read_text(encoding="utf-8"))
        assert len(blocks) == 6
        provider.answers(text="Once upon a time.")
        for number, (command, shown) in enumerate(blocks):
            run = subprocess.run(
                ["bash", "-euc", command], env=environ, capture_output=True, text=True, check=True, timeout=patience(20)
            )
            answer = json.loads(run.stdout)
            assert ("exception" in answer) == (number == 0), answer
            if shown:
                assert_shown(json.loads(shown), answer)
            assert len(provider.seen) == (number == len(blocks) - 1)
