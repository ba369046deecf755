"""run(): a function as the ranks of a job."""

from __future__ import annotations

import codecs
import contextlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from pathlib import Path
from typing import IO, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from . import _checkout, _data, errors

RESULTS = ("data", "pickle")  # how results travel; the first line of a rank's standard input names one
TEXT_SIZE = 64 << 10  # of an error, at most
LINE_SIZE = 64 << 10  # of what is shown at a time, at most
# Begins a rank. With -c, as with -m, Python would look for every module in the current directory first, where anyone may have put some.
_START = "import sys; sys.path[0] == '' and sys.path.pop(0); from gorun import _task; sys.exit(_task.main())"


class JobError(errors.GorunError):
    """The job failed. ``code`` is gorun's exit code; ``rank`` raised the exception of ``traceback``, or is -1."""

    def __init__(self, text: str, code: int, rank: int = -1, traceback: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.rank = rank
        self.traceback = traceback


def find_gorun() -> str:
    """The path of gorun: from GORUN_PROGRAM, beside this Python, in a checkout of this user, or on the PATH."""
    named = os.environ.get("GORUN_PROGRAM")
    if named:
        return named
    for place in (Path(sysconfig.get_path("scripts")) / "gorun", _checkout.find("bin/gorun")):
        if place and os.access(place, os.X_OK):
            return str(place)
    # Not from the current directory, where anyone may have put one, whatever the PATH has.
    found = shutil.which("gorun", path=os.pathsep.join(filter(os.path.isabs, os.get_exec_path())))
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
    results: str = "data",
) -> List[Any]:
    """Calls func(*args, **kwargs) on each rank of a job, and returns the results in the order of ranks.

    np, hosts and hostfile are those of gorun's command line, options its other flags; env are more variables for the
    ranks, timeout is in seconds. func and what it works on are pickled, by cloudpickle if that is installed: then it may be
    a lambda or stand in a notebook. The hosts need the same Python (this one's path, or that of python) with the
    modules that func uses and this package. Ranks look for modules in the current directory if this program does. What they print
    appears as that of gorun does.

    Results are data: None, numbers, texts, bytes, lists, tuples, dicts and sets of those, NumPy arrays, and tensors, which return on
    the CPU. Reading them runs no code of the ranks. With results="pickle" they may be anything that pickle takes, and every host
    of the job can run code on this machine.

    Raises :class:`JobError` if the job fails, with the traceback of the rank that failed. KeyboardInterrupt ends the job.
    """
    if results not in RESULTS:
        raise errors.InvalidError("gorun: results=%r: it is one of %s" % (results, ", ".join(map(repr, RESULTS))))
    payload = b"%s\n%s\n" % (results.encode(), b"here" if _imports_here() else b"") + _pickle((func, tuple(args), dict(kwargs or {})))
    words = [find_gorun(), "--stdin", "all"]
    for flag, value in (("-np", np), ("-H", hosts), ("--hostfile", hostfile), ("--timeout", timeout and "%gs" % timeout)):
        if value is not None:
            words += [flag, str(value)]
    for name in sorted(env or {}):
        words += ["-x", name]  # its value is not for the list of processes
    # Results are read and removed in the folder that was made, whatever has its name by then: TMPDIR may be another user's.
    folder = tempfile.mkdtemp(prefix="gorun-")
    words += [*options, "--result-dir", folder, python or sys.executable, "-c", _START]
    own = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if _checkout.foreign(own) or os.fstat(own).st_uid != os.geteuid() or os.listdir(own):
            raise errors.GorunError("gorun: another user has replaced %s: set TMPDIR to a folder of yours" % folder)
        try:
            code = _launch(words, {**_environ(), **(env or {})}, payload)
            return _results(own, code, results)
        finally:
            with contextlib.suppress(OSError):  # such as of NFS, where an open file that is removed keeps a name
                _empty(own)
    finally:
        os.close(own)
        with contextlib.suppress(OSError):
            os.rmdir(folder)  # another folder stays


def _empty(folder: int) -> None:
    """Removes all that is in an open folder."""
    for _, folders, files, parent in os.fwalk(topdown=False, dir_fd=folder):
        for name in files:
            os.unlink(name, dir_fd=parent)
        for name in folders:
            os.rmdir(name, dir_fd=parent)


def _imports_here() -> bool:
    """Whether this program looks for modules in the current directory."""
    return _imports_from(os.curdir)


def _imports_from(folder: str) -> bool:
    """Whether this program looks for modules in a folder."""
    real = os.path.realpath(folder)
    return any(isinstance(path, str) and os.path.realpath(path or os.curdir) == real for path in sys.path)


