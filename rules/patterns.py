"""Patterns of rules: those of model names that keys have, too."""

from gateway_project.name_patterns import compile_pattern

__all__ = ["compile_pattern"]
