"""From a guardrail's type and parameters to its detector."""

from collections.abc import Callable, Mapping

from gateway_project.errors import ValidationError
from gateway_project.work.guardrails.detectors.base import Detector
from gateway_project.work.guardrails.detectors.injection import compile_injection
from gateway_project.work.guardrails.detectors.json_answers import compile_json
from gateway_project.work.guardrails.detectors.kinds.detectors import compile_pii, compile_secrets
from gateway_project.work.guardrails.detectors.patterns import compile_patterns
from gateway_project.work.guardrails.detectors.topics import compile_topic
from gateway_project.work.guardrails.detectors.words import compile_words

_COMPILERS: Mapping[str, Callable[[Mapping[str, object]], Detector]] = {
    "pattern": compile_patterns,
    "words": compile_words,
    "secrets": compile_secrets,
    "pii": compile_pii,
    "json": compile_json,
    "topic": compile_topic,
    "injection": compile_injection,
}
LOCAL_TYPES = tuple(_COMPILERS)


def compile_detector(type: str, parameters: Mapping[str, object]) -> Detector:
    """The detector of a local type; raises ValidationError, whose field is that of the wrong parameter."""
    if type not in _COMPILERS:
        raise ValidationError(f"must be one of {', '.join(LOCAL_TYPES)}.", field="type")
    return _COMPILERS[type](parameters)
