"""Indexes that databases need in different forms."""

from typing import Any

from django.db import models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.backends.ddl_references import Statement


class NameIndex(models.Index):
    """An index of rows by a name, the first of its fields, in the order of the other fields.

    PostgreSQL has the name alone, of which equal ones take few bytes, and sorts the rows that it finds.
    """

    def create_sql(
        self, model: type[models.Model], schema_editor: BaseDatabaseSchemaEditor, using: str = "", **options: Any
    ) -> Statement:
        if schema_editor.connection.vendor != "postgresql":
            return super().create_sql(model, schema_editor, using, **options)
        index = models.Index(fields=self.fields[:1], condition=self.condition, name=self.name)
        return index.create_sql(model, schema_editor, using, **options)
