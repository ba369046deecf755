"""A rank that gives others the state of a training can spoil the values, and nothing else: rank 1 tries it on rank 0."""

import time
from types import SimpleNamespace

import gorun.torch as ring
import torch

from gorun import MismatchError, _job, _places
from gorun._ledger import NEVER, Decision, Send
from gorun.torch import _shards, _transfer, resilient

# What rank 1 tells in the place of a state, and what rank 0 says of it.
ATTACKS = {
    "no state": (7, "not subscriptable"),
    "keys of one hash": (("dict", [(n * (2**61 - 1), ("value", 0)) for n in range(101)]), "more than 100 keys have one hash"),
    "an unknown kind": (("module", "os"), "unknown kind 'module'"),
    "a function for a type": (("tensor", "load", [1]), "'load' is no type of a tensor"),
    "a module for a type": (("tensor", "onnx", [1]), "'onnx' is no type of a tensor"),
    "a number for a type": (("tensor", 7, [1]), "a value of int is no type of a tensor"),
    "a quantized type": (("tensor", "quint8", [1 << 16]), "'quint8' is no type of a tensor that is sent"),
    "a text for a shape": (("tensor", "float32", "x"), "empty()"),
    "a negative shape": (("tensor", "float32", [-1]), "negative dimension"),
    "a shape beyond all memory": (("tensor", "float32", [1 << 60]), ""),
    "a list for a key": (("dict", [([1], ("value", 1))]), "unhashable"),
    "no pairs": (("dict", [1]), "unpack"),
    "a tensor larger than the training": (("tensor", "uint8", [1 << 33]), "more than 1048576 bytes"),
    "tensors larger than the training": (("list", [("tensor", "float32", [1 << 16])] * 5), "more than 1048576 bytes"),
    "more values than a state has": (("value", [[]] * (1 << 15)), "more than 65536 values"),
    "more tensors than the training": (("list", [("tensor", "uint8", [0])] * 4096), "more than 1048576 bytes"),
}

ring.init()
rank = ring.rank()
comm = _job.joined().dup()
take_apart = _transfer.take_apart
_transfer.VALUES = 1 << 16  # no honest message here has as many
for name, (told, want) in ATTACKS.items():
    _transfer.take_apart = lambda state, tensors: told
    try:
        _transfer.transfer(comm, [1], [0], None, 1 << 20)
        assert rank == 1, name
    except MismatchError as e:
        assert rank == 0 and "the state of the training that rank 1 sends cannot be read: " in str(e) and want in str(e), (name, e)
_transfer.take_apart = take_apart

# Another rank that has the state as well says that it is not the same, and names it.
full = {"at": (1, 2), "w": torch.zeros(1000)}
for told, wrong in (
    ({}, "its tensors are not"), ({"w": torch.zeros(1)}, "its tensors are not"), ({"w": torch.zeros(2000)}, "its tensors are not"),
    ({"w": torch.zeros(1000, dtype=torch.int32)}, "its tensors are not"), ({"at": (1, 3), "w": full["w"]}, "another value for 'at'"),
    ({"at": (full["w"], 2)}, "another value for 'at'"), (7, "another value for 'at'"),
):  # fmt: skip
    for holders in ([1, 0], [1]):  # nor does one that has the state, and sends nothing of it, believe in another position
        if len(holders) == 1 and wrong.startswith("its"):
            continue
        held = told if rank == 1 else full
        try:
            _transfer.transfer(comm, holders, [], held, 1 << 20, {"at": (1, 2)})
            assert rank == 1, told
        except MismatchError as e:
            assert rank == 0 and "that rank 1 sends cannot be read: it" in str(e) and (wrong in str(e) or len(holders) == 2), (told, e)
        comm.run(_transfer._ring.call(_transfer._ring.BARRIER))
_transfer.transfer(comm, [1, 0], [], full, 1 << 20, {"at": (1, 2)})

# Its bools are bools, whatever their bytes are.
raw = torch.arange(256, dtype=torch.uint8)
state = _transfer.transfer(comm, [1], [0], {"mask": raw.view(torch.bool), "raw": raw}, 1 << 20)
if rank == 0:
    assert state["mask"].view(torch.uint8).tolist() == [0] + [1] * 255 and state["raw"].tolist() == list(range(256))

# Many tensors in many pieces take time in proportion to both together.
begun = time.process_time()
small = _transfer.Stream([torch.zeros(1, dtype=torch.uint8) for _ in range(20000)])
assert [next(small._within(at, at + 1)) for at in range(small.size)] == [(at, 0, 1, 0) for at in range(small.size)]
assert time.process_time() - begun < 5, "pieces of many tensors take %.0f s" % (time.process_time() - begun)

