"""The interface's description, made from the table of routes, so that it says what is true."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from artery.gateway import answers
from artery.gateway.shapes import Error, UdfError
from artery.gateway.table import JSON, Answer, Route

_REF = "#/components/schemas/{name}"
_ANY_ROUTE = (400, 403, 429, 503)
_KEYED = (401,)
_BODIED = (413,)
_ABOUT = (
    "Market data: providers, markets, history, keys, and TradingView's UDF. "
    "Live data is on the WebSocket `/v1/stream`. "
    "Every error has the form of `Error`; its message is one sentence that says what to do."
)


def document(routes: Iterable[Route], version: str) -> dict[str, Any]:
    """The whole description, as OpenAPI 3.1."""
    found = list(routes)
    types = [kind for route in found for answer in route.answers for kind in answer.types]
    types += [route.body.type for route in found if route.body is not None]
    _, schemas = msgspec.json.schema_components([*types, Error, UdfError], ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for route in found:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Artery", "version": version, "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "A key, as `artery keys create` shows it."},
            },
        },
    }


def error_statuses(route: Route) -> list[int]:
    """The errors that a route may answer with."""
    keyed = () if route.open else _KEYED
    bodied = _BODIED if route.body is not None else ()
    return sorted({*_ANY_ROUTE, *keyed, *bodied, *route.errors})


def _operation(route: Route) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.doc,
        "tags": [route.path.split("/")[1]],
        "responses": _responses(route),
    }
    if not route.open:
        told["security"] = [{"key": []}]
        which = f"a key with the scope `{route.scope}`" if route.scope is not None else "any key"
        told["description"] = f"Needs {which}, or the page's cookie."
    if route.params:
        told["parameters"] = [_parameter(route, param) for param in route.params]
    if route.body is not None:
        content = {"schema": _schema((route.body.type,)), "example": route.body.example}
        told["requestBody"] = {"required": True, "content": {JSON: content}}
    return told


def _parameter(route: Route, param: Any) -> dict[str, Any]:
    in_path = param.name in re.findall(r"\{(\w+)\}", route.path)
    schema = param.kind.schema()
    if param.default is not None:
        schema["default"] = param.default
    return {
        "name": param.name,
        "in": "path" if in_path else "query",
        "required": in_path or param.required,
        "description": param.doc,
        "schema": schema,
        "example": param.example,
    }


def _responses(route: Route) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for answer in route.answers:
        entry = told.setdefault(str(answer.status), {"description": answer.doc})
        if answer.headers:
            entry["headers"] = {
                name: {"description": doc, "schema": {"type": "string"}} for name, doc in answer.headers.items()
            }
        if answer.types:
            entry.setdefault("content", {})[answer.media] = _content(answer)
    for status in error_statuses(route):
        _add_error(told, route, status)
    return told


def _content(answer: Answer) -> dict[str, Any]:
    return {"schema": _schema(answer.types), "example": answer.example}


def _add_error(told: dict[str, Any], route: Route, status: int) -> None:
    example = answers.example(status, udf=route.udf)
    kind: Any = UdfError if route.udf else Error
    if str(status) in told:  # a status that also answers what was asked: `/readyz` while it is not ready
        content = told[str(status)]["content"][JSON]
        content["schema"] = {"anyOf": [content["schema"], _schema((kind,))]}
        return
    entry: dict[str, Any] = {"description": example["error"]["message"]}
    if status in answers.RETRIED:
        entry["headers"] = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
    entry["content"] = {JSON: {"schema": _schema((kind,)), "example": example}}
    told[str(status)] = entry


def _schema(types: tuple[Any, ...]) -> dict[str, Any]:
    schemas, _ = msgspec.json.schema_components(types, ref_template=_REF)
    return schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}
