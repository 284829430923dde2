"""One table of routes: it finds who answers, and the interface's description is made from it."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from artery.gateway.asks import Param
from artery.gateway.grants import Grant, Scope

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Ask:
    """A request that may be answered: its parameters and its body were read, who asks is known."""

    request: Request
    values: Mapping[str, Any]
    body: Any
    grant: Grant | None

    @property
    def address(self) -> str:
        return address(self.request)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a route may answer: one of these types, as an example shows it."""

    example: Any
    types: tuple[Any, ...]
    doc: str = "What was asked for."
    status: int = 200
    media: str = JSON
    headers: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Body:
    """What a request has to bring: this type, as an example shows it."""

    type: Any
    example: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One thing that can be asked for, and by whom: a key with a scope, any key, or everyone."""

    method: str
    path: str
    name: str
    doc: str
    handle: Callable[[Ask], Awaitable[Response]]
    answers: tuple[Answer, ...]
    scope: Scope | None = Scope.READ
    open: bool = False
    params: tuple[Param, ...] = ()
    body: Body | None = None
    errors: tuple[int, ...] = ()
    """Errors beyond those that any route may answer with."""
    cost: float = 1.0
    """What it counts against the rate of who asks."""

    @property
    def strict(self) -> bool:
        """Our own routes refuse parameters that they do not know; others send what they like."""
        return self.path.startswith("/v1/")

    @property
    def udf(self) -> bool:
        return self.path.startswith("/udf/")


Methods = dict[str, Route]


class Table:
    """Routes by path and method. A part of a path in braces is a parameter; only a market may hold a slash."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._exact: dict[str, Methods] = {}
        self._shaped: list[tuple[re.Pattern[str], Methods]] = []
        shapes: dict[str, Methods] = {}
        for route in self.routes:
            if "{" in route.path:
                shapes.setdefault(route.path, {})[route.method] = route
            else:
                self._exact.setdefault(route.path, {})[route.method] = route
        for path, methods in shapes.items():
            self._shaped.append((re.compile(re.sub(r"\{(\w+)\}", _part, path)), methods))

    def find(self, path: str) -> tuple[Methods, dict[str, str]]:
        """The routes of a path, by method, and what the path says; no routes if there are none."""
        methods = self._exact.get(path)
        if methods is not None:
            return methods, {}
        for shape, methods in self._shaped:
            match = shape.fullmatch(path)
            if match is not None:
                return methods, match.groupdict()
        return {}, {}


def _part(name: re.Match[str]) -> str:
    return f"(?P<{name[1]}>{'.+' if name[1] == 'market' else '[^/]+'})"


def address(request: Request) -> str:
    """Where a request comes from."""
    return request.client.host if request.client is not None else ""
