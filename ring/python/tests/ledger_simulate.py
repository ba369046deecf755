"""Made-up trainings whose ranks die at every point, a seed each: SIMULATE_N of them from SIMULATE_FROM; one with its log: SIMULATE_SEED.

The ranks follow docs/protocol.md ("A step that all commit"), and gorun._ledger decides. A collective ends well on a rank only if all ranks have
made it; when a rank dies, each of the others may or may not get the results that were complete.
"""

import os
import random
import sys
from typing import NamedTuple

from gorun import _ledger, errors

STEPS = 6
OK, LOST, NONE_LEFT = "done", "state lost", "no rank left"


class PeerLost(Exception):
    pass


class NoEpoch(Exception):
    """The job ends: no epoch follows."""


class Call(NamedTuple):
    what: str
    value: object


class Park(NamedTuple):
    pass


class Epoch:
    def __init__(self, number, members):
        self.number, self.members, self.broken, self.calls = number, members, False, []


class Rank:
    """A process, which runs as a generator: it yields a Call or a Park, and gets the outcome."""

    def __init__(self, world, born):
        self.world, self.born, self.name = world, born, "p%d" % len(world.ranks)
        self.ledger, self.content, self.gradients = _ledger.Ledger(), None, None
        self.epoch, self.seen = None, 0
        self.alive, self.parked, self.waits = True, False, None
        self.since = False  # the launcher knows that it was in an epoch that all have joined
        self.run = self.live()

    @property
    def number(self):
        return self.epoch.members.index(self)

    def commit(self):
        self.content = hash((self.content, self.gradients))
        self.ledger.commit()
        self.world.committed(self)

    def renew(self):
        """Joins the next epoch in which all ranks hear of each other, and settles the vote. Returns the decision."""
        while True:
            epoch, first = yield Park()
            try:
                said = yield Call("exchange", self.ledger.said())
            except PeerLost:
                if self.born > 1:
                    self.ledger.miss()
                continue
            decision = self.ledger.decide(self.number, said)
            if self.number == 0 and self.ledger.owns == _ledger.OWNED and self.content is None:
                self.content = 0
            if self.number in decision.forward:
                self.commit()
            return decision

    def transfer(self, decision):
        while decision.receivers:
            try:
                states = yield Call("transfer", (self.ledger.committed, self.content))
            except PeerLost:
                decision = yield from self.renew()
                continue
            held = {states[r] for r in decision.holders}
            if len(held) != 1:
                self.world.broken("the holders' states differ: %s", held)
            if self.number in decision.receivers:
                committed, self.content = held.pop()
                self.ledger.receive(committed)
            return

    def live(self):
        yield from self.transfer((yield from self.renew()))
        while self.ledger.committed < STEPS:  # the last of which is the end of the pass
            self.world.begins(self)
            try:
                inputs = yield Call("gradients", (self.ledger.committed, self.content))
                if len(set(inputs)) != 1:
                    self.world.broken("gradients of different states: %s", inputs)
                self.gradients = hash((inputs[0], self.epoch.number))
                self.ledger.vote()
                changed = yield Call("vote", self.world.random.random() < 0.05)
                self.commit()
                if any(changed):  # the ranks leave the epoch together, for one with others
                    yield from self.transfer((yield from self.renew()))
            except PeerLost:
                yield from self.transfer((yield from self.renew()))


