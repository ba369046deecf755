"""Rank numbers that stay: a rank keeps its number in all epochs, and a new one gets the number of a rank that was lost."""

from __future__ import annotations

import ctypes
import hashlib
from typing import Callable, List, Optional, Sequence

from . import _job, errors
from . import _ring as ring


def join(split: Callable[[ring.Comm], ring.Comm], timeout: Optional[float]) -> ring.Comm:
    """Waits for the next epoch in which split makes a communicator of the job's, and returns that one. Raises PeerError if none follows."""
    while True:
        world = _job.join(timeout_ms=int((timeout or 0) * 1000))
        try:
            return split(world)
        except errors.PeerError:
            _job.leave()
        except BaseException:
            _job.leave()
            raise


class Places:
    """This rank's number, and the hosts of all."""

    def __init__(self, timeout: Optional[float] = None) -> None:
        """Waits for the next epoch and joins it. Raises PeerError if none follows."""
        self.rank: Optional[int] = None
        self.hosts: List[int] = []  # by rank, a number for each host
        self.comm: Optional[ring.Comm] = join(self.split, timeout)

    def take(self) -> ring.Comm:
        """The communicator of the epoch that was joined first."""
        comm = self.comm
        self.comm = None
        assert comm is not None  # it is taken once
        return comm

    def split(self, world: ring.Comm) -> ring.Comm:
        """Makes the communicator in which all ranks have their numbers. All ranks of an epoch call it."""
        everyone = gather(world, [-1 if self.rank is None else self.rank, _number(world.host)])
        ranks = everyone[::2]
        hosts = everyone[1::2]
        old = (ctypes.c_int64 * world.size)(*self.hosts)
        owner = next((i for i, rank in enumerate(ranks) if rank >= 0), -1)
        if owner >= 0:
            if self.hosts and len(self.hosts) != world.size:
                raise errors.InvalidError(
                    "gorun: a sharded model needs all its %d ranks, and the job has %d: give --min-np and --max-np the number of -np" % (len(self.hosts), world.size)
                )
            world.run(ring.call(ring.BROADCAST, ring.INT64, root=owner, dst=ctypes.addressof(old), dst_count=world.size))
        placed = assign(ranks, hosts, list(old) if owner >= 0 else hosts)
        comm = world.split(0, placed[world.rank])
        assert comm is not None  # only a negative color has no part
        if comm.rank != placed[world.rank]:
            raise errors.MismatchError("gorun: rank %d becomes rank %d: another rank takes a number that is not its own" % (placed[world.rank], comm.rank))
        self.rank = comm.rank
        self.hosts = [hosts[placed.index(rank)] for rank in range(world.size)]
        return comm


def assign(ranks: Sequence[int], hosts: Sequence[int], old: Sequence[int]) -> List[int]:
    """The number of each rank: its own, or else one that is free, if possible of a rank that was on its host. A MismatchError names the rank
    that says a number which it cannot have, or both of which one does.
    """
    for i, rank in enumerate(ranks):
        if not -1 <= rank < len(ranks):
            raise errors.MismatchError("gorun: rank %d of %d in this epoch says that its number is %d, which none can have" % (i, len(ranks), rank))
        if rank >= 0 and rank in ranks[:i]:  # only they know whose it is
            raise errors.MismatchError("gorun: ranks %d and %d of %d in this epoch both say that their number is %d" % (ranks.index(rank), i, len(ranks), rank))
    placed = list(ranks)
    free = [rank for rank in range(len(ranks)) if rank not in ranks]
    for near in (True, False):
        for i, host in enumerate(hosts):
            fits = [rank for rank in free if not near or old[rank] == host]
            if placed[i] < 0 and fits:
                placed[i] = fits[0]
                free.remove(fits[0])
    return placed


def holders(hosts: Sequence[int]) -> List[int]:
    """For each rank the one that keeps its copy: on the next host if there is another one, where each rank gets as many as the others."""
    order = list(dict.fromkeys(hosts))
    on = {host: [rank for rank, h in enumerate(hosts) if h == host] for host in order}
    if len(order) == 1:
        return [(rank + 1) % len(hosts) for rank in range(len(hosts))]
    found = []
    for rank, host in enumerate(hosts):
        there = on[order[(order.index(host) + 1) % len(order)]]
        found.append(there[on[host].index(rank) % len(there)])
    return found


def _number(host: str) -> int:
    return int.from_bytes(hashlib.sha256(host.encode()).digest()[:7], "big")


def gather(comm: ring.Comm, mine: Sequence[int]) -> List[int]:
    """The numbers of all ranks, one rank's after the other's. All give as many."""
    sent = (ctypes.c_int64 * len(mine))(*mine)
    got = (ctypes.c_int64 * (len(mine) * comm.size))()
    comm.run(ring.call(ring.ALLGATHER, ring.INT64, dst=ctypes.addressof(got), dst_count=len(got), src=ctypes.addressof(sent), src_count=len(sent)))
    return list(got)
