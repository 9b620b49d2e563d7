"""From a guardrail's type and parameters to its detector, or to what stands for it while a service is asked."""

from collections.abc import Mapping

from gateway_project.work.guardrails.detectors import Detector, compile_detector
from gateway_project.work.guardrails.remote.services import HTTP, PROVIDER, compile_http, compile_provider


def compile_guardrail(type: str, parameters: Mapping[str, object]) -> Detector:
    """Raises ValidationError, whose field is that of the wrong parameter."""
    if type == HTTP:
        return compile_http(parameters)
    if type == PROVIDER:
        return compile_provider(parameters)
    return compile_detector(type, parameters)
