"""What Claude models can do, by the beginning of their names, as far as requests depend on it.

Sources: Anthropic's models overview (August and November 2026: maximum output, thinking), its page on adaptive thinking
(which models take budgets, which only adaptive thinking, which always think), the parameter notes of Opus 4.7 (no
temperature, top_p, top_k) and of Opus 4.1 (temperature or top_p, with every model that came between the two; issue
15097 of BerriAI/litellm has the refusal), and for retired models the overviews of their time.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

FAMILY = "claude-"


@dataclass(frozen=True, slots=True)
class Claude:
    """One line of models. `thinking` is none, budget or adaptive. `rests`: it thinks only if the request says so."""

    max_output: int | None
    thinking: str = "adaptive"
    rests: bool = True
    always_thinks: bool = False
    samples: bool = False  # takes temperature, top_p and top_k
    either: bool = False  # takes temperature or top_p, not both


RETIRED = Claude(4_096, "none", samples=True)
BUDGET = Claude(64_000, "budget", samples=True)
FOUR_POINT_FIVE = Claude(64_000, "budget", samples=True, either=True)
FOUR_POINT_SIX = Claude(128_000, samples=True, either=True)
FOUR_POINT_SEVEN = Claude(128_000)
ALWAYS_THINKS = Claude(128_000, rests=False, always_thinks=True)
NEWEST = Claude(128_000, rests=False)
# The longest beginning that fits a name counts. Unknown models are treated like the newest.
BY_BEGINNING = {
    "": NEWEST,
    "1": RETIRED,
    "2": RETIRED,
    "instant": RETIRED,
    "3-": RETIRED,
    "3-5-": Claude(8_192, "none", samples=True),
    "3-7-": BUDGET,
    "4-opus": Claude(32_000, "budget", samples=True),
    "4-sonnet": BUDGET,
    "opus-4": Claude(32_000, "budget", samples=True),
    "opus-4-1": Claude(32_000, "budget", samples=True, either=True),
    "sonnet-4": BUDGET,
    "sonnet-4-5": FOUR_POINT_FIVE,
    "haiku-4": FOUR_POINT_FIVE,
    "opus-4-5": FOUR_POINT_FIVE,
    "opus-4-6": FOUR_POINT_SIX,
    "sonnet-4-6": FOUR_POINT_SIX,
    "opus-4-7": FOUR_POINT_SEVEN,
    "opus-4-8": FOUR_POINT_SEVEN,
    "opus-5-5": ALWAYS_THINKS,
    "fable-": ALWAYS_THINKS,
    "mythos-": ALWAYS_THINKS,
}
# Models of other vendors with this API: only what every server of it takes.
UNKNOWN = Claude(None, "budget", samples=True)
# A model's name on Bedrock, with or without ARN and region. Models of other vendors get no thinking parameters.
BEDROCK = re.compile(r"(?:arn:.*/)?(?:[a-z]+(?:-[a-z]+)?\.)?[a-z0-9]+\.[a-z]")
NO_CLAUDE = Claude(None, "none", samples=True)


@lru_cache(maxsize=1024)
def claude(model: str, *, on_bedrock: bool = False) -> Claude:
    """The known facts of a model. A region, a vendor or an ARN may precede its own name.

    Only on Bedrock does a dot in the name separate the vendor.
    """
    _, family, name = model.lower().rpartition(FAMILY)
    if not family:
        return NO_CLAUDE if on_bedrock and BEDROCK.match(model) else UNKNOWN
    return BY_BEGINNING[max((beginning for beginning in BY_BEGINNING if name.startswith(beginning)), key=len)]
