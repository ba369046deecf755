"""The world of this process: its ranks, and the process sets, each with a queue. gorun.torch and gorun.numpy share it."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from typing import Dict, Iterable, List, Optional, Sequence, Union

from . import _job, _ring, errors
from ._calls import Channel
from ._settings import Settings, settings


class ProcessSet:
    """A set of ranks with its own operations.

    Make it with a list of ranks and give it to :func:`init` or :func:`add_process_set`; then it has an id.
    """

    def __init__(self, ranks: Iterable[int]) -> None:
        self.ranks: List[int] = sorted(int(r) for r in ranks)
        self.process_set_id: Optional[int] = None
        self.channel: Optional[Channel] = None  # None where this rank is not in it

    def _added(self) -> None:
        if self.process_set_id is None:
            if _world.comm is None:
                raise errors.NotInitializedError("gorun: not initialized: call init() first")
            raise errors.InvalidError("gorun: %s was not added, or was removed: call add_process_set on all ranks" % self)

    def size(self) -> int:
        """The number of its ranks."""
        self._added()
        return len(self.ranks)

    def rank(self) -> int:
        """The index of this rank in the set."""
        self._added()
        return self.channel_or_raise().rank

    def included(self) -> bool:
        """Whether this rank is one of them."""
        self._added()
        return self.channel is not None

    def channel_or_raise(self) -> Channel:
        """Its queue. Raises an error with the reason if there is none."""
        channel = self.channel
        if channel is None:
            self._added()
            raise errors.InvalidError("gorun: rank %d is not in %s" % (rank(), self))
        return channel

    def index(self, rank: int) -> int:
        """The index of a rank of the job. Raises InvalidError if it is not in the set."""
        self._added()
        try:
            return rank if self.process_set_id == 0 and 0 <= rank < len(self.ranks) else self.ranks.index(rank)
        except ValueError:
            raise errors.InvalidError("gorun: root rank %d is not in %s" % (rank, self)) from None

    def __str__(self) -> str:
        return "the process set %s of ranks %s" % (self.process_set_id, self.ranks)

    __repr__ = __str__


class _World:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.comm: Optional[_ring.Comm] = None  # a part of the job's, with calls of its own
        self.pid = 0
        self.sets: Dict[int, ProcessSet] = {}
        self.next_id = 1
        self.local_sizes: Sequence[int] = ()
        self.settings = Settings()
        self.at_exit = False


_world = _World()


def _in_fork() -> None:
    _world.lock = threading.RLock()  # it may have been held by a thread that a fork does not have


os.register_at_fork(after_in_child=_in_fork)

#: All ranks.
global_process_set = ProcessSet([])


def init(process_sets: "Union[None, str, Sequence[Union[ProcessSet, Sequence[int]]]]" = None) -> None:
    """Joins the job; all ranks call it. A process that gorun did not start is alone. Calling it again does nothing.

    ``process_sets`` are sets of ranks, the same on all ranks, or "dynamic", which is not needed: sets can always be
    added. In an elastic job it waits for an epoch, and after :func:`shutdown` for another one. Raises GorunError if the job
    cannot be joined.
    """
    with _world.lock:
        _not_forked()
        chosen = settings(os.environ)
        while _world.comm is None:
            left = _job.left()
            try:
                _enter(chosen, process_sets)
            except errors.PeerError:
                if _job.left() == left:
                    raise  # else an epoch has failed while its ranks met, and there will be another


def _enter(chosen: Settings, process_sets: "Union[None, str, Sequence[Union[ProcessSet, Sequence[int]]]]") -> None:
    """Joins the job, or the next epoch of it."""
    job = _job.join()
    try:
        _world.comm = comm = job.dup()
    except BaseException:
        _job.leave()
        raise
    _world.pid = os.getpid()
    _world.settings = chosen
    try:
        _world.next_id = 1
        _world.local_sizes = _sizes(comm)
        global_process_set.ranks[:] = range(comm.size)
        _open(global_process_set, 0, comm.dup())
        if chosen.timeline is not None:
            start_timeline(chosen.timeline, chosen.mark_cycles)
        if process_sets is not None and process_sets != "dynamic":
            for s in process_sets:
                add_process_set(s)  # type: ignore[arg-type]
    except BaseException:
        _leave()
        raise
    if not _world.at_exit:
        _world.at_exit = True
        atexit.register(_at_exit)


def shutdown() -> None:
    """Leaves the job. Pending operations fail, here and on ranks that wait for this one. Calling it again does nothing.

    After it init() may be called again, by all ranks. In an elastic job this is how they come into the next epoch.
    """
    with _world.lock:
        _not_forked()
        _leave()


def is_initialized() -> bool:
    """Whether init() was called, without shutdown() since."""
    return _world.comm is not None


def _not_forked() -> None:
    if _world.comm is not None and _world.pid != os.getpid():
        raise errors.ForkedError(
            "gorun: this process is a fork of one that called init(): start it with the method spawn or forkserver, or call init() only in it"
        )


def _at_exit() -> None:
    if _world.pid == os.getpid():
        try:
            shutdown()
        except errors.GorunError:
            pass  # the job's end is gorun's to report


def _leave() -> None:
    comm = _world.comm
    _world.comm = None
    sets = list(_world.sets.values())
    _world.sets = {}
    first: Optional[errors.GorunError] = None
    for s in reversed(sets):
        channel = s.channel
        s.channel = None
        s.process_set_id = None
        if channel is not None:
            first = _try(channel.close) or first
    if comm is not None:
        first = _try(comm.close) or first
        first = _try(_job.leave) or first
    if first is not None and not isinstance(first, (errors.PeerError, errors.ClosedError)):
        raise first


def _try(close: object) -> Optional[errors.GorunError]:
    try:
        close()  # type: ignore[operator]
    except errors.GorunError as e:
        return e
    return None


def _sizes(comm: _ring.Comm) -> Sequence[int]:
    """The local sizes of all ranks."""
    mine = ctypes.c_int32(comm.local_size)
    all_sizes = (ctypes.c_int32 * comm.size)()
    comm.run(
        _ring.call(
            _ring.ALLGATHER, _ring.INT32, dst=ctypes.addressof(all_sizes), dst_count=comm.size, src=ctypes.addressof(mine), src_count=1
        )
    )
    return list(all_sizes)


def _open(s: ProcessSet, id: int, part: Optional[_ring.Comm]) -> None:
    chosen = _world.settings
    if part is not None:
        s.channel = Channel(part, part.queue(chosen.fusion_bytes, chosen.cache_names, chosen.stall_ms))
    s.process_set_id = id
    _world.sets[id] = s


def _comm() -> _ring.Comm:
    comm = _world.comm
    if comm is None:
        raise errors.NotInitializedError("gorun: not initialized: call init() first")
    return comm


def add_process_set(process_set: Union[ProcessSet, Iterable[int]]) -> ProcessSet:
    """Makes a process set. All ranks of the job call it, with the same ranks, and in the same order as other such calls.

    Raises InvalidError if the ranks are none of the job's or the set exists, MismatchError if ranks disagree.
    """
    from ._objects import allgather_data

    with _world.lock:
        _not_forked()
        comm = _comm()
        s = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
        said = allgather_data(s.ranks, "add_process_set")
        for other, ranks in enumerate(said):
            sent = type(ranks) is list and all(type(rank) is int and abs(rank) < 1 << 31 for rank in ranks)
            if not sent or ranks != s.ranks:
                theirs = "%.200s" % ranks if sent else "what are no ranks"
                raise errors.MismatchError("gorun: rank %d adds a process set of ranks %s, rank %d one of %s" % (comm.rank, s.ranks, other, theirs))
        if s.process_set_id is not None or any(s.ranks == known.ranks for known in _world.sets.values()):
            raise errors.InvalidError("gorun: there is a process set of ranks %s" % s.ranks)
        if not s.ranks or len(set(s.ranks)) != len(s.ranks) or s.ranks[0] < 0 or s.ranks[-1] >= comm.size:
            raise errors.InvalidError("gorun: a process set of ranks %s of a job of %d" % (s.ranks, comm.size))
        id = _world.next_id
        _world.next_id += 1
        _open(s, id, comm.split(0 if comm.rank in s.ranks else -1))
        return s


def remove_process_set(process_set: ProcessSet) -> bool:
    """Ends a process set; all ranks of the job call it. False if it is the global one or was not added."""
    from ._verbs import barrier

    with _world.lock:
        _not_forked()
        _comm()
        id = process_set.process_set_id
        if not id:
            return False
        barrier(global_process_set, "remove_process_set.%d" % id)
        channel = process_set.channel
        process_set.channel = None
        process_set.process_set_id = None
        del _world.sets[id]
        if channel is not None:
            channel.close()
        return True


def process_set_ids() -> List[int]:
    """The ids of all process sets; 0 is the global one."""
    return sorted(_world.sets)


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Starts writing the events of each operation in Chrome's trace format. Only rank 0 writes."""
    channel = global_process_set.channel_or_raise()
    if channel.rank == 0:
        channel.queue.start_timeline(file_path, mark_cycles)


def stop_timeline() -> None:
    """Stops the timeline."""
    channel = global_process_set.channel_or_raise()
    if channel.rank == 0:
        channel.queue.stop_timeline()


def rank() -> int:
    """The number of this rank, from 0."""
    return _comm().rank


def size() -> int:
    """The number of ranks of the job."""
    return _comm().size


def local_rank() -> int:
    """The number of this rank on its host."""
    return _comm().local_rank


def local_size() -> int:
    """The number of ranks on this host."""
    return _comm().local_size


def cross_rank() -> int:
    """The number of this host among those with this local rank."""
    return _comm().cross_rank


def cross_size() -> int:
    """The number of hosts with this local rank."""
    return _comm().cross_size


def in_epochs() -> bool:
    """Whether the job is elastic, so that it may have more ranks later."""
    return _comm().epoch > 0


def is_homogeneous() -> bool:
    """Whether all hosts have the same number of ranks."""
    _comm()
    return len(set(_world.local_sizes)) == 1
