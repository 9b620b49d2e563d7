"""Azure OpenAI: OpenAI's shapes at Azure's addresses: one per deployment, or one for all (v1)."""

from providers.formats.dialect import WorkRequest
from providers.formats.openai.format import PATHS, OpenAI
from providers.formats.parts import path_segment

DEPLOYMENTS = "/deployments"


class AzureOpenAI(OpenAI):
    """The model's name is the deployment's. It is part of the path if the base URL ends in `deployments`."""

    name = "azure-openai"

    def path(self, work: WorkRequest, model: str) -> str:
        return f"/{path_segment(model)}{PATHS[work.operation]}"

    def url(self, base: str, path: str) -> str:
        address, question, query = base.partition("?")
        address = address.rstrip("/")
        if not address.endswith(DEPLOYMENTS):  # v1, or a single deployment: the body or the base URL has the name
            path = path[path.index("/", 1) :]
        return address + path + question + query
