"""What forms of the console read: JSON as the API reads it, and ids of rows."""

import pytest
from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict

from accounts.models import Group
from gateway_project.console.forms.inputs import JsonObjectField, read_stored_json, refuse_unfit_ids

DEEP = "[" * 900 + "]" * 900
NO_JSON = ["5", "[]", "{", '{"a": NaN}', '{"a": 1e400}', r'{"a": "\ud800"}', f'{{"a": {DEEP}}}', '{"a": 1, "a": 2}']


class JsonForm(forms.Form):
    value = JsonObjectField()


@pytest.mark.parametrize("text", [*NO_JSON, r'{"a": "\u0000"}', r'{"\\\u0000": 1}'])
def test_what_is_no_json_or_cannot_be_stored_is_an_error_of_its_field(text):
    form = JsonForm({"value": text}, initial={"value": {"a": 1}})
    assert form.has_changed()
    assert form.errors["value"]
    assert form["value"].value() == text
    assert "<textarea" in str(form["value"])


@pytest.mark.parametrize("text", ['{"a": [1, {"b": null}]}', r'{"a": "\\u0000"}', r'{"a": "é\\\\u0000"}'])
def test_an_object_is_read(text):
    form = JsonForm({"value": text})
    assert form.is_valid(), form.errors
    assert form.cleaned_data["value"]["a"]


def test_an_error_names_what_it_is_about():
    with pytest.raises(ValidationError, match="The draft must be a JSON object"):
        read_stored_json("[]", "draft")


class GroupsForm(forms.Form):
    group = forms.ModelChoiceField(Group.objects.all(), required=False)
    groups = forms.ModelMultipleChoiceField(Group.objects.all(), required=False)


@pytest.mark.django_db
@pytest.mark.either_store
@pytest.mark.parametrize("value", ["\0", "x", "-1", "9" * 30, "²"])
def test_what_cannot_be_an_id_is_no_choice(value):
    group = Group.objects.create(name="team")
    for name in ("group", "groups"):
        query = QueryDict(mutable=True)
        query.setlist(name, [str(group.pk), value])
        form = GroupsForm(query)
        refuse_unfit_ids(form)
        assert list(form.errors) == [name]
        assert "<select" in str(form[name])
    form = GroupsForm(QueryDict(f"group=&groups={group.pk}"))
    refuse_unfit_ids(form)
    assert form.is_valid(), form.errors
    assert list(form.cleaned_data["groups"]) == [group]
