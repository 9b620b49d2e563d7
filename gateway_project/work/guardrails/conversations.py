"""Conversations that a provider stores: the placeholders of their earlier turns are no longer known."""

import hashlib

from django.conf import settings

from gateway_project.work.snapshot.records import Caller, Target
from providers.formats import WorkRequest

PURPOSE = b"gateway placeholders"


def placeholder_key(request: WorkRequest, targets: tuple[Target, ...], caller: Caller) -> bytes:
    """The key by which originals have the same placeholder in all turns; b"" if no provider keeps turns."""
    if not _is_kept(request, targets):
        return b""
    key = hashlib.blake2b(PURPOSE, key=settings.SECRET_KEY.encode()[:64])
    key.update(caller.id.to_bytes(8, "big"))
    return key.digest()


def _is_kept(request: WorkRequest, targets: tuple[Target, ...]) -> bool:
    """Whether the request goes on with what a provider keeps, or may be kept itself."""
    formats = (target.provider.format for target in targets)
    return bool(request.stateful_parameter) or any(format is not None and format.is_kept(request) for format in formats)
