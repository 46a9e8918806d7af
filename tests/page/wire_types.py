"""What the page knows of the server and its languages, from their own descriptions. ``make openapi`` writes it anew."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import orjson

from omnigraph.language.query import list_vocabulary

ROOT: Final = Path(__file__).parents[2]
DESCRIPTION: Final = ROOT / "docs" / "reference" / "openapi.json"
FILE: Final = ROOT / "ui" / "src" / "requests.ts"
WORDS: Final = ROOT / "ui" / "src" / "vocabulary.ts"
_PREFIX: Final = "/graphs/{graph_id}"
_SIMPLE: Final = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_HEAD: Final = """\
/** What the routes take and answer. Made from docs/reference/openapi.json by `make openapi`: do not edit. */

import type { Json } from "./wire";

"""

Schema = Mapping[str, Any]


def write_types(description: Schema) -> str:
    """Return a module of TypeScript: the parameters of each GET, and the body of each POST, by path."""
    reads: dict[str, str] = {}
    bodies: dict[str, str] = {}
    read: dict[str, str] = {}
    answered: dict[str, str] = {}
    for path, methods in cast("Mapping[str, Mapping[str, Schema]]", description["paths"]).items():
        if not path.startswith(_PREFIX):
            continue
        route = path.removeprefix(_PREFIX) or "/"
        if "get" in methods:
            reads[route] = _write_query(methods["get"])
            read[route] = _write_answer(methods["get"])
        if "post" in methods:
            body = cast("Schema", methods["post"].get("requestBody", {})).get("content", {}).get("application/json")
            # What the page sends may be read-only, which its Json is not.
            sent = _write_type(body["schema"], 1) if body else "undefined"
            bodies[route] = sent.replace("Record<string, Json>", "Record<string, unknown>")
            answered[route] = _write_answer(methods["post"])
    parts = [_write_interface("Reads", reads), _write_interface("ReadAnswers", read)]
    parts += [_write_interface("Bodies", bodies), _write_interface("BodyAnswers", answered)]
    parts += [
        f"export type {name} = {_write_type(schema, 0)};\n"
        for name, schema in sorted(description["components"]["schemas"].items())
    ]
    listed = "\n".join(parts)
    return f"{_HEAD}{listed}"


def write_vocabulary() -> str:
    """Return a module of TypeScript: the words of the query language, for the editor."""
    words = list_vocabulary()
    keywords = [*words.keywords, *(word for word in words.operators if word.isidentifier())]
    lists = {"KEYWORDS": sorted(keywords), "SCALARS": words.types, "FUNCTIONS": words.functions}
    lines = [
        f"export const {name} = {orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()} as const;"
        for name, value in lists.items()
    ]
    return "\n\n".join(["/** The words of the query language. Made by `make openapi`: do not edit. */", *lines, ""])


def _write_interface(name: str, entries: Mapping[str, str]) -> str:
    lines = [f'  readonly "{route}": {text};' for route, text in sorted(entries.items())]
    return "\n".join([f"export interface {name} {{", *lines, "}", ""])


def _write_answer(operation: Schema) -> str:
    """Return the type of a successful answer as JSON; ``unknown`` if it is not described."""
    answer = cast("Schema", operation["responses"].get("200", {}))
    described = cast("Schema", answer.get("content", {}).get("application/json", {}))
    return _write_type(described.get("schema", {}), 1)


def _write_query(operation: Schema) -> str:
    given = [each for each in cast("list[Schema]", operation.get("parameters", [])) if each["in"] == "query"]
    found = {each["name"]: (each["schema"], bool(each.get("required"))) for each in given}
    return _write_fields(found, 1)


def _write_fields(fields: Mapping[str, tuple[Schema, bool]], depth: int) -> str:
    if not fields:
        return "Record<string, never>"
    indent = "  " * (depth + 1)
    lines = [
        f"{indent}readonly {name}{'' if required else '?'}: {_write_value(schema, depth + 1, is_required=required)};"
        for name, (schema, required) in sorted(fields.items())
    ]
    return "\n".join(["{", *lines, f"{'  ' * depth}}}"])


def _write_value(schema: Schema, depth: int, *, is_required: bool) -> str:
    """Return the type of a field. On the wire, null and absent are the same."""
    text = _write_type(schema, depth)
    return text if is_required else f"{text.removesuffix(' | null')} | null | undefined"


def _write_type(schema: Schema, depth: int) -> str:
    """Return the type of a value. What a schema leaves open is ``unknown``."""
    if "$ref" in schema:
        return cast("str", schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return orjson.dumps(schema["const"]).decode()
    if "enum" in schema:
        return " | ".join(orjson.dumps(value).decode() for value in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_write_type(each, depth) for each in cast("list[Schema]", schema["anyOf"])))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_write_type({**schema, "type": each}, depth) for each in cast("list[str]", kind))
    if kind == "array":
        return f"readonly ({_write_type(cast('Schema', schema.get('items', {})), depth)})[]"
    if kind == "object":
        properties = cast("Mapping[str, Schema]", schema.get("properties", {}))
        if not properties:
            members = schema.get("additionalProperties")
            value = _write_type(cast("Schema", members), depth) if isinstance(members, Mapping) else "unknown"
            return f"Record<string, {'Json' if members is True else value}>"
        required = set(cast("list[str]", schema.get("required", [])))
        return _write_fields({name: (each, name in required) for name, each in properties.items()}, depth)
    return _SIMPLE.get(cast("str", kind), "unknown")


def read_description() -> Schema:
    """Return the committed description of the routes."""
    return cast("Schema", orjson.loads(DESCRIPTION.read_bytes()))


if __name__ == "__main__":
    FILE.write_text(write_types(read_description()), "utf-8")
    WORDS.write_text(write_vocabulary(), "utf-8")
