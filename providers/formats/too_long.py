"""How each provider says that a conversation is longer than its model can read: most in words, and in no other way.

Nothing is decided by this but the code that the error goes on with: clients shorten the conversation upon it.
"""

import re

CODE = "context_length_exceeded"
# Of servers that speak like OpenAI: OpenAI's own code, vLLM's and its kind's words, llama.cpp's type.
OPENAI = r"context_length_exceeded|maximum context length|exceed_context_size|exceeds the (?:model's )?context window"
SAID = {
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
PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in SAID.items()}


def is_too_long(format_name: str, *said: str) -> bool:
    """Whether a provider of the format says so in one of these: its message, its code, the type of its error."""
    pattern = PATTERNS.get(format_name)
    return pattern is not None and any(pattern.search(text) for text in said)
