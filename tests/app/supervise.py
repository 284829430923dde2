"""Runs a supervisor over small made-up services, for tests: `python -m tests.app.supervise FOLDER SPEC`.

SPEC is JSON: a list of {"name", "code", "silence_s", "start_s"}; `code` is Python that runs as the service. It can
`beat()` to show that it lives. Each line that the supervisor says is a line of output.
"""

import json
import os
import sys
from functools import partial
from pathlib import Path

from artery.app.notes import last_beat
from artery.app.restarts import Policy
from artery.app.supervisor import Service, Supervisor
from artery.errors import CannotStart

PREFACE = """
import os, signal, subprocess, sys, time
from pathlib import Path
from artery.app.notes import Beat
folder = Path({folder!r})
beat = Beat(folder, {name!r})
(folder / ({name!r} + ".pids")).open("a").write(str(os.getpid()) + "\\n")
def live():
    while True:
        beat()
        time.sleep(0.05)
"""


def service(folder: Path, name: str, code: str, silence_s: float = 30.0, start_s: float = 60.0) -> Service:
    program = PREFACE.format(folder=str(folder), name=name) + code
    return Service(
        name,
        (sys.executable, "-c", program),
        lambda: dict(os.environ),
        partial(last_beat, folder, name),
        start_s=start_s,
        silence_s=silence_s,
    )


def main() -> int:
    folder, spec = Path(sys.argv[1]), json.loads(sys.argv[2])
    services = [service(folder, **one) for one in spec]

    def say(who: str, line: str) -> None:
        print(f"{who}: {line}", flush=True)

    supervisor = Supervisor(services, folder / "logs", say, policy=Policy(0.05, 0.2), stop_s=3.0)
    try:
        supervisor.run()
    except CannotStart as error:
        say("cannot start", str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
