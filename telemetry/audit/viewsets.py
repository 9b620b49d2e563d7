"""The audit as a resource of the management API."""

from gateway_project.api.filters import DateTimeFilter, IntegerFilter, TextFilter
from gateway_project.api.viewsets import ApiViewSet, ListMixin
from telemetry.audit.models import AuditEntry
from telemetry.audit.serializers import AuditEntrySerializer
from telemetry.paging import EntryPagination


class AuditViewSet(ListMixin[AuditEntry], ApiViewSet[AuditEntry]):
    """Who did what, when and from where, with the values before and after; newest first."""

    resource_name = "audit"
    queryset = AuditEntry.objects.newest_first()
    serializer_class = AuditEntrySerializer
    pagination_class = EntryPagination
    filters = {
        "start": DateTimeFilter(
            lambda entries, moment: entries.between(start=moment), "Only entries from this time on."
        ),
        "end": DateTimeFilter(lambda entries, moment: entries.between(end=moment), "Only entries before this time."),
        "actor": TextFilter("actor", "The name of a user, or of the operating system's user who ran a command."),
        "action": TextFilter("action", "As `create`, `update`, `destroy`, `login`."),
        "resource": TextFilter("resource", "A resource, as in paths: `keys`, `users`, `rules`."),
        "resourceId": IntegerFilter("resource_id", "The id of a row of the resource."),
        "search": TextFilter(lambda entries, text: entries.containing(text), "Part of their text."),
    }
