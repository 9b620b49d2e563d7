"""What guardrails have come to: counts for each hour."""
