"""Made-up trainings whose ranks die at every point, a seed each: SIMULATE_N of them from SIMULATE_FROM; one with its log: SIMULATE_SEED.

The ranks follow docs/protocol.md ("A step that all commit"), and gorun._ledger decides. A collective ends well on a rank only if all ranks have
made it; when a rank dies, each of the others may or may not get the results that were complete.
"""

import os
import random
import sys
import time
from typing import NamedTuple

from gorun import _ledger, _places, errors

STEPS = 6
PASS = 3
OK = "done"
LOST = "state lost"
NONE_LEFT = "no rank left"


class PeerLost(Exception):
    pass


class NoEpoch(Exception):
    """The job ends: no epoch follows."""


class Call(NamedTuple):
    what: str
    value: object


class Park(NamedTuple):
    pass


class Copying(NamedTuple):
    """Waits for the copies of others."""


class Epoch:
    def __init__(self, number, members, holders):
        self.number = number
        self.members = members
        self.holders = holders
        self.broken = False
        self.calls = []
        self.sent = {}  # by generation and rank, what it has sent to its holder


class Rank:
    """A process, which runs as a generator: it yields a Call, a Park or a Copying, and gets the outcome."""

    def __init__(self, world, born, host):
        self.world = world
        self.born = born
        self.host = host
        self.name = "p%d" % len(world.ranks)
        self.ledger = _ledger.Ledger(world.shards)
        self.content = None
        self.gradients = None
        self.epoch = None
        self.seen = 0
        self.place = None
        self.alive = True
        self.parked = False
        self.waits = None
        self.since = False  # the launcher knows that it was in an epoch that all have joined
        self.generation = None
        self.due = False
        self.floor = 0
        self.goes_to = None  # an earlier step, by the last decision
        self.borrowed = {}  # by generation and shard, the rank in whose memory a copy is
        self.run = self.live()

    @property
    def number(self):
        return self.epoch.members.index(self)

    @property
    def shard(self):
        return self.world.shards[self.number] if self.world.shards else 0

    @property
    def copied(self):
        return not self.world.every or self.ledger.kept.generations[-1].complete

    def commit(self):
        """content is what was added in each step, and the shard."""
        self.content = self.content[0] + (self.gradients,), self.shard
        self.ledger.commit()
        self.world.committed(self)

    def take(self, content):
        if len(content[0]) < self.floor or content[1] != self.shard:
            self.world.broken("%s gets %s", self.name, content)
        self.content = content
        self.goes_to = None
        self.ledger.receive(len(content[0]))

    def renew(self):
        """Joins the next epoch in which all ranks hear of each other, and settles the vote. Returns the decision."""
        while True:
            self.generation = None
            yield Park()
            self.verify()
            try:
                said = yield Call("exchange", self.ledger.said())
            except PeerLost:
                if self.born > 1:
                    self.ledger.miss()
                continue
            decision = self.ledger.decide(self.number, said, self.born == 1)
            self.goes_to = decision.step if decision.step < self.ledger.committed else None
            self.world.decided(self, decision.step)
            if self.number in decision.forward:
                self.commit()
            return decision

    def settle(self, decision=None):
        while True:
            try:
                if decision is not None:
                    yield from self.restore(decision)
                if self.world.every:
                    yield from self.copy()
                return
            except PeerLost:
                decision = yield from self.renew()

    def restore(self, decision):
        if decision.fresh and self.world.shards:
            yield Call("broadcast", None)
        if self.number in decision.fresh and self.ledger.owns != _ledger.OWNED:
            self.take(((), self.shard))
        if self.number in decision.back:
            self.take(self.ledger.kept.own(decision.step))
        for send in decision.sends:
            content = None
            if self.number in send.holders:
                content = self.ledger.kept.copy(send.shard, decision.step) if send.copied else self.content
            states = yield Call("transfer", content)
            held = {states[r] for r in send.holders}
            if len(held) != 1 or len(min(held)[0]) != decision.step:
                self.world.broken("the holders' states of step %d are %s", decision.step, held)
            if self.number in send.receivers:
                self.take(held.pop())
        self.due = True

    def copy(self):
        begins = self.ledger.committed % PASS == 0
        while self.due or (begins and self.ledger.kept.whole[1] != self.ledger.committed):
            if self.due:
                self.due = False
                self.generation = self.ledger.kept.begin((self.epoch.number, self.ledger.committed))
                self.generation.own = self.content
                self.epoch.sent[self.generation.id, self] = self.content
            if begins:
                yield Copying()
                copied = yield from self.vote()
                self.due = copied and self.ledger.kept.whole[1] != self.ledger.committed
        if begins:
            self.floor = self.ledger.committed

    def deliver(self):
        """Gets the copies that others have sent here."""
        id = self.generation.id
        epoch = self.epoch
        sources = [r for r, holder in zip(epoch.members, epoch.holders) if epoch.members[holder] is self]
        if self.generation.memory is None:
            self.generation.held = {r.shard: epoch.sent[id, r] for r in sources}
            self.generation.memory = dict(self.generation.held)
        elif all(r.has(id) for r in epoch.members):
            for r in epoch.members:  # their memory stays, unless they use it again
                if r.host == self.host and r is not self and r.alive:
                    generation = r.kept(id)
                    for shard, content in {r.shard: generation.own, **generation.memory}.items():
                        if self.generation.held.setdefault(shard, content) is content:
                            self.borrowed[id, shard] = r
            self.generation.complete = True
            self.generation = None
            self.world.delivered(self, id)

    def kept(self, id):
        return next((g for g in self.ledger.kept.generations if g.id == id), None)

    def has(self, id):
        return self.kept(id) is not None and self.kept(id).memory is not None

    def verify(self):
        for g in self.ledger.kept.generations:
            for shard in list(g.held):
                lender = self.borrowed.get((g.id, shard))
                if lender is not None and lender.kept(g.id) is None:
                    del g.held[shard]

    def vote(self):
        """Returns whether all ranks have their copies."""
        votes = yield Call("vote", (self.world.random.random() < 0.05 and not self.world.shards, self.copied))
        copied = self.world.every > 0 and all(c for _, c in votes)
        if copied:
            self.ledger.kept.learn(self.ledger.kept.generations[-1].id)
        self.changing = any(c for c, _ in votes)
        return copied

    def live(self):
        yield from self.settle((yield from self.renew()))
        while self.ledger.committed < STEPS:  # the last of which is the end of the pass
            self.world.begins(self)
            try:
                inputs = yield Call("gradients", (self.ledger.committed, self.content[0]))
                if len(set(inputs)) != 1:
                    self.world.broken("gradients of different states: %s", inputs)
                self.gradients = hash((inputs[0], self.epoch.number))
                self.ledger.vote()
                copied = yield from self.vote()
                self.commit()
                self.due = copied and self.ledger.committed - self.ledger.kept.whole[1] >= self.world.every
                # Ranks that come or go: the others leave the epoch together, for one with them.
                yield from self.settle((yield from self.renew()) if self.changing else None)
            except PeerLost:
                yield from self.settle((yield from self.renew()))