# It says no length that takes all memory.
honest = _transfer.ctypes.c_int64
for length in (-1, 1 << 40):
    _transfer.ctypes.c_int64 = lambda n: honest(length if rank == 1 else n)
    try:
        _transfer.broadcast(comm, b"", 1)
        raise SystemExit("a length of %d was believed" % length)
    except MismatchError as e:
        assert "beside its tensors" in str(e), e
    finally:
        _transfer.ctypes.c_int64 = honest

# It has an optimizer's kernels write no further than the optimizer's memory, nor chooses those that do not check.
for fused in (None, True):
    model = torch.nn.Linear(1 << 10, 1 << 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5, fused=fused)
    model(torch.ones(1, 1 << 10)).sum().backward()
    optimizer.step()
    honest_state = optimizer.state_dict()
    groups = [{**group, "fused": True, "lr": 0.25} for group in honest_state["param_groups"]]
    _shards.load_optimizer(optimizer, {**honest_state, "param_groups": groups})
    assert [(group["lr"], group["fused"]) for group in optimizer.param_groups] == [(0.25, fused)]
    optimizer.step()
    short = {i: {k: v if k == "step" else v[:1].clone() for k, v in entries.items()} for i, entries in honest_state["state"].items()}
    longest_step = {i: {**entries, "step": torch.empty(0)} for i, entries in honest_state["state"].items()}
    for entries in (short, longest_step):
        try:
            _shards.load_optimizer(optimizer, {"state": entries, "param_groups": groups})
            optimizer.step()
            raise SystemExit("an optimizer took a state of another length")
        except (MismatchError, RuntimeError) as e:
            assert isinstance(e, MismatchError) or not fused, e
    try:
        _shards.load_optimizer(optimizer, {**honest_state, "param_groups": [{**group, "params": [1, 0]} for group in groups]})
        raise SystemExit("an optimizer took the state of other parameters")
    except MismatchError as e:
        assert "of other parameters" in str(e), e

# It gives no integers where a power of them could take hours and all memory.
class Schedule:
    """What of a training is no model and no optimizer, with a state of its own."""

    def __init__(self):
        self.gamma = 0.1
        self.milestones = {5: 1}
        self.phases = [{"end": 2.0}]

    def state_dict(self):
        return dict(self.__dict__)

    def load_state_dict(self, state):
        self.__dict__.update(state)


groups = [{**group, "betas": (3, 3)} for group in honest_state["param_groups"]]
schedule = Schedule()
training = resilient.Resilient.__new__(resilient.Resilient)
training.model = model
training.optimizer = optimizer
training.scheduler = schedule
hostile = {"gamma": 3, "milestones": {1: 2**40}, "phases": [{"end": 4}, {"end": 6}], "more": 7}
training._load({"model": model.state_dict(), "optimizer": {**honest_state, "param_groups": groups}, "scheduler": hostile})
betas = optimizer.param_groups[0]["betas"]
assert betas == (3, 3) and [type(beta) for beta in betas] == [float, float], betas
assert schedule.__dict__ == hostile and type(schedule.gamma) is float and type(schedule.phases[0]["end"]) is float, schedule.__dict__
for load, thing, state in (
    (_shards.load_scheduler, schedule, {"gamma": 1 << 2000}),
    (_shards.load_scheduler, schedule, {"last_epoch": 1 << 2000}),
    (_shards.load_scheduler, schedule, {"more": [{"last_epoch": (1 << 2000,)}]}),
    (_shards.load_optimizer, optimizer, {**honest_state, "state": {0: {"step": 1 << 2000}}}),
):
    try:
        load(thing, state)
        raise SystemExit("a number of 2000 bits was taken from %s" % state)
    except MismatchError as e:
        assert "too large" in str(e), e

# A rank reports its steps and the position as numbers.
position = resilient._Position
assert resilient._heard(b"[1, 2, 3, 4]", position.read, 1) == (1, 2, 3, 4)
assert resilient._heard(b"[2, 5, true, [1, 4], [4], [[0, 4]]]", resilient._said, 1) == resilient.Said(2, 5, True, (1, 4), [4], [(0, 4)])
for said, take in (
    (b"[1, 2, 3]", position.read), (b"[1, 2, 0, 4]", position.read), (b"[1, -2, 3, 4]", position.read), (b"[-1, 2, 3, 4]", position.read),
    (b"[[], 2, 3, 4]", position.read), (b"[1, 2, 3, 1" + b"0" * 30 + b"]", position.read), (b"[" * 200, position.read),
    (b"7", resilient._said), (b"[2, 5, true, [1], [4], []]", resilient._said), (b"[2, 5, true, [1, 4], [1, 2, 3, 4, 5, 6, 7, 8, 9], []]", resilient._said),
    (b"[2, 5, true, [1, 4], [[]], []]", resilient._said),
):  # fmt: skip
    try:
        resilient._heard(said, take, 1)
        raise SystemExit("%s was believed" % said)
    except MismatchError as e:
        assert "rank 1 sends cannot be read" in str(e), e

