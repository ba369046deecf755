"""gorun.run() from a program: results by rank, errors by rank, Ctrl-C. Its arguments are more flags for gorun."""

import os
import signal
import sys
import tempfile
import threading
import time

import gorun

flags = sys.argv[1:]
folder = tempfile.TemporaryDirectory()
os.environ["TMPDIR"] = tempfile.tempdir = folder.name  # in which nothing may be left


def place(word, more):
    print("hello from", os.environ["GORUN_RANK"])
    print("unfinished", end="")
    assert "GORUN_RESULT_FD" not in os.environ
    return os.environ["GORUN_RANK"], word * more


results = gorun.run(place, ("x",), {"more": 100000}, np=4, options=flags, env={"SOME": "thing"})
assert results == [(str(rank), "x" * 100000) for rank in range(4)], [r[0] for r in results]
assert gorun.run(lambda: os.environ["SOME"], np=1, env={"SOME": "thing"}) == ["thing"]

large = os.urandom(20 << 20)
returned = gorun.run(lambda data: (print("line\n" * 1000), data, {0.5: [data[:3]]})[1:], (large,), np=2, options=flags)
assert returned == [(large, {0.5: [large[:3]]})] * 2


class Thing:
    def __eq__(self, other):
        return type(other) is Thing


try:
    gorun.run(Thing, np=2)
    raise SystemExit("it went well")
except gorun.JobError as e:
    assert "TypeError" in str(e) and "Thing" in str(e) and 'results="pickle"' in str(e) and e.code == 1, e
assert gorun.run(lambda: __import__("datetime").date(2020, 1, 2), np=1, results="pickle") == [__import__("datetime").date(2020, 1, 2)]
try:
    gorun.run(Thing, np=2, results="json")
    raise SystemExit("it went well")
except gorun.InvalidError as e:
    assert "'data', 'pickle'" in str(e), e


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
assert os.listdir(folder.name) == [], os.listdir(folder.name)
print("all right")
