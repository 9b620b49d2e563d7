"""The console's first page: how the gateway is used, and what needs attention."""

from collections.abc import Mapping

from django.http import HttpRequest

from gateway_project.console.dashboard.attention import attention
from gateway_project.console.dashboard.cards import cards_of, tops_of
from gateway_project.console.dashboard.checklist import first_steps
from gateway_project.console.dashboard.figures import figures_of, period_of_page
from gateway_project.console.display import charts
from gateway_project.json_types import JsonObject
from telemetry.usage.dashboard_sums import PERIODS


def fill(request: HttpRequest, context: JsonObject) -> JsonObject:
    """What the first page shows; unfold calls it (UNFOLD["DASHBOARD_CALLBACK"])."""
    period = PERIODS.get(request.GET.get("period", ""), PERIODS["day"])
    figures = figures_of(period)
    series, page_period = figures["series"], period_of_page(figures)
    cards = cards_of(figures["totals"], page_period)
    return {
        **context,
        "attention": attention(),
        "steps": first_steps(),
        "periods": PERIODS.values(),
        "period": period,
        "figures": figures,
        "cards": cards,
        "cost_card": next(card for card in cards if card.title == "Cost"),
        "requests_chart": charts.lines(series["labels"], {"Requests": series["requests"], "Errors": series["errors"]}),
        "legend": charts.legend(("Requests", "Errors")),
        "cost_chart": charts.bars(series["labels"], series["costs"], unit=_unit(series["costs"])),
        "cost_legend": charts.legend(series["costs"]),
        "tokens_chart": charts.bars(series["labels"], {"Tokens": series["tokens"]}),
        "tops": tops_of(figures["top"], page_period),
    }


def _unit(costs: Mapping[str, object]) -> str:
    """The currency of a chart; several have a legend."""
    return next(iter(costs)) if len(costs) == 1 else ""
