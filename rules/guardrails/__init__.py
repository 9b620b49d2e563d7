"""Guardrails: what requests and answers are searched for, and what happens to what is there."""
