"""What ingest counts."""

from artery.telemetry import counter, gauge, histogram

EVENTS = counter("ingest_events", "Events written or published, by type", "type")
REPEATED = counter("ingest_trades_repeated", "Trades that were seen before and left out")
CONFLATED = counter("ingest_books_conflated", "Books that a newer one replaced before their time came")
UNCHANGED = counter("ingest_books_unchanged", "Books that said nothing new and were left out")
LOST = counter("ingest_events_lost", "Events that did not fit into the queue; trades among them are marked as a hole")
QUEUE = gauge("ingest_queue_events", "Events between the venue's socket and the writer")
APPEND_S = histogram(
    "ingest_append_seconds",
    "Time of one append to the bus",
    "stream",
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0, 10.0),
)
AGE_S = gauge("ingest_feed_age_seconds", "Time since the venue last said something")
HOLES = counter("ingest_holes", "Stretches of time that the feed cannot vouch for, by cause", "cause")
FENCED = counter("ingest_terms_fenced", "Terms that ended because a newer leader had written")
REPAIRS = counter("ingest_repairs", "Fetches of the venue's own candles, by kind and outcome", "kind", "outcome")
REQUESTS = counter("ingest_requests", "Clients' requests for history, by what became of them", "outcome")
DEMAND_REFUSED = gauge("ingest_markets_refused", "Markets that are wanted and that there is no room for")
MARKETS = gauge("ingest_markets_followed", "Markets that the feed follows")
SYMBOLS = counter("ingest_symbols", "Versions of markets' metadata that were written")
WOKEN = counter("ingest_wake_ups", "Times that a relay told of work")