class World:
    def __init__(self, seed, tell):
        self.random = random.Random(seed)
        self.tell = tell
        self.log = []
        self.fault = None
        self.ranks = []
        self.epoch = None
        self.epochs = 0
        self.history = {}
        self.end = None
        self.finished = False
        self.whole = False
        self.most = self.random.randint(1, 5)
        self.least = self.random.randint(1, self.most)
        self.deaths = self.random.choice((0, 1, 2, 3, 6, 12))
        self.shards = None  # the model is not sharded
        self.every = 0
        if self.random.random() < 0.7:
            self.shards = self.random.choice(([0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 0, 1], [0, 1, 0, 1, 0, 1]))
            self.every = self.random.choice((0, 1, 1, 2))
            self.most = self.least = len(self.shards)
        self.hosts = [rank % self.random.randint(1, 3) for rank in range(self.most)]
        self.delivering = {}  # by generation, the ranks that have their copies
        self.complete = {}  # by generation, the ranks that have each shard

    def note(self, form, *args):
        if self.tell:
            self.log.append(form % args)

    def broken(self, form, *args):
        self.fault = self.fault or form % args

    # The invariants.

    def owners(self):
        return [r for r in self.living() if r.ledger.owns == _ledger.OWNED]

    def committed(self, rank):
        n = rank.ledger.committed
        steps = rank.content[0]
        self.note("%s commits step %d", rank.name, n)
        if self.shards is None and self.history.setdefault(n, steps) != steps:  # nobody ever goes back
            self.broken("%s commits another step %d than a rank before", rank.name, n)
        for other in self.owners():
            if other.content[0][:n] != steps[: len(other.content[0])]:
                self.broken("%s commits another step %d than %s", rank.name, n, other.name)

    def begins(self, rank):
        # One that has not yet gone back, as all have decided, cannot commit another step before.
        newest = max([r.ledger.committed if r.goes_to is None else r.goes_to for r in self.owners()] + (list(self.history) if self.shards is None else []))
        if rank.ledger.committed != newest:
            self.broken("%s goes on after step %d, and step %d is committed", rank.name, rank.ledger.committed, newest)

    def delivered(self, rank, id):
        """Records by shard who has a generation, when all ranks have their copies."""
        there = self.delivering.setdefault(id, set())
        epoch = rank.epoch
        there.add(rank)
        if len(there) == len(epoch.members):
            self.complete[id] = {}
            for r, holder in zip(epoch.members, epoch.holders):
                if r.host == epoch.members[holder].host and len({m.host for m in epoch.members}) > 1:
                    self.broken("%s and its copy are on one host", r.name)
                self.complete[id].setdefault(r.shard, set()).update((r, epoch.members[holder]))

    def decided(self, rank, step):
        """step: None if the state is lost."""
        if any(g.step < rank.floor for g in rank.ledger.kept.generations):
            self.broken("%s keeps copies of a pass that is over", rank.name)
        whole = max(r.ledger.kept.whole for r in self.living())
        if whole == _ledger.NEVER:
            return
        if whole not in self.complete:
            self.broken("%s takes for complete what was copied of step %d", rank.name, whole[1])
        elif all(any(r.alive for r in those) for those in self.complete[whole].values()) and (step is None or step < whole[1]):
            self.broken("%s goes to step %s, and there are copies of step %d", rank.name, step, whole[1])

    def lost(self, rank):
        self.decided(rank, None)
        steps = {}
        for other in self.owners():
            steps.setdefault(other.ledger.committed, set()).add(other.shard)
        if any(len(shards) == len(set(self.shards or [0])) for shards in steps.values()):
            self.broken("%s says that the state is lost, and others have it", rank.name)

    # The course.

    def living(self):
        return [r for r in self.ranks if r.alive]

    def start(self, epoch):
        taken = [r.host for r in self.living()]
        free = [host for host in set(self.hosts) if taken.count(host) < self.hosts.count(host)]
        self.ranks.append(Rank(self, epoch, self.random.choice(free)))
        self.resume(self.ranks[-1], None)
        return self.ranks[-1]

    def resume(self, rank, outcome):
        try:
            rank.waits = rank.run.throw(outcome) if isinstance(outcome, Exception) else rank.run.send(outcome)
        except StopIteration:
            self.note("%s ends well", rank.name)
            if rank.ledger.committed != STEPS:
                self.broken("%s ends after step %d", rank.name, rank.ledger.committed)
            rank.alive = False
            self.finished = True
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
        elif isinstance(rank.waits, Call):
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
        if isinstance(rank.waits, Copying):
            return [None] if rank.generation is None else [PeerLost()] if rank.epoch.broken else []
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
        if self.shards is not None:
            self.give_places(members)
        self.epoch = Epoch(self.epochs, members, _places.holders([r.host for r in members]))
        self.note("epoch %d: %s", self.epochs, [r.name for r in members])
        for r in members:
            r.parked = False
            r.epoch = self.epoch
            r.seen = 0
        for r in members:
            self.resume(r, (self.epochs, r.born))
        return True

    def give_places(self, members):
        old = self.epoch.members if self.epoch is not None else members
        numbers = [-1 if r.place is None else r.place for r in members]
        for r, place in zip(members, _places.assign(numbers, [r.host for r in members], [r.host for r in old])):
            r.place = place
        members.sort(key=lambda r: r.place)

    def deliver(self):
        """Some of the copies that are on their way arrive."""
        for r in self.living():
            if r.generation is not None and all((r.generation.id, m) in r.epoch.sent for m in r.epoch.members):
                if self.random.random() < 0.2:
                    r.deliver()

    def step(self):
        if self.form():
            return
        self.deliver()
        may = [(r, o) for r in self.living() if not r.parked for o in self.outcomes(r)]
        victims = self.living()
        if self.deaths and victims and self.random.random() < 0.08:
            self.deaths -= 1
            self.kill(self.random.choice(victims))
            return
        if not may and any(r.generation is not None for r in self.living()):
            return  # copies are on their way
        if not may:
            self.broken("all ranks wait: %s", [(r.name, r.waits) for r in self.living()])
            return
        rank, outcome = self.random.choice(may)
        what = rank.waits.what if isinstance(rank.waits, Call) else "copying"
        self.note("%s: %s %s", rank.name, what, "fails" if isinstance(outcome, Exception) else "ends")
        rank.seen += isinstance(rank.waits, Call)
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


