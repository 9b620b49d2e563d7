"""Guardrails that ask another service: over HTTP, or a model of a provider."""
