"""What states of an elastic job save, restore and give to other ranks, and what ElasticSampler deals out. No rank fails here."""

from types import SimpleNamespace

import torch

import gorun
import gorun.torch as hvd

hvd.init()
rank = hvd.rank()
size = hvd.size()


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


model = torch.nn.Linear(3, 2)
torch.nn.init.constant_(model.weight, rank + 1.0)
torch.nn.init.constant_(model.bias, rank + 1.0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * (rank + 1), momentum=0.9)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
state = hvd.elastic.TorchState(model, optimizer, schedule=schedule, step=10 + rank, seen=[rank], other=None)
assert state.model is model and state.optimizer is optimizer and state.step == 10 + rank and state.other is None
assert state._host_messages.empty()

# Before the first sync each rank has its own, and comes back to it.
state.step = 99
state.seen.append(5)
state.restore()
assert state.step == 10 + rank and state.seen == [rank]

# Sync gives all of them that of rank 0, as it is now, and what is synchronized is saved.
if rank == 0:
    state.step = 20
    state.seen = ["now"]
state.sync()
assert weights(model).eq(1).all() and state.step == 20 and state.seen == ["now"] and optimizer.param_groups[0]["lr"] == 0.1
state.step = 21
state.seen.append(1)
model(torch.ones(1, 3)).sum().backward()
optimizer.step()
schedule.step()
moved = weights(model)
assert not moved.eq(1).all()
state.restore()
assert weights(model).eq(1).all() and state.step == 20 and state.seen == ["now"] and optimizer.param_groups[0]["lr"] == 0.1
assert schedule.last_epoch == 0 and schedule.optimizer is optimizer
assert not any("momentum_buffer" in s and s["momentum_buffer"] is not None for s in optimizer.state.values())

# A commit moves the point to which restore comes back, and what is saved stays as it is when training goes on.
optimizer.zero_grad()
model(torch.ones(1, 3)).sum().backward()
optimizer.step()
state.step = 22
state.commit()  # no hosts change here
committed = weights(model).clone()
buffers = [s["momentum_buffer"].clone() for s in optimizer.state.values()]
for _ in range(2):
    for _ in range(3):
        optimizer.step()
    assert not weights(model).equal(committed)
    state.restore()
    assert weights(model).equal(committed) and state.step == 22
    assert all(s["momentum_buffer"].equal(b) for s, b in zip(optimizer.state.values(), buffers))

# Another value in place of a handled one is handled too.
second = torch.nn.Linear(1, 1)
state.model = second
with torch.no_grad():
    second.weight.fill_(7)
state.restore()
assert state.model is second and second.weight.item() != 7

# Callbacks, and what subclasses add.
called = []
state.register_reset_callbacks([lambda: called.append(1), lambda: called.append(2)])
state.register_reset_callbacks([lambda: called.append(3)])
state.on_reset()
assert called == [1, 2, 3]

# Handlers for other types.
class Box:
    def __init__(self, inside):
        self.inside = inside


class BoxHandler(hvd.elastic.state.StateHandler):
    def save(self):
        self.saved = self.value.inside

    def restore(self):
        self.value.inside = self.saved

    def sync(self):
        self.value.inside = hvd.broadcast_object(self.value.inside, 0)


before = hvd.elastic.get_handler_registry()
hvd.elastic.set_handler_registry(before + [(Box, BoxHandler)])
boxed = hvd.elastic.TorchState(box=Box(rank))
hvd.elastic.set_handler_registry(before)
boxed.sync()
boxed.box.inside = "changed"
boxed.restore()
assert boxed.box.inside == 0

# The samples of all ranks are all samples, in the same order again, and another in the next epoch.
sampler = hvd.elastic.ElasticSampler(range(50), seed=4)


def dealt():
    return hvd.allgather_object(list(sampler))


parts = dealt()
assert len({len(p) for p in parts}) == 1 and len(sampler) == len(parts[0]) == -(-50 // size)
assert set().union(*parts) == set(range(50)) and dealt() == parts
sampler.set_epoch(1)
assert dealt() != parts
sampler.set_epoch(0)
assert dealt() == parts

# What was recorded is not dealt again, and goes with the state.
both = hvd.elastic.TorchState(sampler=sampler)
for batch in range(3):
    sampler.record_batch(batch, 4)
both.commit()
done = {i for part in parts for i in part[:12]}
sampler.record_batch(3, 4)
both.restore()
if rank != 0:
    sampler.record_batch(3, 4)  # that of rank 0 counts
both.sync()
assert sampler.processed_num == 12 * size and set().union(*dealt()) == set(range(50)) - done
while sampler.processed_num < 50:
    sampler.record_batch(0, 4)
sampler.load_state_dict(sampler.state_dict())
assert list(sampler) == [] and len(sampler) == 0
assert list(hvd.elastic.ElasticSampler(range(3 * size), shuffle=False)) == list(range(rank, 3 * size, size))
few = hvd.elastic.ElasticSampler([5])  # less than there are ranks
assert list(few) == [0]

# In a job that is not elastic the function is called once, and its errors are raised, whatever they are.
calls = []


@hvd.elastic.run
def train(state, what, error=None):
    """Trains."""
    calls.append(what)
    if error is not None:
        raise error
    return what + 1


assert train(state, 3) == 4 and train.__name__ == "train" and train.__doc__ == "Trains."
for error in (gorun.PeerError("x"), hvd.HorovodInternalError("x"), ValueError("x")):
    try:
        train(state, 5, error=error)
    except type(error) as e:
        assert e is error
    else:
        raise AssertionError("no %r" % error)
assert calls == [3, 5, 5, 5]
assert issubclass(hvd.HostsUpdatedInterrupt, RuntimeError) and hvd.HostsUpdatedInterrupt(True).skip_sync
hvd.shutdown()

# A process that failed to join its first epoch of a job that had begun before does not start the job anew: others may have trained.
class Empty(gorun.elastic.State):
    def sync(self):
        pass


def starts_anew(epoch, first_epoch):
    gorun.elastic._job = SimpleNamespace(joined=lambda: SimpleNamespace(epoch=epoch, first_epoch=first_epoch))
    gorun.elastic.allgather_data = lambda mine, name: [mine]
    try:
        gorun.elastic._Trip().enter(Empty())
    except gorun.elastic.StateLostError:
        return False
    return True


def says(what):
    gorun.elastic._job = SimpleNamespace(joined=lambda: SimpleNamespace(epoch=1, first_epoch=1))
    gorun.elastic.allgather_data = lambda mine, name: [mine, what]
    try:
        gorun.elastic._Trip().enter(Empty())
        return ""
    except (gorun.MismatchError, gorun.elastic.StateLostError) as e:
        return str(e)


assert all("rank 1 does not say" in says(what) for what in ("x", None, [1], float("nan"), torch.zeros(2))) and not says(0)
assert "the job's state, of which rank 1 has heard" in says(1) and "of which rank 1 has heard" in says(2)
assert starts_anew(1, 1) and starts_anew(2, 1) and starts_anew(2, 2) and not starts_anew(3, 2)
print("all right")
