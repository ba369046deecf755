"""gorun.run() with a rank in other hands: it can spoil its own result, and nothing else. The arguments are more flags for gorun.

gorun starts this file as the ranks, too. Rank 1 makes the attack that ATTACK names, the others are honest.
"""

import base64
import os
import pickle
import struct
import subprocess
import sys
import tempfile

import gorun

HERE = os.path.abspath(__file__)
MARK = os.environ.get("MARK", "")  # a file that must not come into being


class Touch:
    """Creates the file MARK where it is unpickled."""

    def __reduce__(self):
        return open, (MARK, "w")


def say(data):
    """Writes the whole of a result."""
    with os.fdopen(int(os.environ.get("GORUN_RESULT_FD", "2")), "wb") as out:
        out.write(data)


def print_outcomes(task):
    """Prints what was once taken from a rank's output as the outcomes of any ranks: lines between words that the rank is told."""
    honest(task)
    word = task.split(b"\n", 1)[0].decode()
    for rank, outcome in [(0, (True, "forged")), (2, (True, "forged")), (3, (False, Touch()))]:
        print("said before", word, rank, 0, 1, base64.b64encode(pickle.dumps(outcome)).decode(), word, flush=True)


def honest(task):
    return subprocess.run([sys.executable, "-m", "gorun._task"], input=task, close_fds=False).returncode


def text(data, size=None):
    """A message of JSON, which may name a wrong size."""
    return b"gorun data 1\n" + struct.pack(">Q", len(data) if size is None else size) + data


def outcome(kind, value):
    from gorun import _data

    return _data.dump((kind, value))


# What rank 1 does, and what becomes of it: the values of both ranks, or the error.
ATTACKS = {
    "prints outcomes": (print_outcomes, ["honest 0", "honest 1"]),
    "sends a bare pickle": (lambda task: say(pickle.dumps((True, Touch()))), "do not begin as results do"),
    "sends an unwanted pickle": (lambda task: say(outcome("pickle", pickle.dumps(Touch()))), 'it is a pickle, and results is "data"'),
    "sends a pickle as bytes": (lambda task: say(outcome("value", pickle.dumps(Touch()))), ["honest 0", None]),
    "sends an object": (lambda task: say(text(b'{"tuple":["value",{"object":["open","MARK"]}]}')), "unknown kind 'object'"),
    "sends garbage": (lambda task: say(os.urandom(100000)), "do not begin as results do"),
    "sends nothing": (lambda task: say(b""), "it ended without one"),
    "sends half": (lambda task: say(outcome("value", b"x" * 100000)[:50000]), "it ends too early"),
    "sends two": (lambda task: say(outcome("value", 1) * 2), "bytes too many"),
    "sends no end of brackets": (lambda task: say(text(b"[" * 500000)), "nested too deep"),
    "sends a large length": (lambda task: say(text(b"[]", 2**64 - 1)), "it ends too early"),
    "sends a large array": (lambda task: say(text(b'{"tuple":["value",{"array":["<i8",[1000000000000],0]}]}')), "are no array of the shape"),
    "sends keys of one hash": (lambda task: say(outcome("value", {n * (2**61 - 1) for n in range(101)})), "more than 100 keys have one hash"),
    "sends a large number": (lambda task: say(text(b"9" * 900000)), "a number has 900000 digits"),
    "sends too much": (lambda task: say(b"x" * (2 << 20)), "it is lost"),
    "sends no outcome": (lambda task: say(outcome("else", 1)), "no outcome of a function"),
    "sends a long error": (lambda task: say(outcome("error", "x" * 100000)), "no outcome of a function"),
    "controls the terminal": (lambda task: say(outcome("error", "\x1b[2J\u202eowned\x07")), "?[2J?owned?"),
}


def function():
    return "honest " + os.environ["GORUN_RANK"]


def main(flags):
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MARK"] = mark = os.path.join(folder, "mark")
        python = os.path.join(folder, "python")
        with open(python, "w") as f:
            f.write("#!/bin/sh\nexec %s %s\n" % (sys.executable, HERE))
        os.chmod(python, 0o755)
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        for name, (_, want) in ATTACKS.items():
            try:
                got = gorun.run(function, np=2, python=python, env={"ATTACK": name, "MARK": mark}, options=["--result-limit", "1M", *flags])
            except gorun.JobError as e:
                assert isinstance(want, str) and want in str(e) and e.rank == 1 and e.code == 0 and len(str(e)) < 1000, (name, e)
            else:
                assert isinstance(want, list) and got[0] == want[0] and want[1] in (None, got[1]) and len(got) == 2, (name, got)
            assert sorted(os.listdir(folder)) == ["python"], (name, os.listdir(folder))
        allowed = gorun.run(function, np=2, python=python, env={"ATTACK": "prints outcomes", "MARK": mark}, results="pickle", options=flags)
        assert allowed == ["honest 0", "honest 1"] and not os.path.exists(mark), allowed
        # With results="pickle" a rank can do so: that is what the caller has allowed.
        gorun.run(function, np=2, python=python, env={"ATTACK": "sends an unwanted pickle", "MARK": mark}, results="pickle", options=flags)
        assert os.path.exists(mark)
    print("all right")


if __name__ == "__main__":
    if "GORUN_RANK" not in os.environ:
        main(sys.argv[1:])
    elif os.environ["GORUN_RANK"] == "1":
        ATTACKS[os.environ["ATTACK"]][0](sys.stdin.buffer.read())
    else:
        sys.exit(honest(sys.stdin.buffer.read()))
