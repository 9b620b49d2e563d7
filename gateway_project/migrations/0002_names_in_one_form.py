"""Names are kept in one form of Unicode: those that are stored in another are brought into it."""

import unicodedata

from django.db import IntegrityError, migrations, transaction

NAMED = (("accounts", "Role"), ("accounts", "Group"), ("rules", "Rule"), ("keys", "ApiKey"))
LONGEST = 100


def compose(apps, schema_editor):
    """Where the name is another row's already, this one gets its id behind it."""
    for app, model in NAMED:
        rows = apps.get_model(app, model).objects.using(schema_editor.connection.alias)
        names = list(rows.order_by("id").values_list("id", "name").iterator())
        for row_id, name in names:
            if not unicodedata.is_normalized("NFC", name):
                rename(rows.filter(pk=row_id), row_id, unicodedata.normalize("NFC", name)[:LONGEST])


def rename(row, row_id, name):
    for wanted in (name, f"{name[: LONGEST - 25]} ({row_id})"):
        try:
            with transaction.atomic(using=row.db):
                row.update(name=wanted)
                return
        except IntegrityError:
            continue


class Migration(migrations.Migration):
    dependencies = [
        ("gateway_project", "0001_initial"),
        ("accounts", "0003_name_keys"),
        ("keys", "0004_former_secrets"),
        ("rules", "0001_initial"),
    ]

    operations = [migrations.RunPython(compose, migrations.RunPython.noop)]
