"""A work request, end to end."""


def test_a_chat_request_is_answered_with_the_providers_own_body(world):
    provider = world.provider()
    provider.answers(text="Lisbon")
    world.allow()
    response = world.ask("Capital of Portugal?")
    assert response.status_code == 200
    assert response.json()["choices"][0]["message"]["content"] == "Lisbon"
    assert response.headers["X-Svc-Cache"] == "MISS"
    assert provider.seen[0].json["messages"] == [{"role": "user", "content": "Capital of Portugal?"}]
    entry = world.entry(response)
    assert (entry.outcome, entry.status, entry.model) == ("completed", 200, world.model)
