"""The filters beside a list."""

from django.contrib.admin import ListFilter
from django.contrib.admin.templatetags.admin_list import admin_list_filter
from django.contrib.admin.views.main import ChangeList
from django.template import Library
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import ChoicesDropdownFilter, TextFilter

register = Library()
# The forms of these say what they filter by and which value is chosen, and nothing else.
PLAIN_FORMS = TextFilter.choices, ChoicesDropdownFilter.choices
_empty_forms: dict[tuple[object, ...], SafeString] = {}  # one for each filter of the program


@register.simple_tag
def list_filter(changelist: ChangeList, spec: ListFilter) -> SafeString:
    """A filter's form. Most filters of a list have no value, and the same form each time: it is built once."""
    has_value = spec.used_parameters or getattr(changelist, "add_facets", False)
    key = type(spec), str(spec.title), *spec.expected_parameters(), getattr(spec, "field", None)
    if not has_value and key in _empty_forms:
        return _empty_forms[key]
    form = admin_list_filter(changelist, spec)  # type: ignore[arg-type]  # stubs know fields alone
    if not has_value and type(spec).choices in PLAIN_FORMS:
        _empty_forms[key] = form
    return form
