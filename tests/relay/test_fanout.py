"""From processors to clients: confirmed subscriptions, exact topics, and peers that come and go."""

import zmq

from artery.wire import messages, topics
from artery.wire.artery_pb2 import SubscriptionConfirmed, Tick
from tests.relay.conftest import House, Peer

TICK = Tick(ticker="SIM:BTC", price="1", size="2", side="B", epoch=1, seq=1)


async def send(processor: Peer, topic: str, message: Tick = TICK) -> None:
    """Publish once the processor has seen that someone subscribed."""
    while (await processor.receive())[0] != b"\x01" + topic.encode():
        continue
    await processor.send(*messages.publish(topic, message))


async def test_a_subscription_is_confirmed_on_its_own_topic(house: House) -> None:
    one, two = house.subscriber(), house.subscriber()
    one.socket.setsockopt(zmq.SUBSCRIBE, b"RESPONSE:c1|")
    topic, message = await one.hear()
    assert (topic, message.topic) == ("RESPONSE:c1|", "RESPONSE:c1|")
    assert isinstance(message, SubscriptionConfirmed)
    await two.subscribe("RESPONSE:c1|")  # the second one on the same topic too
    await two.subscribe("SIM:BTC|tick")  # and one without the closing sign, as older clients subscribe


async def test_a_confirmed_subscription_gets_what_is_published_after_it(house: House) -> None:
    processor, subscriber = house.processor(), house.subscriber()
    topic = topics.tick("SIM:BTC")
    await subscriber.subscribe(topic)
    await send(processor, topic)
    assert await subscriber.hear() == (topic, TICK)


async def test_a_client_without_the_closing_sign_still_receives(house: House) -> None:
    processor, subscriber = house.processor(), house.subscriber()
    await subscriber.subscribe("SIM:BTC|tick")
    assert (await processor.receive())[0] == b"\x01SIM:BTC|tick"
    await processor.send(*messages.publish("SIM:BTC|tick|", TICK))
    assert await subscriber.hear() == ("SIM:BTC|tick|", TICK)


async def test_one_ids_topic_does_not_reach_another(house: House) -> None:
    processor, one, ten = house.processor(), house.subscriber(), house.subscriber()
    await one.subscribe("RESPONSE:user-1|")
    await ten.subscribe("RESPONSE:user-10|")
    await send(processor, "RESPONSE:user-10|")
    assert (await ten.hear())[0] == "RESPONSE:user-10|"
    await processor.send(*messages.publish("RESPONSE:user-1|", TICK))
    assert await one.hear() == ("RESPONSE:user-1|", TICK)
    assert await one.socket.poll(20) == 0


async def test_a_processor_that_comes_later_learns_what_is_wanted(house: House) -> None:
    subscriber = house.subscriber()
    await subscriber.subscribe("SIM:BTC|tick|")
    first = house.processor()
    await send(first, "SIM:BTC|tick|")
    assert (await subscriber.hear())[1] == TICK
    first.socket.close(linger=0)
    await send(house.processor(), "SIM:BTC|tick|")
    assert (await subscriber.hear())[1] == TICK


async def test_the_last_one_out_is_told_to_the_processor(house: House) -> None:
    processor, one, two = house.processor(), house.subscriber(), house.subscriber()
    await one.subscribe("SIM:BTC|tick|")
    await two.subscribe("SIM:BTC|tick|")
    one.socket.close(linger=0)
    two.socket.close(linger=0)
    while (await processor.receive())[0] != b"\x00SIM:BTC|tick|":
        continue
