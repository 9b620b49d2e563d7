"""The table of filters that users of the console have saved for the log."""

from django.db import models

from accounts.models import User


class SavedFilter(models.Model):
    """A filter of the log under a name of its owner's choice: the query of the list's address, without a period."""

    owner = models.ForeignKey(User, models.CASCADE, related_name="saved_filters")
    name = models.CharField(max_length=64)
    query = models.CharField(max_length=2000)

    class Meta:
        ordering = ["name", "id"]
        constraints = [
            models.UniqueConstraint(fields=["owner", "name"], name="one_saved_filter_of_a_name_an_owner"),
            models.CheckConstraint(condition=~models.Q(name=""), name="saved_filter_has_a_name"),
        ]

    def __str__(self) -> str:
        return self.name
