"""The secret of a new app, from the first look at its page until it is set up: sealed, in the browser's session."""

from urllib.parse import urlsplit

import segno
from django.conf import settings
from django.http import HttpRequest

from accounts.models import User
from accounts.second_factor.codes import provisioning_uri
from accounts.second_factor.models import open_secret
from accounts.second_factor.pending import SECRET
from accounts.second_factor.services import begin_app
from gateway_project.json_types import JsonObject
from providers.credentials import CredentialUnreadable


def new_app(request: HttpRequest, user: User) -> str:
    """The sealed secret; the same at each call, so that a page that is loaded again shows what was scanned."""
    text = request.session.get(SECRET, "")
    try:
        open_secret(text, user.pk)
    except CredentialUnreadable:  # none yet, or another user's
        text = request.session[SECRET] = begin_app(user)
    return text


def shown_app(request: HttpRequest, user: User) -> JsonObject:
    """The secret as the page shows it: a text, an address for apps, and a QR code of it as SVG."""
    secret = open_secret(new_app(request, user), user.pk)
    host = urlsplit(settings.GATEWAY_BASE_URL).hostname or ""
    uri = provisioning_uri(secret, username=user.username, host=host)
    groups = " ".join(secret[start : start + 4] for start in range(0, len(secret), 4))
    # Black on white in every theme: cameras need the contrast and the border.
    image = segno.make(uri, error="m", micro=False).svg_inline(scale=4, border=4, light="#fff", dark="#000")
    return {"secret": groups, "uri": uri, "image": image}
