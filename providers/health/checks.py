"""Active checks of providers: the turns of the processes, and the results."""

from datetime import datetime, timedelta

from django.db import IntegrityError, transaction

from providers.health.models import HealthCheck


def claim_check(provider_id: int, *, every: float, now: datetime) -> bool:
    """Whether the caller is to check the provider now: of all processes one, and not before the last turn is over."""
    due = HealthCheck.objects.filter(provider_id=provider_id, begun_at__lte=now - timedelta(seconds=every))
    if due.update(begun_at=now):
        return True
    if HealthCheck.objects.filter(provider_id=provider_id).exists():
        return False
    try:
        with transaction.atomic():
            HealthCheck.objects.create(provider_id=provider_id, begun_at=now)
    except IntegrityError:  # another process was first, or the provider was deleted
        return False
    return True


def store_result(provider_id: int, *, model: str, exception: str, duration_ms: float) -> bool:
    """Store how a check ended, without an exception if the provider answered; whether that is another result."""
    has_answered = not exception
    checks = HealthCheck.objects.filter(provider_id=provider_id)
    is_same = checks.filter(has_answered=has_answered).exists()
    checks.update(model=model, has_answered=has_answered, exception=exception, duration_ms=duration_ms)
    return not is_same
