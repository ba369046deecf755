"""A communicator of ring as torch's groups use it."""

from __future__ import annotations

import threading
from typing import Any, Callable, List, Optional, Sequence, Tuple

from .. import _job
from .. import _ring as ring
from .. import errors
from .._cuda import CudaLane
from .memory import Part
from .pairs import Pairs
from .work import Keeper, LaneWork, Work


class Engine:
    """A communicator and its started calls. It outlives the group until all calls are done. store is torch's, for this group."""

    def __init__(self, comm: ring.Comm, ranks: List[int], name: str, timeout: Optional[float], store: Any = None) -> None:
        comm.private()  # so that a program may abort its groups and make others
        self.comm = comm
        self.ranks = ranks
        self.name = name
        self.timeout = timeout
        self.store = store
        self.keeper = Keeper(name, timeout)
        self.pairs = Pairs(comm.rank, comm.size, self._meet, timeout)
        self.make_lane: Callable[[int], CudaLane] = CudaLane
        self.gpu: Optional[Tuple[ring.Device, CudaLane]] = None
        self.calls = self.barriers = 0
        self.coalescing: Optional[List[Work]] = None  # works started since coalescing began
        self.users: List[object] = []  # kept until it is closed
        self.lock = threading.Lock()
        self.closed = False

    def _meet(self, name: str, ranks: Sequence[int], timeout: Optional[float]) -> ring.Comm:
        world = _job.joined()
        if world is None:
            raise errors.ClosedError("gorun: this process has left its job")
        return world.group("%s/%s" % (self.name, name), [self.ranks[r] for r in ranks], timeout).private()

    def part(self, name: str, ranks: Sequence[int], timeout: Optional[float], store: Any) -> "Engine":
        """An engine of some ranks, which alone call it, by a name that no other part had."""
        _job.join()
        try:
            return Engine(self._meet(name, ranks, timeout), [self.ranks[r] for r in ranks], "%s/%s" % (self.name, name), timeout, store)
        except BaseException:
            _job.leave()
            raise

    def set_timeout(self, timeout: Optional[float]) -> None:
        """Sets the timeout of later waits, in seconds."""
        self.timeout = self.keeper.timeout = self.pairs.timeout = timeout

    def start(self, what: str, calls: Sequence[ring.Call], parts: Sequence[Part], outputs: object, here: bool = False) -> Work:
        """Starts calls on the memory of parts. here: the caller waits for them at once."""
        self.calls += 1
        gpu = max((p.gpu for p in parts), default=-1)  # memory.check wants one device
        if gpu >= 0:
            return self.started(self._launch(gpu, what, calls, parts, outputs))
        keep = [p.keep for p in parts]
        here = here and self.coalescing is None
        requests = [self.comm.start(call, keep, here) for call in calls]
        return self.started(Work(self.keeper, what, requests, outputs, [p.copy_back for p in parts if p.copy_back]))

    def started(self, work: Work) -> Work:
        if self.coalescing is not None:
            self.coalescing.append(work)
        return work

    def _launch(self, gpu: int, what: str, calls: Sequence[ring.Call], parts: Sequence[Part], outputs: object) -> Work:
        if self.gpu is None:  # on all ranks, as they make the same calls
            self.gpu = self.comm.device(gpu, self.timeout), self.make_lane(gpu)
        device, lane = self.gpu
        if lane.ordinal != gpu:
            raise errors.InvalidError("gorun: %s: a tensor is on GPU %d, and those before it were on GPU %d: a group has one for each rank" % (what, gpu, lane.ordinal))
        lane.begin([t for p in parts for t in p.keep])
        device.run(lane.stream, calls)
        return LaneWork(self.keeper, what, device, lane, outputs, [p.copy_back for p in parts if p.copy_back])

    def close(self) -> None:
        """Fails what is under way, and leaves. Closing again does nothing."""
        with self.lock:
            if self.closed:
                return
            self.closed = True
        self.users.clear()
        if self.gpu is not None:
            self.gpu[0].close()
        self.comm.close()
        self.pairs.close()
        self.keeper.close()
        _job.leave()
