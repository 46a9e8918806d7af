"""The description of the routes as OpenAPI, made from their models."""

from __future__ import annotations

from typing import Any, cast

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from omnigraph.server.calls import JSON, NDJSON, TAR, Route
from omnigraph.server.messages import ANSWERS, FailureAnswer, RequestModel


def describe_route(route: Route) -> dict[str, Any]:
    """Return what FastAPI is told about a route."""
    extra: dict[str, Any] = {"parameters": [*_describe_path(route), *_describe_query(route)]}
    if route.body is not None:
        content: dict[str, Any] = {JSON: {"schema": make_json_schema(route.body)}}
        if route.upload is not None:
            content[NDJSON] = {"schema": {"type": "string"}}
            content[TAR] = {"schema": {"type": "string", "format": "binary"}}
        extra["requestBody"] = {"required": True, "content": content}
    extra["responses"] = {
        "200": {"description": "done", "content": {format_: {} for format_ in route.formats}},
        "default": {
            "description": "an error",
            "content": {JSON: {"schema": {"$ref": "#/components/schemas/FailureAnswer"}}},
        },
    }
    extra["security"] = [] if route.is_public else [{"token": []}]
    words = route.path.replace("graphs/{graph_id}", "graph").replace(":path", "").replace("{", "").replace("}", "")
    operation_id = "_".join([route.method.lower(), *(part for part in words.split("/") if part)])
    summary = (route.work.__doc__ or "").partition("\n")[0]
    return {
        "summary": summary,
        "operation_id": operation_id,
        "deprecated": route.successor is not None or None,
        "openapi_extra": extra,
    }


def describe_server(app: FastAPI) -> None:
    """Give the description what no single route has: the error, and how to authenticate."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = get_openapi(title=app.title, version=app.version, routes=app.routes)
            components = found.setdefault("components", {})
            components.setdefault("schemas", {})
            components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            _describe_answers(found["paths"], components["schemas"])
            for path in cast("dict[str, dict[str, Any]]", found["paths"]).values():
                for operation in path.values():
                    operation["responses"].pop("422", None)
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = describe


def _describe_answers(paths: dict[str, dict[str, Any]], components: dict[str, Any]) -> None:
    """Add the types of the answers. They are built here, when a description is asked for, and not at every start."""
    types = {**ANSWERS, ("default", ""): FailureAnswer}
    adapters = [(key, "serialization", TypeAdapter(cast("Any", answer))) for key, answer in types.items()]
    schemas, definitions = TypeAdapter.json_schemas(cast("Any", adapters), ref_template="#/components/schemas/{model}")
    components.update(cast("dict[str, Any]", definitions["$defs"]))
    for method, path in ANSWERS:
        described = schemas[cast("Any", (method, path)), "serialization"]
        paths[path][method]["responses"]["200"]["content"][JSON] = {"schema": described}


def _describe_path(route: Route) -> list[dict[str, Any]]:
    names = [part[1:-1].partition(":")[0] for part in route.path.split("/") if part.startswith("{")]
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _describe_query(route: Route) -> list[dict[str, Any]]:
    schema = make_json_schema(route.query)
    required = cast("list[str]", schema.get("required", []))
    properties = cast("dict[str, Any]", schema.get("properties", {}))
    return [
        {"name": name, "in": "query", "required": name in required, "schema": described}
        for name, described in properties.items()
    ]


def describe_mcp() -> dict[str, Any]:
    """Return what FastAPI is told about the route of agents: its messages are described by another standard."""
    parameters = [{"name": "graph_id", "in": "path", "required": True, "schema": {"type": "string"}}]
    body = {"required": True, "content": {JSON: {"schema": {"type": "object"}}}}
    return {
        "summary": "Answer one message of the Model Context Protocol (streamable HTTP, stateless).",
        "operation_id": "post_graph_mcp",
        "openapi_extra": {
            "parameters": parameters,
            "requestBody": body,
            "responses": {
                "200": {"description": "the answer", "content": {JSON: {}}},
                "202": {"description": "a notification was taken"},
                "default": {"description": "an error", "content": {JSON: {}}},
            },
            "security": [{"token": []}],
        },
    }


def make_json_schema(model: type[RequestModel]) -> dict[str, Any]:
    """Return the JSON Schema of a model, in one piece."""
    schema = model.model_json_schema(by_alias=True)
    definitions = cast("dict[str, Any]", schema.pop("$defs", {}))

    def resolve(value: object) -> object:
        if isinstance(value, dict):
            found = cast("dict[str, object]", value)
            reference = found.get("$ref")
            if isinstance(reference, str):
                return resolve(definitions[reference.rpartition("/")[2]])
            return {name: resolve(each) for name, each in found.items()}
        if isinstance(value, list):
            return [resolve(each) for each in cast("list[object]", value)]
        return value

    return cast("dict[str, Any]", resolve(schema))
