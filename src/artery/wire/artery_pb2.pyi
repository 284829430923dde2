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
    __slots__ = ("request_id", "client_id", "ticker", "period_s", "page", "last", "status", "error", "rows", "start_ms", "end_ms", "rows_total")
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
    START_MS_FIELD_NUMBER: _ClassVar[int]
    END_MS_FIELD_NUMBER: _ClassVar[int]
    ROWS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    client_id: str
    ticker: str
    period_s: int
    page: int
    last: bool
    status: OHLCBatch.Status
    error: str
    rows: _containers.RepeatedCompositeFieldContainer[OHLCRow]
    start_ms: int
    end_ms: int
    rows_total: int
    def __init__(self, request_id: _Optional[str] = ..., client_id: _Optional[str] = ..., ticker: _Optional[str] = ..., period_s: _Optional[int] = ..., page: _Optional[int] = ..., last: _Optional[bool] = ..., status: _Optional[_Union[OHLCBatch.Status, str]] = ..., error: _Optional[str] = ..., rows: _Optional[_Iterable[_Union[OHLCRow, _Mapping]]] = ..., start_ms: _Optional[int] = ..., end_ms: _Optional[int] = ..., rows_total: _Optional[int] = ...) -> None: ...

class DataRequest(_message.Message):
    __slots__ = ("request_id", "type", "ticker", "historical", "realtime", "client_id")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        TYPE_UNSPECIFIED: _ClassVar[DataRequest.Type]
        HISTORICAL_OHLC: _ClassVar[DataRequest.Type]
        REALTIME_TICKS: _ClassVar[DataRequest.Type]
    TYPE_UNSPECIFIED: DataRequest.Type
    HISTORICAL_OHLC: DataRequest.Type
    REALTIME_TICKS: DataRequest.Type
    class Historical(_message.Message):
        __slots__ = ("start_ms", "end_ms", "period_s", "limit")
        START_MS_FIELD_NUMBER: _ClassVar[int]
        END_MS_FIELD_NUMBER: _ClassVar[int]
        PERIOD_S_FIELD_NUMBER: _ClassVar[int]
        LIMIT_FIELD_NUMBER: _ClassVar[int]
        start_ms: int
        end_ms: int
        period_s: int
        limit: int
        def __init__(self, start_ms: _Optional[int] = ..., end_ms: _Optional[int] = ..., period_s: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...
    class Realtime(_message.Message):
        __slots__ = ("include_ticks", "include_ohlc", "ohlc_period_s")
        INCLUDE_TICKS_FIELD_NUMBER: _ClassVar[int]
        INCLUDE_OHLC_FIELD_NUMBER: _ClassVar[int]
        OHLC_PERIOD_S_FIELD_NUMBER: _ClassVar[int]
        include_ticks: bool
        include_ohlc: bool
        ohlc_period_s: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, include_ticks: _Optional[bool] = ..., include_ohlc: _Optional[bool] = ..., ohlc_period_s: _Optional[_Iterable[int]] = ...) -> None: ...
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TICKER_FIELD_NUMBER: _ClassVar[int]
    HISTORICAL_FIELD_NUMBER: _ClassVar[int]
    REALTIME_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    type: DataRequest.Type
    ticker: str
    historical: DataRequest.Historical
    realtime: DataRequest.Realtime
    client_id: str
    def __init__(self, request_id: _Optional[str] = ..., type: _Optional[_Union[DataRequest.Type, str]] = ..., ticker: _Optional[str] = ..., historical: _Optional[_Union[DataRequest.Historical, _Mapping]] = ..., realtime: _Optional[_Union[DataRequest.Realtime, _Mapping]] = ..., client_id: _Optional[str] = ...) -> None: ...

