"""The bundled table of public prices, made out of the data of the package genai-prices."""

import re
from collections.abc import Iterable, Iterator
from datetime import date
from decimal import Decimal
from typing import Any

from gateway_project.json_types import JsonObject
from providers.models import ModelPrice
from providers.pricing.prices import PRICE_DECIMALS
from providers.pricing.public_prices import price_entry

# Where each provider is found; "" for models that only their maker can run: they cost the same behind any address.
HOSTS = {
    "anthropic": "",
    "arcee": "api.arcee.ai",
    "avian": "api.avian.io",
    "aws": "bedrock-runtime.*.amazonaws.com",
    "azure": "*.azure.com",
    "baseten": "inference.baseten.co",
    "cerebras": "api.cerebras.ai",
    "cohere": "api.cohere.*",
    "deepseek": "api.deepseek.com",
    "fireworks": "api.fireworks.ai",
    "google": "*.googleapis.com",
    "groq": "api.groq.com",
    "minimax": "api.minimax*",
    "mistral": "api.mistral.ai",
    "moonshotai": "api.moonshot.*",
    "novita": "api.novita.ai",
    "openai": "",
    "openrouter": "openrouter.ai",
    "ovhcloud": "oai.endpoints.kepler.ai.cloud.ovh.net",
    "perplexity": "api.perplexity.ai",
    "together": "api.together.*",
    "voyageai": "api.voyageai.com",
    "x-ai": "api.x.ai",
    "zai": "api.z.ai",
    "zhipuai": "open.bigmodel.cn",
}
MAKERS_OWN = re.compile(r"gemini-")  # of a provider that has a host, models that only it can run
OPEN_WEIGHTS = re.compile(r".*gpt-oss")  # and of one that has none, models that others run too
# Of these the ids alone: every other spelling would be thousands of rows.
IDS_ALONE = {"openrouter"}
AMOUNTS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "reasoning": "output_reasoning_mtok",
}
# Claude models can keep input for an hour, at twice the price of input (Anthropic's page of prices; the package has
# the price for five minutes alone).
HOUR_FACTOR = 2
DIGITS = re.compile(r"\\d(\{\d+\})?|\[-@\]")


def entries(providers: Iterable[Any]) -> Iterator[JsonObject]:
    """The prices of those providers that have a place in HOSTS, as a file has them."""
    for provider in providers:
        if provider.id in HOSTS:
            earlier: set[str] = set()
            for model in provider.models:
                # The first model that fits is the one that is meant.
                patterns = {pattern for pattern in _patterns(provider, model) if pattern not in earlier}
                earlier |= patterns
                for pattern in sorted(patterns):
                    for since, prices in _prices_by_day(model.prices):
                        yield from _steps(_host(provider.id, pattern), pattern, prices, since)


def _patterns(provider: Any, model: Any) -> set[str]:
    patterns = {model.id.lower()} | (set() if provider.id in IDS_ALONE else set(_globs(model.match)))
    return {pattern for pattern in patterns if " " not in pattern and 0 < len(pattern) <= 200}


def _globs(clause: Any) -> Iterator[str]:
    """The clause in patterns with stars; what cannot be said with them is left out."""
    kind = type(clause).__name__
    if kind == "ClauseOr":
        for inner in clause.or_:
            yield from _globs(inner)
    elif kind == "ClauseAnd":
        yield from _globs(clause.and_[0])
    elif kind == "ClauseRegex":
        glob = re.sub(r"\*+", "*", DIGITS.sub("*", clause.regex.strip("^$"))).replace("\\.", ".")
        if not set(glob) & set("\\[](){}?+|^$"):
            yield glob.lower()
    else:
        begins, ends = kind in ("ClauseContains", "ClauseEndsWith"), kind in ("ClauseContains", "ClauseStartsWith")
        (text,) = vars(clause).values()
        yield f"{'*' * begins}{text.lower()}{'*' * ends}"


def _host(provider_id: str, pattern: str) -> str:
    host = HOSTS[provider_id]
    if not host and OPEN_WEIGHTS.match(pattern):
        return f"api.{provider_id}.com"
    return "" if provider_id == "google" and MAKERS_OWN.match(pattern) else host


def _prices_by_day(prices: Any) -> list[tuple[date | None, Any]]:
    """The prices with the days from which they hold; of those for hours of the day the dearest, all day long."""
    if not isinstance(prices, list):
        return [(None, prices)]
    if any(hasattr(one.constraint, "start_time") for one in prices):
        return [(None, max((one.prices for one in prices), key=lambda price: price.output_mtok))]
    return [(getattr(one.constraint, "start_date", None), one.prices) for one in prices]


def _steps(host: str, model: str, prices: Any, since: date | None) -> Iterator[JsonObject]:
    values: JsonObject = {name: getattr(prices, theirs, None) for name, theirs in AMOUNTS.items()}
    request = (getattr(prices, "requests_kcount", None) or Decimal(0)) / 1000
    if values["input"] is None and values["output"] is None and not request:
        return  # priced by the hour or by the page
    starts = {tier.start for value in values.values() if hasattr(value, "tiers") for tier in value.tiers}
    for above in sorted({0} | starts):
        amounts = {name: _price_above(value, above) for name, value in values.items()}
        amounts |= {name: amounts[name] or Decimal(0) for name in ("input", "output")}
        amounts = {name: value and round(value, PRICE_DECIMALS) for name, value in amounts.items()}
        price = ModelPrice(host=host, model=model, above_input_tokens=above, request=request, **amounts)
        if price.cache_write and "claude" in model:
            price.cache_write_hour = HOUR_FACTOR * price.input
        yield price_entry(price, since)


def _price_above(value: Any, above: int) -> Decimal | None:
    if not hasattr(value, "tiers"):
        return value
    return next((tier.price for tier in reversed(value.tiers) if tier.start <= above and above), value.base)
