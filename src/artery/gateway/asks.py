"""What may be asked of a route: parameters, each with its own words for what is wrong. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import parse_qsl

import msgspec

from artery.errors import BadInput

_FIELDS_MAX = 50
_WHOLE = re.compile(r"-?[0-9]{1,15}", re.ASCII)


class Kind(Protocol):
    """What a value may be, as a check and as JSON Schema."""

    def read(self, name: str, text: str) -> Any:
        """The value, or `BadInput` that names it."""
        ...

    def schema(self) -> dict[str, Any]: ...


class Whole(msgspec.Struct, frozen=True):
    """A whole number between two others."""

    low: int
    high: int

    def read(self, name: str, text: str) -> int:
        if not (_WHOLE.fullmatch(text) and self.low <= int(text) <= self.high):
            raise BadInput(f"{name} must be a whole number from {self.low} to {self.high}, not {text!r:.40}")
        return int(text)

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


class Choice(msgspec.Struct, frozen=True):
    """One of a few words."""

    words: tuple[str, ...]

    def read(self, name: str, text: str) -> str:
        if text not in self.words:
            said = " or ".join(filter(None, [", ".join(self.words[:-1]), self.words[-1]]))
            raise BadInput(f"{name} must be {said}, not {text!r:.40}")
        return text

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.words)}


class Text(msgspec.Struct, frozen=True):
    """Text of a certain form; `words` says it for people."""

    pattern: str
    words: str

    def read(self, name: str, text: str) -> str:
        if not re.fullmatch(self.pattern, text, re.ASCII):
            raise BadInput(f"{name} must be {self.words}, not {text!r:.40}")
        return text

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^(?:{self.pattern})$"}


class Param(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter: in the query, unless it is part of the path."""

    name: str
    kind: Kind
    doc: str
    example: str | int
    default: str | int | None = None
    """What stands in for it; a parameter without it is None where it is not given."""
    required: bool = False


def read(params: Sequence[Param], query: bytes, path: Mapping[str, str], *, strict: bool) -> dict[str, Any]:
    """The values of a request; a strict route refuses what it does not know."""
    given = {**_pairs(query), **path}
    unknown = next((name for name in given if all(name != param.name for param in params)), None)
    if strict and unknown is not None:
        known = ", ".join(param.name for param in params) or "none"
        raise BadInput(f"{unknown!r:.40} is not a parameter here; there are: {known}")
    return {param.name: _value(param, given.get(param.name)) for param in params}


def _value(param: Param, text: str | None) -> Any:
    if text is not None:
        return param.kind.read(param.name, text)
    if param.required:
        raise BadInput(f"{param.name} is needed: {param.doc}")
    return param.default


def _pairs(query: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=_FIELDS_MAX, errors="strict")
    except ValueError:
        raise BadInput(f"the query must be at most {_FIELDS_MAX} names and values, in UTF-8") from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadInput("each parameter may be given once")
    return found
