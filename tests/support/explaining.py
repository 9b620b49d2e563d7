"""Asks a running gateway for the explanation of a request."""

EXPLAIN = "/work?explain=true"
MEMBERS = {
    *("allowed", "sentences", "error", "caller", "rules", "otherRules", "candidates", "leftOut", "limits", "cache"),
    *("guardrails", "outgoing", "estimate"),
}
SECRET = "sk-secret-of-the-provider"


def explain(world, prompt="Hello!", *, query="", **options):
    """The explanation of a chat request."""
    response = world.ask(prompt, path=f"{EXPLAIN}{query}", **options)
    assert response.status_code == 200, response.text
    assert SECRET not in response.text
    document = response.json()["data"]
    assert document.keys() == MEMBERS
    assert document["allowed"] == (document["error"] is None)
    assert all(one.endswith((".", "?")) for one in document["sentences"]), document["sentences"]
    return document


def reasons(document):
    return {row["name"]: (row["matched"], row["reason"]) for row in document["rules"]}
