"""What ZeroMQ clients subscribe to. Each ends in `|`, so that one id's prefix cannot match another's."""

from artery.model.periods import Period


def tick(ticker: str) -> str:
    return f"{ticker}|tick|"


def ohlc(ticker: str, period: Period) -> str:
    return f"{ticker}|ohlc:{period.seconds}|"


def market(ticker: str) -> str:
    return f"{ticker}|market|"


def response(client_id: str) -> str:
    return f"RESPONSE:{client_id}|"


def history_ready(request_id: str) -> str:
    return f"HISTORY_READY:{request_id}|"


def user(user_id: str) -> str:
    return f"USER:{user_id}|"


METADATA_UPDATE = "METADATA_UPDATE|"
