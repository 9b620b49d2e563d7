"""An explanation as what its page shows: sentences, facts and tables, with links to what is named."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from django.urls import reverse

from gateway_project.console.display.money import money
from gateway_project.console.display.names import Name, link_names
from gateway_project.console.display.times import SECONDS, utc_time
from gateway_project.console.period import ANY_TIME, Period, row_page, with_query
from gateway_project.json_types import JsonObject
from providers.console.currency import limit_currency
from providers.console.model_links import model_page, price_form
from providers.models import Provider


class Cell(NamedTuple):
    """A text, perhaps with a page behind it, or as a label of this kind."""

    text: object
    page: str = ""
    label: str = ""


class Pages(NamedTuple):
    """Where names lead: to pages of rows, which get the period; `providers` has the ids of those that exist."""

    providers: Mapping[str, int]
    period: Period

    def row(self, table: str, row_id: int | None) -> str:
        return row_page(table, row_id, self.period)

    def model(self, model: str, provider_id: int | None) -> str:
        return "" if provider_id is None else model_page(model, provider_id, self.period)


class Table(NamedTuple):
    """Rows under headings, with a note below; without rows the note alone is shown."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    name: str = ""  # the anchor of its place on the page


def template_values(
    document: JsonObject, *, outcome: str = "", price_page: str = "", period: Period = ANY_TIME
) -> JsonObject:
    """The template context of an explanation; the pages that it links to get the period.

    `outcome` is that of a request that has ended, and `price_page` the form for the price that it lacked.
    """
    error = document["error"]
    targets = [*document["candidates"], *document["leftOut"]]
    providers = dict(Provider.objects.filter(name__in={row["provider"] for row in targets}).values_list("name", "pk"))
    pages = Pages(providers, period)
    if not outcome:
        price_page = _price_page(document["candidates"], providers)
    names = list(_names(document, pages))
    verdict = outcome.replace("_", " ") or ("served" if document["allowed"] else "refused")
    return {
        "sentences": [link_names(sentence, names) for sentence in document["sentences"]],
        "verdict": Cell(verdict, label="success" if document["allowed"] else "danger"),
        "error": error and f"{error['code']} {error['exception']}",
        "facts": list(_facts(document, pages, price_page, has_ended=bool(outcome))),
        "tables": [table for table in _tables(document, pages, has_ended=bool(outcome)) if table.rows or table.note],
        "outgoing": _show_outgoing(document["outgoing"]),
    }


def _names(document: JsonObject, pages: Pages) -> Iterator[Name]:
    """What the sentences may name."""
    caller = document["caller"]
    yield Name("user", caller["userName"] or "", pages.row("accounts_user", caller["userId"]))
    yield Name("key", caller["keyName"] or "", pages.row("keys_apikey", caller["keyId"]))
    yield Name("rules", "rules", "#rules")
    for kind, table, rows in (
        ("group", "accounts_group", caller["groups"]),
        ("rule", "rules_rule", document["rules"]),
        ("guardrail", "rules_guardrail", document["guardrails"]),
    ):
        yield from (Name(kind, row["name"], pages.row(table, row["id"])) for row in rows)
    for row in (*document["candidates"], *document["leftOut"]):
        provider, model, _ = _target(row, pages)
        yield from (Name("provider", row["provider"], provider.page), Name("model", row["model"] or "", model.page))
    yield from (Name("limit", row["limit"], _limit_page(row)) for row in document["limits"])


def _limit_page(row: JsonObject) -> str:
    return with_query(reverse("admin:limit-by-name"), {"name": row["name"]})


def _price_page(candidates: Sequence[JsonObject], providers: Mapping[str, int]) -> str:
    """The form for the price of the first target; '' without one."""
    first = candidates[0] if candidates else {"model": "", "provider": ""}
    return price_form(first["model"], providers.get(first["provider"])) if first["model"] else ""


