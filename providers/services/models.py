"""Every change to the models that providers offer."""

from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import ProtectedError

from gateway_project.database.guarding import Access, guarded_change
from gateway_project.database.saving import lock_row, save_or_refuse
from gateway_project.errors import Conflict, PermissionDenied
from gateway_project.hooks import Hook
from providers.models import MODEL_OPTIONS, Model, Provider
from providers.pricing.facts import bundled_facts
from providers.services.refusals import describe_references, refuse_unknown

# Whether an alias has this name, or is a pattern that it fits.
is_name_of_alias: Hook[[str], bool] = Hook("is_name_of_alias")


@guarded_change(Access.PROVIDERS)
def add_model(
    *,
    provider: Provider,
    name: str,
    added_by: int | None = None,
    only_own: bool = False,
    **options: Any,
) -> Model:
    """A stored model of the provider; `only_own` for users who may not change providers. Options are in MODEL_OPTIONS.

    Raises Conflict if the provider has one of this name or GATEWAY_MAX_MODELS_PER_PROVIDER models, with `only_own` also
    for a name that any provider offers, and ValidationError.
    """
    lock_model_names()
    lock_row(provider, Provider.objects.all())
    most = settings.GATEWAY_MAX_MODELS_PER_PROVIDER
    if Model.objects.of(provider).count() >= most:
        raise Conflict(f"The provider {provider.name!r} has {most:,} models, the maximum. Delete some first.")
    refuse_unknown(options, MODEL_OPTIONS)
    model = Model(provider=provider, name=name, added_by_id=added_by, **options)
    save_model(model)
    if only_own:
        _refuse_offered(model)
    return model


@guarded_change(Access.PROVIDERS, Access.ALIASES)
def change_model(model: Model, *, only_renamed_by: int | None = None, **changes: Any) -> None:
    """Store the model's new `name` and MODEL_OPTIONS, as far as they are given.

    With `only_renamed_by`, the id of a user who may not change providers, only what they added gets a new name, and
    none that any provider offers. Raises PermissionDenied, Conflict if its provider has a model of this name, NotFound
    and ValidationError.
    """
    lock_model_names()
    refuse_unknown(changes, ("name", *MODEL_OPTIONS))
    lock_row(model, Model.objects.all())
    needs_own_name = only_renamed_by is not None and changes.get("name", model.name) != model.name
    if needs_own_name and model.added_by_id != only_renamed_by:
        reason = "you can rename only models that you added. Renaming others needs the permission providers.modify."
        raise PermissionDenied(reason, field="name")
    for field, value in changes.items():
        setattr(model, field, value)
    save_model(model)
    if needs_own_name:
        _refuse_offered(model)


def lock_model_names() -> None:
    """Hold all names of models to the end of the transaction, so that two users cannot take the same one at once.

    Transactions on SQLite exclude each other anyway.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('gateway model names'))")


def _refuse_offered(model: Model) -> None:
    """Raise Conflict if work for the name of this stored model goes elsewhere already: it would be re-routed."""
    if is_name_of_alias(model.name):  # also of one that is disabled: it may be enabled again
        raise Conflict(f"An alias stands for {model.name!r}. Choose another name.", field="name")
    if other := Model.objects.exclude(pk=model.pk).filter(name=model.name).first():
        raise Conflict(f"A provider offers {model.name!r} already. Choose another name.", field="name").with_row(other)
    # A model's own name takes precedence over `provider/model`, also of a model that the provider gets later.
    prefix, slash, _ = model.name.partition("/")
    if slash and Provider.objects.filter(name=prefix).exists():
        reason = f"{model.name!r} means a model of the provider {prefix!r}. Choose a name without {prefix + '/'!r}."
        raise Conflict(reason, field="name")


def save_model(model: Model) -> None:
    """Store it; what is the default anyway stays unset, and so follows it."""
    if model.upstream_name == model.name:
        model.upstream_name = ""
    public = bundled_facts(model.name_at_provider)
    if model.context_length == public.context_length:
        model.context_length = None
    for name in ("input_modalities", "output_modalities"):
        if getattr(model, name) == list(getattr(public, name)):
            setattr(model, name, None)
    save_or_refuse(model, conflict=f"The provider {model.provider.name!r} has a model named {model.name!r} already.")


@guarded_change(Access.PROVIDERS)
def remove_model(model: Model) -> None:
    """Delete a model: its provider no longer offers it. Raises Conflict while aliases refer to it, counting them."""
    try:
        model.delete()
    except ProtectedError as error:
        raise Conflict(f"The model {model.name!r} is referred to by {describe_references(error)}.") from None
