"""Azure's addresses: of deployments, of one of them, and of the API that needs neither path nor version."""

import pytest

from gateway_project.errors import ValidationError
from providers.formats import FORMATS
from tests.support.formats.samples import request

pytestmark = pytest.mark.embedded

AZURE = FORMATS["azure-openai"]
HOST = "https://resource.openai.azure.com"
HELLO = {"model": "azure/gpt-5", "messages": [{"role": "user", "content": "Hello!"}]}


@pytest.mark.parametrize(
    ("base", "address"),
    [
        ("/openai/v1", "/openai/v1/chat/completions"),
        ("/openai/v1/", "/openai/v1/chat/completions"),
        ("/openai/v1?api-version=preview", "/openai/v1/chat/completions?api-version=preview"),
        (
            "/openai/deployments?api-version=2024-10-21",
            "/openai/deployments/my%20gpt%2F5/chat/completions?api-version=2024-10-21",
        ),
        (
            "/openai/deployments/?api-version=2024-10-21",
            "/openai/deployments/my%20gpt%2F5/chat/completions?api-version=2024-10-21",
        ),
        (
            "/openai/deployments/one?api-version=2024-10-21",
            "/openai/deployments/one/chat/completions?api-version=2024-10-21",
        ),
    ],
)
def test_where_a_chat_goes(base, address):
    outgoing = AZURE.request(request(HELLO), "my gpt/5")
    assert AZURE.url(HOST + base, outgoing.path) == HOST + address


@pytest.mark.parametrize("model", [".", ".."])
def test_a_models_name_leads_nowhere_else(model):
    with pytest.raises(ValidationError):
        AZURE.request(request(HELLO), model)
