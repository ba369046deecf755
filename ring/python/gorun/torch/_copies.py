"""Copies of this rank's shard in the memory of another host, made while the training goes on."""

from __future__ import annotations

import ctypes
import os
import secrets
import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import torch

from .. import _data, _ring, errors
from .._ledger import Generation, Id, Kept
from .._places import gather, holders
from ._memory import HEAD, Memory, attach
from ._transfer import MOST, TOLD, Stream, read, take_apart, unreadable

PAGE = 1 << 12  # bytes
STAMP = slice(16, 24)  # of a head
CHUNK = 1 << 18  # bytes that are sent if one of them has changed


class Copy(NamedTuple):
    """A packed state of another rank, which is whole while it has this stamp."""

    packed: torch.Tensor
    stamp: int


class Copies:
    """Makes a generation of copies at a time, in memory that is used again: at most two for each copy, and for this rank's own state.

    The memory of a rank stays after its end while another rank of its host maps it, as all do. So a copy is lost with the last of them.
    """

    def __init__(self, kept: Kept, shards: Sequence[int]) -> None:
        self.kept = kept
        self.shards = shards
        self.unused: List[Memory] = []
        self.thread: Optional[threading.Thread] = None
        self.error: Optional[errors.GorunError] = None

    def begin(self, comm: _ring.Comm, hosts: Sequence[int], id: Id, state: Any) -> None:
        """Keeps the state, and begins to send it to this rank's holder. All ranks call it, after an epoch began or when all are complete.
        comm is for copies only. hosts has a number for the host of each rank.
        """
        self.finish()
        before = self.kept.generations
        generation = self.kept.begin(id)
        self.unused = [m for g in before if g not in self.kept.generations for m in (g.own, g.memory) if m is not None]
        stamp = secrets.randbits(62) + 1
        generation.own = _pack(state, stamp, self._memory)
        self.thread = threading.Thread(target=self._exchange, args=(comm, hosts, generation, stamp), name="gorun-copies", daemon=True)
        self.thread.start()

    @property
    def complete(self) -> bool:
        """Whether all copies that others send of the newest generation are here. Raises the error of the copying."""
        if self.error is not None:
            raise self.error
        return self.kept.generations[-1].complete

    def own(self, step: int) -> Any:
        return _unpack(self.kept.own(step).data, -1)

    def copy(self, shard: int, step: int) -> Any:
        return _unpack(self.kept.copy(shard, step).packed, self.shards.index(shard))

    def finish(self) -> None:
        """Waits until the copies of others are here, or have failed with their epoch."""
        if self.thread is not None:
            self.thread.join()
            self.thread = None

    def verify(self) -> None:
        """Drops copies in memory of other ranks that these have used again. No rank may begin a generation before all have heard of the rest."""
        for g in self.kept.generations:
            g.held = {shard: copy for shard, copy in g.held.items() if _stamp(copy.packed) == copy.stamp}

    def _exchange(self, comm: _ring.Comm, hosts: Sequence[int], generation: Generation, stamp: int) -> None:
        try:
            to = holders(hosts)
            base = self._base(generation)
            sent = generation.own.data if base is None else _patch(base.own.data, generation.own.data)
            said = gather(comm, [generation.own.size, sent.numel(), stamp])
            sizes = said[::3]
            lengths = said[1::3]
            stamps = said[2::3]
            self._receive(comm, to, generation, base, sent, sizes, lengths)
            for r, part in generation.parts.items():
                generation.held[self.shards[r]] = Copy(part, stamps[r])
            places = gather(comm, [os.getpid(), generation.own.fd, generation.memory.fd])
            for r in range(comm.size):
                if hosts[r] == hosts[comm.rank] and r != comm.rank:
                    self._borrow(generation, r, places[3 * r : 3 * r + 3], [q for q in range(comm.size) if to[q] == r], sizes, stamps)
            generation.complete = True
        except (errors.PeerError, errors.ClosedError):
            pass  # the epoch has ended
        except Exception as e:
            if comm.handle:  # it was not closed
                self.error = e if isinstance(e, errors.GorunError) else errors.InternalError("gorun: copying the state: %s" % e)

    def _base(self, generation: Generation) -> Optional[Generation]:
        """The generation from which a holder needs only what has changed: it is complete on the same ranks."""
        for g in self.kept.generations:
            if g.id == self.kept.whole and g.id[0] == generation.id[0] and g.own.size == generation.own.size:
                return g
        return None

    def _receive(
        self,
        comm: _ring.Comm,
        to: Sequence[int],
        generation: Generation,
        base: Optional[Generation],
        sent: torch.Tensor,
        sizes: Sequence[int],
        lengths: Sequence[int],
    ) -> None:
        """Sends this rank's state, or what has changed of it, and makes the parts of a generation of those that come."""
        sources = [r for r in range(comm.size) if to[r] == comm.rank]
        for r in range(comm.size):
            too_long = r in sources and sizes[r] > 2 * generation.own.size + MOST  # shards differ, by a part of one in two
            if too_long or not 0 <= lengths[r] <= sizes[r]:
                raise unreadable(r, "its copy has %d bytes, of which %d come" % (sizes[r], lengths[r]))
        generation.memory = self._memory(sum(sizes[r] for r in sources))
        parts = generation.memory.cut([sizes[r] for r in sources])
        whole = all(lengths[r] == sizes[r] for r in sources)
        got = generation.memory.data if whole else torch.empty(sum(lengths[r] for r in sources), dtype=torch.uint8)
        _pass(comm, to[comm.rank], sent, {r: lengths[r] for r in sources}, got)
        generation.parts = dict(zip(sources, parts))
        if whole:
            return
        for r, came in zip(sources, got.split([lengths[r] for r in sources])):
            if lengths[r] == sizes[r]:
                generation.parts[r].copy_(came)
            elif base is None or r not in base.parts or base.parts[r].numel() != sizes[r]:
                raise unreadable(r, "its copy is a change of one that is not here")
            else:
                generation.parts[r].copy_(base.parts[r])
                _apply(generation.parts[r], came, r)

    def _borrow(self, generation: Generation, rank: int, place: Sequence[int], sources: Sequence[int], sizes: Sequence[int], stamps: Sequence[int]) -> None:
        """Maps the memory of another rank of this host: its own state, and the copies that it holds."""
        pid, own, memory = place
        for fd, ranks in ((own, [rank]), (memory, sources)):
            size = sum(sizes[r] for r in ranks)
            data = attach(pid, fd, size) if size else None
            if data is None:
                continue
            for r, part in zip(ranks, data[:size].split([sizes[r] for r in ranks])):
                if _stamp(part) == stamps[r]:
                    generation.held.setdefault(self.shards[r], Copy(part, stamps[r]))

    def _memory(self, size: int) -> Memory:
        for i, memory in enumerate(self.unused):
            if memory.size == size:
                self.unused[i].clear()
                return self.unused.pop(i)
        return Memory(size)


