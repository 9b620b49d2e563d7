"""Every change to aliases."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypedDict, Unpack

from django.db import connection
from django.db.models import ProtectedError

from accounts.models import Group, User
from gateway_project.database.guarding import Access, guarded_change
from gateway_project.database.names import compose_name
from gateway_project.database.saving import lock_row, save_or_refuse
from gateway_project.errors import Conflict, ValidationError
from providers.models import Model
from rules.aliases.drafts import MirrorDraft, TargetDraft
from rules.aliases.models import MAX_DEPTH, MAX_TARGETS, Alias, AliasTarget, names_of
from rules.guardrails.services import follow_alias_name

MAX_ALIASES, MAX_PATTERNS = 1000, 200
Edges = dict[int, list[int | None]]  # of each alias its targets: the id of an alias, None for a model
PLAIN = ("description", "enabled", "strategy", "hedge")


class AliasChanges(TypedDict, total=False):
    """The parameters of create_alias(), each of which an update may leave out."""

    name: str
    description: str
    enabled: bool
    strategy: str
    fallback_on: Sequence[str]
    targets: Sequence[TargetDraft]
    mirror: MirrorDraft | None
    hedge: bool


@guarded_change(Access.ALIASES)
def create_alias(**values: Unpack[AliasChanges]) -> Alias:
    """Create an alias; it needs a name, and serves nothing without targets.

    Raises Conflict if the name exists or there are too many aliases, and ValidationError with the wrong field.
    """
    _lock_aliases()
    if Alias.objects.count() >= MAX_ALIASES:
        raise Conflict(f"There are {MAX_ALIASES:,} aliases, the maximum. Delete some first.")
    alias = Alias()
    _write(alias, values)
    return alias


@guarded_change(Access.ALIASES)
def update_alias(alias: Alias, **changes: Unpack[AliasChanges]) -> None:
    """Store changes with the names of create_alias(); `targets` replace the present ones.

    Raises Conflict and ValidationError as above, and NotFound if the alias is gone.
    """
    _lock_aliases()
    lock_row(alias, Alias.objects.all())
    former_name = alias.name
    _write(alias, changes)
    if alias.name != former_name:
        follow_alias_name(former_name, alias.name)


@guarded_change(Access.ALIASES)
def delete_alias(alias: Alias) -> None:
    """Delete an alias with its targets. Raises NotFound, and Conflict while other aliases refer to it."""
    _lock_aliases()
    lock_row(alias, Alias.objects.all())
    try:
        alias.delete()
    except ProtectedError:
        users = names_of(Alias.objects.filter(targets__nested=alias).distinct())
        raise Conflict(f"The alias {alias.name!r} is a target of: {users}.") from None


def _lock_aliases() -> None:
    """Hold all aliases to the end of the transaction: two changes at once could make a cycle that neither makes alone.

    Transactions on SQLite exclude each other anyway.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('gateway aliases'))")


def _write(alias: Alias, changes: AliasChanges) -> None:
    values: Mapping[str, object] = changes
    for name in PLAIN:
        setattr(alias, name, values.get(name, getattr(alias, name)))
    if "name" in changes:
        alias.name = compose_name(changes["name"])
        _check_name(alias)
    if "fallback_on" in changes:
        alias.fallback_on = list(changes["fallback_on"])
    if "mirror" in changes:
        mirror = changes["mirror"]
        alias.mirror = _model(mirror.provider_id, mirror.model, "mirror") if mirror is not None else None
        alias.mirror_share = mirror.share if mirror else 0
    present = list(alias.targets.all()) if alias.pk else []
    save_or_refuse(alias, conflict=f"An alias named {alias.name!r} exists already.")
    if "targets" in changes:
        alias.targets.all().delete()
        AliasTarget.objects.bulk_create(_rows(alias, changes["targets"], present))
    _check_nesting(alias)


def _check_name(alias: Alias) -> None:
    others = Alias.objects.exclude(pk=alias.pk)
    if other := others.filter(name=alias.name).first():
        raise Conflict(f"an alias named {alias.name!r} exists already.", field="name").with_row(other)
    if alias.is_pattern and others.patterns().count() >= MAX_PATTERNS:
        raise Conflict(f"{MAX_PATTERNS} aliases have stars in their names, the maximum.", field="name")


