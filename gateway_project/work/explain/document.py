"""The explanation of a request as a document."""

from accounts.models import Group
from gateway_project.json_types import JsonObject
from gateway_project.work.explain import estimate, limits, rules
from gateway_project.work.explain.candidates import candidate_rows, omitted_rows
from gateway_project.work.explain.outgoing import outgoing_of
from gateway_project.work.explain.sentences import Facts, sentences_of
from gateway_project.work.explain.subjects import Subject
from gateway_project.work.explain.walk import Walk
from gateway_project.work.guardrails.reports import explained_guardrails
from gateway_project.work.stages.authentication import FEATURE


def describe_decision(walk: Walk, subject: Subject, *, with_all: bool) -> JsonObject:
    """The decision as data and as sentences; `with_all`: with what is for others, and limits of credentials."""
    consideration = rules.consider_rules(walk, with_all=with_all)
    readings, cache = limits.readings_of(walk, with_all=with_all), estimate.cache_row(walk)
    figures = estimate.estimate_of(walk)
    facts = Facts(walk, subject, consideration, readings, figures, cache["ageSeconds"])
    error = walk.exchange.error
    return {
        "allowed": walk.is_allowed,
        "sentences": sentences_of(facts),
        "error": None if error is None else error.body(),
        "caller": _caller(subject),
        "rules": rules.rows_of(consideration, walk.gateway.snapshot),
        "otherRules": consideration.hidden,
        "candidates": candidate_rows(walk),
        "leftOut": omitted_rows(walk, with_all=with_all),
        "limits": limits.rows_of(readings, walk),
        "cache": cache,
        "guardrails": explained_guardrails(walk.exchange.guarding),
        "outgoing": outgoing_of(walk),
        "estimate": (figures or estimate.Estimate()).row(),
    }


def _caller(subject: Subject) -> JsonObject:
    caller, key = subject
    groups = Group.objects.filter(pk__in=caller.group_ids).order_by("name").values_list("pk", "name")
    return {
        "userId": caller.id,
        "userName": caller.name,
        "keyId": None if key is None else key.id,
        "keyName": None if key is None else key.name,
        "groups": [{"id": group_id, "name": name} for group_id, name in groups],
        "mayWork": FEATURE in caller.features and (key is None or FEATURE in key.permissions),
    }
