"""A rank of gorun.run(), with the function on standard input and its outcome on a descriptor of gorun's."""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from typing import Tuple

from . import _data
from ._run import RESULTS, TEXT_SIZE


def main() -> int:
    """Calls the function and reports the outcome. The exit code is 0 if it returned."""
    results = sys.stdin.buffer.readline().strip().decode("ascii", "replace")
    if results not in RESULTS:
        print("gorun._task is a part of gorun.run(), and no program of its own", file=sys.stderr)
        return 2
    if sys.stdin.buffer.readline() == b"here\n":
        sys.path.insert(0, os.getcwd())
    descriptor = os.environ.pop("GORUN_RESULT_FD", "")
    if not descriptor:
        print("gorun: this rank has no descriptor for its result: containers other than Singularity and Apptainer pass none on", file=sys.stderr)
        return 2
    os.set_inheritable(int(descriptor), False)  # programs that the function starts cannot speak for it
    message, well = _call(results)
    sys.stdout.flush()
    with os.fdopen(int(descriptor), "wb") as out:
        out.write(message)
    return 0 if well else 1


def _call(results: str) -> Tuple[bytes, bool]:
    """The outcome of the function as a message, and whether it is its result."""
    try:
        func, args, kwargs = pickle.loads(sys.stdin.buffer.read())  # by gorun.run(), which could run any code here anyway
        sys.stdin.close()
        sys.stdin = open(os.devnull)
        value = func(*args, **kwargs)
        return _data.dump(("pickle", pickle.dumps(value)) if results == "pickle" else ("value", value)), True
    except Exception:
        return _data.dump(("error", traceback.format_exc()[-TEXT_SIZE:])), False


if __name__ == "__main__":
    sys.exit(main())
