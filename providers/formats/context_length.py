"""How each provider reports that a conversation exceeds the model's context: most only in the error's message.

Only the error code for the client depends on this. Clients that get it shorten the conversation.
"""

import re

CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
# OpenAI-compatible servers: OpenAI's code, messages of vLLM and similar servers, llama.cpp's type.
OPENAI = r"context_length_exceeded|maximum context length|exceed_context_size|exceeds the (?:model's )?context window"
MESSAGES_BY_FORMAT = {
    "openai": OPENAI,
    "openai-responses": OPENAI,
    "azure-openai": OPENAI,
    "anthropic": r"prompt is too long|exceed context limit",
    "gemini": r"input token count \S* ?exceeds the maximum",
    "mistral": r"too large for model with \d+ maximum context length",
    "cohere": r"too many tokens: (?!max)|total number of tokens",
    "ollama": r"exceeds the (?:available )?context (?:length|size)",
    "bedrock": r"input is too long|prompt is too long|too many input tokens|maximum context length",
}
PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in MESSAGES_BY_FORMAT.items()}


def context_length_phrase(format_name: str, *texts: str) -> str:
    """The phrase in an error's message, code or type that reports this in the format; '' if there is none."""
    pattern = PATTERNS.get(format_name)
    matches = (pattern.search(text) for text in texts) if pattern else ()
    return next((match[0] for match in matches if match), "")
