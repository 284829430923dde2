"""What a service has built at its start is out of the garbage collector's way, and new garbage is not."""

import subprocess
import sys

_PROGRAM = """
import gc, weakref
from artery.app.heap import settle

class Node: pass

old = Node()
settle()
assert gc.get_freeze_count() > 1_000
assert not any(found is old for found in gc.get_objects())

new = Node()
new.self = new
seen = weakref.ref(new)
del new
gc.collect()
assert seen() is None
"""


def test_what_was_there_at_the_start_is_not_looked_through_and_new_garbage_is_found() -> None:
    subprocess.run([sys.executable, "-c", _PROGRAM], check=True, timeout=60)
