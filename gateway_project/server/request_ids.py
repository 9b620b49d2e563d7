"""Correlation ids of requests, and the decoding of text in WSGI's environment."""

import re
import time
from random import getrandbits
from wsgiref.types import WSGIEnvironment

ACCEPTED = re.compile(r"[A-Za-z0-9._-]{1,128}\Z")


def request_id(environ: WSGIEnvironment) -> str:
    """The client's request id if it is well formed, else a new one."""
    requested = environ.get("HTTP_X_SVC_REQUEST_ID", "")
    return requested if requested and ACCEPTED.match(requested) else new_request_id()


def new_request_id() -> str:
    """A correlation id for a request without one: unique, not secret, and made without a system call.

    It begins with the time (in units of about a millisecond): new ids are adjacent in the index of a log of millions,
    while random ones would each be written to a page of their own.
    """
    return f"{time.time_ns() >> 20:011x}{getrandbits(84):021x}"


def decode_text(text: str) -> str:
    """The text of a path or header: WSGI passes bytes as Latin-1 (PEP 3333), clients send UTF-8."""
    return text if text.isascii() else text.encode("latin-1", "replace").decode("utf-8", "replace")
