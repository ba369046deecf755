"""Training that loses no step when ranks die: ``for batch in Resilient(model, optimizer).steps(loader)``.

docs/resilient.md says what is promised, and docs/protocol.md how the ranks agree.
"""

from __future__ import annotations

import copy
import ctypes
import functools
import hashlib
import itertools
import json
import os
import random
import sys
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from .. import _job, _ring, errors
from .._ledger import OWNED, Decision, Ledger, Said
from ..torch_backend.renewal import Renewable, RenewableEngine
from . import _checks, _shards
from ._batches import Batches, refuse
from ._copies import Copies
from ._transfer import MOST, broadcast, transfer, unreadable

FINAL = (errors.MismatchError, errors.StateLostError)  # after these the job must not go on
STATE = 64  # bytes of a state for each element of the model, at most: with Adam in float32 there are 12


def init_process_group(backend: Any = None, sharded: bool = False, **options: Any) -> None:
    """dist.init_process_group, for a program that uses :class:`Resilient`.

    In an elastic job of gorun the group is of backend gorun, its ranks may be replaced, and it has its rank and world size, but moves
    nothing between ranks, until :meth:`Resilient.steps` begins. Its sums have the same bits on any hosts. Elsewhere torch makes the group;
    without a launcher it has one rank. sharded: the model is one of fully_shard, so that a rank keeps its number. The call then waits until
    the rank has one.
    """
    named = backend in (None, "gorun")
    if named and "GORUN_ELASTIC" in os.environ:
        os.environ.setdefault("RING_ORDER", "rank")
        place = Renewable.placed() if sharded else Renewable(int(os.environ["GORUN_RANK"]), int(os.environ["GORUN_SIZE"]))
        options.update(store=dist.HashStore(), rank=place.rank, world_size=place.size, pg_options=place)
        backend = "gorun"
    elif named and "GORUN_RANK" in os.environ:
        backend = "gorun"
    elif "RANK" not in os.environ and not {"rank", "store", "init_method"} & set(options):
        options.update(store=dist.HashStore(), rank=0, world_size=1)
        backend = "gloo" if named else backend
    dist.init_process_group(backend, **options)  # type: ignore[no-untyped-call,unused-ignore]


