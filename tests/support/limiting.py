"""What the tests of limits share: requests that no stored answer serves, and what their headers tell."""

from licensing.models import Limit
from tests.support.pace import in_one_minute

USED = {"prompt_tokens": 10, "completion_tokens": 20}


def limited(world, measure, window, amount, subject="key", **options):
    """The text of a new key, of which (or of whose user, group or provider) this is the limit."""
    issued = world.new_key()
    whose = {
        "key": lambda: issued.key,
        "user": lambda: world.user,
        "group": lambda: world.new_group(world.user),
    }[subject]()
    Limit.objects.create(measure=measure, window=window, amount=amount, **{subject: whose}, **options)
    in_one_minute(10)
    return issued.text


def bypass(world, key=None, prompt="Hello!", **body):
    return world.ask(prompt, key=key, body=body, headers={"X-Svc-Cache": "bypass"})


def items(header):
    """{"key-tokens": {"q": 100, "qu": "tokens", "w": 60}} out of a header of structured fields."""
    values = {}
    for item in header.split(", "):
        name, *parameters = item.split(";")
        pairs = (parameter.split("=") for parameter in parameters)
        values[name.strip('"')] = {key: value.strip('"') if '"' in value else int(value) for key, value in pairs}
    return values


def left(response, policy):
    return items(response.headers["RateLimit"])[policy]["r"]


def refused(response, exception, *words):
    assert (response.status_code, response.json()["exception"]) == (429, exception), response.text
    assert int(response.headers["Retry-After"]) > 0
    for word in words:
        assert word in response.json()["message"]
