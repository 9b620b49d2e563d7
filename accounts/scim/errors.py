"""Errors in SCIM's shape: RFC 7644, section 3.12."""

import logging
from collections.abc import Mapping

from gateway_project import errors
from gateway_project.api.problems import as_gateway_error
from gateway_project.errors.problem import Problem
from gateway_project.json_types import JsonObject

log = logging.getLogger("gateway.management")

ERROR_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:Error"
# SCIM's names for those of services and rows.
FIELDS = {
    "username": "userName",
    "display_name": "displayName",
    "email": "emails.value",
    "external_id": "externalId",
    "name": "displayName",
}
# Status, document and headers.
ErrorAnswer = tuple[int, JsonObject, Mapping[str, str]]


def error_answer(exception: Exception, request_id: str) -> ErrorAnswer:
    """The answer to an exception; one that nobody expects is logged."""
    error = as_gateway_error(exception)
    if error is None and (answer := _library_answer(exception)):
        return answer
    if error is None:
        log.exception("Request %s failed.", request_id)
        error = errors.InternalError()
    detail = " ".join(_sentence(problem) for problem in error.problems)
    scim_type = "invalidValue" if isinstance(error, errors.ValidationError) else ""
    return _answer(error.code, detail, scim_type, error.headers)


def _library_answer(exception: Exception) -> ErrorAnswer | None:
    """The answer to an exception of SCIM's library; None for all others."""
    import pydantic
    from scim2_models import Error, SCIMException  # loaded by then, if one of its exceptions is here

    if isinstance(exception, pydantic.ValidationError):
        problem = Error.from_validation_error(exception.errors()[0])
        return _answer(problem.status or 400, problem.detail or "", problem.scim_type or "")
    if isinstance(exception, SCIMException):
        return _answer(exception.status, exception.detail, exception.scim_type)
    return None


def _sentence(problem: Problem) -> str:
    name = FIELDS.get(problem.field, problem.field) or problem.parameter
    return f"{name}: {problem.detail}" if name else problem.detail


def _answer(status: int, detail: str, scim_type: str = "", headers: Mapping[str, str] | None = None) -> ErrorAnswer:
    keyword = {"scimType": scim_type} if scim_type else {}
    detail = detail[: errors.MAX_MESSAGE_LENGTH]
    return status, {"schemas": [ERROR_SCHEMA], "status": str(status), **keyword, "detail": detail}, headers or {}
