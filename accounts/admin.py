"""Users, groups and roles in the console."""

from uuid import UUID

import django.contrib.auth.admin  # noqa: F401 - registers Django's groups
from django.contrib import admin
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.models import Group as DjangoGroup
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.safestring import SafeString
from unfold.decorators import display

from accounts import services, sessions, viewsets
from accounts.forms import UserForm
from accounts.managing.members import credentials_within
from accounts.models import AuthenticatorApp, Group, Session, User, UserKind
from accounts.second_factor.services import remove_second_factor
from accounts.second_factor.verification import has_second_factor
from gateway_project.change_feed.cuts import Credential
from gateway_project.console.audit import actor, caller, record_change
from gateway_project.console.display.badges import Badge
from gateway_project.console.display.devices import device_name
from gateway_project.console.filters import FlagFilter, text_filter
from gateway_project.console.forms.service_form import ServiceForm
from gateway_project.console.links import link_column, links_to, period_of_page
from gateway_project.console.row_actions import row_action, row_link
from gateway_project.console.tables import ReadOnlyAdmin
from gateway_project.console.tabs import Tab, log_tab, usage_tab
from gateway_project.json_types import JsonObject
from gateway_project.revocation.console import RevocableAdmin

# The gateway has groups of its own.
admin.site.unregister(DjangoGroup)


