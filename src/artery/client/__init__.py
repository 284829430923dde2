"""The Python SDK: live events and history of any market, over one URL and one key.

async with Artery("http://127.0.0.1:8080", key) as artery:
    async for event in artery.stream("SIM:BTC", types=["TRADE"]):
        print(event)

table = history("http://127.0.0.1:8080", key, "SIM:BTC", "1m", since="2h")    # plain, for notebooks
"""

from artery.client.artery import Artery, history
from artery.client.frames import Gap

__all__ = ["Artery", "Gap", "history"]
