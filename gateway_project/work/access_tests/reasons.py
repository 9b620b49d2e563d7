"""Why the request of an access test would be served or refused: the sentences of explanations."""

from collections.abc import Iterator

from gateway_project.work.explain.remedies import rule_remedies
from gateway_project.work.explain.rules import Consideration, is_for, shown_to
from gateway_project.work.explain.sentences import rules_sentences
from gateway_project.work.explain.subjects import Subject
from gateway_project.work.snapshot.records import Snapshot
from gateway_project.work.stages.authentication import FEATURE
from gateway_project.work.stages.rules import Question, QuestionAnswer, judge_question
from keys.restrictions import WRONG_MODEL
from rules.access_tests.models import AccessTest
from rules.matching import RuleBook


def missing_subject(test: AccessTest) -> str:
    """Why there is nobody to send the request."""
    if test.group_id is not None:
        return f"The group with the id {test.group_id} was deleted."
    if test.key_name:
        return f"The user has no usable key named {test.key_name}."
    return f"The user with the id {test.user_id} was deleted."


def unusable_subject(subject: Subject) -> str:
    """Why caller or key may not send work."""
    caller, key = subject
    if not caller.usable:
        return f"User {caller.name} is inactive or deleted."
    if FEATURE not in caller.features:
        return f"User {caller.name} has no role with the feature {FEATURE}."
    if key is not None and FEATURE not in key.permissions:
        return f"Key {key.name} does not have the permission {FEATURE}."
    return f"Key {key.name if key is not None else ''} is locked, has expired or is not valid yet."


def reasons_of(question: Question, snapshot: Snapshot) -> Iterator[str]:
    """Why a request of somebody who may send work would be served or refused."""
    answer = judge_question(question, snapshot)
    if answer.permitted is None:
        yield WRONG_MODEL.format(model=answer.name)
    elif answer.rule is None:
        yield from _refusal(question, answer, snapshot)
    elif answer.targets:
        first = answer.targets[0]
        yield from rules_sentences(Consideration((), 0, answer.name), answer.rule.name)
        yield f"Provider {first.provider.name} may serve {first.model}."
    else:
        yield _why_none(question, answer, snapshot)


def _refusal(question: Question, answer: QuestionAnswer, snapshot: Snapshot) -> Iterator[str]:
    caller = question.caller
    yield f"No rule allows {caller.name} to use the model {answer.name}."
    if not answer.permitted:
        yield _why_none(question, answer, snapshot)
    book = RuleBook(rule for rule in snapshot.rules.rules if is_for(rule, caller))
    considered = book.consider_rules(answer.name, answer.permitted or (), user_id=caller.id, group_ids=caller.group_ids)
    consideration = shown_to(caller, considered, answer.name, with_all=False)
    is_alias = snapshot.aliases.resolve(question.model) is not None
    general, *particular = rule_remedies(consideration, caller, is_alias=is_alias)
    is_denied = any(verdict.has_matched and verdict.rule.denies for verdict in consideration.rules)
    yield from [general] if is_denied else particular


def _why_none(question: Question, answer: QuestionAnswer, snapshot: Snapshot) -> str:
    """Why no provider serves."""
    if answer.permitted:
        return "This version does not know the format of the model's providers."
    if question.provider_id is None:
        return f"No enabled provider offers the model {answer.name}."
    provider = snapshot.providers.get(question.provider_id)
    if provider is None:
        return f"The provider with the id {question.provider_id} is disabled or deleted."
    return f"Provider {provider.name} does not offer the model {answer.name}."