class Resilient:
    """A training whose steps are committed by all ranks or by none.

    model is a DistributedDataParallel of all ranks, or sharded over all of them by fully_shard. A step is one turn of the loop over
    :meth:`steps`, with one ``optimizer.step()``, at which the ranks agree. If one of them is lost before, ``optimizer.step()`` does nothing,
    and the loop makes the step again with the same batch. New ranks get the state from the others.

    copies=1, of a sharded model: each rank's shard is also kept in the memory of a rank of another host, after every copy_every steps. If
    no other rank has a lost shard, all ranks go back to the step of its newest copy.

    check_every=N: after every N steps replicas compare their parameters. A rank whose bits differ from those of most raises CorruptedError,
    so that another one takes its place. Where no bits have a majority, all raise it with undecided="end", and go on with a warning with "warn".
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        scheduler: Any = None,
        copies: int = 0,
        copy_every: int = 1,
        check_every: int = 0,
        undecided: str = "end",
    ) -> None:
        if check_every < 0 or undecided not in ("end", "warn"):
            raise errors.InvalidError('gorun: Resilient takes check_every of at least 0, and undecided="end" or "warn"')
        self.model = model
        self.optimizer = optimizer
        self.scheduler = scheduler
        self._job = _job_of(model)
        shards = _shards.shards_of(model, self._job.size) if self._job.heals else None
        self._ledger = Ledger(shards)
        self._copies = _copies_of(copies, copy_every, self._ledger) if self._job.heals else None
        self._copy_every = copy_every
        self._copy_due = False
        self._check_every = check_every if self._job.heals else 0
        self._check_due = False
        self._warns = undecided == "warn"
        self._there = False  # this rank has reached the position of the job
        self._calls = 0  # of steps()
        self._at = _Position(self._job.size)
        self._sizes = {self._job.size}  # of all epochs in which this rank was
        self._arriving: Any = None  # the state that this rank has got for its position, which it has not reached
        self._decision: Optional[Decision] = None  # of a new epoch, until all ranks have the state
        self._attempt: Optional[_Attempt] = None  # at a step; None between steps
        self._weight = 1.0
        self._kept: List[Tuple[torch.Tensor, torch.Tensor]] = []  # buffers, and copies of them
        self._rates: List[Dict[str, Any]] = []
        self._schedule: Any = None
        self._gate()

    @property
    def step(self) -> int:
        """The number of steps that are committed."""
        return self._ledger.committed - self._at.passes

    # The story of a pass.

    def steps(self, loader: Any, until: Optional[int] = None) -> Iterator[Any]:
        """Yields the batches of one pass through loader, each until its step is committed; at most until so many steps are.

        loader is a DataLoader with a batch size for each rank. All ranks together take the batches that as many ranks as the job has at its
        start would take, however many there are later. The order is that of its sampler: a DistributedSampler, or one that is alike on all ranks.
        Before each step the random generators of torch, NumPy and Python get seeds, from the number of the step and the rank.
        """
        refuse(loader)
        this = self._calls
        self._calls += 1
        self._enter()
        if this < self._at.passes:
            return  # the others have made this pass before this rank came
        if this > self._at.passes:
            raise errors.InvalidError("gorun: the loop over steps() was left before its end: give the number of steps as steps(loader, until=N) instead")
        self._arrive()
        _seed(self._at.seed, this)
        batches = Batches(loader, self._at.ranks)
        if self._at.index > batches.count:
            raise errors.MismatchError("gorun: other ranks are at batch %d of this pass, which has %d on this rank" % (self._at.index, batches.count))
        while self._at.passes == this:
            self._settle()
            if self._at.index == batches.count or self.step == until:
                self._end_pass()
            else:
                yield from self._try_step(batches)

    def _try_step(self, batches: Batches) -> Iterator[Any]:
        """Makes one attempt at the next step."""
        place = self._at.index, self._job.rank, self._job.size
        batches.prepare(*place)
        self._seed_step("data")
        batch = batches.fetch(*place)
        self._weight = batches.weight(*place)
        self._seed_step("model")
        self._keep()
        self._attempt = attempt = _Attempt()
        self._job.begin_step()
        try:
            yield batch
            if not attempt.over:  # without optimizer.step(): it is a step all the same
                self._agree(attempt, lambda: None)
        finally:
            self._job.end_step()
            self._attempt = None
        if not attempt.committed:
            self._undo()

    def _end_pass(self) -> None:
        """Ends a pass on all ranks or on none: it is committed as a step is."""
        try:
            self._commit_by_all(self._at.next_pass)
            self._settle()
        except errors.PeerError:  # no epoch follows: a rank has ended well
            if self._ledger.voted:  # after this pass, then
                self._at.next_pass()
                self._ledger.commit()
            elif self._ledger.owns != OWNED or self._at.index:
                raise

    # Of a step.

    def _gate(self) -> None:
        """Puts the agreement into optimizer.step(), and the weights into the sums of gradients."""
        make: Any = self.optimizer.step

        @functools.wraps(make)
        def optimizer_step(closure: Any = None) -> Any:
            if self._attempt is None:
                return make() if closure is None else make(closure)
            if closure is not None:
                raise errors.InvalidError("gorun: optimizer.step(closure) cannot be made again: call backward() before optimizer.step()")
            if self._attempt.over:
                raise errors.InvalidError("gorun: a second optimizer.step() in one step: begin another turn of the loop over steps()")
            self._agree(self._attempt, make)

        self.optimizer.step = optimizer_step
        model: Any = self.model
        if isinstance(model, DistributedDataParallel):
            model.register_comm_hook(None, self._reduce)  # type: ignore[operator,unused-ignore]
        else:
            _shards.before_reduce(model, self._weigh)

    # Its parameters have no annotations: DDP compares them with types, which those of later Pythons are not.
    def _reduce(self, state, bucket):  # type: ignore[no-untyped-def]
        """Adds the gradients of all ranks, each with the weight of its samples."""
        gradients = bucket.buffer()
        op = dist.ReduceOp.AVG
        if not self._job.heals or self._weight * self._job.size != 1:  # alike on all ranks
            gradients = gradients.mul_(self._weight)
            op = dist.ReduceOp.SUM
        return dist.all_reduce(gradients, op, group=self.model.process_group, async_op=True).get_future().then(_first)

    def _weigh(self, gradients: torch.Tensor) -> None:
        """Gives gradients of which all ranks then take the average the weight of this rank's samples."""
        if self._weight * self._job.size != 1:
            gradients.mul_(self._weight * self._job.size)

    def _agree(self, attempt: _Attempt, make: Callable[[], Any]) -> None:
        """Commits the step of an attempt by make() if all ranks can."""

        def commit() -> None:
            attempt.committed = True
            make()
            self._at.index += 1

        attempt.over = True
        self._commit_by_all(commit)

    def _commit_by_all(self, commit: Callable[[], Any]) -> None:
        """Commits if all ranks vote for it. If a rank is lost, all that are left do, or none does."""
        agreed = False
        if self._job.intact:
            self._ledger.vote()
            agreed = self._vote()
        if not agreed:
            decision = self._renew()
            agreed = self._job.rank in decision.forward  # the rank is that of the new epoch
        if agreed:
            commit()
            self._ledger.commit()
            self._check_due = self._check_every > 0 and self._ledger.committed % self._check_every == 0
            self._copy_due = self._job.all_copied and self._ledger.committed - self._ledger.kept.whole[1] >= self._copy_every

    def _vote(self) -> bool:
        """Says that this rank can go on, and hears whether all can, and have their copies."""
        agreed: bool = self._job.vote(self._copies is None or self._copies.complete)
        if agreed and self._copies is not None and self._job.all_copied:
            self._ledger.kept.learn(self._ledger.kept.generations[-1].id)
        return agreed

    def _keep(self) -> None:
        """Keeps what an attempt changes before the ranks agree, or whether they agree or not."""
        if not self._job.heals:
            return
        buffers = list(self.model.buffers())
        if len(buffers) != len(self._kept) or any(b is not kept for b, (kept, _) in zip(buffers, self._kept)):
            self._kept = [(b, torch.empty_like(b)) for b in buffers]
        for buffer, kept in self._kept:
            kept.copy_(buffer)
        self._rates = [{k: v for k, v in group.items() if k != "params"} for group in self.optimizer.param_groups]
        self._schedule = None if self.scheduler is None else copy.deepcopy(self.scheduler.state_dict())

    def _undo(self) -> None:
        """Returns to what was kept, and drops the gradients."""
        self.optimizer.zero_grad(set_to_none=True)
        for buffer, kept in self._kept:
            buffer.copy_(kept)
        for group, rates in zip(self.optimizer.param_groups, self._rates):
            group.update(rates)
        if self.scheduler is not None:
            self.scheduler.load_state_dict(self._schedule)

    def _seed_step(self, what: str) -> None:
        _seed(self._at.seed, self._at.passes, self._at.index, self._job.rank, what)

    # Of the ranks.

    def _enter(self) -> None:
        """Joins the job's first epoch, or the first that this rank is in."""
        if self._ledger.owns == OWNED:
            return
        if not self._job.heals:
            self._ledger.receive(0)
            return
        self._renew()
        self._settle()

    def _renew(self) -> Decision:
        """Joins the next epoch in which all ranks hear of each other."""
        while True:
            self._decision = None
            try:
                self._job.renew(self._copies)
                self._sizes.add(self._job.size)
                if self._copies is not None:
                    self._copies.verify()
                said = self._job.exchange(self._ledger.said())
                self._decision = self._ledger.decide(self._job.rank, said, self._job.first)
            except errors.PeerError:
                if not self._job.attached:  # no epoch follows
                    raise
                if self._job.late:
                    self._ledger.miss()
                continue
            except FINAL as e:
                self._job.end(e)
                raise
            return self._decision

    def _settle(self) -> None:
        """Between two steps: lets ranks come and go, gives those that lack the state what the others have, and copies it."""
        if self._job.changing:
            self._renew()
        while True:
            try:
                if self._decision is not None:
                    self._restore(self._decision)
                if self._check_due:
                    self._check()
                if self._copies is not None:
                    self._copy(self._copies)
                break
            except errors.PeerError:
                self._renew()
            except FINAL as e:
                self._job.end(e)
                raise
        self._job.listen(self._arriving is None)

    def _restore(self, decision: Decision) -> None:
        """Gets all ranks to the state that was decided for."""
        rank = self._job.rank
        step = decision.step
        if decision.fresh and self._ledger.shards is not None:
            lacking = {*decision.fresh, *(r for send in decision.sends for r in send.receivers)}
            root = min(set(range(self._job.size)) - lacking, default=0)
            told = broadcast(self._job.comm, json.dumps(self._at.said()).encode() if rank == root else b"", root, POSITION)
            self._at.set(self._begun(_at_step(_heard(told, _Position.read, root), step, root), root))
        if rank in decision.fresh and self._ledger.owns != OWNED:
            self._ledger.receive(step)
            self._at.ranks = self._job.size
        if rank in decision.back:
            assert self._copies is not None  # without copies nothing is kept
            self._take(self._copies.own(step), rank, step)
        known = {"at": self._at.said(), "committed": step}
        if any(rank in send.receivers for send in decision.sends):
            known = {}
        for send in decision.sends:
            owner = self._ledger.shards.index(send.shard) if self._ledger.shards is not None else 0
            try:
                state = None
                if rank in send.holders and send.copied:
                    assert self._copies is not None  # it has said that it holds one
                    state = self._copies.copy(send.shard, step)
                    at = _place_of(state, owner, step)
                    if at != known.get("at", at):  # so that the others do not blame this rank for what it was given
                        raise unreadable(owner, "its copy has another value for 'at' than other ranks")
                elif rank in send.holders:
                    state = self._state()
                state = transfer(self._job.comm, send.holders, send.receivers, state, self._limit(), known)
                if rank in send.receivers:
                    self._take(state, send.holders[0], step)
            except errors.MismatchError as e:
                if not send.copied:
                    raise
                raise errors.MismatchError("%s. It is the copy of what a process has sent that was rank %d before" % (e, owner)) from e
        self._decision = None
        self._check_due = False  # new ranks have none due
        self._copy_due = True

    def _check(self) -> None:
        """Compares the parameters of all ranks."""
        self._check_due = False
        verdict = _checks.judge(self._job.gather(_checks.checksum(self.model)), self._ledger.shards)
        step = self.step
        rank = self._job.rank
        if rank in verdict.wrong:
            raise errors.CorruptedError(
                "gorun: after step %d the parameters of rank %d on %s differ from those of most ranks: its memory or processor may be faulty. It ends,"
                " and another process takes its place" % (step, rank, self._job.host)
            )
        if verdict.undecided:
            ranks = ", ".join(map(str, verdict.undecided))
            text = "gorun: after step %d the ranks %s have different parameters, and none has those of most" % (step, ranks)
            if not self._warns:
                error = errors.CorruptedError(text + ": start the job again, from a checkpoint of an earlier step")
                self._job.end(error)
                raise error
            if rank == verdict.undecided[0]:
                warnings.warn(text, stacklevel=2)

    def _copy(self, copies: Copies) -> None:
        """Begins to copy the state if that is due. At the beginning of a pass it waits for the copies of all ranks, so that none goes back to
        the pass before, which others may have left.
        """
        begins = self._at.index == 0
        while self._copy_due or (begins and self._ledger.kept.whole[1] != self._ledger.committed):
            if self._copy_due:
                self._copy_due = False
                copies.begin(self._job.copying, self._job.hosts, (self._job.epoch, self._ledger.committed), self._state())
            if begins:
                copies.finish()
                if not self._job.intact or not self._vote():
                    raise errors.PeerError("gorun: a rank was lost while states were copied")
                self._copy_due = self._job.all_copied and self._ledger.kept.whole[1] != self._ledger.committed

    # Of the state.

    def _state(self) -> Dict[str, Any]:
        state = {"at": self._at.said(), "committed": self._ledger.committed}
        for name, thing in self._things():
            state[name] = _shards.plain(thing.state_dict())
        return state

    def _limit(self) -> int:
        """The most bytes of tensors that are believed to be a state of this training."""
        tensors = _shards.plain(self.model.state_dict()).values()
        return MOST + STATE * sum(t.numel() for t in tensors if isinstance(t, torch.Tensor))

    def _things(self) -> List[Tuple[str, Any]]:
        all_things = [("model", self.model), ("optimizer", self.optimizer), ("scheduler", self.scheduler)]
        return [(name, thing) for name, thing in all_things if thing is not None]

    def _take(self, state: Dict[str, Any], holder: int, step: int) -> None:
        at = self._begun(_place_of(state, holder, step), holder)
        self._ledger.receive(step)
        self._at.set(at)
        try:
            self._load(state)
        except errors.GorunError:
            raise
        except Exception as e:  # of PyTorch, or of the program's scheduler
            raise unreadable(holder, "%s: %.200s" % (type(e).__name__, e)) from e
        self._arriving = None if self._there else state

    def _begun(self, at: Tuple[int, int, int, int], rank: int) -> Tuple[int, int, int, int]:
        """A position that a rank says, if as many ranks have begun the training, as far as this one can know: its batch is of theirs."""
        if (self._job.first or self._ledger.shards is not None) and at[2] not in self._sizes:
            raise unreadable(rank, "it has been begun by %d ranks, and this job had %s" % (at[2], " or ".join(map(str, sorted(self._sizes)))))
        return at

    def _arrive(self) -> None:
        """Loads the state again, so that what the program has done on its way to the state's pass has no effect."""
        if self._arriving is not None:
            self._load(self._arriving)
            self._arriving = None
        self._there = True

    def _load(self, state: Dict[str, Any]) -> None:
        load = {"model": _shards.load_model, "optimizer": _shards.load_optimizer, "scheduler": _shards.load_scheduler}
        for name, thing in self._things():
            load[name](thing, state[name])


