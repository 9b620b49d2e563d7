"""The last active check of each provider: which process began it, so that no other one does, and how it ended."""

from django.db import models
from django.utils import timezone


class HealthCheck(models.Model):
    """The last active check of a provider."""

    provider = models.OneToOneField("providers.Provider", on_delete=models.CASCADE, related_name="health_check")
    begun_at = models.DateTimeField(default=timezone.now)
    model = models.CharField(max_length=200, blank=True, default="")
    has_answered = models.BooleanField(null=True, blank=True)  # null: it has not ended, or its process died
    exception = models.CharField(max_length=64, blank=True, default="")
    duration_ms = models.FloatField(null=True, blank=True)

    def __str__(self) -> str:
        return f"check of {self.provider_id} at {self.begun_at:%Y-%m-%d %H:%M:%S}"
