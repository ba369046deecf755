"""run(): a function as the ranks of a job."""

from __future__ import annotations

import base64
import os
import pickle
import secrets
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path
from typing import IO, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from . import errors

# What a rank says of its outcome goes through its standard output, in lines that begin with a word that nobody can guess: so
# it takes the one way that there is from any host. The same word stands before the function on the rank's standard input.
WORD_BYTES = 16
LINE_BYTES = 2 << 10  # as base64 in a line that goes into a pipe as one: longer ones may be broken off where another rank writes


class JobError(errors.GorunError):
    """The job failed. ``code`` is gorun's exit code; ``rank`` raised the exception of ``traceback``, or is -1."""

    def __init__(self, text: str, code: int, rank: int = -1, traceback: str = "") -> None:
        super().__init__(text)
        self.code, self.rank, self.traceback = code, rank, traceback


def find_gorun() -> str:
    """The path of gorun: from GORUN_PROGRAM, beside this Python, in a checkout, or on the PATH."""
    named = os.environ.get("GORUN_PROGRAM")
    if named:
        return named
    here = Path(__file__).resolve()
    places = [Path(sysconfig.get_path("scripts")) / "gorun"]
    if len(here.parents) > 3:
        places.append(here.parents[3] / "bin" / "gorun")
    for place in places:
        if os.access(place, os.X_OK):
            return str(place)
    found = shutil.which("gorun")
    if not found:
        raise errors.GorunError("gorun: there is no gorun on the PATH: install the wheel, or set GORUN_PROGRAM")
    return found


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Optional[Mapping[str, Any]] = None,
    np: Optional[int] = None,
    hosts: Optional[str] = None,
    hostfile: Optional[str] = None,
    env: Optional[Mapping[str, str]] = None,
    timeout: Optional[float] = None,
    options: Sequence[str] = (),
    python: Optional[str] = None,
) -> List[Any]:
    """Calls func(*args, **kwargs) on each rank of a job, and returns the results in the order of ranks.

    np, hosts and hostfile are those of gorun's command line, options its other flags; env are more variables for the
    ranks, timeout is in seconds. func and what it works on are pickled, by cloudpickle if that is installed: then it may be
    a lambda or stand in a notebook. The hosts need the same Python (this one's path, or that of python) with the
    modules that func uses and this package. What the ranks print appears as that of gorun does.

    Raises :class:`JobError` if the job fails, with the traceback of the rank that failed. KeyboardInterrupt ends the job.
    """
    word = secrets.token_hex(WORD_BYTES)
    payload = word.encode() + b"\n" + _pickle((func, tuple(args), dict(kwargs or {})))
    words = [find_gorun(), "--stdin", "all"]
    for flag, value in (("-np", np), ("-H", hosts), ("--hostfile", hostfile), ("--timeout", timeout and "%gs" % timeout)):
        if value is not None:
            words += [flag, str(value)]
    for name in sorted(env or {}):
        words += ["-x", name]  # its value is not for the list of processes
    words += [*options, python or sys.executable, "-m", "gorun._task"]
    outcomes, code = _launch(words, {**os.environ, **(env or {})}, payload, word)
    return _results(outcomes, code)


def _pickle(task: Tuple[Any, ...]) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        if getattr(task[0], "__module__", None) == "__main__":
            raise errors.InvalidError("gorun: a function of the main program needs cloudpickle: install it, or put the function into a module") from None
        return pickle.dumps(task)
    return cloudpickle.dumps(task)


class Outcomes:
    """The received parts of each rank's pickled (well, value), by number."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.parts: Dict[int, Dict[int, bytes]] = {}
        self.total: Dict[int, int] = {}

    def take(self, line: str) -> Optional[str]:
        """Removes a part of an outcome from a line, and returns the rest of the line, if any."""
        before, found, rest = line.partition(self.word)
        if not found:
            return line
        try:
            rank, part, total, data, end = rest.split()
            if end == self.word:
                self.parts.setdefault(int(rank), {})[int(part)] = base64.b64decode(data)
                self.total[int(rank)] = int(total)
        except ValueError:
            pass  # the rank was killed in the middle of it
        unfinished = before if before and not before.endswith(": ") else ""  # a line that had no end, and not gorun's prefix
        return unfinished + "\n" if unfinished else None

    def of(self, rank: int) -> "Optional[Tuple[bool, Any]]":
        """The outcome of a rank, if all parts have come."""
        parts = self.parts.get(rank, {})
        if rank not in self.total or len(parts) != self.total[rank]:
            return None
        well, value = pickle.loads(b"".join(parts[i] for i in range(len(parts))))
        return well, value


def _launch(words: List[str], env: Mapping[str, str], payload: bytes, word: str) -> Tuple[Outcomes, int]:
    """Runs gorun and waits for it."""
    outcomes = Outcomes(word)
    try:
        job = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(env), start_new_session=True)
    except OSError as e:
        raise errors.GorunError("gorun: start %s: %s" % (words[0], e)) from None
    assert job.stdin and job.stdout and job.stderr
    threads = [
        threading.Thread(target=_feed, args=(job.stdin, payload)),
        threading.Thread(target=_show, args=(job.stderr, None, sys.stderr)),
        threading.Thread(target=_show, args=(job.stdout, outcomes, sys.stdout)),
    ]
    for thread in threads:
        thread.start()
    try:
        code = job.wait()
    except BaseException:  # Ctrl-C above all: the job ends, as it does at a terminal
        job.send_signal(signal.SIGINT)
        job.wait()
        raise
    finally:
        for thread in threads:
            thread.join()
    return outcomes, code


def _feed(pipe: IO[bytes], payload: bytes) -> None:
    try:
        with pipe:
            pipe.write(payload)
    except BrokenPipeError:
        pass  # gorun has ended, and says why


def _show(pipe: IO[bytes], outcomes: Optional[Outcomes], to: Any) -> None:
    with pipe:
        for line in pipe:
            text = line.decode("utf-8", "replace")
            shown = text if outcomes is None else outcomes.take(text)
            if shown is not None:
                encoding = getattr(to, "encoding", None) or "utf-8"
                to.write(shown.encode(encoding, "replace").decode(encoding))
                to.flush()


def _results(outcomes: Outcomes, code: int) -> List[Any]:
    said = {rank: outcomes.of(rank) for rank in sorted(outcomes.total)}
    for rank, outcome in said.items():
        if outcome is not None and not outcome[0]:
            text = str(outcome[1])
            raise JobError("gorun: rank %d failed: %s\n%s" % (rank, text.strip().rsplit("\n", 1)[-1], text), code, rank, text)
    if code != 0:
        raise JobError("gorun: the job failed with exit code %d; gorun has said why" % code, code)
    results = []
    for rank in range(len(said)):
        outcome = said.get(rank)
        if outcome is None:
            raise JobError("gorun: rank %d ended without a result" % rank, code, rank)
        results.append(outcome[1])
    if not results:
        raise JobError("gorun: no rank had a result", code)
    return results