class IngestorControl(_message.Message):
    __slots__ = ("action", "request_id", "generation", "config")
    class Action(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ACTION_UNSPECIFIED: _ClassVar[IngestorControl.Action]
        CANCEL: _ClassVar[IngestorControl.Action]
        SHUTDOWN: _ClassVar[IngestorControl.Action]
        CONFIG_UPDATE: _ClassVar[IngestorControl.Action]
        HEARTBEAT: _ClassVar[IngestorControl.Action]
    ACTION_UNSPECIFIED: IngestorControl.Action
    CANCEL: IngestorControl.Action
    SHUTDOWN: IngestorControl.Action
    CONFIG_UPDATE: IngestorControl.Action
    HEARTBEAT: IngestorControl.Action
    ACTION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    action: IngestorControl.Action
    request_id: str
    generation: int
    config: str
    def __init__(self, action: _Optional[_Union[IngestorControl.Action, str]] = ..., request_id: _Optional[str] = ..., generation: _Optional[int] = ..., config: _Optional[str] = ...) -> None: ...

class Tick(_message.Message):
    __slots__ = ("ticker", "ts_ms", "trade_id", "price", "size", "side", "epoch", "seq")
    TICKER_FIELD_NUMBER: _ClassVar[int]
    TS_MS_FIELD_NUMBER: _ClassVar[int]
    TRADE_ID_FIELD_NUMBER: _ClassVar[int]
    PRICE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SIDE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ticker: str
    ts_ms: int
    trade_id: str
    price: str
    size: str
    side: str
    epoch: int
    seq: int
    def __init__(self, ticker: _Optional[str] = ..., ts_ms: _Optional[int] = ..., trade_id: _Optional[str] = ..., price: _Optional[str] = ..., size: _Optional[str] = ..., side: _Optional[str] = ..., epoch: _Optional[int] = ..., seq: _Optional[int] = ...) -> None: ...

class OHLC(_message.Message):
    __slots__ = ("ticker", "period_s", "start_ms", "open", "high", "low", "close", "volume", "trades", "closed", "rev", "epoch", "seq")
    TICKER_FIELD_NUMBER: _ClassVar[int]
    PERIOD_S_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    VOLUME_FIELD_NUMBER: _ClassVar[int]
    TRADES_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    REV_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ticker: str
    period_s: int
    start_ms: int
    open: str
    high: str
    low: str
    close: str
    volume: str
    trades: int
    closed: bool
    rev: int
    epoch: int
    seq: int
    def __init__(self, ticker: _Optional[str] = ..., period_s: _Optional[int] = ..., start_ms: _Optional[int] = ..., open: _Optional[str] = ..., high: _Optional[str] = ..., low: _Optional[str] = ..., close: _Optional[str] = ..., volume: _Optional[str] = ..., trades: _Optional[int] = ..., closed: _Optional[bool] = ..., rev: _Optional[int] = ..., epoch: _Optional[int] = ..., seq: _Optional[int] = ...) -> None: ...

class Market(_message.Message):
    __slots__ = ("ticker", "provider", "market", "base", "quote", "tick_size", "size_step", "status", "version")
    TICKER_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    MARKET_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    QUOTE_FIELD_NUMBER: _ClassVar[int]
    TICK_SIZE_FIELD_NUMBER: _ClassVar[int]
    SIZE_STEP_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ticker: str
    provider: str
    market: str
    base: str
    quote: str
    tick_size: str
    size_step: str
    status: str
    version: int
    def __init__(self, ticker: _Optional[str] = ..., provider: _Optional[str] = ..., market: _Optional[str] = ..., base: _Optional[str] = ..., quote: _Optional[str] = ..., tick_size: _Optional[str] = ..., size_step: _Optional[str] = ..., status: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class CEPTriggerRequest(_message.Message):
    __slots__ = ("trigger_id", "client_id", "user_id", "ticker", "rule", "priority", "cooldown_s", "expires_ms")
    class Priority(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        INFORMATIONAL: _ClassVar[CEPTriggerRequest.Priority]
        NORMAL: _ClassVar[CEPTriggerRequest.Priority]
        CRITICAL: _ClassVar[CEPTriggerRequest.Priority]
    INFORMATIONAL: CEPTriggerRequest.Priority
    NORMAL: CEPTriggerRequest.Priority
    CRITICAL: CEPTriggerRequest.Priority
    TRIGGER_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    TICKER_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    COOLDOWN_S_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    trigger_id: str
    client_id: str
    user_id: str
    ticker: str
    rule: str
    priority: CEPTriggerRequest.Priority
    cooldown_s: int
    expires_ms: int
    def __init__(self, trigger_id: _Optional[str] = ..., client_id: _Optional[str] = ..., user_id: _Optional[str] = ..., ticker: _Optional[str] = ..., rule: _Optional[str] = ..., priority: _Optional[_Union[CEPTriggerRequest.Priority, str]] = ..., cooldown_s: _Optional[int] = ..., expires_ms: _Optional[int] = ...) -> None: ...

class CEPTriggerAck(_message.Message):
    __slots__ = ("trigger_id", "accepted", "error", "position")
    TRIGGER_ID_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    trigger_id: str
    accepted: bool
    error: str
    position: int
    def __init__(self, trigger_id: _Optional[str] = ..., accepted: _Optional[bool] = ..., error: _Optional[str] = ..., position: _Optional[int] = ...) -> None: ...

class CEPTriggerEvent(_message.Message):
    __slots__ = ("trigger_id", "ticker", "at_ms", "values", "seq")
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TRIGGER_ID_FIELD_NUMBER: _ClassVar[int]
    TICKER_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    trigger_id: str
    ticker: str
    at_ms: int
    values: _containers.ScalarMap[str, str]
    seq: int
    def __init__(self, trigger_id: _Optional[str] = ..., ticker: _Optional[str] = ..., at_ms: _Optional[int] = ..., values: _Optional[_Mapping[str, str]] = ..., seq: _Optional[int] = ...) -> None: ...

class SubmitHistoricalRequest(_message.Message):
    __slots__ = ("request_id", "client_id", "ticker", "start_ms", "end_ms", "period_s", "limit")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    TICKER_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    END_MS_FIELD_NUMBER: _ClassVar[int]
    PERIOD_S_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    client_id: str
    ticker: str
    start_ms: int
    end_ms: int
    period_s: int
    limit: int
    def __init__(self, request_id: _Optional[str] = ..., client_id: _Optional[str] = ..., ticker: _Optional[str] = ..., start_ms: _Optional[int] = ..., end_ms: _Optional[int] = ..., period_s: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class SubmitResponse(_message.Message):
    __slots__ = ("request_id", "status", "notification_topic", "error")
    class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATUS_UNSPECIFIED: _ClassVar[SubmitResponse.Status]
        ACCEPTED: _ClassVar[SubmitResponse.Status]
        DUPLICATE: _ClassVar[SubmitResponse.Status]
        NO_INGESTOR: _ClassVar[SubmitResponse.Status]
        INVALID: _ClassVar[SubmitResponse.Status]
    STATUS_UNSPECIFIED: SubmitResponse.Status
    ACCEPTED: SubmitResponse.Status
    DUPLICATE: SubmitResponse.Status
    NO_INGESTOR: SubmitResponse.Status
    INVALID: SubmitResponse.Status
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    NOTIFICATION_TOPIC_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    status: SubmitResponse.Status
    notification_topic: str
    error: str
    def __init__(self, request_id: _Optional[str] = ..., status: _Optional[_Union[SubmitResponse.Status, str]] = ..., notification_topic: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class HistoryReadyNotification(_message.Message):
    __slots__ = ("request_id", "client_id", "ticker", "period_s", "start_ms", "end_ms", "status", "rows", "snapshot_id", "error")
    class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATUS_UNSPECIFIED: _ClassVar[HistoryReadyNotification.Status]
        READY: _ClassVar[HistoryReadyNotification.Status]
        PARTIAL: _ClassVar[HistoryReadyNotification.Status]
        EMPTY: _ClassVar[HistoryReadyNotification.Status]
        ERROR: _ClassVar[HistoryReadyNotification.Status]
    STATUS_UNSPECIFIED: HistoryReadyNotification.Status
    READY: HistoryReadyNotification.Status
    PARTIAL: HistoryReadyNotification.Status
    EMPTY: HistoryReadyNotification.Status
    ERROR: HistoryReadyNotification.Status
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    TICKER_FIELD_NUMBER: _ClassVar[int]
    PERIOD_S_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    END_MS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    client_id: str
    ticker: str
    period_s: int
    start_ms: int
    end_ms: int
    status: HistoryReadyNotification.Status
    rows: int
    snapshot_id: int
    error: str
    def __init__(self, request_id: _Optional[str] = ..., client_id: _Optional[str] = ..., ticker: _Optional[str] = ..., period_s: _Optional[int] = ..., start_ms: _Optional[int] = ..., end_ms: _Optional[int] = ..., status: _Optional[_Union[HistoryReadyNotification.Status, str]] = ..., rows: _Optional[int] = ..., snapshot_id: _Optional[int] = ..., error: _Optional[str] = ...) -> None: ...

class SymbolMetadataUpdated(_message.Message):
    __slots__ = ("snapshot_id", "provider", "count", "version")
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    snapshot_id: int
    provider: str
    count: int
    version: int
    def __init__(self, snapshot_id: _Optional[int] = ..., provider: _Optional[str] = ..., count: _Optional[int] = ..., version: _Optional[int] = ...) -> None: ...

class SubscriptionConfirmed(_message.Message):
    __slots__ = ("topic", "at_ms")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    at_ms: int
    def __init__(self, topic: _Optional[str] = ..., at_ms: _Optional[int] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class StatusResponse(_message.Message):
    __slots__ = ("request_id", "state", "progress", "rows", "pages", "outcome", "error")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[StatusResponse.State]
        UNKNOWN: _ClassVar[StatusResponse.State]
        QUEUED: _ClassVar[StatusResponse.State]
        FETCHING: _ClassVar[StatusResponse.State]
        STORING: _ClassVar[StatusResponse.State]
        DONE: _ClassVar[StatusResponse.State]
    STATE_UNSPECIFIED: StatusResponse.State
    UNKNOWN: StatusResponse.State
    QUEUED: StatusResponse.State
    FETCHING: StatusResponse.State
    STORING: StatusResponse.State
    DONE: StatusResponse.State
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    PAGES_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    state: StatusResponse.State
    progress: int
    rows: int
    pages: int
    outcome: HistoryReadyNotification
    error: str
    def __init__(self, request_id: _Optional[str] = ..., state: _Optional[_Union[StatusResponse.State, str]] = ..., progress: _Optional[int] = ..., rows: _Optional[int] = ..., pages: _Optional[int] = ..., outcome: _Optional[_Union[HistoryReadyNotification, _Mapping]] = ..., error: _Optional[str] = ...) -> None: ...
