"""Torch's collectives as calls of ring."""

# In torch's types each collective can also be called with single tensors; torch itself never calls a group so.
# mypy: disable-error-code="override"

from __future__ import annotations

import inspect
import sys
import time
from datetime import timedelta
from types import FrameType
from typing import Any, List, Optional, Sequence

import torch
import torch.distributed as dist

from .. import _ring as ring
from .. import errors
from . import memory, sparse
from .engine import Engine
from .memory import NOTHING, Part
from .pairs import AnyMessage, Message
from .work import LaneWork, Together, Work

Tensors = Sequence[torch.Tensor]


OPERATIONS = {
    "SUM": ring.SUM,
    "AVG": ring.AVG,
    "MAX": ring.MAX,
    "MIN": ring.MIN,
    "PRODUCT": ring.PROD,
    "BAND": ring.BAND,
    "BOR": ring.BOR,
    "BXOR": ring.BXOR,
}


def operation(op: Any) -> int:
    """ring's number of a dist.ReduceOp, or of its RedOpType."""
    name = getattr(op, "op", op).name
    if name not in OPERATIONS:
        raise errors.InvalidError("gorun: %s is not a reduction of this backend: it has %s" % (name, ", ".join(OPERATIONS)))
    return OPERATIONS[name]


def _waits(opts: Any) -> bool:
    """Whether torch waits for the call at once: newer versions say so."""
    return getattr(opts, "asyncOp", True) is False


def _in_blocking_call() -> bool:
    """Whether torch's send() or recv() makes the call: they wait at once, and do not say so."""
    frame: Optional[FrameType] = sys._getframe(2)
    for _ in range(4):  # over isend() or irecv(), and what logs their exceptions
        frame = frame and frame.f_back
        if frame is None or frame.f_code in _BLOCKING:
            break
    return frame is not None and frame.f_code in _BLOCKING


_BLOCKING = {inspect.unwrap(getattr(dist, name)).__code__ for name in ("send", "recv")}


