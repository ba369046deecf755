"""Copies of this rank's shard in the memory of another rank, made while the training goes on."""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch

from .. import _data, _ring, errors
from .._ledger import Generation, Id, Kept
from ._transfer import MOST, Stream, read, take_apart, unreadable

HEAD, PAGE = 16, 1 << 12  # bytes


class Copies:
    """Makes a generation of copies at a time, in buffers that are used again: at most two for each copy, and for this rank's own state."""

    def __init__(self, kept: Kept, shards: Sequence[int]) -> None:
        self.kept, self.shards = kept, shards
        self.buffers: List[torch.Tensor] = []
        self.thread: Optional[threading.Thread] = None
        self.error: Optional[errors.GorunError] = None

    def begin(self, comm: _ring.Comm, holders: Sequence[int], id: Id, state: Any) -> None:
        """Keeps the state, and begins to send it to this rank's holder. All ranks call it, after an epoch began or when all are complete.
        comm is for copies only.
        """
        self.finish()
        before = self.kept.generations
        generation = self.kept.begin(id)
        self.buffers = [b for g in before if g not in self.kept.generations for b in (g.own, g.memory) if b is not None]
        generation.own = _pack(state, self._buffer)
        self.thread = threading.Thread(target=self._exchange, args=(comm, holders, generation), name="gorun-copies", daemon=True)
        self.thread.start()

    @property
    def complete(self) -> bool:
        """Whether all copies that others send of the newest generation are here. Raises the error of the copying."""
        if self.error is not None:
            raise self.error
        return self.kept.generations[-1].complete

    def own(self, step: int) -> Any:
        return _unpack(self.kept.own(step), -1)

    def copy(self, shard: int, step: int) -> Any:
        return _unpack(self.kept.copy(shard, step), self.shards.index(shard))

    def finish(self) -> None:
        """Waits until the copies of others are here, or have failed with their epoch."""
        if self.thread is not None:
            self.thread.join()
            self.thread = None

    def _exchange(self, comm: _ring.Comm, holders: Sequence[int], generation: Generation) -> None:
        try:
            to, sources = holders[comm.rank], [r for r in range(comm.size) if holders[r] == comm.rank]
            sizes = torch.empty(8 * len(sources), dtype=torch.uint8)
            _pass(comm, to, torch.tensor([generation.own.numel()]).view(torch.uint8), {r: 8 for r in sources}, sizes)
            coming = dict(zip(sources, sizes.view(torch.int64).tolist()))
            for r, size in coming.items():
                if not 0 <= size <= 2 * generation.own.numel() + MOST:  # shards differ, by a part of one in two
                    raise unreadable(r, "its copy has %d bytes" % size)
            generation.memory = self._buffer(sum(coming.values()))
            _pass(comm, to, generation.own, coming, generation.memory)
            parts = generation.memory.split(list(coming.values()))
            generation.held = {self.shards[r]: part for r, part in zip(sources, parts)}
            generation.complete = True
        except (errors.PeerError, errors.ClosedError):
            pass  # the epoch has ended
        except Exception as e:
            if comm.handle:  # it was not closed
                self.error = e if isinstance(e, errors.GorunError) else errors.InternalError("gorun: copying the state: %s" % e)

    def _buffer(self, size: int) -> torch.Tensor:
        for i, buffer in enumerate(self.buffers):
            if buffer.numel() == size:
                return self.buffers.pop(i)
        return torch.empty(size, dtype=torch.uint8)


def _pass(comm: _ring.Comm, to: int, mine: torch.Tensor, coming: Dict[int, int], got: torch.Tensor) -> None:
    """Sends bytes to a rank, and receives as many as are coming from others."""
    counts, sends = [coming.get(r, 0) for r in range(comm.size)], [0] * comm.size
    sends[to] = mine.numel()
    call = _ring.call(
        _ring.ALLTOALL, _ring.UINT8, dst=got.data_ptr(), dst_count=got.numel(), src=mine.data_ptr(), src_count=mine.numel(), counts=counts, sends=sends
    )
    comm.start(call, (mine, got)).wait()


# A state in one buffer: two lengths, the tensors, an outline of the values around them, and space, so that the next state is as long.


def _pack(state: Any, buffer: Callable[[int], torch.Tensor]) -> torch.Tensor:
    tensors: List[torch.Tensor] = []
    outline = torch.frombuffer(bytearray(_data.dump(take_apart(state, tensors))), dtype=torch.uint8)
    parts = [*Stream(tensors).parts, outline]
    end = HEAD + sum(part.numel() for part in parts)
    packed = buffer(-(-end // PAGE) * PAGE)
    packed[:HEAD] = torch.tensor([end - outline.numel(), end]).view(torch.uint8)
    at = HEAD
    for part in parts:
        packed[at : at + part.numel()] = part
        at += part.numel()
    return packed


def _unpack(packed: torch.Tensor, owner: int) -> Any:
    """The state of a rank, in memory of its own. A MismatchError says that the rank has sent something else."""
    outline, end = packed[:HEAD].clone().view(torch.int64).tolist() if packed.numel() >= HEAD else (0, 0)
    if not HEAD <= outline <= end <= packed.numel():
        raise unreadable(owner, "its lengths are wrong")
    tensors: List[torch.Tensor] = []
    state = read(ctypes.string_at(packed.data_ptr() + outline, end - outline), tensors, owner, packed.numel() + MOST)
    stream = Stream(tensors)
    if stream.size != outline - HEAD:
        raise unreadable(owner, "its tensors have other lengths")
    stream.write(0, packed[HEAD:outline])
    return state