# So it does with the state around them, and with a batch that no pass has.
training._ledger = resilient.Ledger()
training._job = SimpleNamespace(first=True)
training._sizes = {3}
training._at = position(2)
place = {"committed": 1, "at": (1, 0, 3, 4)}
for said in (
    7, {}, {"committed": 1}, {"committed": 1, "at": (1, 0, 0, 4)}, {"committed": 1, "at": (1, 1, 3, 4)}, {**place, "committed": 2},
    {**place, "at": (0, 1, 1 << 20, 4)}, place, {**place, "model": 7}, {**place, "model": {}},
):  # fmt: skip
    try:
        training._take(said, 1, 1)
        raise SystemExit("%s was taken" % (said,))
    except MismatchError as e:
        assert "rank 1 sends cannot be read" in str(e), e
training._job = SimpleNamespace(rank=rank, size=2, comm=comm, first=False)
training._sizes = {2}
training._ledger = resilient.Ledger([0, 1])
training._at = position(2)
training._at.passes = 1 - rank  # which rank 0 says to all who begin
try:
    training._restore(Decision(0, [], [], [0, 1], [], NEVER))
    raise SystemExit("a training begins at its end")
except MismatchError as e:
    assert "that rank 0 sends cannot be read: after step 0 it is at batch 0 of pass 1" in str(e), e
training._at = position(2 if rank else 1 << 20)
try:
    training._restore(Decision(0, [], [], [0, 1], [], NEVER))
    raise SystemExit("a training of %d ranks begins" % training._at.ranks)
except MismatchError as e:
    assert "that rank 0 sends cannot be read: it has been begun by 1048576 ranks, and this job had 2" in str(e), e
# A rank that has a copy does not count as the rank that has sent it: rank 0 has one of rank 1, which is another process now.
training.model = model
training.optimizer = optimizer
training.scheduler = None
training._ledger = resilient.Ledger([0, 1])
place = {"committed": 1, "at": (0, 1, 2, 4)}
for given, wrong in (
    ({**place, "at": (1, 0, 2, 4)}, "that rank 1 sends cannot be read: its copy has another value for 'at' than other ranks"),
    ({**place, "model": {}}, "that rank 0 sends cannot be read: KeyError: 'weight'"),
):
    training._at = position(2)
    training._at.set(place["at"])
    training._copies = SimpleNamespace(copy=lambda shard, step: given)
    believes = given["at"] == place["at"]  # rank 0 does, and sends it
    try:
        if believes or rank == 0:
            training._restore(Decision(1, [], [], [], [Send(1, [0], [1], True)], NEVER))
        assert rank == (0 if believes else 1), given
    except MismatchError as e:
        assert believes == (rank == 1) and wrong + ". It is the copy of what a process has sent that was rank 1 before" in str(e), e
training._enter = training._arrive = lambda: None
training._calls = 0
training._at = position(2)
training._at.index = 1 << 60
try:
    next(training.steps(torch.utils.data.DataLoader(torch.zeros(8), batch_size=1)))
    raise SystemExit("a batch was found beyond all")
except MismatchError as e:
    assert "other ranks are at batch %d of this pass, which has 4 on this rank" % (1 << 60) in str(e), e

# Its number is one that it can have: the others end for no other.
assert _places.assign([1, -1, 0], [5, 6, 7], [7, 5, 6]) == [1, 2, 0]
for numbers, want in (
    ([0, 1, 0], "ranks 0 and 2 of 3 in this epoch both say that their number is 0"),
    ([0, 7], "rank 1 of 2 in this epoch says that its number is 7, which none can have"),
    ([-2], "-2, which none can have"),
):
    try:
        _places.assign(numbers, numbers, numbers)
        raise SystemExit("the numbers %s were believed" % numbers)
    except MismatchError as e:
        assert want in str(e), e


class Renumbered:
    """A communicator in which rank 1 takes the number of rank 0."""

    def __getattr__(self, name):
        return getattr(comm, name)

    def split(self, color, key):
        return comm.split(color, -1 if rank == 1 else key)


places = _places.Places.__new__(_places.Places)
places.rank = rank
places.hosts = [5, 6]
try:
    places.split(Renumbered())
    raise SystemExit("rank %d got another number" % rank)
except MismatchError as e:
    assert "rank %d becomes rank %d" % (rank, 1 - rank) in str(e), e
ring.barrier()
print("all right")
