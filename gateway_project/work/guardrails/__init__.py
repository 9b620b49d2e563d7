"""What a guardrail looks for and how, in requests, answers and streams."""
