"""Keys that are created over HTTP."""

import itertools

from keys.models import ApiKey
from keys.secrets import parse_key

_numbers = itertools.count()


def create_key(client, **attributes) -> ApiKey:
    response = client.post("/keys/", **({"name": f"k{next(_numbers)}"} | attributes))
    assert response.status_code == 201, response.text
    public_id, _ = parse_key(response.json()["key"])
    return ApiKey.objects.get(public_id=public_id)
