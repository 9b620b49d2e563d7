"""Client libraries, imported when a test first uses one: `sdks.openai.OpenAI(base_url=…)`.

All tests are collected by each process of a run, and to import these takes half as long as to collect all other tests.
"""

from importlib import import_module
from types import ModuleType

MODULES = {
    "anthropic": "anthropic",
    "langchain_anthropic": "langchain_anthropic",
    "langchain_messages": "langchain_core.messages",
    "langchain_openai": "langchain_openai",
    "langchain_tools": "langchain_core.tools",
    "openai": "openai",
}


def __getattr__(name: str) -> ModuleType:
    """The module that has this name here."""
    if name not in MODULES:
        raise AttributeError(name)
    return import_module(MODULES[name])