def _pass(comm: _ring.Comm, to: int, mine: torch.Tensor, coming: Dict[int, int], got: torch.Tensor) -> None:
    """Sends bytes to a rank, and receives as many as are coming from others."""
    counts = [coming.get(r, 0) for r in range(comm.size)]
    sends = [0] * comm.size
    sends[to] = mine.numel()
    call = _ring.call(
        _ring.ALLTOALL, _ring.UINT8, dst=got.data_ptr(), dst_count=got.numel(), src=mine.data_ptr(), src_count=mine.numel(), counts=counts, sends=sends
    )
    comm.start(call, (mine, got)).wait()


# A change: how many chunks have changed, their numbers, and the chunks.


def _patch(before: torch.Tensor, now: torch.Tensor) -> torch.Tensor:
    """What has changed, or all if that is most of it."""
    old = before.split(CHUNK)
    new = now.split(CHUNK)
    changed = [i for i in range(len(new)) if not torch.equal(old[i], new[i])]
    numbers = torch.tensor([len(changed), *changed]).view(torch.uint8)
    if numbers.numel() + sum(new[i].numel() for i in changed) > now.numel() // 2:
        return now
    return torch.cat([numbers, *(new[i] for i in changed)])


def _apply(packed: torch.Tensor, patch: torch.Tensor, owner: int) -> None:
    chunks = packed.split(CHUNK)
    count = int(patch[:8].clone().view(torch.int64)) if patch.numel() >= 8 else -1
    head = 8 * (count + 1)
    if not 0 <= count <= len(chunks) or head > patch.numel():
        raise unreadable(owner, "a change has %d chunks" % count)
    changed = patch[8:head].clone().view(torch.int64).tolist()
    if any(not 0 <= i < len(chunks) for i in changed) or head + sum(chunks[i].numel() for i in changed) != patch.numel():
        raise unreadable(owner, "a change has other chunks than it says")
    for i, chunk in zip(changed, patch[head:].split([chunks[i].numel() for i in changed])):
        chunks[i].copy_(chunk)


# A state in one buffer: a head, the tensors, an outline of the values around them, and space, so that the next state is as long. The head is where
# the outline begins, where it ends, and a stamp, which is 0 while the rest is not whole.


def _pack(state: Any, stamp: int, memory: Callable[[int], Memory]) -> Memory:
    tensors: List[torch.Tensor] = []
    outline = torch.frombuffer(bytearray(_data.dump(take_apart(state, tensors))), dtype=torch.uint8)
    parts = [*Stream(tensors).parts, outline]
    end = HEAD + sum(part.numel() for part in parts)
    found = memory(-(-end // PAGE) * PAGE)
    packed = found.data
    at = HEAD
    for part in parts:
        packed[at : at + part.numel()] = part
        at += part.numel()
    packed[:HEAD] = torch.tensor([end - outline.numel(), end, stamp]).view(torch.uint8)
    return found


def _stamp(packed: torch.Tensor) -> int:
    return int(packed[STAMP].clone().view(torch.int64)) if packed.numel() >= HEAD else 0


def _unpack(packed: torch.Tensor, owner: int) -> Any:
    """The state of a rank, in memory of its own. A MismatchError says that the rank has sent something else."""
    outline, end, _ = packed[:HEAD].clone().view(torch.int64).tolist() if packed.numel() >= HEAD else (0, 0, 0)
    if not HEAD <= outline <= end <= packed.numel() or end - outline > TOLD:
        raise unreadable(owner, "its lengths are wrong")
    tensors: List[torch.Tensor] = []
    state = read(ctypes.string_at(packed.data_ptr() + outline, end - outline), tensors, owner, packed.numel() + MOST)
    stream = Stream(tensors)
    if stream.size != outline - HEAD:
        raise unreadable(owner, "its tensors have other lengths")
    stream.write(0, packed[HEAD:outline])
    return state
