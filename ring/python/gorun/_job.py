"""The one Comm with which this process joined its job. A process joins once, whatever parts of this package it uses.

Each user calls :func:`join`, makes a part of its own by ``comm.dup()``, so that its calls have an order of their own,
and calls :func:`leave` in the end. The last one leaves the job. In an elastic job it leaves an epoch, and the next
:func:`join` waits for another one.
"""

from __future__ import annotations

import os
import threading
from typing import Optional

from . import _ring, errors


class _Job:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.comm: Optional[_ring.Comm] = None
        self.users = 0
        self.left = 0  # the epoch of an elastic job that this process was in last
        self.first = 0  # that it tried to join first


_job = _Job()


def _in_fork() -> None:
    _job.lock = threading.Lock()  # it may have been held by a thread that a fork does not have


os.register_at_fork(after_in_child=_in_fork)


def join(timeout_ms: int = 0, stall_ms: int = 0) -> _ring.Comm:
    """The Comm of all ranks of the job. The first call joins the job with these options; later calls only count."""
    with _job.lock:
        if _job.comm is None:
            _job.comm = _ring.Library().init(timeout_ms, stall_ms, _job.left)
            _job.first = _job.first or _job.comm.first_epoch
        _job.users += 1
        return _job.comm


def leave() -> None:
    """Reverts one join. The last one closes the Comm."""
    with _job.lock:
        if _job.users == 0:
            raise errors.NotInitializedError("gorun: leave was called more often than join")
        _job.users -= 1
        if _job.users == 0:
            comm = _job.comm
            _job.comm = None
            assert comm is not None  # a user has joined
            _job.left = comm.epoch
            comm.close()


def left() -> int:
    """The last epoch of an elastic job that this process has left; 0 if none."""
    return _job.left


def first() -> int:
    """The first epoch of an elastic job that this process has tried to join, once it has joined one; 0 before."""
    return _job.first


def joined() -> Optional[_ring.Comm]:
    """The Comm, if this process has joined."""
    return _job.comm
