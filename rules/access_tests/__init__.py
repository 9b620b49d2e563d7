"""Access tests: what somebody may or may not use, whatever else changes."""
