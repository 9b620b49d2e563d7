"""The form of a request that is to be explained."""

import re

from django import forms
from django.contrib.admin.widgets import AutocompleteSelect
from django.http import QueryDict
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from accounts.models import User
from gateway_project.console.forms.inputs import read_json_object, refuse_unfit_ids
from gateway_project.console.site import console_site
from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject
from gateway_project.work.doors import ENDPOINTS, WORK_PATH
from gateway_project.work.explain.options import read_address
from gateway_project.work.explain.questions import Question, sample_body
from gateway_project.work.explain.subjects import find_subject
from gateway_project.work.gateway import Gateway
from keys.models import ApiKey
from licensing.models import Limit

MAX_BODY, MAX_HEADERS, MAX_NAME = 1_000_000, 4000, 200
HEADER = re.compile(r"(X-Svc-[A-Za-z-]{1,40}):[ \t]*([\x20-\x7e]{0,2000})", re.IGNORECASE)


def _search_field(table: str) -> AutocompleteSelect:
    """A field that searches the table as one types; limits refer to users and keys, too."""
    return AutocompleteSelect(Limit._meta.get_field(table), console_site())


class ExplainForm(forms.Form):
    """Whose request it would be, and what it would ask."""

    user = forms.ModelChoiceField(User.objects.live(), required=False, widget=_search_field("user"))
    key = forms.ModelChoiceField(
        ApiKey.objects.live().select_related("owner"),
        required=False,
        widget=_search_field("key"),
        label="API key",
        help_text="Empty: the user has logged in.",
    )
    door = forms.ChoiceField(
        choices=[(path, path) for path in ENDPOINTS], initial=WORK_PATH, widget=UnfoldAdminSelectWidget, label="Path"
    )
    model = forms.CharField(
        required=False,
        max_length=MAX_NAME,
        widget=UnfoldAdminTextInputWidget,
        help_text="The model to ask for. Empty: the model in the body.",
    )
    address = forms.CharField(
        required=False,
        max_length=64,
        widget=UnfoldAdminTextInputWidget,
        label="Client's address",
        help_text="Only needed for keys that are restricted to networks.",
    )
    headers = forms.CharField(
        required=False,
        max_length=MAX_HEADERS,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}),
        help_text="One per line, for example X-Svc-Tags: team=search",
    )
    body = forms.CharField(
        required=False,
        max_length=MAX_BODY,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 8, "spellcheck": "false"}),
        help_text="A JSON object. Empty: a short chat.",
    )

    def __init__(self, data: QueryDict | JsonObject | None = None, *, initial: JsonObject | None = None) -> None:
        super().__init__(data, initial=initial)
        refuse_unfit_ids(self)

    def clean_body(self) -> JsonObject | None:
        text = self.cleaned_data["body"]
        return read_json_object(text, "body") if text else None

    def clean_headers(self) -> dict[str, str]:
        headers = {}
        for line in filter(None, map(str.strip, self.cleaned_data["headers"].splitlines())):
            match = HEADER.fullmatch(line)
            if match is None:
                raise forms.ValidationError("Each line must be a header of the gateway: X-Svc-Tags: team=search")
            headers[match[1]] = match[2].strip()
        return headers

    def clean_address(self) -> str:
        text = self.cleaned_data["address"]
        try:
            return read_address(text) if text else ""
        except ValidationError:
            raise forms.ValidationError("Not an IP address.") from None

    def clean(self) -> JsonObject:
        values = self.cleaned_data
        user, key = values.get("user"), values.get("key")
        if user is None and key is None and not self.errors.keys() & {"user", "key"}:
            self.add_error("user", "Choose a user or a key.")
        elif user is not None and key is not None and key.owner_id != user.pk:
            self.add_error("key", f"The key belongs to {key.owner}.")
        if not values.get("model") and not (values.get("body") or {}).get("model"):
            self.add_error("model", "Name a model, here or in the body.")
        return values

    def question(self, gateway: Gateway) -> Question:
        """The request of a valid form. Raises ValidationError of the API."""
        values = self.cleaned_data
        key, path = values["key"], values["door"]
        owner = values["user"] if key is None else key.owner
        subject = find_subject(owner.pk, "" if key is None else key.name, gateway)
        body = sample_body(path) if values["body"] is None else values["body"]
        if values["model"]:
            body = body | {"model": values["model"]}
        return Question(subject, path, body, values["headers"], values["address"])
