"""That markets' metadata has changed, as `md_stream:notify` has it."""

import base64
import binascii
from collections.abc import Mapping

from google.protobuf.message import DecodeError

from artery.errors import BadEvent
from artery.wire.artery_pb2 import SymbolMetadataUpdated

KIND = "symbols"


def encode(message: SymbolMetadataUpdated, *, event_ts: int) -> dict[str, str]:
    """The message as an entry."""
    body = base64.b64encode(message.SerializeToString(deterministic=True)).decode()
    name = f"symbols:{message.provider}:{message.snapshot_id}"
    return {"ver": "1", "t": "NOTIFY", "id": name, "kind": KIND, "body": body, "eventTs": str(event_ts)}


def decode(fields: Mapping[str, str]) -> SymbolMetadataUpdated:
    """The message in an entry, or `BadEvent`."""
    if fields.get("ver") != "1" or fields.get("t") != "NOTIFY" or fields.get("kind") != KIND:
        raise BadEvent(f"not a change of metadata: t {fields.get('t')!r:.20}, kind {fields.get('kind')!r:.20}")
    try:
        return SymbolMetadataUpdated.FromString(base64.b64decode(fields["body"], validate=True))
    except (KeyError, binascii.Error, DecodeError) as error:
        raise BadEvent(f"NOTIFY: {error}") from error
