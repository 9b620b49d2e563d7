"""What tests of work for aliases share: targets, requests and what providers got."""


def asked(*providers):
    return tuple(len(provider.seen) for provider in providers)


def models(provider):
    return [seen.json["model"] for seen in provider.seen]


def target(world, provider, **options):
    (model,) = world.row(provider).models.values_list("name", flat=True)
    return world.target(provider, model, **options)


def targets(world, *providers, tiers=True):
    return [target(world, one, tier=number if tiers else 0) for number, one in enumerate(providers)]


def ask(world, name, prompt="Hello!", **options):
    return world.ask(prompt, body={"model": str(name)} | options.pop("body", {}), **options)


def refused_as(response, code, exception, *words):
    assert (response.status_code, response.json()["exception"]) == (code, exception), response.text
    for word in words:
        assert word in response.json()["message"]
    return response