def _facts(
    document: JsonObject, pages: Pages, price_page: str = "", *, has_ended: bool
) -> Iterator[tuple[str, Sequence[Cell]]]:
    """Names with what belongs to them."""
    caller, cache, estimate = document["caller"], document["cache"], document["estimate"]
    yield "User", [Cell(caller["userName"] or "unknown", pages.row("accounts_user", caller["userId"]))]
    credential = "none: a login or a token" if caller["userId"] else "unknown"
    yield "API key", [Cell(caller["keyName"] or credential, pages.row("keys_apikey", caller["keyId"]))]
    groups = [Cell(group["name"], pages.row("accounts_group", group["id"])) for group in caller["groups"]]
    yield "Groups", groups or [Cell("none")]
    yield "May send work", [Cell({True: "yes", False: "no", None: "unknown"}[caller["mayWork"]])]
    yield "Cache", [Cell(cache["verdict"])]
    if cache["key"]:
        yield "Cache key", [Cell(cache["key"])]
        yield "Shared by", [Cell(cache["scope"] or "not recorded")]
    if cache["ageSeconds"] is not None:
        yield "Age of the answer", [Cell(f"{cache['ageSeconds']:,} s")]
    estimated, at_most = ("", "") if has_ended else (" (estimated)", " (at most)")
    yield f"Tokens in{estimated}", [Cell(f"{estimate['inputTokens']:,}")]
    yield f"Tokens out{at_most}", [Cell(f"{estimate['outputTokens']:,}")]
    cost = estimate["cost"]
    text = "unknown" if cost is None else money(Decimal(cost), estimate["currency"])
    yield f"Cost{at_most}", [Cell(text, price_page if cost is None else "")]


def _tables(document: JsonObject, pages: Pages, *, has_ended: bool) -> Iterator[Table]:
    yield Table(
        "Rules, in the order of judging", ("Rule", "Effect", "Matches", "Why"), _rules(document, pages), name="rules"
    )
    candidates = [[Cell(row["position"]), *_target(row, pages)] for row in document["candidates"]]
    none = "" if candidates else f"No provider {'was' if has_ended else 'would be'} asked."
    yield Table("Providers, in the order of asking", ("", "Provider", "Model", "Why"), candidates, none)
    omissions = [_target(row, pages) for row in document["leftOut"]]
    yield Table("Left out", ("Provider", "Model", "Why"), omissions)
    yield Table("Limits, without this request", LIMIT_HEADINGS, [_limit(row) for row in document["limits"]])
    yield Table("Guardrails", GUARDRAIL_HEADINGS, [_guardrail(row, pages) for row in document["guardrails"]])


GUARDRAIL_HEADINGS = ("Guardrail", "Action", "Searches", "Result", "Matches")
LIMIT_HEADINGS = ("Limit", "Amount", "Used", "Reserved", "Left", "Resets")


def _rules(document: JsonObject, pages: Pages) -> list[list[Cell]]:
    return [
        [
            Cell(row["name"], pages.row("rules_rule", row["id"])),
            Cell(row["effect"]),
            Cell("yes", label="danger" if row["effect"] == "deny" else "success") if row["matched"] else Cell("no"),
            Cell(row["reason"]),
        ]
        for row in document["rules"]
    ]


def _target(row: JsonObject, pages: Pages) -> list[Cell]:
    """The provider, the model and the reason."""
    provider_id, model = pages.providers.get(row["provider"]), row["model"] or ""
    provider = Cell(row["provider"], pages.row("providers_provider", provider_id))
    return [provider, Cell(model, pages.model(model, provider_id)), Cell(row["reason"])]


def _limit(row: JsonObject) -> list[Cell]:
    amounts = [_amount(row[name]) for name in ("amount", "used", "reserved", "remaining")]
    amounts[0] = amounts[0] if row["amount"] is not None else Cell("unlimited")
    resets = datetime.fromisoformat(row["resets"]) if row["resets"] else None
    return [Cell(row["limit"], _limit_page(row)), *amounts, Cell(utc_time(resets, f"{SECONDS} UTC"))]


def _guardrail(row: JsonObject, pages: Pages) -> list[Cell]:
    matches = ", ".join(f"{count:,} × {category}" for category, count in row["counts"].items())
    return [
        Cell(row["name"], pages.row("rules_guardrail", row["id"])),
        Cell(row["action"] or "not recorded"),
        Cell(", ".join(row["directions"])),
        Cell(row["result"] or "not known before"),
        Cell(matches),
    ]


def _amount(value: int | str | None) -> Cell:
    """A number, or money, which is a text."""
    if isinstance(value, str):
        return Cell(money(Decimal(value), limit_currency()))
    return Cell("" if value is None else f"{value:,}")


def _show_outgoing(outgoing: JsonObject | None) -> JsonObject | None:
    """The request to the provider as texts."""
    if outgoing is None:
        return None
    body = outgoing["body"]
    text = body if isinstance(body, str) else json.dumps(body, indent=2, ensure_ascii=False)
    headers = "\n".join(f"{name}: {value}" for name, value in outgoing["headers"].items())
    return {"url": outgoing["url"], "headers": headers, "body": text}
