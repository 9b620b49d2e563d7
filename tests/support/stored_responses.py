"""Responses that a provider stores, and two users of that provider."""

import json

from keys.services import IssuedKey

PATH = "/v1/responses"


def response_with(identifier, *items, **more):
    return {"id": identifier, "object": "response", "status": "completed", "error": None, "output": [*items], **more}


def message(identifier):
    content = [{"type": "output_text", "text": "Lisbon", "annotations": []}]
    return {"type": "message", "id": identifier, "role": "assistant", "status": "completed", "content": content}


def events_of(response):
    """A stream of a response, as OpenAI sends it."""
    begun = response | {"status": "in_progress", "output": []}
    events = [("response.created", {"response": begun})]
    for index, item in enumerate(response["output"]):
        events.append(("response.output_item.added", {"output_index": index, "item": item | {"content": []}}))
        events.append(("response.output_text.delta", {"item_id": item["id"], "delta": "Lisbon"}))
        events.append(("response.output_item.done", {"output_index": index, "item": item}))
    events.append(("response.completed", {"response": response}))
    documents = [{"type": name, "sequence_number": number, **value} for number, (name, value) in enumerate(events)]
    return [f"event: {document['type']}\ndata: {json.dumps(document)}\n\n" for document in documents]


class Party:
    """Two users of one provider that stores responses: ann, and bob, who knows the ids of ann."""

    def __init__(self, world, format_name="openai-responses", path=PATH):
        self.world, self.path = world, path
        self.provider = world.provider(format_name=format_name)
        self.ann, self.bob = self.user(), self.user()

    def user(self) -> IssuedKey:
        user = self.world.new_user()
        self.world.allow(user=user)
        return self.world.new_key(owner=user)

    def ask(self, who, **body):
        request = {"model": self.world.model, "input": "Capital of Portugal?"} | body
        return self.world.post(request, key=who.text, path=self.path)


def said(*parts):
    return {"role": "user", "content": [*parts]}


def search(**more):
    return {"type": "file_search", **more}


def interpreter(**container):
    return {"type": "code_interpreter", "container": container}


def variable(file):
    return {"x": {"type": "input_file", "file_id": file}}