def many_steps():
    """The ranks of a host may say that they have been at many steps, and have copies of all shards there but one: others find out in little time."""
    ranks = 800
    hostile = 8
    others = [_ledger.Said(_ledger.OWNED, 100, False, (1, 99), [99, 100], [((r + 1) % ranks, 100)]) for r in range(ranks - hostile)]
    theirs = []
    for first in range(1000, 1000 + 100 * hostile, 100):
        held = {(shard, step) for step in range(first, first + 9) for shard in range(ranks) if shard != ranks - hostile - 1}
        theirs.append(_ledger.Said(_ledger.OWNED, first + 8, False, (1, 99), list(range(first, first + 8)), list(held)))
    ledger = _ledger.Ledger(range(ranks))
    ledger.kept.learn((1, 99))
    begun = time.process_time()
    try:
        ledger.decide(0, others + theirs)
        raise SystemExit("a step was found of which not all shards are there")
    except errors.StateLostError:
        took = time.process_time() - begun
        assert took < 5, "a decision takes %.0f s" % took


def false_copies():
    """A rank that says that all have their copies of a step is named by those that have not: they would drop what they have."""
    for whole in ((2, 6), (1 << 60, 5), (1, 6)):
        ledger = _ledger.Ledger([0, 1])
        ledger.receive(6)
        for step in (5, 6):
            ledger.kept.begin((1, step)).complete = step == 5
            if step == 5:
                ledger.kept.learn((1, 5))
        try:
            ledger.decide(0, [ledger.said(), ledger.said()._replace(whole=whole)])
            raise SystemExit("%s was believed" % (whole,))
        except errors.MismatchError as e:
            assert "rank 1 says that all ranks have their copies of step %d, and this one has not" % whole[1] in str(e), e
        assert ledger.kept.steps() == [5, 6]
    # Nor does one without its own part have the others return to a step before those copies.
    ledger.kept.generations[-1].complete = True
    missing = _ledger.Said(_ledger.OWNED, 4, False, (1, 6), [5], [])
    try:
        step = ledger.decide(0, [ledger.said(), missing]).step
        raise SystemExit("both go to step %d" % step)
    except errors.StateLostError:
        pass


