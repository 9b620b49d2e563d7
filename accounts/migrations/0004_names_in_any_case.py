"""Names of features and roles are unique in any case and may hold more characters."""

import django.core.validators
from django.db import migrations, models
from django.db.models.functions import Lower

BUILT_IN = ("admin", "user")
NAME = django.core.validators.RegexValidator(
    "^[A-Za-z0-9._:-]([A-Za-z0-9._: -]{0,62}[A-Za-z0-9._:-])?\\Z",
    "Must have 1 to 64 characters: A-Z a-z 0-9 . _ - : and spaces, but no space at either end.",
)


def separate(apps, schema_editor):
    """Of several roles whose names are the same in any case, the built-in one or the oldest keeps the name."""
    roles = apps.get_model("accounts", "Role").objects.using(schema_editor.connection.alias)
    rows = list(roles.annotate(key=Lower("name")).order_by("id"))
    taken, keys = set(), {row.key for row in rows}
    for row in sorted(rows, key=lambda row: row.name not in BUILT_IN):
        if row.key in taken:
            rename(row, keys)
        taken.add(row.key)


def rename(row, keys):
    """Put the id behind the name, and as many hyphens before it as make the name unique."""
    name = f"{row.name[:70]}-{row.pk}"
    while name.lower() in keys:
        name = name.replace(f"-{row.pk}", f"--{row.pk}")
    keys.add(name.lower())
    row.name = name
    row.save(update_fields=["name"])


def unique(model):
    return migrations.AddConstraint(
        model_name=model,
        constraint=models.UniqueConstraint(
            Lower("name"),
            name=f"one_{model}_of_a_name",
            violation_error_code="unique",
            violation_error_message=f"A {model} of this name exists already.",
        ),
    )


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0003_name_keys"),
        ("gateway_project", "0002_names_in_one_form"),
    ]

    operations = [
        migrations.RemoveConstraint(model_name="feature", name="one_feature_of_a_name"),
        migrations.RemoveConstraint(model_name="role", name="one_role_of_a_name"),
        migrations.AlterField(
            model_name="feature", name="name", field=models.CharField(max_length=64, validators=[NAME])
        ),
        migrations.AlterField(
            model_name="role", name="name", field=models.CharField(max_length=100, validators=[NAME])
        ),
        migrations.RunPython(separate, migrations.RunPython.noop),
        unique("feature"),
        unique("role"),
    ]
