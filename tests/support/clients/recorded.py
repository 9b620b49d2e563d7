"""What providers of every format answered, for clients that ask the gateway for it."""

import pytest

from providers.formats import FORMATS
from tests.support.formats.samples import Sample, whole

AUTH = {"gemini": "x-goog-api-key", "anthropic": "x-api-key", "azure-openai": "api-key"}
STREAM_TYPES = {"ollama": "application/x-ndjson", "bedrock": "application/vnd.amazon.eventstream"}
# passthrough hands on what it gets, whoever speaks it.
each_format = pytest.mark.parametrize("format_name", [name for name in FORMATS if name != "passthrough"])
# What recorded providers call unless they say otherwise.
CALLS = [["weather", {"city": "Lisbon"}], ["weather", {"city": "Porto"}]]


def recorded(format_name: str, name: str, kind=whole) -> Sample:
    """A recorded answer of a provider of this format."""
    return next(sample for sample in kind(format_name) if sample.name == name)


def script(provider, sample: Sample) -> None:
    """Let a provider stream what was recorded."""
    content_type = STREAM_TYPES.get(sample.format.name, "text/event-stream")
    provider.answers(stream=[sample.body], headers={"Content-Type": content_type})
