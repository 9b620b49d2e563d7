"""Guardrails: what they look for, and how, in requests, answers and streams."""
