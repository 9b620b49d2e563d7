"""What SCIM says about itself: RFC 7644, section 4."""

from scim2_models import (
    AuthenticationScheme,
    Bulk,
    ChangePassword,
    Context,
    ETag,
    Filter,
    Pagination,
    Patch,
    Resource,
    ResourceType,
    ServiceProviderConfig,
    Sort,
)

from accounts.scim.queries import DEFAULT_COUNT, MAX_COUNT
from accounts.scim.resources import ScimGroup, ScimUser, location
from gateway_project.json_types import JsonObject

MODELS = (ScimUser, ScimGroup)


def service_provider_config() -> JsonObject:
    """What is supported."""
    config = ServiceProviderConfig(
        patch=Patch(supported=True),
        bulk=Bulk(supported=False, max_operations=0, max_payload_size=0),
        filter=Filter(supported=True, max_results=MAX_COUNT),
        change_password=ChangePassword(supported=False),
        sort=Sort(supported=True),
        etag=ETag(supported=False),
        pagination=Pagination(
            cursor=False,
            index=True,
            default_pagination_method=Pagination.DefaultPaginationMethod.index,
            default_page_size=DEFAULT_COUNT,
            max_page_size=MAX_COUNT,
        ),
        authentication_schemes=[
            AuthenticationScheme(
                type=AuthenticationScheme.Type.oauthbearertoken,
                name="Bearer token",
                description="The token of the setting GATEWAY_SCIM_TOKEN.",
                primary=True,
            )
        ],
    )
    return _document(config, "ServiceProviderConfig", "")


def resource_types() -> dict[str, JsonObject]:
    """The resource types by id."""
    types = [ResourceType.from_resource(model) for model in MODELS]
    return {str(one.id): _document(one, "ResourceType", f"ResourceTypes/{one.id}") for one in types}


def schemas() -> dict[str, JsonObject]:
    """The schemas by id."""
    return {str(model.__schema__): _schema(model) for model in MODELS}


def _schema(model: type[Resource]) -> JsonObject:
    return _document(model.to_schema(), "Schema", f"Schemas/{model.__schema__}")


def _document(resource: Resource, name: str, path: str) -> JsonObject:
    document = resource.model_dump(scim_ctx=Context.RESOURCE_QUERY_RESPONSE)
    endpoint, _, row_id = (path or name).partition("/")
    url = location(endpoint, row_id).removesuffix("/")
    return {**document, "meta": {"resourceType": name, "location": url}}
