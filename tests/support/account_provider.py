"""A provider with several credentials, each of an account that gets answers of its own."""

from collections import Counter

from providers.models import ProviderCredential
from providers.services import add_credential
from tests.support.provider import ScriptedProvider
from tests.support.provider_answers import Answer
from tests.support.world import World

OWN = "sk-secret-of-the-provider"
SECOND, THIRD = "sk-second-account-of-ours", "sk-third-account-of-ours"


class AccountProvider(ScriptedProvider):
    """Answers each account as `by_account` says: an answer by credential."""

    def __init__(self) -> None:
        super().__init__()
        self.by_account: dict[str, Answer] = {}

    def arrived(self, request):
        answer = super().arrived(request)
        return self.by_account.get(credential(request), answer)

    @property
    def shares(self) -> Counter[str]:
        return Counter(map(credential, list(self.seen)))


def credential(request) -> str:
    return request.headers.get("authorization", "").removeprefix("Bearer ")


def two_accounts(world: World) -> AccountProvider:
    """A provider with a second credential, which a rule allows the world's user to ask."""
    world.allow()
    scripted = world.provider(scripted=AccountProvider())
    add(world, scripted, SECOND)
    return scripted


def add(world: World, scripted: ScriptedProvider, secret: str, **options) -> ProviderCredential:
    row = add_credential(provider=world.row(scripted), name=world.name("account"), credential=secret, **options)
    world.settle()
    return row


def ask(world: World, count: int = 1, **options) -> list:
    """So many different requests."""
    responses = [world.ask(world.name("prompt"), **options) for _ in range(count)]
    assert [response.status_code for response in responses] == [200] * count
    return responses


def provider_credential(world: World, provider: ScriptedProvider) -> ProviderCredential:
    (row,) = world.row(provider).credentials.all()
    return row


def first_request(world: World, provider: AccountProvider, prompt: str):
    """The first request that a prompt causes."""
    world.ask(prompt)
    return provider.seen[0]