def _rows(alias: Alias, drafts: Sequence[TargetDraft], present: Sequence[AliasTarget]) -> list[AliasTarget]:
    """The rows of these targets; an id that is gone may stay in the conditions that had it before."""
    rows = []
    for position, draft in enumerate(drafts):
        place = f"targets.{position}"
        _check_match(draft, present, f"{place}.match")
        model = _model(draft.provider_id, draft.model, place) if draft.provider_id is not None else None
        nested = _find_nested_alias(alias, draft.alias, f"{place}.alias") if model is None else None
        row = AliasTarget(alias=alias, position=position, model=model, nested=nested)
        row.weight, row.tier, row.match = draft.weight, draft.tier, draft.match
        rows.append(row)
    return rows


def _model(provider_id: int, name: str, place: str) -> Model:
    """The model of this name at a provider, held so that nobody deletes it meanwhile."""
    models = Model.objects.select_related("provider").filter(provider_id=provider_id)
    row = models.filter(name=name).select_for_update(of=("self",)).first()
    if row is not None:
        return row
    if not models.exists():
        raise ValidationError(f"there is no provider with models and the id {provider_id}.", field=f"{place}.provider")
    raise ValidationError(f"the provider does not offer {name!r}.", field=f"{place}.model")


def _find_nested_alias(alias: Alias, name: str, place: str) -> Alias:
    if name == alias.name:
        raise ValidationError("must name another alias: this one would contain itself.", field=place)
    row = Alias.objects.filter(name=name).first()
    if row is None:
        raise ValidationError(f"there is no alias named {name!r}.", field=place)
    return row


def _check_match(draft: TargetDraft, present: Sequence[AliasTarget], place: str) -> None:
    for name, rows in (("groupId", Group.objects.all()), ("userId", User.objects.live())):
        row_id = draft.match.get(name)
        if row_id is None or any(row.match.get(name) == row_id for row in present):
            continue
        if not rows.filter(pk=row_id).exists():
            raise ValidationError(f"no {rows.model._meta.verbose_name} with id {row_id}.", field=f"{place}.{name}")


def _check_nesting(alias: Alias) -> None:
    """Refuse cycles, aliases nested too deep and too many targets, also in the aliases that this one serves."""
    edges: Edges = defaultdict(list)
    users: dict[int, set[int]] = defaultdict(set)
    rows = AliasTarget.objects.order_by("alias_id", "position").values_list("alias_id", "nested_id")
    for alias_id, nested_id in rows:
        edges[alias_id].append(nested_id)
        if nested_id is not None:
            users[nested_id].add(alias_id)
    for user_id in _with_users(alias.pk, users):
        size = _count_targets(user_id, edges, ())
        if size > MAX_TARGETS:
            name = Alias.objects.get(pk=user_id).name
            raise ValidationError(
                f"{name!r} would have {size} targets, including those of its aliases; at most {MAX_TARGETS} are "
                "allowed.",
                field="targets",
            )


def _with_users(alias_id: int, users: Mapping[int, set[int]]) -> list[int]:
    """The alias, and those that contain it, directly or not."""
    result = {alias_id: None}
    waiting = [alias_id]
    while waiting:
        new = users.get(waiting.pop(), set()) - result.keys()
        result.update(dict.fromkeys(new))
        waiting += new
    return list(result)


def _count_targets(alias_id: int, edges: Edges, path: tuple[int, ...]) -> int:
    """The number of its targets with those of its aliases, at least 1, so that the walk ends soon.

    Raises ValidationError for a cycle, and if aliases are nested too deep.
    """
    if alias_id in path:
        names = dict(Alias.objects.filter(pk__in=path).values_list("pk", "name"))
        circle = " → ".join(names[one] for one in (*path[path.index(alias_id) :], alias_id))
        raise ValidationError(f"must not contain a cycle: {circle}.", field="targets")
    if len(path) >= MAX_DEPTH:
        raise ValidationError(f"must not nest aliases deeper than {MAX_DEPTH}.", field="targets")
    total = 0
    for nested in edges.get(alias_id, ()):
        total += 1 if nested is None else _count_targets(nested, edges, (*path, alias_id))
        if total > MAX_TARGETS:
            break
    return max(total, 1)
