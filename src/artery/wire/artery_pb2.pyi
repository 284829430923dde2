from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OHLCRow(_message.Message):
    __slots__ = ("start_ms", "open", "high", "low", "close", "volume", "trades", "closed")
    START_MS_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    VOLUME_FIELD_NUMBER: _ClassVar[int]
    TRADES_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    start_ms: int
    open: str
    high: str
    low: str
    close: str
    volume: str
    trades: int
    closed: bool
    def __init__(self, start_ms: _Optional[int] = ..., open: _Optional[str] = ..., high: _Optional[str] = ..., low: _Optional[str] = ..., close: _Optional[str] = ..., volume: _Optional[str] = ..., trades: _Optional[int] = ..., closed: _Optional[bool] = ...) -> None: ...

class OHLCBatch(_message.Message):
    __slots__ = ("request_id", "client_id", "ticker", "period_s", "page", "last", "status", "error", "rows")
    class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OK: _ClassVar[OHLCBatch.Status]
        ERROR: _ClassVar[OHLCBatch.Status]
    OK: OHLCBatch.Status
    ERROR: OHLCBatch.Status
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    TICKER_FIELD_NUMBER: _ClassVar[int]
    PERIOD_S_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    client_id: str
    ticker: str
    period_s: int
    page: int
    last: bool
    status: OHLCBatch.Status
    error: str
    rows: _containers.RepeatedCompositeFieldContainer[OHLCRow]
    def __init__(self, request_id: _Optional[str] = ..., client_id: _Optional[str] = ..., ticker: _Optional[str] = ..., period_s: _Optional[int] = ..., page: _Optional[int] = ..., last: _Optional[bool] = ..., status: _Optional[_Union[OHLCBatch.Status, str]] = ..., error: _Optional[str] = ..., rows: _Optional[_Iterable[_Union[OHLCRow, _Mapping]]] = ...) -> None: ...
