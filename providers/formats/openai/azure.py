"""Azure OpenAI: OpenAI's shapes at addresses of its own, one a deployment or one for all (v1)."""

from providers.formats.base import WorkRequest
from providers.formats.openai.format import PATHS, OpenAI
from providers.formats.parts import path_segment

DEPLOYMENTS = "/deployments"


class AzureOpenAI(OpenAI):
    """The model's name is that of the deployment; where the base URL is that of deployments, it is in the path."""

    name = "azure-openai"

    def path(self, work: WorkRequest, model: str) -> str:
        return f"/{path_segment(model)}{PATHS[work.operation]}"

    def url(self, base: str, path: str) -> str:
        address, question, query = base.partition("?")
        address = address.rstrip("/")
        if not address.endswith(DEPLOYMENTS):  # v1, or one deployment: the body says it, or the base URL does
            path = path[path.index("/", 1) :]
        return address + path + question + query
