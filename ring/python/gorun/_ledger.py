"""Which steps of a training this rank has, and what follows when the ranks of the job change.

It decides, and does nothing else: no messages, no clock, no tensors. docs/protocol.md has the protocol and its invariants.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import errors

# Whether this rank has the state of the training.
UNBORN, HEARD, OWNED = range(3)  # no rank had any; others had it and this one did not get it; this one has it

Id = Tuple[int, int]  # of a generation of copies: the epoch in which it was made, and the step
NEVER: Id = (0, -1)


class Said(NamedTuple):
    """What a rank tells the others at the beginning of an epoch."""

    owns: int
    committed: int  # steps
    voted: bool  # it has all that the next step needs, and has not heard whether the others have
    whole: Id = NEVER  # the newest generation of copies that it knows to be complete on all ranks
    kept: Sequence[int] = ()  # steps of which it has kept its own shard
    held: Sequence[Tuple[int, int]] = ()  # shards of others, and their steps, of which it has copies


class Send(NamedTuple):
    """A shard of the state, the ranks that send it, and those that get it."""

    shard: int
    holders: List[int]
    receivers: List[int]
    copied: bool = False  # the holders have it as a copy


class Decision(NamedTuple):
    """What the ranks of an epoch do, by rank. All ranks decide the same."""

    step: int  # that all have then
    forward: List[int]  # complete the step that they voted for
    back: List[int]  # return to what they kept of the step
    fresh: List[int]  # begin with what the program made
    sends: List[Send]
    whole: Id


class Generation:
    """What a rank keeps of one step."""

    def __init__(self, id: Id) -> None:
        self.id = id
        self.own: Any = None
        self.held: Dict[int, Any] = {}  # shards of others, in this rank's memory or in that of a rank of its host
        self.memory: Any = None  # of this rank, for shards of others
        self.parts: Dict[int, Any] = {}  # of the memory, by the rank that sent it
        self.complete = False  # it has all that the others send it

    @property
    def step(self) -> int:
        return self.id[1]


class Kept:
    """What a rank keeps of earlier steps: the newest generation that is complete on all ranks, and the one after it."""

    def __init__(self) -> None:
        self.generations: List[Generation] = []
        self.whole = NEVER

    def begin(self, id: Id) -> Generation:
        """Begins a generation. One that is not whole makes room for it."""
        self.generations = [g for g in self.generations if g.id == self.whole] + [Generation(id)]
        return self.generations[-1]

    def learn(self, whole: Id) -> None:
        """Records that a generation is complete on all ranks. Those of steps before it are dropped. Another one of its step, made in an earlier
        epoch, may have copies of which this rank has told the others.
        """
        self.whole = max(whole, self.whole)
        self.generations = [g for g in self.generations if g.id >= self.whole or g.step == self.whole[1]]

    def own(self, step: int) -> Any:
        return next(g.own for g in self.generations if g.step == step)

    def copy(self, shard: int, step: int) -> Any:
        return next(g.held[shard] for g in self.generations if g.step == step and shard in g.held)

    def steps(self) -> List[int]:
        return [g.step for g in self.generations]

    def copies(self) -> List[Tuple[int, int]]:
        return [(shard, g.step) for g in self.generations for shard in g.held]


class Ledger:
    """The steps of one rank. shards are the ranks' parts of the state: ranks with the same number have the same part."""

    def __init__(self, shards: Optional[Sequence[int]] = None) -> None:
        self.owns = UNBORN
        self.committed = 0
        self.voted = False
        self.newest = 0  # step that this rank has heard of
        self.shards = shards
        self.kept = Kept()

    def said(self) -> Said:
        return Said(self.owns, self.committed, self.voted, self.kept.whole, self.kept.steps(), self.kept.copies())

    def vote(self) -> None:
        """Records that this rank can complete the next step. Call it before the others can learn of it."""
        if self.voted:
            raise errors.InternalError("gorun: a step was left that all ranks had voted for")
        self.voted = True

    def commit(self) -> None:
        """Records the next step, for which all ranks have voted."""
        self.committed += 1
        self.voted = False

    def receive(self, committed: int) -> None:
        """Records the whole state after so many steps: from other ranks, from what this one kept, or of the program's beginning."""
        self.owns = OWNED
        self.committed = committed
        self.voted = False

    def miss(self) -> None:
        """Records that an epoch ended before this rank, which came late to the job, heard of the others' state."""
        self.owns = max(self.owns, HEARD)

    def decide(self, rank: int, all_said: Sequence[Said], first: bool = False) -> Decision:
        """Decides what follows in an epoch, of whose ranks all_said is complete. This rank's vote is then settled, except that it commits
        if it is in forward. first: this rank has been in all epochs of the training. Raises StateLostError if the job's state is lost, and
        MismatchError, which names a rank that says what cannot be.
        """
        owners = [r for r, said in enumerate(all_said) if said.owns == OWNED]
        self._check(all_said, first)
        if not owners:
            decision = self._first(all_said)
        else:
            decision = self._newest(owners, all_said)
            self.owns = max(self.owns, HEARD)
        self.voted = rank in decision.forward
        self.kept.learn(decision.whole)
        return decision

    def _check(self, all_said: Sequence[Said], first: bool) -> None:
        """Checks what others say against what this rank knows if it has the state, or has been there since the beginning: no step was committed
        without its vote, and it has its part of a generation that is complete on all ranks.
        """
        knows = first or self.owns == OWNED
        known = max(self.newest, self.committed + self.voted)
        there = {g.id for g in self.kept.generations if g.complete}
        for r, said in enumerate(all_said):
            votes = said.voted and self.owns != OWNED  # where this rank has the state, the vote of another one alone leads nowhere
            step = max([said.committed + votes, *said.kept])
            if knows and step > known:
                raise errors.MismatchError("gorun: rank %d says that step %d is committed, for which this one has not voted" % (r, step))
            if knows and said.whole > self.kept.whole and said.whole not in there:
                raise errors.MismatchError(
                    "gorun: rank %d says that all ranks have their copies of step %d, and this one has not" % (r, said.whole[1])
                )
            self.newest = max(self.newest, step)

    def _first(self, all_said: Sequence[Said]) -> Decision:
        heard = [str(r) for r, said in enumerate(all_said) if said.owns == HEARD]
        if heard:
            raise errors.StateLostError(
                "gorun: no rank is left that has the job's state, of which rank %s has heard: start the job again, from a checkpoint if there is one"
                % " or ".join(heard)
            )
        everyone = list(range(len(all_said)))
        if self.shards is not None:  # each has its part, as the program made it
            return Decision(0, [], [], everyone, [], NEVER)
        return Decision(0, [], [], [0], [Send(0, [0], everyone[1:])] if everyone[1:] else [], NEVER)

    def _newest(self, owners: List[int], all_said: Sequence[Said]) -> Decision:
        """Decides for the newest step of which there is every shard."""
        newest = max(all_said[r].committed for r in owners)
        steps = {all_said[r].committed for r in owners} | {step for said in all_said for step in said.kept}
        # A step is committed by a rank only after the votes of all. So if all of these voted, it may have been: they commit it as well.
        # If one of them did not, no rank has.
        if all(all_said[r].committed == newest and all_said[r].voted for r in owners):
            steps.add(newest + 1)
        copies: Dict[Tuple[int, int], List[int]] = {}
        for r, said in enumerate(all_said):
            for held in set(said.held):
                copies.setdefault(held, []).append(r)
        whole = max(said.whole for said in all_said)[1]
        for step in sorted((step for step in steps if step >= whole), reverse=True):  # earlier ones are dropped
            decision = self._to(step, all_said, copies)
            if decision is not None:
                return decision
        raise errors.StateLostError(self._lost(owners, all_said))

    def _to(self, step: int, all_said: Sequence[Said], copies: Dict[Tuple[int, int], List[int]]) -> Optional[Decision]:
        """How all ranks get to a step, or None if they cannot. copies has the ranks with a copy of a shard and step. It takes time in proportion
        to the ranks, since each rank says of some steps where it was."""
        shards = self.shards or [0] * len(all_said)
        forward = []
        back = []
        fresh = []
        have: Dict[int, List[int]] = {}  # ranks by shard
        lack: Dict[int, List[int]] = {}
        for r, said in enumerate(all_said):
            found = True
            if said.owns != OWNED:
                found = self.shards is not None and step == 0  # the shard of step 0 is the one that the program makes
                if found:
                    fresh.append(r)
            elif said.voted and said.committed == step - 1:
                forward.append(r)
            elif said.committed != step:
                found = step in said.kept
                if found:
                    back.append(r)
            (have if found else lack).setdefault(shards[r], []).append(r)
        sends = []
        for shard, receivers in sorted(lack.items()):
            holders = have.get(shard, [])
            copied = copies.get((shard, step), [])
            if not holders and not copied:
                return None
            sends.append(Send(shard, holders or copied, receivers, not holders))
        return Decision(step, forward, back, fresh, sends, max(said.whole for said in all_said))

    def _lost(self, owners: List[int], all_said: Sequence[Said]) -> str:
        assert self.shards is not None  # an owner of the newest step has all of it otherwise
        there = {self.shards[r] for r in owners} | {shard for said in all_said for shard, _ in said.held}
        ranks = [str(r) for r, shard in enumerate(self.shards) if shard not in there]
        what = "no step is left of which all shards are there"
        if ranks:
            what = "no rank is left with the shard of rank %s, or with a copy of it" % " or ".join(ranks)
        hint = "" if any(said.kept for said in all_said) else ". Resilient(copies=1) keeps a copy of each on another host"
        return "gorun: %s: start the job again, from a checkpoint if there is one%s" % (what, hint)
