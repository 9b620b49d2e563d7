"""Access requests: what users ask for, and what became of it."""