def copies_of_two_epochs():
    """A rank keeps the copies of which it has told the others, also if they know of newer ones of the same step, made on other hosts."""
    ledger = _ledger.Ledger([0, 1, 2, 3])
    ledger.receive(6)
    for epoch, shard in ((1, 2), (2, 3)):
        generation = ledger.kept.begin((epoch, 6))
        generation.held = {shard: epoch}
        generation.complete = True
        if epoch == 1:
            ledger.kept.learn(generation.id)
    knows = _ledger.Said(_ledger.OWNED, 6, False, (2, 6), [6])
    (send,) = ledger.decide(0, [ledger.said(), knows, _ledger.Said(_ledger.UNBORN, 0, False), knows]).sends
    assert send.copied and send.holders == [0] and ledger.kept.copy(send.shard, 6) == 1
    ledger.kept.begin((3, 6))
    assert [g.id for g in ledger.kept.generations] == [(2, 6), (3, 6)]


def false_steps():
    """A rank that says that it is at a step for which others have not voted is named by them: they would take its state."""
    for shards in (None, [0, 1]):
        for voted, change in ((False, {"committed": 7}), (True, {"committed": 8}), (True, {"kept": [1 << 40], "held": [(0, 1 << 40)]})):
            ledger = _ledger.Ledger(shards)
            ledger.receive(6)
            honest = ledger.said()
            if voted:
                ledger.vote()
            try:
                step = ledger.decide(0, [ledger.said(), honest._replace(**change)]).step
                raise SystemExit("both go to step %d" % step)
            except errors.MismatchError as e:
                assert "rank 1 says that step %d is committed" % max(change.get("committed", 0), *change.get("kept", [0])) in str(e), e
    for shards in (None, [0, 1]):
        for owns in (_ledger.UNBORN, _ledger.HEARD):  # of a rank that was there when the training began
            for said in (_ledger.Said(_ledger.OWNED, 7, False), _ledger.Said(_ledger.OWNED, 0, True), _ledger.Said(_ledger.UNBORN, 0, False, (1, 0))):
                ledger = _ledger.Ledger(shards)
                ledger.owns = owns
                try:
                    decision = ledger.decide(0, [ledger.said(), said], True)
                    raise SystemExit("the training begins with %s" % (decision,))
                except errors.MismatchError as e:
                    assert "rank 1 says that " in str(e), e
    try:
        _ledger.Ledger().decide(0, [_ledger.Said(_ledger.UNBORN, 0, False), _ledger.Said(_ledger.HEARD, 0, False)], True)
        raise SystemExit("a state that is lost begins anew")
    except errors.StateLostError as e:
        assert "of which rank 1 has heard" in str(e), e
    ledger = _ledger.Ledger()
    ledger.receive(6)
    ledger.vote()
    assert ledger.decide(0, [ledger.said(), ledger.said()._replace(committed=7, voted=False)]).forward == [0]


def number(name, usually):
    return int(os.environ.get(name) or usually)


def main():
    if os.environ.get("SIMULATE_SEED"):
        world = play(number("SIMULATE_SEED", 0), True)
        print("\n".join(world.log))
        sys.exit("%s, fault: %s" % (world.end, world.fault))
    n = number("SIMULATE_N", 10000)
    ends = {}
    for seed in range(number("SIMULATE_FROM", 0), number("SIMULATE_FROM", 0) + n):
        world = play(seed)
        if world.fault:
            sys.exit("%s\nSee its log: SIMULATE_SEED=%d python3 %s" % (world.fault, seed, sys.argv[0]))
        ends[world.end] = ends.get(world.end, 0) + 1
    assert n < 1000 or set(ends) == {OK, LOST, NONE_LEFT}, ends
    assert play(1, True).log == play(1, True).log, "two runs of a seed differ"
    many_steps()
    false_copies()
    copies_of_two_epochs()
    false_steps()
    print("%d trainings: %s" % (n, ends))
    print("all right")


main()
