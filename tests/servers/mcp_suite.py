"""What the conformance suite of the Model Context Protocol expects a server to have, mounted into ours.

The suite asks for tools, resources and prompts by fixed names. They are put beside the memory's own, so that
what answers is our server, our transport and our error handling.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mcp import types
from mcp.server.lowlevel import Server
from starlette.routing import Route

import agentmem
from agentmem.server.app import create_app
from agentmem.server.mcp import serve_http
from tests.servers.serving import Serving

PNG = b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d494844520000000100000001080600000037a92e"
        "9e0000000d49444154789c63f8cfc0f01f000501010066c9c6a70000000049454e44ae426082"
    )
).decode()
WAV = b64encode(
    b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data\0\0\0\0"
).decode()
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def embedded(uri: str, mime: str, said: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": said}}


TOOLS: dict[str, list[dict[str, Any]]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}],
    "test_embedded_resource": [
        embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        IMAGE,
        embedded(
            "test://mixed-content-resource", "application/json", '{"test":"data","value":123}'
        ),
    ],
    "test_error_handling": [text("This tool intentionally returns an error for testing")],
    "json_schema_2020_12_tool": [text("done")],
}
SCHEMAS = {
    "json_schema_2020_12_tool": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
        "additionalProperties": False,
    }
}
RESOURCES = {
    "test://static-text": {
        "mimeType": "text/plain",
        "text": "This is the content of the static text resource.",
    },
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
    "test://template/123/data": {
        "mimeType": "application/json",
        "text": json.dumps({"id": "123", "templateTest": True, "data": "Data for ID: 123"}),
    },
}


def said_by_user(*contents: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content} for content in contents]


def prompts(arguments: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
    """The messages of each prompt, given its arguments."""
    said = ", ".join(f"{name}='{value}'" for name, value in arguments.items())
    resource = embedded(
        arguments.get("resourceUri", ""), "text/plain", "Embedded resource content for testing."
    )
    return {
        "test_simple_prompt": said_by_user(text("This is a simple prompt for testing.")),
        "test_prompt_with_arguments": said_by_user(text(f"Prompt with arguments: {said}")),
        "test_prompt_with_embedded_resource": said_by_user(
            resource, text("Please process the embedded resource above.")
        ),
        "test_prompt_with_image": said_by_user(IMAGE, text("Please analyze the image above.")),
    }


def with_fixtures(server: Server[Any]) -> Server[Any]:
    """`server` with what the suite asks for beside its own."""

    def beside(method: str, params: Any, ours: Any) -> None:
        own = server.get_request_handler(method)
        assert own is not None
        handler = own.handler

        async def both(context: Any, asked: Any) -> Any:
            return await ours(context, asked, handler)

        server.add_request_handler(method, params, both)

    async def list_tools(context: Any, asked: Any, own: Any) -> Any:
        found = await own(context, asked)
        extra = [
            types.Tool(
                name=name,
                description="A fixture of the suite.",
                input_schema=SCHEMAS.get(name, {"type": "object", "properties": {}}),
            )
            for name in TOOLS
        ]
        return types.ListToolsResult(tools=[*found.tools, *extra])

    async def call_tool(context: Any, asked: Any, own: Any) -> Any:
        if asked.name not in TOOLS:
            return await own(context, asked)
        content = TOOLS[asked.name]
        return types.CallToolResult.model_validate(
            {"content": content, "isError": asked.name == "test_error_handling"}
        )

    async def list_resources(context: Any, asked: Any, own: Any) -> Any:
        found = await own(context, asked)
        extra = [
            types.Resource(uri=uri, name=uri, description="A fixture.")
            for uri in list(RESOURCES)[:2]
        ]
        return types.ListResourcesResult(resources=[*found.resources, *extra])

    async def read_resource(context: Any, asked: Any, own: Any) -> Any:
        uri = str(asked.uri)
        if uri not in RESOURCES:
            return await own(context, asked)
        contents = [{"uri": uri, **RESOURCES[uri]}]
        return types.ReadResourceResult.model_validate({"contents": contents})

    async def list_prompts(_: Any, __: Any) -> types.ListPromptsResult:
        found = [types.Prompt(name=name, description="A fixture.") for name in prompts({})]
        return types.ListPromptsResult(prompts=found)

    async def get_prompt(_: Any, asked: types.GetPromptRequestParams) -> types.GetPromptResult:
        messages = prompts(asked.arguments or {})[asked.name]
        return types.GetPromptResult.model_validate({"messages": messages})

    async def complete(_: Any, __: Any) -> types.CompleteResult:
        return types.CompleteResult(completion=types.Completion(values=["paris", "park"]))

    server.add_request_handler("prompts/list", types.PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", types.GetPromptRequestParams, get_prompt)
    server.add_request_handler("completion/complete", types.CompleteRequestParams, complete)
    beside("tools/list", types.PaginatedRequestParams, list_tools)
    beside("tools/call", types.CallToolRequestParams, call_tool)
    beside("resources/list", types.PaginatedRequestParams, list_resources)
    beside("resources/read", types.ReadResourceRequestParams, read_resource)
    return server


class Mounted:
    """`server` in the place of the memory's own, behind the guard of every other route."""

    def __init__(self, server: Server[Any]) -> None:
        self._server = server

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await serve_http(self._server, scope, receive, send)


@contextmanager
def over_http(server: Server[Any]) -> Iterator[str]:
    """`server` at an address of this machine, for as long as the block lasts."""
    with agentmem.open(":memory:", embedder=None) as memory:
        app = create_app(memory, auth=False, routes=[Route("/mcp", endpoint=Mounted(server))])
        with Serving(app) as running:
            yield f"{running.url}/mcp"
