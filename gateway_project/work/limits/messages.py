"""The messages of 429s: the only place that turns a limit into words."""

from datetime import UTC, datetime, timedelta

from gateway_project.console.display.measures import NOUNS
from gateway_project.errors import ActiveUseLimitReached, LimitError, QuotaExceeded, RateLimited, ValidationError
from gateway_project.wording import plural
from gateway_project.work.limits.checks import MINUTE, RESERVE, USE, CheckStatus, LimitCheck
from gateway_project.work.limits.kinds import CONCURRENT, COST, LimitDescription, money

ADJECTIVES = {"minute": "", "day": "daily ", "month": "monthly "}


def limit_error(refused: CheckStatus, now: float, currency: str = "") -> LimitError:
    """The error for a limit that refused a request now; it carries the limit and the time at which the limit resets.

    `currency` is that of the prices; '' if there are none, or several.
    """
    check, _, seconds = refused
    resets_at = datetime.fromtimestamp(now, UTC) + timedelta(seconds=seconds)
    error: type[LimitError] = RateLimited if check.window_seconds in (0, MINUTE) else QuotaExceeded
    if check.kind == USE:
        error = ActiveUseLimitReached
    return error(
        message_of(refused, resets_at, currency),
        retry_after=seconds,
        permanent=_never_fits(check),
        limit=check.limit,
        resets_at=resets_at,
    )


def unpriced_error(limit: LimitDescription, provider: str, model: str) -> QuotaExceeded:
    """The error for a model without a price, which a cost limit refuses."""
    message = (
        f"The model {model} of {provider} has no price, and the {name_of(limit)} refuses work without one. "
        "Use another model, or ask an administrator to set a price."
    )
    return QuotaExceeded(message, permanent=True, limit=limit)


def strict_error(limit: LimitDescription, problem: str, field: str) -> ValidationError:
    """The error for a request whose largest use is not known under a strict limit; `problem` says what to change."""
    return ValidationError(f"The {name_of(limit)} is strict: {problem}", field=field)


def message_of(refused: CheckStatus, resets_at: datetime, currency: str = "") -> str:
    """Which limit refused the request, whose it is, and what the client can do."""
    check, limit = refused.check, refused.check.limit
    if check.kind == USE:
        return _active_uses(check.amount, refused.reset_seconds)
    if limit.measure == CONCURRENT:
        owner = f"{limit.subject.kind} {limit.name} ({quantity(limit, check.amount)})"
        return f"The limit of {owner} is reached. Try again when one of its requests has finished."
    per = " per minute" if limit.window == "minute" else ""
    size = f"({quantity(limit, check.amount, currency)}{per})"
    name = f"{name_of(limit)} {size}"
    need = f"{'cost' if limit.measure == COST else 'use'} up to {quantity(limit, check.minimum, currency)}"
    if _never_fits(check):
        return (
            f"This request may {need}, more than the {name} allows. Ask for a shorter answer (max_tokens), or send "
            "less input."
        )
    has_rest = check.kind == RESERVE and refused.remaining > 0
    state = f"has too little left for this request, which may {need}" if has_rest else "is used up"
    return f"The {name} {state}. It resets {moment(limit, resets_at)}."


def name_of(limit: LimitDescription) -> str:
    """Which limit it is, and whose: daily cost limit of user bob."""
    return f"{ADJECTIVES.get(limit.window, '')}{NOUNS[limit.measure]} limit of {limit.subject.kind} {limit.name}"


def quantity(limit: LimitDescription, amount: int, currency: str = "") -> str:
    """An amount with its unit: 1 request, 5,000 tokens, 0.0005 USD."""
    if limit.measure == COST:
        return f"{money(amount):f} {currency}".rstrip()
    return plural(amount, NOUNS[limit.measure])


def moment(limit: LimitDescription, resets_at: datetime) -> str:
    """When a window ends, rounded to the minute, since windows end on one: at 12:01 UTC, on 1 December, 00:00 UTC."""
    at = datetime.fromtimestamp(round(resets_at.timestamp() / MINUTE) * MINUTE, UTC)
    return f"at {at:%H:%M} UTC" if limit.window == "minute" else f"on {at.day} {at:%B}, {at:%H:%M} UTC"


def _active_uses(amount: int, seconds: int) -> str:
    free = f"may become free in {plural(seconds, 'second')}."
    if amount == 1:
        return f"The only active use of the licence is taken. It {free}"
    return f"All {amount:,} active uses of the licence are taken. One {free}"


def _never_fits(check: LimitCheck) -> bool:
    return check.kind == RESERVE and check.minimum > check.amount
