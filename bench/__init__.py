"""Measures the gateway on loopback, next to a bare Django pass-through: `python -m bench`."""
