"""An explanation as what its page shows: sentences, facts and tables, with links to what is named."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from django.urls import reverse

from gateway_project.json_types import JsonObject
from providers.models import Provider


class Cell(NamedTuple):
    """A text, perhaps with a page behind it, or as a label of this kind."""

    text: object
    page: str = ""
    label: str = ""


class Table(NamedTuple):
    """Rows under headings, with a note below; without rows the note alone is shown."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


def shown(document: JsonObject, *, outcome: str = "") -> JsonObject:
    """The template context of an explanation; `outcome` is that of a request that has ended."""
    error = document["error"]
    verdict = outcome.replace("_", " ") or ("served" if document["allowed"] else "refused")
    return {
        "sentences": document["sentences"],
        "verdict": Cell(verdict, label="success" if document["allowed"] else "danger"),
        "error": error and f"{error['code']} {error['exception']}",
        "facts": list(_facts(document, has_ended=bool(outcome))),
        "tables": [table for table in _tables(document, has_ended=bool(outcome)) if table.rows or table.note],
        "outgoing": _outgoing(document["outgoing"]),
    }


def _facts(document: JsonObject, *, has_ended: bool) -> Iterator[tuple[str, Sequence[Cell]]]:
    """Names with what belongs to them."""
    caller, cache, estimate = document["caller"], document["cache"], document["estimate"]
    yield "User", [Cell(caller["userName"] or "unknown", _page("accounts_user", caller["userId"]))]
    credential = "none: a login or a token" if caller["userId"] else "unknown"
    yield "API key", [Cell(caller["keyName"] or credential, _page("keys_apikey", caller["keyId"]))]
    groups = [Cell(group["name"], _page("accounts_group", group["id"])) for group in caller["groups"]]
    yield "Groups", groups or [Cell("none")]
    yield "May send work", [Cell({True: "yes", False: "no", None: "unknown"}[caller["mayWork"]])]
    yield "Cache", [Cell(cache["verdict"])]
    if cache["key"]:
        yield "Cache key", [Cell(cache["key"])]
        yield "Shared by", [Cell(cache["scope"])]
    if cache["ageSeconds"] is not None:
        yield "Age of the answer", [Cell(f"{cache['ageSeconds']:,} s")]
    estimated, at_most = ("", "") if has_ended else (" (estimated)", " (at most)")
    yield f"Tokens in{estimated}", [Cell(f"{estimate['inputTokens']:,}")]
    yield f"Tokens out{at_most}", [Cell(f"{estimate['outputTokens']:,}")]
    cost = estimate["cost"]
    yield f"Cost{at_most}", [Cell("unknown" if cost is None else f"{cost} {estimate['currency']}".rstrip())]


def _tables(document: JsonObject, *, has_ended: bool) -> Iterator[Table]:
    targets = [*document["candidates"], *document["leftOut"]]
    pages = _provider_pages(row["provider"] for row in targets)
    yield Table("Rules, in the order of judging", ("Rule", "Effect", "Matches", "Why"), _rules(document))
    candidates = [[Cell(row["position"]), *_target(row, pages)] for row in document["candidates"]]
    none = "" if candidates else f"No provider {'was' if has_ended else 'would be'} asked."
    yield Table("Providers, in the order of asking", ("", "Provider", "Model", "Why"), candidates, none)
    omissions = [_target(row, pages) for row in document["leftOut"]]
    yield Table("Left out", ("Provider", "Model", "Why"), omissions)
    yield Table("Limits, without this request", LIMIT_HEADINGS, [_limit(row) for row in document["limits"]])


LIMIT_HEADINGS = ("Limit", "Amount", "Used", "Reserved", "Left", "Resets")


def _rules(document: JsonObject) -> list[list[Cell]]:
    return [
        [
            Cell(row["name"], _page("rules_rule", row["id"])),
            Cell(row["effect"]),
            Cell("yes", label="danger" if row["effect"] == "deny" else "success") if row["matched"] else Cell("no"),
            Cell(row["reason"]),
        ]
        for row in document["rules"]
    ]


def _target(row: JsonObject, pages: Mapping[str, str]) -> list[Cell]:
    return [Cell(row["provider"], pages.get(row["provider"], "")), Cell(row["model"] or ""), Cell(row["reason"])]


def _limit(row: JsonObject) -> list[Cell]:
    amounts = [_amount(row[name]) for name in ("amount", "used", "reserved", "remaining")]
    amounts[0] = amounts[0] if row["amount"] is not None else Cell("unlimited")
    resets = (row["resets"] or "").replace("T", " ").removesuffix("Z")
    return [Cell(row["limit"]), *amounts, Cell(f"{resets} UTC" if resets else "")]


def _amount(value: int | str | None) -> Cell:
    return Cell("" if value is None else f"{value:,}" if isinstance(value, int) else value)


def _outgoing(outgoing: JsonObject | None) -> JsonObject | None:
    """The request to the provider as texts."""
    if outgoing is None:
        return None
    body = outgoing["body"]
    text = body if isinstance(body, str) else json.dumps(body, indent=2, ensure_ascii=False)
    headers = "\n".join(f"{name}: {value}" for name, value in outgoing["headers"].items())
    return {"url": outgoing["url"], "headers": headers, "body": text}


def _provider_pages(names: Iterable[str]) -> dict[str, str]:
    rows = Provider.objects.filter(name__in=set(names)).values_list("name", "pk")
    return {name: _page("providers_provider", number) for name, number in rows}


def _page(table: str, row_id: int | None) -> str:
    return reverse(f"admin:{table}_change", args=[row_id]) if row_id else ""
