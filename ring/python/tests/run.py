"""gorun.run() from a program: results by rank, errors by rank, Ctrl-C. Its arguments are more flags for gorun."""

import os
import signal
import sys
import threading
import time

import gorun

flags = sys.argv[1:]


def place(word, more):
    print("hello from", os.environ["GORUN_RANK"])
    print("unfinished", end="")
    return os.environ["GORUN_RANK"], word * more


results = gorun.run(place, ("x",), {"more": 100000}, np=4, options=flags, env={"SOME": "thing"})
assert results == [(str(rank), "x" * 100000) for rank in range(4)], [r[0] for r in results]
assert gorun.run(lambda: os.environ["SOME"], np=1, env={"SOME": "thing"}) == ["thing"]


def bad():
    if os.environ["GORUN_RANK"] == "1":
        raise ValueError("one is bad")
    time.sleep(60)


try:
    gorun.run(bad, np=2, options=flags)
    raise SystemExit("it went well")
except gorun.JobError as e:
    assert e.rank == 1 and e.code == 1 and "one is bad" in str(e) and "in bad" in e.traceback, e

for code, what in [(3, lambda: os._exit(3)), (2, lambda: sys.exit(2))]:
    try:
        gorun.run(what, np=1)
        raise SystemExit("it went well")
    except gorun.JobError as e:
        assert e.code == code and e.rank == -1, (e.code, e)

try:
    gorun.run(print, np=1, options=["--no-such-flag"])
    raise SystemExit("it went well")
except gorun.JobError as e:
    assert e.code == 2, e.code

threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT)).start()
at = time.monotonic()
try:
    gorun.run(lambda: time.sleep(60), np=2)
    raise SystemExit("it went on")
except KeyboardInterrupt:
    assert time.monotonic() - at < 30
print("all right")