class _Attempt:
    """One attempt at a step."""

    def __init__(self) -> None:
        self.over = False  # the ranks have agreed, or have failed to
        self.committed = False


class _Position:
    """Where the job is."""

    def __init__(self, ranks: int) -> None:
        self.passes = 0  # that are complete
        self.index = 0  # of the next batch of the present pass
        self.ranks = ranks  # at the job's start
        self.seed = torch.initial_seed()  # of rank 0

    def next_pass(self) -> None:
        self.passes += 1
        self.index = 0

    def said(self) -> Tuple[int, int, int, int]:
        return self.passes, self.index, self.ranks, self.seed

    def set(self, said: Tuple[int, int, int, int]) -> None:
        self.passes, self.index, self.ranks, self.seed = said

    @staticmethod
    def read(values: Any) -> Tuple[int, int, int, int]:
        """What another rank has said."""
        passes, index, ranks, seed = map(_number, values)
        if passes < 0 or index < 0 or ranks < 1:
            raise ValueError("%d ranks are at batch %d of pass %d" % (ranks, index, passes))
        return passes, index, ranks, seed


def _copies_of(copies: int, every: int, ledger: Ledger) -> Optional[Copies]:
    if copies not in (0, 1) or every < 1:
        raise errors.InvalidError("gorun: Resilient takes copies=0 or copies=1, and copy_every of at least 1")
    if copies == 0:
        return None
    if ledger.shards is None:
        raise errors.InvalidError("gorun: copies are for models of fully_shard: of this one each rank has all, so leave out copies")
    return Copies(ledger.kept, ledger.shards)


