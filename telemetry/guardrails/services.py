"""Changes to what is kept of guardrails."""

from telemetry.models import GuardrailSample


def delete_samples_of(guardrail_id: int) -> int:
    """Delete all samples of a guardrail; how many there were."""
    return GuardrailSample.objects.filter(guardrail_id=guardrail_id).delete()[0]
