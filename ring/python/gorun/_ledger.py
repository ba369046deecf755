"""Which steps of a training this rank has, and what follows when the ranks of the job change.

It decides, and does nothing else: no messages, no clock, no tensors. docs/protocol.md has the protocol and its invariants.
"""

from __future__ import annotations

from typing import List, NamedTuple

from . import errors

# Whether this rank has the state of the training.
UNBORN, HEARD, OWNED = range(3)  # no rank had any; others had it and this one did not get it; this one has it


class Said(NamedTuple):
    """What a rank tells the others at the beginning of an epoch."""

    owns: int
    committed: int  # steps
    voted: bool  # it has all that the next step needs, and has not heard whether the others have


class Decision(NamedTuple):
    """What the ranks of an epoch do, by rank. All ranks decide the same."""

    forward: List[int]  # complete the step that they voted for
    holders: List[int]  # then have the newest step
    receivers: List[int]  # get it from the holders


class Ledger:
    """The steps of one rank."""

    def __init__(self) -> None:
        self.owns, self.committed, self.voted = UNBORN, 0, False

    def said(self) -> Said:
        return Said(self.owns, self.committed, self.voted)

    def vote(self) -> None:
        """Records that this rank can complete the next step. Call it before the others can learn of it."""
        if self.voted:
            raise errors.InternalError("gorun: a step was left that all ranks had voted for")
        self.voted = True

    def commit(self) -> None:
        """Records the next step, for which all ranks have voted."""
        self.committed, self.voted = self.committed + 1, False

    def receive(self, committed: int) -> None:
        """Records the whole state after so many steps, from the holders or, in the job's first epoch, of this rank itself."""
        self.owns, self.committed, self.voted = OWNED, committed, False

    def miss(self) -> None:
        """Records that an epoch ended before this rank, which came late to the job, heard of the others' state."""
        self.owns = max(self.owns, HEARD)

    def decide(self, rank: int, all_said: List[Said]) -> Decision:
        """Decides what follows in an epoch, of whose ranks all_said is complete. This rank's vote is then settled, except that it commits
        if it is in forward. Raises StateLostError if the job's state is lost.
        """
        owners = [r for r, said in enumerate(all_said) if said.owns == OWNED]
        if not owners:
            return self._first(rank, all_said)
        newest = max(all_said[r].committed for r in owners)
        # A step is committed by a rank only after the votes of all. So if all of these voted, it may have been: they commit it as well.
        # If one of them did not, no rank has.
        if all(all_said[r].committed == newest and all_said[r].voted for r in owners):
            newest += 1
        forward = [r for r in owners if all_said[r].committed == newest - 1 and all_said[r].voted]
        holders = [r for r in owners if all_said[r].committed == newest or r in forward]
        self.voted = rank in forward
        self.owns = max(self.owns, HEARD)
        return Decision(forward, holders, [r for r in range(len(all_said)) if r not in holders])

    def _first(self, rank: int, all_said: List[Said]) -> Decision:
        if any(said.owns == HEARD for said in all_said):
            raise errors.StateLostError("gorun: no rank is left that has the job's state: start the job again, from a checkpoint if there is one")
        if rank == 0:
            self.receive(0)
        return Decision([], [0], list(range(1, len(all_said))))
