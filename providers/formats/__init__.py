"""The wire formats by name. A new one is a folder and a line in `ALL` (CONTRIBUTING.md has the recipe)."""

from providers.formats.anthropic.format import Anthropic
from providers.formats.base import DEFAULT_OPTIONS, ClientResponse, Format, Options, OutgoingRequest, StreamReader
from providers.formats.bedrock.format import Bedrock
from providers.formats.cohere.format import Cohere
from providers.formats.dialect import Dialect, WorkRequest
from providers.formats.gemini.format import Gemini
from providers.formats.mistral.format import Mistral
from providers.formats.ollama.format import Ollama
from providers.formats.openai.azure import AzureOpenAI
from providers.formats.openai.format import OpenAI
from providers.formats.openai.responses import OpenAIResponses
from providers.formats.passthrough.format import Passthrough
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
    "ClientResponse",
    "Dialect",
    "Format",
    "Options",
    "OutgoingRequest",
    "StreamReader",
    "Usage",
    "WorkRequest",
]
