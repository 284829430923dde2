"""What the relay counts."""

from artery.telemetry import counter, gauge, histogram

ASKED = counter("relay_requests", "Requests that were answered, by type and outcome", "type", "outcome")
REFUSED = counter("relay_messages_refused", "Messages that could not be read, by socket and reason", "socket", "reason")
UNANSWERED = counter("relay_answers_undelivered", "Answers whose peer was gone or did not keep up")
CONFIRMED = counter("relay_subscriptions_confirmed", "Subscriptions that were confirmed on their topic")
WANTED = gauge("relay_markets_wanted", "Markets that subscribers of this relay want followed")
TOPICS = gauge("relay_topics", "Topics that someone is subscribed to")
INGESTORS = gauge("relay_work_subscriptions", "Subscriptions of ingestors to work")
ANSWER_S = histogram(
    "relay_answer_seconds", "Time from a request to its answer", buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.5, 2)
)
LET_IN = counter("relay_connections_let_in", "Connections whose key was known, by socket", "socket")
PROCESSORS = gauge("relay_processors", "Processors that the relay is connected to, where it looks for them itself")
LOOKUPS = counter("relay_processor_lookups", "Times that processors were looked for, by outcome", "outcome")
