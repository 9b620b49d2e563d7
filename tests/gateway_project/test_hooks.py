"""Functions that lower layers call: every one is provided when Django starts."""

import re

import pytest

from gateway_project import hooks
from gateway_project.hooks import HOOKS, Hook

pytestmark = pytest.mark.embedded


def test_every_hook_is_provided_and_listed_in_the_documentation():
    documented = set(re.findall(r"^\| `(\w+)` \|", hooks.__doc__, re.MULTILINE))
    assert documented == set(HOOKS)
    assert [name for name, hook in HOOKS.items() if hook.function is None] == []


def test_a_hook_passes_arguments_and_result_on(monkeypatch):
    monkeypatch.setattr(hooks, "HOOKS", {})
    half: Hook[[int], float] = Hook("half")
    with pytest.raises(RuntimeError, match="No app provides the hook half"):
        half(3)
    half.provide(lambda number: number / 2)
    assert half(3) == 1.5
