"""Detectors: pure functions that find in a text what a guardrail is about. No ORM, HTTP, clock or settings."""

from gateway_project.work.guardrails.detectors.base import CONTEXT, MAX_SPAN, Detector, Match
from gateway_project.work.guardrails.detectors.compilation import LOCAL_TYPES, compile_detector

__all__ = ["CONTEXT", "LOCAL_TYPES", "MAX_SPAN", "Detector", "Match", "compile_detector"]
