"""The wire formats by name; adding one is adding a module and a line here."""

from providers.formats.anthropic import Anthropic
from providers.formats.azure_openai import AzureOpenAI
from providers.formats.base import (
    DEFAULT_OPTIONS,
    Answer,
    Dialect,
    Format,
    Options,
    OutgoingRequest,
    StreamReader,
    WorkRequest,
)
from providers.formats.bedrock import Bedrock
from providers.formats.cohere import Cohere
from providers.formats.gemini import Gemini
from providers.formats.mistral import Mistral
from providers.formats.ollama import Ollama
from providers.formats.openai import OpenAI
from providers.formats.openai_responses import OpenAIResponses
from providers.formats.passthrough import Passthrough
from providers.formats.usage import Usage

ALL: tuple[Format, ...] = (
    OpenAI(),
    OpenAIResponses(),
    AzureOpenAI(),
    Anthropic(),
    Gemini(),
    Mistral(),
    Cohere(),
    Ollama(),
    Bedrock(),
    Passthrough(),
)
FORMATS = {format.name: format for format in ALL}

__all__ = [
    "DEFAULT_OPTIONS",
    "FORMATS",
    "Answer",
    "Dialect",
    "Format",
    "Options",
    "OutgoingRequest",
    "StreamReader",
    "Usage",
    "WorkRequest",
]