class World:
    def __init__(self, seed, tell):
        self.random, self.tell, self.log, self.fault = random.Random(seed), tell, [], None
        self.ranks, self.epoch, self.epochs, self.history, self.end = [], None, 0, {}, None
        self.finished, self.whole = False, False
        self.most = self.random.randint(1, 5)
        self.least = self.random.randint(1, self.most)
        self.deaths = self.random.choice((0, 1, 2, 3, 6, 12))

    def note(self, form, *args):
        if self.tell:
            self.log.append(form % args)

    def broken(self, form, *args):
        self.fault = self.fault or form % args

    # The invariants.

    def newest(self):
        return max(self.history, default=0)

    def committed(self, rank):
        n = rank.ledger.committed
        self.note("%s commits step %d", rank.name, n)
        if self.history.setdefault(n, rank.content) != rank.content:
            self.broken("%s commits another step %d than a rank before", rank.name, n)

    def begins(self, rank):
        if rank.ledger.committed != self.newest():
            self.broken("%s goes on after step %d, and step %d is committed", rank.name, rank.ledger.committed, self.newest())

    def lost(self, rank):
        for other in self.living():
            if other.ledger.owns == _ledger.OWNED and other.ledger.committed == self.newest():
                self.broken("%s says that the state is lost, and %s has it", rank.name, other.name)

    # The course.

    def living(self):
        return [r for r in self.ranks if r.alive]

    def start(self, epoch):
        self.ranks.append(Rank(self, epoch))
        self.resume(self.ranks[-1], None)
        return self.ranks[-1]

    def resume(self, rank, outcome):
        try:
            rank.waits = rank.run.throw(outcome) if isinstance(outcome, Exception) else rank.run.send(outcome)
        except StopIteration:
            self.note("%s ends well", rank.name)
            if rank.ledger.committed != STEPS:
                self.broken("%s ends after step %d", rank.name, rank.ledger.committed)
            rank.alive, self.finished = False, True
            self.leave(rank)
            return
        except NoEpoch:
            if rank.ledger.owns == _ledger.OWNED and rank.ledger.committed + rank.ledger.voted != STEPS:
                self.broken("%s cannot go on after step %d: others have ended", rank.name, rank.ledger.committed)
            rank.alive = False
            return
        except errors.StateLostError:
            self.lost(rank)
            self.end = LOST
            return
        if isinstance(rank.waits, Park):
            rank.parked = True
            self.leave(rank)
        else:
            calls = rank.epoch.calls
            if rank.seen == len(calls):
                calls.append((rank.waits.what, {}))
            what, values = calls[rank.seen]
            if what != rank.waits.what:
                self.broken("%s makes %s where another rank makes %s", rank.name, rank.waits.what, what)
            values[rank] = rank.waits.value

    def leave(self, rank):
        if rank.epoch is not None and rank in rank.epoch.members and rank.epoch is self.epoch:
            rank.epoch.broken = True

    def kill(self, rank):
        self.note("%s dies", rank.name)
        rank.alive = False
        self.leave(rank)

    def outcomes(self, rank):
        """What may happen to a rank that waits for a collective."""
        _, values = rank.epoch.calls[rank.seen]
        found = []
        if len(values) == len(rank.epoch.members):
            found.append([values[r] for r in rank.epoch.members])
        if rank.epoch.broken:
            found.append(PeerLost())
        return found

    def form(self):
        """Begins an epoch of those who wait and of newcomers, if all who live wait."""
        living = self.living()
        if not all(r.parked for r in living):
            return False
        if self.finished:
            for r in living:
                self.resume(r, NoEpoch())
            return True
        if self.whole and not any(r.since for r in living):
            self.end = NONE_LEFT
            return True
        self.epochs += 1
        if not living or len(living) < self.least or self.random.random() < 0.5:
            while len(self.living()) < self.most:
                self.start(self.epochs)
        members = self.living()
        self.random.shuffle(members)
        members.sort(key=lambda r: not r.since)
        self.epoch = Epoch(self.epochs, members)
        self.note("epoch %d: %s", self.epochs, [r.name for r in members])
        for r in members:
            r.parked, r.epoch, r.seen = False, self.epoch, 0
        for r in members:
            self.resume(r, (self.epochs, r.born))
        return True

    def step(self):
        if self.form():
            return
        may = [(r, o) for r in self.living() if not r.parked for o in self.outcomes(r)]
        victims = self.living()
        if self.deaths and victims and self.random.random() < 0.08:
            self.deaths -= 1
            self.kill(self.random.choice(victims))
            return
        if not may:
            self.broken("all ranks wait: %s", [(r.name, r.waits) for r in self.living()])
            return
        rank, outcome = self.random.choice(may)
        what = rank.epoch.calls[rank.seen][0]
        self.note("%s: %s %s", rank.name, what, "fails" if isinstance(outcome, Exception) else "ends")
        rank.seen += 1
        if what == "exchange" and not isinstance(outcome, Exception):
            self.whole = True
            for member in rank.epoch.members:
                member.since = True
        self.resume(rank, outcome)

    def play(self):
        for _ in range(5000):
            if self.fault or self.end:
                return
            if self.finished and not self.living():
                self.end = OK
                return
            self.step()
        self.broken("no end")


def play(seed, tell=False):
    world = World(seed, tell)
    world.play()
    return world


def number(name, usually):
    return int(os.environ.get(name) or usually)


def main():
    if os.environ.get("SIMULATE_SEED"):
        world = play(number("SIMULATE_SEED", 0), True)
        print("\n".join(world.log))
        sys.exit("%s, fault: %s" % (world.end, world.fault))
    n, ends = number("SIMULATE_N", 10000), {}
    for seed in range(number("SIMULATE_FROM", 0), number("SIMULATE_FROM", 0) + n):
        world = play(seed)
        if world.fault:
            sys.exit("%s\nSee its log: SIMULATE_SEED=%d python3 %s" % (world.fault, seed, sys.argv[0]))
        ends[world.end] = ends.get(world.end, 0) + 1
    assert n < 1000 or set(ends) == {OK, LOST, NONE_LEFT}, ends
    assert play(1, True).log == play(1, True).log, "two runs of a seed differ"
    print("%d trainings: %s" % (n, ends))
    print("all right")


main()
