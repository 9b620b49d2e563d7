"""The options of an explanation in the query string."""

import re
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import parse_qs

from gateway_project.errors import ValidationError

NUMBER = re.compile(r"[0-9]{1,18}\Z", re.ASCII)
MAX_PARAMETERS = 20


class Options(NamedTuple):
    """Whose request it is, unless it is the caller's own: that of a user, of the key of this name, from an address."""

    user_id: int | None = None
    key_name: str = ""
    address: str = ""  # unknown if another credential is asked about and no address is named

    @property
    def names_credential(self) -> bool:
        """Whether another credential than the request's own is asked about."""
        return self.user_id is not None or bool(self.key_name)


OWN = Options()


def read_options(query: str) -> Options | None:
    """What a query string asks for; None if no explanation. Raises ValidationError."""
    try:
        parameters = parse_qs(query, keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        raise ValidationError(f"The query must have at most {MAX_PARAMETERS} parameters.") from None
    wish = _single_value("explain", parameters)
    if wish not in ("", "true", "false"):
        raise ValidationError("explain must be true or false.", parameter="explain")
    if wish != "true":
        return None
    user = _single_value("asUser", parameters)
    if user and not NUMBER.match(user):
        raise ValidationError("asUser must be the id of a user.", parameter="asUser")
    address = _single_value("fromAddress", parameters)
    return Options(
        int(user) if user else None, _single_value("asKey", parameters), read_address(address) if address else ""
    )


def read_address(text: str) -> str:
    """An address of a client in its canonical form. Raises ValidationError."""
    try:
        return str(ip_address(text))
    except ValueError:
        raise ValidationError("fromAddress must be an IP address.", parameter="fromAddress") from None


def _single_value(name: str, parameters: dict[str, list[str]]) -> str:
    values = parameters.get(name, [""])
    if len(values) > 1:
        raise ValidationError(f"{name} must be sent only once.", parameter=name)
    return values[0]
