"""A whole document from an address that an administrator has named."""

from gateway_project.errors import UpstreamError
from providers.transport.fetching import Bounds, fetch_url

OK = 200


class DocumentUnavailable(Exception):
    """There is no document; the message says why."""


def fetch_document(url: str, bounds: Bounds) -> bytes:
    """The body of a response with status 200 to GET. Raises DocumentUnavailable."""
    try:
        answer = fetch_url(url, bounds, headers={"Accept": "application/json"})
    except UpstreamError as error:
        reason = error.message.removesuffix(".")
        raise DocumentUnavailable(f"{url} cannot be read: {reason[:1].lower()}{reason[1:]}") from None
    if answer.status != OK:
        raise DocumentUnavailable(f"{url} answered with status {answer.status}")
    return answer.body
