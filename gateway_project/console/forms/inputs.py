"""What forms read beyond Django's fields: JSON within the limits of the API, and ids of rows."""

from collections.abc import Iterable, Iterator

from django import forms
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput
from django.http import QueryDict

from gateway_project import errors
from gateway_project.api.strict_json import has_nul, parse_object
from gateway_project.database.ids import id_in
from gateway_project.json_types import JsonObject


def read_json_object(text: str, subject: str) -> JsonObject:
    """The JSON object that a text is, as the API reads it; raises Django's ValidationError, which names the subject."""
    try:
        return parse_object(text.encode(errors="surrogatepass"), subject=subject)
    except errors.ValidationError as error:
        raise ValidationError(error.message) from None


def read_stored_json(text: str, subject: str) -> JsonObject:
    """The same of what is stored: PostgreSQL has no NUL."""
    document = read_json_object(text, subject)
    if has_nul(text):
        raise ValidationError(f"The {subject} contains the character NUL (\\u0000).")
    return document


class JsonObjectField(forms.JSONField):
    """A JSON object that is stored; the form shows the text as it was sent."""

    def to_python(self, value: object) -> object:  # type: ignore[override]  # Django's own returns any JSON, too
        if not isinstance(value, str) or value in self.empty_values:
            return super().to_python(value)
        return read_stored_json(value, "text")

    def bound_data(self, data: object, initial: object) -> object:
        return initial if self.disabled or data is None else InvalidJSONInput(data)


def refuse_unfit_ids(form: forms.Form | forms.ModelForm) -> None:
    """Let 0, which no row has, stand for each id in a bound form that cannot be one.

    Databases refuse NUL and numbers beyond 64 bits in the query that looks for the row.
    """
    data = form.data
    choices = [
        form.add_prefix(name) for name, field in form.fields.items() if isinstance(field, forms.ModelChoiceField)
    ]
    if not isinstance(data, QueryDict) or all(map(id_in, _ids(data, choices))):
        return
    form.data = data.copy()
    for name in choices:
        form.data.setlist(name, [value and str(id_in(value)) for value in data.getlist(name)])


def _ids(data: QueryDict, names: Iterable[str]) -> Iterator[str]:
    return (value for name in names for value in data.getlist(name) if value)
