"""The forms for admins of a group."""

import hashlib
from collections.abc import Mapping

from django import forms
from django.http import QueryDict
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from accounts.models import LONGEST_USERNAME, Group, User, check_name, check_text
from gateway_project.console.display.widgets import NativeSelect
from gateway_project.env import WITHOUT_WINDOW
from gateway_project.errors import Conflict
from gateway_project.json_types import JsonObject
from gateway_project.me.request_forms import amount_field, measure_field, window_field
from gateway_project.wording import CHANGED_MEANWHILE
from keys.models import ApiKey
from licensing.models import Limit, Measure, Window
from providers.models import Provider
from rules.models import MAX_DESCRIPTION_LENGTH, MAX_PATTERN_LENGTH, Rule
from rules.serializers import MAX_NAME_LENGTH

MAX_KEYS = 500  # that a form offers


class StoredForm(forms.Form):
    """A form that stores all fields of a row: it carries a digest of the values that it showed.

    Otherwise a form that was opened a while ago would silently undo changes that others made meanwhile.
    """

    @property
    def first_digest(self) -> str:
        """The digest of the values when the form was first shown, also after the form was refused; '' of a new row."""
        if self.is_bound:
            return self.data.get("_seen", "")
        return _digest_of(self.initial) if self.initial else ""

    def check_unchanged(self, values: Mapping[str, object]) -> None:
        """Raise Conflict if these, the row's values now, are not those that the form showed."""
        if self.first_digest != _digest_of(values):
            raise Conflict(CHANGED_MEANWHILE)


def _digest_of(values: Mapping[str, object]) -> str:
    return hashlib.sha256(repr(sorted(values.items())).encode()).hexdigest()


class MemberForm(forms.Form):
    """A user who becomes a member. A list to choose from would show the users of all."""

    username = forms.CharField(
        label="User name",
        strip=False,
        max_length=LONGEST_USERNAME,
        widget=UnfoldAdminTextInputWidget(attrs={"autocapitalize": "off", "spellcheck": "false"}),
    )

    def clean_username(self) -> User:
        user = User.objects.live().with_username(self.cleaned_data["username"]).first()
        if user is None:
            raise forms.ValidationError("There is no user of this name.")
        return user


class AmountForm(StoredForm):
    """Another amount of a limit."""

    amount = amount_field()

    @staticmethod
    def initial_of(limit: Limit) -> JsonObject:
        """The values of a stored limit."""
        return {"amount": f"{limit.amount.normalize():f}"}

    def name_currency(self, limit: Limit) -> None:
        """Below the amount of an existing limit: only one of cost has a currency, or several."""
        if limit.measure != Measure.COST:
            self.fields["amount"].help_text = ""
        elif limit.currency.isalpha():  # of several the note about every cost says more
            self.fields["amount"].help_text = f"In {limit.currency}."


class GroupLimitForm(AmountForm):
    """A new limit of what belongs to a group, or of a group below it."""

    field_order = ["subject", "measure", "window", "amount", "is_strict"]

    subject = forms.ChoiceField(label="For", widget=NativeSelect)
    measure = measure_field()
    window = window_field()
    is_strict = forms.BooleanField(
        label="Strict",
        required=False,
        help_text="For tokens and cost: the limit must have room for the largest possible use of a request.",
    )

    def __init__(self, data: QueryDict | None, *, group: Group) -> None:
        super().__init__(data)
        subject = self.fields["subject"]
        assert isinstance(subject, forms.ChoiceField)
        self.subjects = {f"{kind}:{row.pk}": (kind, row) for kind, rows in _subjects(group).items() for row in rows}
        subject.choices = [(value, f"{kind} {_label(row)}") for value, (kind, row) in self.subjects.items()]

    def values(self) -> JsonObject:
        """The values for the service."""
        values = dict(self.cleaned_data)
        kind, row = self.subjects[values.pop("subject")]
        has_window = values["measure"] not in WITHOUT_WINDOW
        return values | {SUBJECT_FIELDS[kind]: row} | ({} if has_window else {"window": Window.NONE})


SUBJECT_FIELDS = {"service account": "user", "key": "key", "group": "group"}


def _subjects(group: Group) -> dict[str, list[User] | list[ApiKey] | list[Group]]:
    """What limits of this group's page are for, by kind."""
    accounts = list(User.objects.live().service_accounts().filter(owning_group=group).order_by("username"))
    keys = ApiKey.objects.live().filter(owner__in=accounts).select_related("owner")
    return {
        "service account": accounts,
        "group": list(group.children.order_by("name")),
        "key": list(keys.order_by("owner__username", "name")[:MAX_KEYS]),
    }


def _label(row: User | ApiKey | Group) -> str:
    return f"{row.name} of {row.owner}" if isinstance(row, ApiKey) else str(row)


class AccountForm(forms.Form):
    """A new service account."""

    username = forms.CharField(
        label="Name",
        strip=False,
        max_length=LONGEST_USERNAME,
        validators=[check_name],
        widget=UnfoldAdminTextInputWidget,
    )
    display_name = forms.CharField(
        required=False,
        max_length=User._meta.get_field("display_name").max_length,
        validators=[check_text],
        widget=UnfoldAdminTextInputWidget,
        help_text="What the account is for.",
    )


class RuleForm(StoredForm):
    """A rule that denies models to the group and to those below it."""

    name = forms.CharField(max_length=MAX_NAME_LENGTH, validators=[check_name], widget=UnfoldAdminTextInputWidget)
    models = forms.CharField(
        label="Models that are denied",
        required=False,
        max_length=MAX_PATTERN_LENGTH,
        widget=UnfoldAdminTextInputWidget,
        help_text="A pattern (RE2) for the whole name, such as gpt-5|gpt-5-.*; empty: every model.",
    )
    provider = forms.ModelChoiceField(
        Provider.objects.order_by("name"), required=False, empty_label="Of any provider", widget=NativeSelect
    )
    enabled = forms.BooleanField(required=False, initial=True, help_text="The rule is applied.")
    description = forms.CharField(
        required=False, max_length=MAX_DESCRIPTION_LENGTH, widget=UnfoldAdminTextareaWidget(attrs={"rows": 2})
    )

    @staticmethod
    def initial_of(rule: Rule) -> JsonObject:
        """The values of a stored rule."""
        values = {name: getattr(rule, name) for name in ("name", "enabled", "description")}
        return values | {"models": rule.regex, "provider": rule.provider_id}

    def values(self) -> JsonObject:
        """The values for the service."""
        values = {name: self.cleaned_data[name] for name in ("name", "enabled", "description")}
        provider = self.cleaned_data["provider"]
        return values | {"regex": self.cleaned_data["models"], "provider_id": getattr(provider, "pk", None)}
