"""Moving rules in their list: buttons of its form, which a script presses for rows that are dragged."""

import re
from collections.abc import Sequence

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from gateway_project.console.audit import record_change
from gateway_project.console.site import console_site
from gateway_project.database.saving import races_as_conflicts
from gateway_project.errors import AccessTestFailed, GatewayError
from rules.models import Rule
from rules.order.services import Direction, MovedRule, move_rule
from rules.viewsets import RuleViewSet

# The value of a button: 5-up, 5-down, 5-before-7 or 5-after-7.
MOVE = re.compile(r"([0-9]{1,18})-(?:(up|down)|(before|after)-([0-9]{1,18}))")


@console_site().page("rules/rule/move/", name="rule-move", part=True)
@require_POST
def move_row(request: HttpRequest) -> HttpResponse:
    """Move the rule, and show the list again as it was filtered."""
    match = MOVE.fullmatch(request.POST.get("move", ""))
    if match is None:
        raise Http404
    direction = Direction(match[2] or match[3])
    try:
        with races_as_conflicts(), transaction.atomic():
            neighbour_id = int(match[4]) if match[4] else None
            moves = move_rule(rule_id=int(match[1]), direction=direction, neighbour_id=neighbour_id)
            _record(request, int(match[1]), moves)
    except AccessTestFailed:
        raise  # the site asks for a reason
    except GatewayError as error:
        messages.error(request, error.sentence)
    return HttpResponseRedirect(f"{reverse('admin:rules_rule_changelist')}?{request.GET.urlencode()}")


def move_address(request: HttpRequest) -> str:
    """Where a button of the list moves a rule; the list is the same after it."""
    return f"{reverse('admin:rule-move')}?{request.GET.urlencode()}"


def add_moves(rules: Sequence[Rule]) -> None:
    """Give each rule of a list the values of its two buttons: they move it beyond its neighbours in that list."""
    for rule, before, after in zip(rules, [None, *rules], [*rules[1:], None], strict=False):
        rule.moves = (
            _move(rule, before, Direction.BEFORE, Direction.UP),
            _move(rule, after, Direction.AFTER, Direction.DOWN),
        )


def _move(rule: Rule, neighbour: Rule | None, beside: Direction, alone: Direction) -> str:
    """The value of a button; at the end of the list the neighbour is not known."""
    if neighbour is None or neighbour.effect != rule.effect:
        return f"{rule.pk}-{alone}"
    return f"{rule.pk}-{beside}-{neighbour.pk}"


def _record(request: HttpRequest, rule_id: int, moves: Sequence[MovedRule]) -> None:
    """Write the moved rule to the audit as any change of a rule, and all that gave way to it as one change."""
    own = [move for move in moves if move.rule.pk == rule_id]
    others = [move for move in moves if move.rule.pk != rule_id]
    for move in own:
        after = RuleViewSet.serialize_row(move.rule)
        _record_positions(request, rule_id, before=(after or {}) | {"position": move.former_position}, after=after)
    if others:
        before = {str(move.rule.pk): move.former_position for move in others}
        after = {str(move.rule.pk): move.rule.position for move in others}
        _record_positions(request, None, before={"positions": before}, after={"positions": after})


def _record_positions(request: HttpRequest, rule_id: int | None, *, before: object, after: object) -> None:
    record_change(
        request, "update", RuleViewSet.resource_name, rule_id, before=before, after=after, attributes=["position"]
    )
