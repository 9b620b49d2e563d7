"""Changes to what is kept of guardrails."""

from telemetry.models import GuardrailSample

BATCH = 1000


def delete_samples_of(guardrail_id: int) -> int:
    """Delete all samples of a guardrail; how many there were."""
    samples, count = GuardrailSample.objects.filter(guardrail_id=guardrail_id), 0
    while batch := list(samples.values_list("pk", flat=True)[:BATCH]):
        count += GuardrailSample.objects.filter(pk__in=batch).delete()[0]
    return count
