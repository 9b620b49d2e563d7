"""Names of users are compared by a key in a column of its own: databases fold letters each in another way."""

import unicodedata

from django.db import migrations, models

APART = "\x1f"  # no name holds it


def fold(name):
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def fill(apps, schema_editor):
    """Give every user a key; of several whose names are one now the oldest has it, the others one with their id."""
    rows, taken = apps.get_model("accounts", "User").objects.using(schema_editor.connection.alias), set()
    users = list(rows.order_by("id").only("id", "username"))
    for user in users:
        key = fold(user.username)
        user.name_key = f"{key}{APART}{user.pk}" if key in taken else key
        taken.add(key)
    rows.bulk_update(users, ["name_key"], batch_size=500)


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_names"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="user",
            name="one_user_of_a_name_in_any_case",
        ),
        migrations.AddField(
            model_name="user",
            name="name_key",
            field=models.CharField(default="", editable=False, max_length=470),
            preserve_default=False,
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.AddConstraint(
            model_name="user",
            constraint=models.UniqueConstraint(
                fields=("name_key",),
                name="one_user_of_a_name_in_any_case",
                violation_error_code="unique",
                violation_error_message="A user of this name exists already.",
            ),
        ),
    ]
