"""What a draft of guardrails would have found in recorded texts."""
