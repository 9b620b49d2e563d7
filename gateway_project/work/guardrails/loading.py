"""Loads the enabled guardrails, each compiled once as long as its type and parameters stay the same."""

import logging
from json import dumps

from gateway_project.errors import ValidationError
from gateway_project.work.guardrails.book import GuardrailBook, GuardrailSnapshot, audience_of
from gateway_project.work.guardrails.detectors import Detector, Match
from gateway_project.work.guardrails.remote.compilation import compile_guardrail
from gateway_project.work.guardrails.remote.services import Remote, Service, service_of
from providers.credentials import CredentialUnreadable
from rules.guardrails.models import Direction, FailMode, Guardrail

log = logging.getLogger("gateway.snapshot")

Detectors = dict[str, Detector]  # by type and parameters


class Broken(Detector):
    """Replaces a detector whose stored parameters cannot be used: it cannot search."""

    longest = 0
    is_broken = True

    def scan(self, text: str, start: int = 0) -> list[Match]:
        raise RuntimeError("The stored parameters cannot be used.")


BROKEN = Broken()


def load_guardrails(before: GuardrailBook | None) -> GuardrailBook | None:
    """The enabled guardrails; None if there are none. The fail mode decides about those that cannot be compiled."""
    former: Detectors = {} if before is None else {record.source: record.detector for record in before.guardrails}
    detectors: Detectors = {}
    guardrails = [_guardrail(row, former, detectors) for row in Guardrail.objects.enabled().in_order()]
    return GuardrailBook(guardrails) if guardrails else None


def _guardrail(row: Guardrail, former: Detectors, detectors: Detectors) -> GuardrailSnapshot:
    source = _source(row)
    if source not in detectors:
        detectors[source] = former.get(source) or _detector(row)
    return _snapshot(row, detectors[source])


def guardrail_record(row: Guardrail) -> GuardrailSnapshot:
    """The guardrail of a row, stored or not, as requests use it."""
    return _snapshot(row, _detector(row))


def _source(row: Guardrail) -> str:
    return dumps([row.type, row.parameters], sort_keys=True)


def _snapshot(row: Guardrail, detector: Detector) -> GuardrailSnapshot:
    parameters = row.parameters if isinstance(row.parameters, dict) else {}
    return GuardrailSnapshot(
        id=row.pk,
        name=row.name,
        position=row.position,
        action=row.action,
        source=_source(row),
        detector=detector,
        service=_service(row) if isinstance(detector, Remote) else None,
        audience=audience_of(row.applies_to if isinstance(row.applies_to, dict) else {}),
        is_for_requests=row.direction != Direction.RESPONSE,
        is_for_answers=row.direction != Direction.REQUEST,
        placeholders=parameters.get("placeholders") is True,
        sample_days=row.sample_days if row.samples else 0,
        fails_closed=row.fail_mode == FailMode.CLOSED,
    )


def _detector(row: Guardrail) -> Detector:
    try:
        return compile_guardrail(row.type, row.parameters)
    except ValidationError as error:
        log.error("The guardrail %s cannot run: %s: %s", row.name, error.field, error.message)
    except Exception:  # a row that the services have not written; the others are loaded
        log.exception("The guardrail %s cannot run.", row.name)
    return BROKEN


def _service(row: Guardrail) -> Service:
    try:
        secret = row.opened_secret()
    except CredentialUnreadable:
        log.error(
            "The secret of the guardrail %s cannot be decrypted, so its requests are not signed. Enter the secret "
            "again.",
            row.name,
        )
        secret = ""
    return service_of(row.pk, row.type, row.parameters, secret)
