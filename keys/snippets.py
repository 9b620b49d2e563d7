"""The first request with a new key, as the page that shows the key prints it."""

import json
import shlex


def sample_request(model: str) -> dict[str, str]:
    """The model as a literal of Python and JavaScript, and the body of a chat completion, quoted for a shell."""
    body = {"model": model, "messages": [{"role": "user", "content": "Hello!"}]}
    return {"model": json.dumps(model, ensure_ascii=False), "body": shlex.quote(json.dumps(body))}
