"""The default limits of the settings, where no limit of their own replaces them: in words, and as rows."""

from collections.abc import Collection, Iterable, Iterator
from decimal import Decimal

from django.conf import settings
from django.db.models import Count, Q

from accounts.models import Group, User
from gateway_project.console.display.measures import limit_text
from keys.models import ApiKey
from licensing.models import Limit, Measure
from licensing.querysets import LimitQuerySet
from providers.console.currency import limit_currency

Kind = tuple[str, str]  # measure and window


def default_limits(subject: str, own_kinds: Collection[Kind] = ()) -> str:
    """Those of a key, user, group or provider that has limits of these kinds: '600 requests per minute'; '' if none."""
    amounts = _amounts_of(subject)
    return _join_amounts([_amount(kind, amount) for kind, amount in amounts.items() if kind not in own_kinds])


def default_rows(user: User, keys: Iterable[ApiKey], limits: LimitQuerySet[Limit]) -> Iterator[Limit]:
    """The defaults of a user and of these keys as rows that are not stored; `limits` are all that replace some."""
    overrides = set(limits.order_by().values_list("user_id", "key_id", "measure", "window"))
    subjects: list[tuple[str, User | ApiKey]] = [("user", user), *(("key", key) for key in keys)]
    for name, subject in subjects:
        ids = (user.pk, None) if name == "user" else (None, subject.pk)
        for kind, amount in _amounts_of(name).items():
            if (*ids, *kind) not in overrides:
                yield _row(name, subject, kind, amount)


def _row(name: str, subject: User | ApiKey, kind: Kind, amount: Decimal) -> Limit:
    measure, window = kind
    row = Limit(**{name: subject}, measure=measure, window=window, amount=amount)
    row.currency = limit_currency() if measure == Measure.COST else ""
    return row


def _amounts_of(subject: str) -> dict[Kind, Decimal]:
    amounts = {**settings.GATEWAY_GUARDS.get(subject, {}), **settings.GATEWAY_LIMITS.get(subject, {})}
    return {kind: amount for kind, amount in amounts.items() if amount}


def user_default_limits(user: User, limits: LimitQuerySet[Limit], key_count: int) -> str:
    """The sentence for a user, of whom these are all limits, about the defaults of the user, the keys and the groups.

    '' without any.
    """
    parts = "; ".join(_parts_of(user, limits, key_count))
    return f"Default limits: {parts}." if parts else ""


def _parts_of(user: User, limits: LimitQuerySet[Limit], key_count: int) -> Iterator[str]:
    own = _numbers_of(limits)
    yield from _parts("key", {kind: keys for kind, (keys, _, _) in own.items()}, key_count)
    if of_user := default_limits("user", [kind for kind, (_, users, _) in own.items() if users]):
        yield f"{of_user} for you"
    if any(settings.GATEWAY_LIMITS["group"].values()) and (groups := Group.objects.applying_to(user).count()):
        yield from _parts("group", {kind: limited for kind, (_, _, limited) in own.items()}, groups)
    if without_key := default_limits("login"):
        yield f"{without_key} without a key"


def _parts(subject: str, limited: dict[Kind, int], count: int) -> Iterator[str]:
    """The defaults of all keys or groups, and those of the ones that have no limit of the kind."""
    kinds = [kind for kind, number in limited.items() if number]
    if for_each := default_limits(subject, kinds):
        yield f"{for_each} for each {subject}"
    for kind, amount in settings.GATEWAY_LIMITS[subject].items():
        if amount and kind in kinds and limited[kind] < count:
            yield f"{_amount(kind, amount)} for each other {subject}"


def _numbers_of(limits: LimitQuerySet[Limit]) -> dict[Kind, tuple[int, int, int]]:
    """How many live keys have a limit of each kind, how many users, and how many groups."""
    rows = limits.order_by().values("measure", "window")
    numbers = rows.annotate(
        keys=Count("key", filter=Q(key__is_deleted=False)), users=Count("user"), groups=Count("group")
    )
    return {(row["measure"], row["window"]): (row["keys"], row["users"], row["groups"]) for row in numbers}


def _amount(kind: Kind, amount: Decimal) -> str:
    measure, window = kind
    return limit_text(measure, window, amount, limit_currency() if measure == Measure.COST else "")


def _join_amounts(amounts: list[str]) -> str:
    """1; 1 and 2; 1, 2 and 3."""
    *first, last = amounts or [""]
    return f"{', '.join(first)} and {last}" if first else last