def _first(future: "torch.futures.Future[Any]") -> torch.Tensor:
    return future.value()[0]


def _seed(*what: Any) -> None:
    number = int.from_bytes(hashlib.sha256(repr(what).encode()).digest()[:8], "big")
    _seed_torch(number)
    random.seed(number)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(number % 2**32)


def _seed_torch(number: int) -> None:
    """torch.manual_seed, which formats the stack for each kind of device that is not initialized, is too slow for each step without devices."""
    if _has_accelerator():
        torch.manual_seed(number)
    else:
        torch.default_generator.manual_seed(number)


@functools.lru_cache(maxsize=None)
def _has_accelerator() -> bool:
    known: Any = getattr(torch, "accelerator", None)
    return known is None or bool(known.is_available())


# The ranks of a training.


def _job_of(model: Any) -> Any:
    if not dist.is_initialized():
        return _Fixed(0, 1, "torch.distributed has no process group")
    rank = dist.get_rank()
    size = dist.get_world_size()
    backend = dist.get_backend()
    engine = getattr(dist.group.WORLD, "engine", None)
    if not isinstance(engine, RenewableEngine):
        return _Fixed(rank, size, _why_fixed(size, backend))
    if isinstance(model, DistributedDataParallel) and model.process_group is dist.group.WORLD:
        if not hasattr(model.reducer, "_reset_state"):
            raise errors.InvalidError("gorun: Resilient needs a newer PyTorch than %s, whose DistributedDataParallel cannot begin a step again" % torch.__version__)
    elif not _shards.is_sharded(model):
        raise errors.InvalidError("gorun: Resilient takes a DistributedDataParallel of all ranks or a model of fully_shard, and model is a %s" % type(model).__name__)
    elif engine.places is None:
        raise errors.InvalidError("gorun: a model of fully_shard needs gorun.torch.init_process_group(sharded=True)")
    return _Elastic(engine, model)


