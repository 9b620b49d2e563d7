"""Columns that have their default in the database too, for rows that plain SQL writes naming only some columns."""

from django.db import models
from django.db.models.functions import Now
from django.utils import timezone

from gateway_project.database.names import SearchedText


def text(length: int, choices: type[models.TextChoices] | None = None, value: str = "") -> models.CharField:
    """A short text; by default `value`."""
    return models.CharField(max_length=length, choices=choices, blank=value == "", default=value, db_default=value)


def long_text() -> SearchedText:
    return SearchedText(blank=True, default="", db_default="")


def name() -> models.CharField:
    """A name that may be unknown (null), for example in what an earlier version has written."""
    return models.CharField(max_length=200, null=True, blank=True)


def number() -> models.BigIntegerField:
    """A number that may be unknown (null)."""
    return models.BigIntegerField(null=True, blank=True)


def flag() -> models.BooleanField:
    return models.BooleanField(default=False, db_default=False)


def moment() -> models.DateTimeField:
    return models.DateTimeField(default=timezone.now, db_default=Now())


def empty_list() -> models.JSONField:
    return models.JSONField(blank=True, default=list, db_default=models.Value([], models.JSONField()))


def empty_mapping() -> models.JSONField:
    return models.JSONField(blank=True, default=dict, db_default=models.Value({}, models.JSONField()))
