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
    if type(spec).choices not in PLAIN_FORMS or spec.used_parameters or getattr(changelist, "add_facets", False):
        return SafeString(admin_list_filter(changelist, spec))
    key = type(spec), str(spec.title), *spec.expected_parameters(), getattr(spec, "field", None)
    if key not in _empty_forms:
        _empty_forms[key] = SafeString(admin_list_filter(changelist, spec))
    return _empty_forms[key]
