"""A name server on loopback whose records change, and that can fail or fall silent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset


class NameServer(asyncio.DatagramProtocol):
    """Answers A questions over UDP by what `records` says at that moment, and others with none, or as `others` says."""

    def __init__(self) -> None:
        self.records: dict[str, list[str]] = {}
        self.mood: Literal["well", "failing", "silent"] = "well"
        self.others: Literal["none", "notimp", "servfail", "refused", "silence"] = "none"
        self.asked = 0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, peer: Any) -> None:
        self.asked += 1
        question = dns.message.from_wire(data)
        answer = dns.message.make_response(question)
        answer.flags |= dns.flags.AA
        name = question.question[0].name
        found = self.records.get(name.to_text(omit_final_dot=True))
        silent, is_other = self.mood == "silent", question.question[0].rdtype != dns.rdatatype.A
        if is_other and self.others == "silence":
            silent = True
        elif is_other and self.others != "none":
            answer.set_rcode(dns.rcode.from_text(self.others))
        elif self.mood == "failing":
            answer.set_rcode(dns.rcode.SERVFAIL)
        elif found is None:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        elif found and not is_other:
            answer.answer.append(dns.rrset.from_text(name, 0, "IN", "A", *found))
        if not silent:
            self._transport.sendto(answer.to_wire(), peer)


@asynccontextmanager
async def name_server() -> AsyncIterator[tuple[NameServer, str]]:
    """One, and its address."""
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(NameServer, local_addr=("127.0.0.1", 0))
    try:
        yield server, "127.0.0.1:{}".format(transport.get_extra_info("sockname")[1])
    finally:
        transport.close()
