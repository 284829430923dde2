"""Just enough HTTP for a venue on loopback: one request at a time, small bodies, connections that stay open."""

import msgspec

from artery.errors import BadInput, TooMuch

HEAD_MAX = 16 * 1024
BODY_MAX = 64 * 1024
_REASONS = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    413: "Content Too Large",
    422: "Unprocessable Entity",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Request(msgspec.Struct, frozen=True):
    """One request; `size` is how many bytes of the buffer it took."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    size: int

    @property
    def is_upgrade(self) -> bool:
        return self.headers.get("upgrade", "").lower() == "websocket"


def read_request(buffer: bytes) -> Request | None:
    """The first request in the buffer, or None while it is not whole."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        if len(buffer) > HEAD_MAX:
            raise TooMuch(f"a request's head has at most {HEAD_MAX} bytes")
        return None
    lines = buffer[:end].decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    if len(parts) != 3 or parts[2] not in ("HTTP/1.1", "HTTP/1.0"):
        raise BadInput("that is not an HTTP request")
    headers = dict(_header(line) for line in lines[1:])
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()) or "transfer-encoding" in headers:
        raise BadInput("a body needs a Content-Length")
    if int(length) > BODY_MAX:
        raise TooMuch(f"a body has at most {BODY_MAX} bytes")
    size = end + 4 + int(length)
    if len(buffer) < size:
        return None
    return Request(parts[0], parts[1].partition("?")[0], headers, buffer[end + 4 : size], size)


def response(status: int, body: bytes) -> bytes:
    """A whole answer."""
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name or name != name.strip():
        raise BadInput("that is not an HTTP header")
    return name.lower(), value.strip()
