"""Asking for access, deciding about it, and the end of what was granted for a time."""
