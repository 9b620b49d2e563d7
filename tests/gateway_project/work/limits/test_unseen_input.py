"""What a provider reads beyond the text of a body: found in the shapes of all providers."""

import pytest

from gateway_project.work.limits.unseen_input import unseen_input
from providers.formats import FORMATS, WorkRequest
from providers.formats.json_values import dump_value

SCHEMA = {"type": "object", "properties": {"image": {"type": "string"}, "tools": {"type": "array"}}}
ADDRESS = "https://example.test/a"


def unseen(body, format_name="passthrough"):
    return unseen_input(WorkRequest("chat", "m", body, dump_value(body)), [FORMATS[format_name]])


def part(**value):
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello!"}, value]}]}


@pytest.mark.parametrize(
    "body",
    [
        part(type="text", text="image_url: https://example.test"),
        part(type="document", source={"type": "text", "media_type": "text/plain", "data": "Hello!"}),
        part(type="search_result", source=ADDRESS, title="A"),
        part(document={"name": "a", "format": "txt", "source": {"text": "Hello!"}}),
        part(type="tool_use", id="1", name="f", input={"image_url": ADDRESS, "tools": ["web_search"]}),
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]},
        {"tools": [{"type": "function", "name": "f", "parameters": SCHEMA}]},
        {"tools": [{"name": "f", "input_schema": SCHEMA}, {"type": "custom", "name": "g", "input_schema": SCHEMA}]},
        {"tools": [{"functionDeclarations": [{"name": "f", "parameters": SCHEMA}]}]},
        {"toolConfig": {"tools": [{"toolSpec": {"name": "f"}}, {"cachePoint": {"type": "default"}}]}},
        {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]}]},
        {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}},
        {"tools": [], "image": None, "plugins": []},
        {"messages": [{"type": ["image"]}], "source": [1]},
    ],
)
def test_text_and_the_clients_own_tools_are_all_there(body):
    assert unseen(body) is None


@pytest.mark.parametrize(
    "body",
    [
        part(type="image_url", image_url={"url": ADDRESS}),
        part(type="input_image", image_url=ADDRESS),
        part(type="input_file", file_url=ADDRESS),
        part(type="input_file", file_id="file-1"),
        part(type="image", source={"type": "base64", "media_type": "image/png", "data": "AAAA"}),
        part(type="document", source={"type": "url", "url": ADDRESS}),
        part(type="image", data="AAAA", mimeType="image/png"),
        part(inlineData={"mimeType": "image/png", "data": "AAAA"}),
        part(file_data={"file_uri": ADDRESS}),
        part(document={"name": "a", "format": "pdf", "source": {"bytes": "AAAA"}}),
        part(video={"format": "mp4", "source": {"s3Location": {"uri": "s3://a/b"}}}),
        part(type="document_url", document_url=ADDRESS),
        part(type="Image_URL", Image_URL=ADDRESS),
        {"messages": [{"role": "user", "content": "Hello!", "images": ["AAAA"]}]},
        {"input": [{"type": "function_call_output", "output": [{"type": "input_image", "image_url": ADDRESS}]}]},
        {"previous_response_id": "resp_1"},
        {"conversation": {"id": "conv_1"}},
        {"thread": {"previous_message_id": "msg_1"}},
        {"tools": [{"type": "bash_20250124", "name": "bash"}]},
    ],
)
def test_media_and_references_fit_into_the_context(body):
    result = unseen(body)
    assert result is not None
    assert result.fits_context


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"tools": [{"type": "function", "name": "f"}, {"type": "web_search_preview"}]}, "tools[1]"),
        ({"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}, "tools[0]"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0]"),
        ({"tools": [{"googleSearch": {}}]}, "tools[0]"),
        ({"tools": [{"functionDeclarations": [{"name": "f"}], "urlContext": {}}]}, "tools[0]"),
        ({"toolConfig": {"tools": [{"systemTool": {"name": "nova_grounding"}}]}}, "toolConfig.tools[0]"),
        ({"tools": ["web_search"]}, "tools[0]"),
        ({"tools": {"web_search": {}}}, "tools[0]"),
        ({"Tools": [{"type": "web_search"}]}, "Tools[0]"),
        ({"web_search_options": {"search_context_size": "low"}}, "web_search_options"),
        ({"web_search_options": {}}, "web_search_options"),
        ({"mcp_servers": [{"type": "url", "url": ADDRESS}]}, "mcp_servers"),
        ({"plugins": [{"id": "web"}]}, "plugins"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"cachedContent": "cachedContents/1"}, "cachedContent"),
        ({"container": "container_1"}, "container"),
        ({"context_management": {"edits": [{"type": "compact_20260112"}]}}, "context_management"),
        ({"image": "AAAA", "plugins": [{"id": "web"}]}, "plugins"),
    ],
)
def test_what_is_read_again_and_again_does_not(body, field):
    result = unseen(body)
    assert result is not None
    assert not result.fits_context
    assert result.field.startswith(field)
