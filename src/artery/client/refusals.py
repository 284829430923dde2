"""What a gateway's answer means that did not become a WebSocket. Pure."""

from http import HTTPStatus

import msgspec
from websockets.http11 import Response

from artery.client.frames import error_of
from artery.errors import ArteryError, NotAllowed, Unavailable

LONGEST_WAIT_S = 60.0


def refusal(response: Response, base: str) -> ArteryError:
    """The error that it speaks of, in the gateway's own words where there are any."""
    try:
        return error_of(msgspec.json.decode(response.body)["error"])
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        words = f"{base} answered {response.status_code} instead of a WebSocket: is it a gateway's address?"
        return NotAllowed(words) if response.status_code == HTTPStatus.FORBIDDEN else Unavailable(words)


def wait_s(response: Response) -> float | None:
    """How long to wait, at least, before the same is worth trying again; None where it is not."""
    if response.status_code != HTTPStatus.TOO_MANY_REQUESTS and response.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
        return None
    told = response.headers.get_all("Retry-After")
    return min(float(told[0]), LONGEST_WAIT_S) if len(told) == 1 and told[0].isdecimal() else 0.0
