"""The paths of a resource, from the operations of its viewset; a trailing slash is optional on each."""

from django.urls import URLPattern, re_path

from gateway_project.api.viewsets import ApiViewSet

COLLECTION = {"get": "list", "post": "create", "patch": "update", "delete": "destroy"}
ITEM = {"get": "retrieve", "patch": "update", "delete": "destroy"}
ID = "[0-9]{1,19}"


def resource(viewset: type[ApiViewSet], *, prefix: str = "", item: bool = True) -> list[URLPattern]:
    """`/{resource}/`, and `/{resource}/{id}/` if `item`; `prefix`, a regular expression, comes before both."""
    name = viewset.resource_name
    paths = [path(rf"{prefix}{name}", viewset, COLLECTION, name=name)]
    if item:
        paths.append(path(rf"{prefix}{name}/(?P<id>{ID})", viewset, ITEM, name=f"{name}-item"))
    return paths


def path(pattern: str, viewset: type[ApiViewSet], operations: dict[str, str], *, name: str) -> URLPattern:
    """One path, with those of the operations (by HTTP method) that the viewset has."""
    actions = {method: operation for method, operation in operations.items() if hasattr(viewset, operation)}
    return re_path(rf"^{pattern}/?\Z", viewset.as_view(dict(actions)), name=name)