class Collectives:
    """What torch calls on a group. A subclass is also one of torch's classes, and sets engine."""

    engine: Engine

    # One call of the ring.

    def _start(self, what: str, kind: int, dst: Part = NOTHING, src: Part = NOTHING, outputs: object = None, opts: Any = None, **more: Any) -> Work:
        dtype = src.dtype if dst is NOTHING else dst.dtype
        work = ring.call(kind, dtype, dst=dst.address, dst_count=dst.count, src=src.address, src_count=src.count, **more)
        return self.engine.start(what, [work], [dst, src], outputs, _waits(opts))

    def _one(self, what: str, tensors: Tensors, reduces: bool = False) -> torch.Tensor:
        if len(tensors) != 1:
            raise errors.InvalidError("gorun: %s: %d tensors: this backend takes one a call" % (what, len(tensors)))
        memory.check(what, tensors, reduces)
        return tensors[0]

    def _of_all(self, what: str, tensors: Tensors, like: torch.Tensor) -> Tensors:
        if len(tensors) != self.engine.comm.size:
            raise errors.InvalidError("gorun: %s: a list of %d tensors for %d ranks" % (what, len(tensors), self.engine.comm.size))
        memory.check(what, [like, *tensors])
        return tensors

    def allreduce(self, tensors: Tensors, opts: Any = None) -> Work:
        if len(tensors) == 1 and tensors[0].layout == torch.sparse_coo:
            return self.allreduce_sparse(tensors, opts)
        return self._allreduce("allreduce", tensors, opts)

    def allreduce_sparse(self, tensors: Tensors, opts: Any = None) -> Work:
        """Adds sparse tensors. It returns when that is done, since how much there is to send is known only then."""
        if len(tensors) != 1 or (opts is not None and operation(opts.reduceOp) != ring.SUM):
            raise errors.InvalidError("gorun: allreduce: of sparse tensors one a call, with SUM")
        return sparse.allreduce(self.engine, tensors[0])

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Work:
        return self._allreduce("allreduce_coalesced", tensors, opts)

    def _allreduce(self, what: str, tensors: Tensors, opts: Any) -> Work:
        op = operation(opts.reduceOp) if opts is not None else ring.SUM
        parts = []
        calls = []
        for t in tensors:
            memory.check(what, [t], reduces=True)
            p = memory.writes(t, filled=True)
            parts.append(p)
            calls.append(ring.call(ring.ALLREDUCE, p.dtype, op, dst=p.address, dst_count=p.count, src=p.address, src_count=p.count))
        return self.engine.start(what, calls, parts, list(tensors), _waits(opts))

    def broadcast(self, tensors: Tensors, opts: Any = None) -> Work:
        t = self._one("broadcast", tensors)
        part = memory.writes(t, filled=True)
        return self._start("broadcast", ring.BROADCAST, part, outputs=list(tensors), opts=opts, root=opts.rootRank if opts is not None else 0)

    def reduce(self, tensors: Tensors, opts: Any) -> Work:
        t = self._one("reduce", tensors, reduces=True)
        mine = opts.rootRank == self.engine.comm.rank
        dst = memory.writes(t, filled=True) if mine else NOTHING
        src = dst if mine else memory.reads(t)
        return self._start("reduce", ring.REDUCE, dst, src, list(tensors), opts, op=operation(opts.reduceOp), root=opts.rootRank)

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        t = self._one("allgather", inputs)
        lists = self._of_all("allgather", outputs[0], t)
        dst = memory.writes_all(lists)
        return self._start("allgather", ring.ALLGATHER, dst, memory.reads(t), list(outputs), opts, counts=memory.counts_of(lists, dst))

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        """outputs are, by rank, a tensor for each input."""
        return self._together("allgather_coalesced", [self.allgather([[of[i] for of in outputs]], [t]) for i, t in enumerate(inputs)], outputs)

    def _allgather_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:
        memory.check("all_gather_into_tensor", [output, input])
        return self._start("all_gather_into_tensor", ring.ALLGATHER, memory.writes(output), memory.reads(input), output, opts)

    all_gather_single = _allgather_base

    def allgather_into_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        works = [self._allgather_base(o, i) for o, i in zip(outputs, inputs)]
        return self._together("allgather_into_tensor_coalesced", works, list(outputs))

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> Work:
        t = self._one("gather", inputs)
        dst = NOTHING
        counts = None
        if opts.rootRank == self.engine.comm.rank:
            lists = self._of_all("gather", outputs[0] if outputs else [], t)
            dst = memory.writes_all(lists)
        return self._start("gather", ring.GATHER, dst, memory.reads(t), list(outputs), opts, root=opts.rootRank, counts=counts)

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Work:
        t = self._one("scatter", outputs)
        src = NOTHING
        if opts.rootRank == self.engine.comm.rank:
            src = memory.reads_all(self._of_all("scatter", inputs[0] if inputs else [], t))
        return self._start("scatter", ring.SCATTER, memory.writes(t), src, list(outputs), opts, root=opts.rootRank)

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> Work:
        t = self._one("reduce_scatter", outputs, reduces=True)
        lists = self._of_all("reduce_scatter", inputs[0], t)
        src = memory.reads_all(lists)
        op = operation(opts.reduceOp) if opts is not None else ring.SUM
        return self._start("reduce_scatter", ring.REDUCE_SCATTER, memory.writes(t), src, list(outputs), opts, op=op, counts=memory.counts_of(lists, src))

    def _reduce_scatter_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:
        memory.check("reduce_scatter_tensor", [output, input], reduces=True)
        op = operation(opts.reduceOp) if opts is not None else ring.SUM
        return self._start("reduce_scatter_tensor", ring.REDUCE_SCATTER, memory.writes(output), memory.reads(input), output, opts, op=op)

    reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        works = [self._reduce_scatter_base(o, i, opts) for o, i in zip(outputs, inputs)]
        return self._together("reduce_scatter_tensor_coalesced", works, list(outputs))

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        self._of_all("all_to_all", outputs, inputs[0] if inputs else torch.empty(0))
        self._of_all("all_to_all", inputs, outputs[0])
        dst = memory.writes_all(outputs)
        src = memory.reads_all(inputs)
        counts = memory.counts_of(outputs, dst)
        sends = memory.counts_of(inputs, src)
        # Parts of other ranks may differ in length, so lengths are always passed.
        counts = counts or [dst.count // len(outputs)] * len(outputs)
        sends = sends or [src.count // len(inputs)] * len(inputs)
        return self._start("all_to_all", ring.ALLTOALL, dst, src, list(outputs), opts, counts=counts, sends=sends)

    def alltoall_base(self, output: torch.Tensor, input: torch.Tensor, output_splits: Sequence[int], input_splits: Sequence[int], opts: Any = None) -> Work:
        what = "all_to_all_single"
        ranks = self.engine.comm.size
        memory.check(what, [output, input])
        dst = memory.writes(output)
        src = memory.reads(input)
        counts = memory.rows(what, output, output_splits, ranks)
        sends = memory.rows(what, input, input_splits, ranks)
        wide = dst.count // output.numel() if output.numel() else src.count // input.numel() if input.numel() else 1
        return self._start(what, ring.ALLTOALL, dst, src, output, opts, counts=[n * wide for n in counts], sends=[n * wide for n in sends])

    all_to_all_single = alltoall_base

    def barrier(self, opts: Any = None) -> Work:
        return self._start("barrier", ring.BARRIER, opts=opts)

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """A barrier in which rank 0 names the ranks that do not come in time, by torch's store. timeout is a timedelta, or BarrierOptions."""
        engine = self.engine
        given = getattr(timeout, "timeout", timeout)
        limit = (engine.timeout or 1800.0) if given is None else given.total_seconds()
        if limit < 0:  # not set
            limit = engine.timeout or 1800.0
        engine.barriers += 1
        rank = engine.comm.rank
        end = time.monotonic() + limit
        prefix = "gorun-monitored-barrier/%d/" % engine.barriers
        if rank != 0:
            engine.store.set(prefix + str(rank), "here")
            if not _set_by(engine.store, prefix + "all", end):
                raise errors.TimeoutExpired(
                    "gorun: Rank %d successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0: it timed out. Rank 0 says which ranks did not come" % rank
                )
            return
        lacking: List[int] = []
        for other in range(1, engine.comm.size):
            if _set_by(engine.store, prefix + str(other), end):
                continue
            lacking.append(other)
            if not wait_all_ranks:
                break
        if lacking and limit <= 0:
            raise errors.TimeoutExpired("gorun: Rank 0 timed out in monitoredBarrier after %g s" % limit)
        if lacking:
            raise errors.TimeoutExpired(
                "gorun: Rank%s %s failed to pass monitoredBarrier in %d ms: timed out" % ("s" if wait_all_ranks else "", ", ".join(map(str, lacking)), 1000 * limit)
            )
        engine.store.set(prefix + "all", "here")

    def _together(self, what: str, works: Sequence[Work], outputs: object) -> Work:
        """One Work of several."""
        lanes = [w for w in works if isinstance(w, LaneWork)]
        if lanes:
            return LaneWork(self.engine.keeper, what, lanes[0].device, lanes[0].lane, outputs, ())
        return Together(self.engine.keeper, what, works, outputs)

    # Coalescing: calls between these two have one Work.

    def start_coalescing(self) -> None:
        self.engine.coalescing = []

    def end_coalescing(self) -> Work:
        works = self.engine.coalescing or []
        self.engine.coalescing = None
        return self._together("coalesced calls", works, [])

    # Messages.

    def send(self, tensors: Tensors, to: int, tag: int = 0) -> Work:
        return self._message("send to rank %d" % to, tensors, memory.reads(self._one("send", tensors)), self.engine.comm.rank, to, tag)

    def recv(self, tensors: Tensors, source: int, tag: int = 0) -> Work:
        return self._message("recv from rank %d" % source, tensors, memory.writes(self._one("recv", tensors)), source, self.engine.comm.rank, tag)

    def _message(self, what: str, tensors: Tensors, part: Part, sender: int, receiver: int, tag: int) -> Work:
        if part.gpu >= 0:
            raise errors.InvalidError("gorun: %s: a tensor of a GPU: send and receive tensor.cpu()" % what)
        message = Message(self.engine.keeper, what, list(tensors), part, self.engine.coalescing is None and _in_blocking_call())
        self.engine.pairs.add(sender, receiver, tag, message)
        return self.engine.started(message)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Work:
        """Receives from whichever rank sends first. What the others send next with this tag is as long as this tensor."""
        part = memory.writes(self._one("recv", tensors))
        if part.gpu >= 0:
            raise errors.InvalidError("gorun: recv: a tensor of a GPU: receive tensor.cpu()")
        return self.engine.started(AnyMessage(self.engine.keeper, "recv from any rank", list(tensors), part, self.engine.pairs, tag))

    # What torch asks about a group.

    def getBackendName(self) -> str:
        return "gorun"

    def getRank(self) -> int:
        return self.engine.comm.rank

    def getSize(self) -> int:
        return self.engine.comm.size

    def set_timeout(self, timeout: timedelta) -> None:
        self.engine.set_timeout(seconds(timeout))

    _set_default_timeout = set_timeout

    def _get_sequence_number_for_group(self) -> int:
        return self.engine.calls

    def _set_sequence_number_for_group(self) -> None:
        """Numbers begin at 0 on all ranks."""


def seconds(timeout: Optional[timedelta]) -> Optional[float]:
    return timeout.total_seconds() if timeout else None


def _set_by(store: Any, key: str, end: float) -> bool:
    """Waits until a key of torch's store is set, at most until a time of time.monotonic(), and returns whether it is."""
    pause = 0.0005
    while not store.check([key]):  # and not wait(), whose timeouts differ from store to store
        if time.monotonic() >= end:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    return True
