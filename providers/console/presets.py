"""Providers that people use most: what to enter for each, from their own documentation (docs/formats.md)."""

from typing import NamedTuple


class Preset(NamedTuple):
    """A provider's name, the format that it speaks, its base URL, how it authenticates, and where its keys are made.

    A word in capitals in the URL stands for what the user has to enter there.
    """

    title: str
    format: str
    url: str
    auth_method: str = "bearer"
    keys_page: str = ""

    @property
    def lists_models(self) -> bool:
        """Whether the gateway can ask for its models: a method that signs each request cannot ask for a list."""
        return self.auth_method != "aws-sigv4"


PRESETS = {
    "openai": Preset("OpenAI", "openai", "https://api.openai.com/v1", keys_page="https://platform.openai.com/api-keys"),
    "azure": Preset(
        "Azure OpenAI", "azure-openai", "https://RESOURCE.openai.azure.com/openai/v1", "api-key", "https://ai.azure.com"
    ),
    "anthropic": Preset(
        "Anthropic",
        "anthropic",
        "https://api.anthropic.com/v1",
        "x-api-key",
        "https://console.anthropic.com/settings/keys",
    ),
    "gemini": Preset(
        "Google Gemini",
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta",
        "x-goog-api-key",
        "https://aistudio.google.com/apikey",
    ),
    "mistral": Preset(
        "Mistral", "mistral", "https://api.mistral.ai/v1", keys_page="https://console.mistral.ai/api-keys"
    ),
    "cohere": Preset(
        "Cohere", "cohere", "https://api.cohere.com/v2", keys_page="https://dashboard.cohere.com/api-keys"
    ),
    "bedrock": Preset(
        "Amazon Bedrock",
        "bedrock",
        "https://bedrock-runtime.REGION.amazonaws.com",
        "aws-sigv4",
        "https://console.aws.amazon.com/bedrock",
    ),
    "ollama": Preset("Ollama", "ollama", "http://localhost:11434/api", "none"),
    "vllm": Preset("vLLM", "openai", "http://localhost:8000/v1", "none"),
    "openrouter": Preset(
        "OpenRouter", "openai", "https://openrouter.ai/api/v1", keys_page="https://openrouter.ai/settings/keys"
    ),
    "groq": Preset("Groq", "openai", "https://api.groq.com/openai/v1", keys_page="https://console.groq.com/keys"),
    "deepseek": Preset(
        "DeepSeek", "openai", "https://api.deepseek.com/v1", keys_page="https://platform.deepseek.com/api_keys"
    ),
    "together": Preset(
        "Together", "openai", "https://api.together.xyz/v1", keys_page="https://api.together.ai/settings/api-keys"
    ),
    "compatible": Preset("OpenAI-compatible (other)", "openai", "https://HOST/v1"),
}