def _environ() -> Dict[str, str]:
    """This program's variables, without relative and empty entries of PYTHONPATH that it does not follow itself, as with -I."""
    environ = dict(os.environ)
    if "PYTHONPATH" in environ:
        entries = environ["PYTHONPATH"].split(os.pathsep)
        environ["PYTHONPATH"] = os.pathsep.join(e for e in entries if os.path.isabs(e) or _imports_from(e or os.curdir))
    return environ


def _pickle(task: Tuple[Any, ...]) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        if getattr(task[0], "__module__", None) == "__main__":
            raise errors.InvalidError("gorun: a function of the main program needs cloudpickle: install it, or put the function into a module") from None
        return pickle.dumps(task)
    return cloudpickle.dumps(task)


def _launch(words: List[str], env: Mapping[str, str], payload: bytes) -> int:
    """Runs gorun and returns its exit code."""
    try:
        job = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(env), start_new_session=True)
    except OSError as e:
        raise errors.GorunError("gorun: start %s: %s" % (words[0], e)) from None
    assert job.stdin and job.stdout and job.stderr
    threads = [
        threading.Thread(target=_feed, args=(job.stdin, payload)),
        threading.Thread(target=_show, args=(job.stderr, sys.stderr)),
        threading.Thread(target=_show, args=(job.stdout, sys.stdout)),
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
    return code


def _feed(pipe: IO[bytes], payload: bytes) -> None:
    try:
        with pipe:
            pipe.write(payload)
    except BrokenPipeError:
        pass  # gorun has ended, and says why


def _show(pipe: IO[bytes], to: Any) -> None:
    """Shows what gorun prints, line by line. A rank's line may have no end: of a long one a part at a time is kept."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def show(text: str) -> None:
        encoding = getattr(to, "encoding", None) or "utf-8"
        to.write(text.encode(encoding, "replace").decode(encoding))
        to.flush()

    with pipe:
        for part in iter(lambda: pipe.readline(LINE_SIZE), b""):
            show(decoder.decode(part))
        show(decoder.decode(b"", True))


def _results(folder: int, code: int, results: str) -> List[Any]:
    """The results of a job by rank, from an open folder. gorun has made one for each rank there."""
    values = []
    names = sorted(name for name in os.listdir(folder) if name.startswith("rank."))  # the numbers have as many digits
    for rank, name in enumerate(names):
        try:
            kind, value = _outcome(folder, name + "/result")
            if code == 0 and kind != "error":
                values.append(_value(kind, value, results))
        except _data.DataError as e:
            if code == 0:
                raise JobError("gorun: rank %d has no result: %s" % (rank, _printable(str(e))), code, rank) from None
            continue  # its job has failed, of which another rank may know more
        if kind == "error":
            text = _printable(value)
            raise JobError("gorun: rank %d failed: %s\n%s" % (rank, text.strip().rsplit("\n", 1)[-1], text), code, rank, text)
    if code != 0:
        raise JobError("gorun: the job failed with exit code %d; gorun has said why" % code, code)
    if not values:
        raise JobError("gorun: no rank had a result", code)
    return values


def _outcome(folder: int, name: str) -> Tuple[str, Any]:
    """What a rank has sent: a value, a pickle or an error, the text of a traceback. A rank may have sent anything, so all else is a DataError."""
    try:
        with open(name, "rb", opener=lambda name, flags: os.open(name, flags, dir_fd=folder)) as file:
            message = file.read()
    except FileNotFoundError:
        raise _data.DataError("it is lost; gorun has said why") from None
    if not message:
        raise _data.DataError("it ended without one")
    outcome = _data.load(message)
    if type(outcome) is tuple and len(outcome) == 2 and type(outcome[0]) is str:
        kind, value = outcome
        if kind == "value" or kind == "pickle" and type(value) is bytes or kind == "error" and type(value) is str and len(value) <= TEXT_SIZE:
            return kind, value
    raise _data.DataError("it is no outcome of a function")


def _value(kind: str, value: Any, results: str) -> Any:
    """The result of a rank, in the way that the caller has asked for. Another one is a DataError."""
    if kind != {"data": "value", "pickle": "pickle"}[results]:
        raise _data.DataError('it is a %s, and results is "%s"' % (kind, results))
    if kind == "value":
        return value
    try:
        return pickle.loads(value)  # which the caller has allowed
    except Exception as e:
        raise _data.DataError("unpickle it: %s: %s" % (type(e).__name__, e)) from e


def _printable(text: str) -> str:
    """A text of a rank without what controls a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)