@admin.register(User)
class UserAdmin(RevocableAdmin[User]):
    """People who log in, and service accounts; both own keys."""

    viewset = viewsets.UserViewSet
    form = UserForm
    empty_message = "There are no users."
    list_display = ["username", "display_name", "email", "role_names", "kind", "state", "last_login"]
    list_filter = [
        ("is_active", FlagFilter),
        ("is_deleted", FlagFilter),
        "kind",
        "roles",
        text_filter("group", "group", "groups__name"),
    ]
    search_fields = ["name_key", "display_name", "email"]
    ordering = ["id"]
    readonly_fields = ["state", "second_factor", "group_names", "created_at", "last_login", "external_id"]
    autocomplete_fields = ["roles", "owning_group"]
    actions_detail = ["sign_out", "deactivate", "remove_second_factor", "explain"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        return super().get_queryset(request).prefetch_related("roles")

    def get_fieldsets(self, request: HttpRequest, obj: User | None = None) -> list:
        # Fields that cannot be changed are shown with their values: the password would show its hash.
        archived = obj is not None and self.is_archived(obj)
        groups = [] if obj is None else ["group_names"]
        password = [] if archived or (obj is not None and obj.is_service) else ["password"]
        if obj is not None and obj.pk == request.user.pk:
            password.append("present_password")
        factor = [] if obj is None or obj.is_service else ["second_factor"]
        history = ["created_at", "last_login", *(["external_id"] if obj and obj.external_id else [])]
        kind = ["kind", "owning_group"] if obj is None or obj.is_service else ["kind"]
        return [
            (None, {"fields": ["username", *kind, "display_name", "email", *password]}),
            ("Access", {"fields": ["state" if archived else "is_active", "roles", *groups, *factor]}),
            *([] if obj is None else [("History", {"fields": history})]),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> list[str]:
        return [*self.readonly_fields, *(["username", "kind"] if obj else [])]

    def is_archived(self, row: User) -> bool:
        return row.is_deleted

    def tabs(self, row: User) -> list[Tab]:
        name = row.username
        return [
            Tab("Keys", "keys_apikey_changelist", {"owner": name}, row.api_keys.count()),
            Tab("Groups", "accounts_group_changelist", {"member": name}, row.groups.count()),
            Tab("Rules", "rules_rule_changelist", {"user": name}, row.rules.count()),
            Tab("Limits", "licensing_limit_changelist", {"user": name}, row.limits.count()),
            Tab("Sessions", "accounts_session_changelist", {"user": name}, row.sessions.count()),
            usage_tab(user=row.pk),
            log_tab(user=name),
        ]

    def selectable(self, rows: QuerySet[User]) -> QuerySet[User]:
        return rows.filter(is_deleted=False)

    @display(description="Roles")
    def role_names(self, row: User) -> str:
        return links_to(row.roles.all())

    @display(description="Groups")
    def group_names(self, row: User) -> str:
        return links_to(row.groups.order_by("name"), period_of_page(row)) or "none"

    @display(description="State")
    def state(self, row: User) -> SafeString:
        if row.is_deleted:
            return Badge("Deleted", "danger").html
        return (Badge("Active", "success") if row.is_active else Badge("Inactive", "warning")).html

    @display(description="Second factor")
    def second_factor(self, row: User) -> str:
        app = ["authenticator app"] if AuthenticatorApp.objects.filter(user=row).exists() else []
        number = row.passkeys.count()
        passkeys = [f"{number} passkey{'' if number == 1 else 's'}"] if number else []
        return ", ".join([*app, *passkeys]) or "none"

    def create(self, request: HttpRequest, values: JsonObject) -> User:
        roles, group = [role.pk for role in values.pop("roles")] or None, values.pop("owning_group")
        if values.pop("kind") == UserKind.PERSON:
            return services.create_user(role_ids=roles, **values)
        del values["password"]
        return services.create_service_account(role_ids=roles, group_id=group.pk, **values)

    def change(self, request: HttpRequest, row: User, values: JsonObject) -> None:
        if "roles" in values:
            values["role_ids"] = [role.pk for role in values.pop("roles")]
        if not values.get("password"):
            values.pop("password", None)
        if "owning_group" in values:
            values["group_id"] = getattr(values.pop("owning_group"), "pk", None)
        own = row.pk == request.user.pk
        services.update_user(row, current_session=UUID(str(caller(request).session)) if own else None, **values)
        if values.get("is_active") is False:
            self.order(request, row.pk, self.credentials_of(row))
        if own and "password" in values:
            update_session_auth_hash(request, row)  # otherwise the new password would end this session, too

    def destroy(self, request: HttpRequest, row: User) -> None:
        services.delete_user(row)

    def credentials_of(self, row: User) -> list[Credential]:
        return [Credential("user", row.pk)]

    def deletion_effects(self, row: User) -> list[str]:
        if row.is_service:
            return [
                "The account's keys are refused immediately.",
                "The record and its log entries stay. The name can be used again.",
            ]
        return [
            "The user's sessions end and their keys are refused immediately.",
            "The record and its log entries stay. The name cannot be used again.",
        ]

    @row_link("Explain", icon="troubleshoot", path="explain", page="explain", parameter="user")
    def explain(self) -> None:
        """To the explanation of a request of the user's."""

    @row_action(
        "Sign out everywhere", icon="logout", path="sign-out", effect="All sessions of the user end immediately."
    )
    def sign_out(self, request: HttpRequest, user: User) -> str:
        number = sessions.end_sessions(user=user)
        self.record(request, "sign out", user.pk)
        return f"Signed out {user.username}: {number} session{'' if number == 1 else 's'} ended."

    @row_action(
        "Remove second factor",
        icon="phonelink_erase",
        path="remove-second-factor",
        effect="The user's authenticator app, passkeys and recovery codes are removed, and all sessions end "
        "immediately.",
        applies_to=has_second_factor,
    )
    def remove_second_factor(self, request: HttpRequest, user: User) -> str:
        remove_second_factor(user, actor=actor(request))
        return f"{user.username} has no second factor any more."

    @row_action(
        "Deactivate",
        icon="person_off",
        path="deactivate",
        effect="The user's sessions end and their keys are refused until the user is active again.",
        applies_to=lambda user: user.is_active,
        revokes=True,
    )
    def deactivate(self, request: HttpRequest, user: User) -> str:
        with self.recorded_change(request, user, attributes=["active"]):
            services.update_user(user, is_active=False)
        self.order(request, user.pk, self.credentials_of(user))
        return f"{user.username} is inactive."


class GroupForm(ServiceForm):
    form_names = {"parent_id": "parent"}

    class Meta:
        model = Group
        fields = ["name", "parent", "members", "admins"]
        help_texts = {
            "parent": "The group above. Its rules and limits apply to this group, too, and its admins administer it.",
            "members": "The group's rules and limits apply to these users.",
            "admins": "These members manage the other members, service accounts, keys and limits, and see the group's "
            "log.",
        }


@admin.register(Group)
class GroupAdmin(RevocableAdmin[Group]):
    """Users under one name, for rules and limits."""

    viewset = viewsets.GroupViewSet
    form = GroupForm
    empty_message = "There are no groups. Rules and limits apply to single users, or to everyone."
    list_display = ["name", "size"]
    list_filter = [text_filter("member", "member", "members__name_key")]
    list_filter_submit = True
    search_fields = ["name", "members__name_key"]
    ordering = ["id"]
    autocomplete_fields = ["parent", "members", "admins"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        return Group.objects.with_size().order_by(*self.ordering)  # counting drops the model's own order

    @display(description="Members", ordering="size")
    def size(self, row: Group) -> int:
        return row.size

    def tabs(self, row: Group) -> list[Tab]:
        return [
            Tab("Members", "accounts_user_changelist", {"group": row.name}, row.members.count()),
            Tab("Rules", "rules_rule_changelist", {"group": row.name}, row.rules.count()),
            Tab("Limits", "licensing_limit_changelist", {"group": row.name}, row.limits.count()),
            usage_tab(group=row.pk),
        ]

    def create(self, request: HttpRequest, values: JsonObject) -> Group:
        return services.create_group(
            name=values["name"],
            member_ids=_ids(values["members"]),
            admin_ids=_ids(values["admins"]),
            parent_id=getattr(values["parent"], "pk", None),
        )

    def change(self, request: HttpRequest, row: Group, values: JsonObject) -> None:
        if "parent" in values:
            values["parent_id"] = getattr(values.pop("parent"), "pk", None)
        for name in ("members", "admins"):
            if name in values:
                values[f"{name[:-1]}_ids"] = _ids(values.pop(name))
        losing = self._losing_members(row, values)
        services.update_group(row, **values)
        if losing:
            self.order(request, row.pk, losing)

    def _losing_members(self, row: Group, values: JsonObject) -> list[Credential]:
        """The users whom a change takes out of the group, or out of the groups above it."""
        if "parent_id" in values:
            return credentials_within(row)
        member_ids = values.get("member_ids")
        removed = [] if member_ids is None else row.members.exclude(pk__in=member_ids).values_list("pk", flat=True)
        return [Credential("user", user_id) for user_id in removed]

    def destroy(self, request: HttpRequest, row: Group) -> None:
        services.delete_group(row)

    def credentials_of(self, row: Group) -> list[Credential]:
        return credentials_within(row)

    def deletion_effects(self, row: Group) -> list[str]:
        return ["Its rules stay, but no longer apply to anyone. Its limits are deleted with it."]


@admin.register(Session)
class SessionAdmin(ReadOnlyAdmin):
    """Current and ended sessions, of the API and of the console."""

    empty_message = "Nobody is logged in."
    list_display = [link_column("user"), "program", "address", "created_at", "last_used_at", "state"]
    list_display_links = ["created_at"]
    list_filter = [text_filter("user", "user", "user__name_key")]
    list_filter_submit = True
    search_fields = ["user__name_key", "device", "address"]
    list_select_related = ["user"]
    fields = ["user", "device", "address", "created_at", "last_used_at", "expires_at", "ended_at"]
    actions_detail = ["end"]

    @display(description="Device", ordering="device")
    def program(self, row: Session) -> str:
        return device_name(row.device)

    @display(description="State")
    def state(self, row: Session) -> SafeString:
        return (Badge("Live", "success") if row.is_live(timezone.now()) else Badge("Ended", "info")).html

    @row_action(
        "Sign out",
        icon="logout",
        path="end",
        effect="The tokens and the console of this session are refused immediately.",
        applies_to=lambda session: session.is_live(timezone.now()),
    )
    def end(self, request: HttpRequest, session: Session) -> str:
        sessions.end_session(session.pk)
        record_change(request, "sign out", "users", session.user_id)
        return f"Signed out {session.user.username} on this device."


def _ids(rows: QuerySet) -> list[int]:
    return [row.pk for row in rows]