def _why_fixed(size: int, backend: str) -> str:
    if size == 1:
        return "there is one rank"
    if "GORUN_RANK" not in os.environ:
        return "gorun has not started the ranks"
    if backend != "gorun":
        return "the backend is %s" % backend
    if "GORUN_ELASTIC" not in os.environ:
        return "the job is not elastic: --min-np makes it so"
    return "the group is not that of gorun.torch.init_process_group"


class _Fixed:
    """Ranks that are not replaced: all steps are committed, or the job fails."""

    heals = late = changing = all_copied = False
    intact = True

    def __init__(self, rank: int, size: int, why: str) -> None:
        self.rank = rank
        self.size = size
        if rank == 0:
            warnings.warn("gorun: a rank that dies will not be replaced: " + why, stacklevel=4)

    def end(self, why: Exception) -> None: ...

    def listen(self, there: bool) -> None: ...

    def begin_step(self) -> None: ...

    def end_step(self) -> None: ...

    def vote(self, copied: bool) -> bool:
        return True


class _Elastic:
    """The ranks of an elastic job, in one epoch after another."""

    heals = True

    def __init__(self, engine: RenewableEngine, model: Any) -> None:
        self.engine = engine
        self.model = model
        self.changing = False  # all ranks know that ranks will come or go
        self.all_copied = False  # all ranks know that all have their copies
        self.copying: Any = None  # the communicator for copies
        self.joined_first = engine.attached  # by init_process_group
        self.alone = engine.conduct.muted  # no training of this process was before

    @property
    def attached(self) -> bool:
        return self.engine.attached

    @property
    def comm(self) -> _ring.Comm:
        return self.engine.comm

    @property
    def rank(self) -> int:
        return self.engine.comm.rank

    @property
    def size(self) -> int:
        return self.engine.comm.size

    @property
    def intact(self) -> bool:
        """Whether all collectives of the step have moved what they should."""
        return self.engine.attached and self.engine.conduct.failure is None

    @property
    def epoch(self) -> int:
        job = _job.joined()
        return 0 if job is None else job.epoch

    @property
    def host(self) -> str:
        return self.engine.comm.host

    @property
    def hosts(self) -> List[int]:
        """A number for the host of each rank."""
        assert self.engine.places is not None  # the model is sharded
        return self.engine.places.hosts

    @property
    def late(self) -> bool:
        """Whether the job had begun when this process came."""
        return _job.first() > 1

    @property
    def first(self) -> bool:
        """Whether this process has been in all epochs of the training."""
        return self.alone and _job.first() == 1

    def end(self, why: Exception) -> None:
        """Ends the job. If only this rank ended, another one in its place would know less, and might believe what this one does not."""
        job = _job.joined()
        if job is not None:
            job.abort(str(why).replace("gorun: ", "", 1))

    def renew(self, copies: Optional[Copies]) -> None:
        """Leaves the epoch and joins the next one. Collectives of the program then end at once, here alone, until listen(True)."""
        if self.copying is not None:
            self.copying.close()
        if copies is not None:
            copies.finish()
        if not self.joined_first:
            self.engine.leave()
            self.engine.join()
        self.joined_first = self.changing = self.all_copied = False
        self.engine.join_parts()
        self.copying = self.comm.dup().private() if copies is not None else None
        world: Any = getattr(dist.distributed_c10d, "_world")
        world.pg_group_ranks[dist.group.WORLD] = {rank: rank for rank in range(self.size)}

    def exchange(self, said: Said) -> List[Said]:
        """What all ranks say, by rank."""
        mine = json.dumps(said).encode()
        sizes = self.gather(len(mine))
        for rank, size in enumerate(sizes):
            if not 0 <= size <= SAID + SAID_OF_A_RANK * self.size:
                raise unreadable(rank, "it says %d bytes about its steps" % size)
        everyone = ctypes.create_string_buffer(sum(sizes))
        sent = ctypes.create_string_buffer(mine, len(mine))
        self._allgather(_ring.UINT8, ctypes.addressof(everyone), sizes, ctypes.addressof(sent))
        ends = list(itertools.accumulate(sizes, initial=0))
        raw = everyone.raw
        return [_heard(raw[begin:end], _said, rank) for rank, (begin, end) in enumerate(zip(ends, ends[1:]))]

    def _allgather(self, dtype: int, dst: int, counts: List[int], src: int) -> None:
        self.comm.run(_ring.call(_ring.ALLGATHER, dtype, dst=dst, dst_count=sum(counts), src=src, src_count=counts[self.rank], counts=counts))

    def gather(self, number: int) -> List[int]:
        """The number of each rank, below 2**63."""
        numbers = (ctypes.c_int64 * self.size)()
        mine = ctypes.c_int64(number)
        self._allgather(_ring.INT64, ctypes.addressof(numbers), [1] * self.size, ctypes.addressof(mine))
        return list(numbers)

    def vote(self, copied: bool) -> bool:
        """Says that this rank can complete the step, and hears whether all can. They hear together of ranks that will come or go, and whether
        all have their copies.
        """
        job = _job.joined()
        bits = ctypes.c_int32(CHANGING * (job is not None and job.hosts_updated()) | COPYING * (not copied))
        at = ctypes.addressof(bits)
        try:
            self.comm.run(_ring.call(_ring.ALLREDUCE, _ring.INT32, _ring.BOR, dst=at, dst_count=1, src=at, src_count=1))
        except errors.PeerError:
            return False
        self.changing = bool(bits.value & CHANGING)
        self.all_copied = not bits.value & COPYING
        return True

    def listen(self, there: bool) -> None:
        """Says whether this rank makes the collectives that the others make."""
        self.engine.conduct.muted = not there

    def begin_step(self) -> None:
        if isinstance(self.model, DistributedDataParallel):
            reducer: Any = self.model.reducer
            reducer._reset_state()  # it may have been interrupted; and its buckets must stay those that new ranks make
        self.engine.conduct.tolerant = True

    def end_step(self) -> None:
        self.engine.conduct.tolerant = False


