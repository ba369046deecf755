"""A group whose ranks change: it stays, and its engine gets the communicator of another epoch.

Between epochs, and before the first, the group is detached: each rank is alone with its calls, which end at once. So a process can make
its groups and models, for which others would have to be there, before it is in an epoch.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence

import torch

from .. import _job
from .. import _ring as ring
from .. import errors
from .._places import Places, join
from .engine import Engine
from .memory import Part
from .work import Work


class Renewable(NamedTuple):
    """What init_process_group gets as pg_options for a group whose ranks change."""

    rank: int
    size: int
    places: Optional[Places] = None  # which has joined the job

    @classmethod
    def placed(cls) -> "Renewable":
        """Waits for an epoch, in which this rank gets a number that stays."""
        places = Places()
        assert places.rank is not None  # it has joined
        return cls(places.rank, len(places.hosts), places)


class _Detached:
    """In place of a communicator."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size

    def private(self) -> "_Detached":
        return self

    def close(self) -> None:
        pass


class Conduct:
    """How the calls of a group and of its parts behave now."""

    def __init__(self) -> None:
        self.tolerant = False  # calls end well if a rank is lost: whoever makes the step asks for failure afterwards
        self.muted = True  # calls end at once, here alone
        self.failure: Optional[errors.GorunError] = None  # why calls of this epoch were of no use


class RenewableEngine(Engine):
    """An engine that joins one epoch after another."""

    def __init__(self, place: Renewable, timeout: Optional[float], store: Any, ranks: Optional[List[int]] = None, whole: "Optional[RenewableEngine]" = None) -> None:
        self.conduct: Conduct = whole.conduct if whole is not None else Conduct()
        self.places = place.places
        self.attached = False
        self.renewed_parts: List[RenewableEngine] = []
        self._begin(_Detached(place.rank, place.size), timeout, store, ranks)
        if whole is None and self.places is not None:
            self._attach(self.places.take())

    def _begin(self, comm: Any, timeout: Optional[float], store: Any, ranks: Optional[List[int]] = None, name: str = "renewed") -> None:
        super().__init__(comm, ranks if ranks is not None else list(range(comm.size)), name, timeout, store)
        self.keeper.absorb = self._absorb

    def join(self) -> None:
        """Waits for the next epoch and joins it. Raises PeerError if none follows."""
        split = ring.Comm.dup if self.places is None else self.places.split
        self._attach(join(split, self.timeout))

    def _attach(self, comm: ring.Comm) -> None:
        users = self.users
        self.keeper.close()
        self._begin(comm, self.timeout, self.store, self.ranks if len(self.ranks) == comm.size else None, self.name)
        self.users = users
        self.conduct.failure = None
        self.attached = True

    def join_parts(self) -> None:
        """Gives the parts of this group their communicators of this epoch. All ranks call it, after join."""
        for part in self.renewed_parts:
            _job.join()
            try:
                comm = self.comm.group(part.name, part.ranks, self.timeout)
            except BaseException:
                _job.leave()
                raise
            part._attach(comm)

    def leave(self) -> None:
        """Leaves the epoch. What is under way fails. Without an epoch it does nothing."""
        for part in self.renewed_parts:
            part.leave()
        if not self.attached:
            return
        self.attached = False
        self.conduct.muted = True
        users = list(self.users)
        rank = self.comm.rank
        size = self.comm.size
        super().close()
        self._begin(_Detached(rank, size), self.timeout, self.store, self.ranks, self.name)
        self.users = users

    def close(self) -> None:
        if self.attached:
            self.attached = False
            super().close()

    def _absorb(self, error: BaseException) -> Optional[BaseException]:
        if not self.conduct.tolerant or not isinstance(error, (errors.PeerError, errors.ClosedError)):
            return error
        self.conduct.failure = self.conduct.failure or error
        return None

    def start(self, what: str, calls: Sequence[ring.Call], parts: Sequence[Part], outputs: object, here: bool = False) -> Work:
        if not self.conduct.muted and self.conduct.failure is None:
            try:
                return super().start(what, calls, parts, outputs, here)
            except errors.GorunError as e:
                if self._absorb(e) is not None:
                    raise
        if any(call.kind == ring.ALLGATHER for call in calls):
            _repeat(*parts)
        work = Work(self.keeper, what, (), outputs, [p.copy_back for p in parts if p.copy_back])
        work.settle(0)
        return self.started(work)

    def part(self, name: str, ranks: Sequence[int], timeout: Optional[float], store: Any) -> Engine:
        """An engine of some ranks, whose numbers must stay: it is detached until join_parts."""
        if self.places is None:
            raise errors.InvalidError(
                "gorun: groups of some of the ranks are renewed only if ranks keep their numbers: call gorun.torch.init_process_group(sharded=True)"
            )
        part = RenewableEngine(Renewable(list(ranks).index(self.comm.rank), len(ranks), self.places), timeout, store, list(ranks), self)
        part.name = part.keeper.name = name
        self.renewed_parts.append(part)
        return part


def _repeat(dst: Part, src: Part) -> None:
    """Gathers from all ranks what this one has."""
    inputs: List[torch.Tensor] = list(src.keep)
    with torch.no_grad():
        for output in dst.keep:
            times = output.numel() // max(1, inputs[0].numel())
            output.copy_(inputs[0].reshape(-1).repeat(times).view(output.shape))
