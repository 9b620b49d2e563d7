"""The results of guardrails: counts for each hour."""