# What a vote says beside yes.
CHANGING = 1
COPYING = 2


# Most bytes of what ranks say in JSON: about their steps, to which each rank of the job may add two copies, and about the position of the training.
SAID = 1 << 10
SAID_OF_A_RANK = 128
POSITION = 256
KEPT = 8  # steps that a rank keeps, at most: it has two. All ranks look for the newest step that they can get to


def _heard(said: bytes, take: Callable[[Any], Any], rank: int) -> Any:
    """What a rank has said in JSON."""
    return _believed(said, lambda text: take(json.loads(text)), rank)


def _believed(said: Any, take: Callable[[Any], Any], rank: int) -> Any:
    """What is taken from what a rank has said."""
    try:
        return take(said)
    except (ValueError, TypeError, LookupError, RecursionError) as e:
        raise unreadable(rank, "%.200s" % e) from None


def _said(values: Any) -> Said:
    owns, committed, voted, whole, kept, held = values
    if len(kept) > KEPT:
        raise ValueError("it keeps %d steps" % len(kept))
    return Said(
        _number(owns),
        _number(committed),
        voted is True,
        (_number(whole[0]), _number(whole[1])),
        [_number(step) for step in kept],
        [(_number(shard), _number(step)) for shard, step in held],
    )


def _place_of(state: Any, holder: int, step: int) -> Tuple[int, int, int, int]:
    """The position of the training in a state, which is that of a step."""
    committed, at = _believed(state, lambda s: (_number(s["committed"]), _Position.read(s["at"])), holder)
    if committed != step:
        raise unreadable(holder, "it is that of step %d, and not of step %d" % (committed, step))
    return _at_step(at, step, holder)


def _at_step(at: Tuple[int, int, int, int], step: int, rank: int) -> Tuple[int, int, int, int]:
    """A position that a rank says, if the training can be there after so many steps: each batch is one, and each end of a pass."""
    if at[0] + at[1] > step:
        raise unreadable(rank, "after step %d it is at batch %d of pass %d" % (step, at[1], at[0]))
    return at


def _number(value: Any) -> int:
    if type(value) is not int or not -(2**63) <= value < 2**64:
        raise ValueError("a value of %s is no number here" % type(value).__name__)
    return value
