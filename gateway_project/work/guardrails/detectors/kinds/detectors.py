"""The types `secrets` and `pii`."""

from collections.abc import Mapping, Sequence

from gateway_project.work.guardrails.detectors.kinds.national_kinds import NATIONAL_KINDS
from gateway_project.work.guardrails.detectors.kinds.personal_kinds import PERSONAL_KINDS
from gateway_project.work.guardrails.detectors.kinds.scanner import Kind, KindScanner
from gateway_project.work.guardrails.detectors.kinds.secret_kinds import SECRET_KINDS
from gateway_project.work.guardrails.detectors.parameters import Parameters

SECRETS = tuple(dict.fromkeys(kind.name for kind in SECRET_KINDS))
_ALL_PERSONAL = (*NATIONAL_KINDS, *PERSONAL_KINDS)
PII = tuple(dict.fromkeys(kind.name for kind in _ALL_PERSONAL))


def compile_secrets(members: Mapping[str, object]) -> KindScanner:
    return _compile(members, SECRET_KINDS, SECRETS)


def compile_pii(members: Mapping[str, object]) -> KindScanner:
    return _compile(members, _ALL_PERSONAL, PII)


def _compile(members: Mapping[str, object], kinds: Sequence[Kind], names: Sequence[str]) -> KindScanner:
    parameters = Parameters(members, names=("kinds", "placeholders"))
    parameters.flag("placeholders", default=False)
    selection = parameters.choices("kinds", names)
    return KindScanner([kind for kind in kinds if kind.name in selection])
