"""What goes wrong says what and where, and harms nothing else."""

import os
import signal
import sys
import threading
import time

import torch

import gorun
import gorun.torch as hvd
from gorun import _objects
from gorun.torch import optimizer


def raises(kind, f, *parts):
    """f raises an error of this kind with these parts in its text."""
    try:
        f()
    except kind as e:
        for part in parts:
            assert part in str(e), "%r is not in %r" % (part, str(e))
        return
    raise SystemExit("it went well, want %s" % kind)


x = torch.ones(4)
for f in (hvd.rank, hvd.size, lambda: hvd.allreduce(x), hvd.barrier, lambda: hvd.add_process_set([0]), lambda: hvd.allgather_object(1)):
    raises(gorun.NotInitializedError, f, "init()")
assert not hvd.is_initialized()
hvd.shutdown()

os.environ["HOROVOD_FUSION_THRESHOLD"] = "much"
raises(gorun.InvalidError, hvd.init, "HOROVOD_FUSION_THRESHOLD", "much")
del os.environ["HOROVOD_FUSION_THRESHOLD"]
hvd.init()
rank = hvd.rank()
size = hvd.size()


def works():
    assert hvd.allreduce(x, op=hvd.Sum).sum() == 4 * size


# Ranks that differ are told how, and go on.
differs = rank == 1
pairs = {
    "shape": lambda: hvd.allreduce(torch.ones(2, 3) if differs else torch.ones(3, 2), name="n"),
    "length": lambda: hvd.allreduce(torch.ones(2 + differs), name="n"),
    "type": lambda: hvd.allreduce(torch.ones(2, dtype=torch.int32 if differs else torch.float32), name="n", op=hvd.Sum),
    "op": lambda: hvd.allreduce(x, name="n", op=hvd.Min if differs else hvd.Max),
    "root": lambda: hvd.broadcast(x, rank % 2, name="n"),
    "rows": lambda: hvd.allgather(torch.ones(2, 3 + differs), name="n"),
    "empty rows": lambda: hvd.allgather(torch.ones(2, 0, 3 + differs), name="n"),
    "blocks": lambda: hvd.alltoall(torch.ones(size, 3 + differs), name="n"),
    "scatter": lambda: hvd.reducescatter(torch.ones(5, 3) if differs else torch.ones(3, 5), name="n"),
    "group": lambda: hvd.grouped_allreduce([x, torch.ones(2 + differs)], name="n"),
}
for what, f in pairs.items():
    raises(gorun.MismatchError, f, "rank 0 submitted", "rank 1 submitted", "n")
works()

# The order of parameters that rank 0 gives is one of names, all of those that there are, and no numbers of one hash: a dict of those takes hours.
model = torch.nn.Linear(2, 2)
send = _objects.broadcast_data
for order in ([n * (2**61 - 1) for n in range(10000)], 7, ["weight"], ["weight", ["bias"]], ["weight", "weight"]):
    optimizer.broadcast_data = lambda mine, *more: send(order, *more)
    raises(
        gorun.MismatchError,
        lambda: hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), groups=1),
        "optimizer.groups: rank 0 says that it has other parameters",
    )
optimizer.broadcast_data = send
hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), groups=1)
raises(gorun.MismatchError, lambda: hvd.add_process_set([rank % 2]), "adds a process set of ranks", "rank 1")
works()

# What one rank does wrong, only that one is told.
class Elsewhere(torch.Tensor):
    """Stands for a tensor of a GPU, as it says where it is."""

    is_cpu = False
    device = torch.device("cuda:0")


for bad, text in [
    (torch.ones(2, device="meta"), "is on meta"),
    (torch.ones(2).as_subclass(Elsewhere), "cuda:0"),
    (torch.ones(2, 2).to_sparse(), "sparse"),
    (torch.ones(2, dtype=torch.complex64), "complex64"),
]:
    for f in (hvd.allreduce, hvd.allreduce_, hvd.allgather, hvd.alltoall, hvd.reducescatter, lambda t: hvd.broadcast_(t, 0), lambda t: hvd.grouped_allreduce([t])):
        raises(gorun.InvalidError, lambda: f(bad), text)
if rank == 1:  # which is no reason for it to count other calls than the rest
    raises(gorun.InvalidError, lambda: hvd.allreduce(bad), text)
    raises(gorun.InvalidError, lambda: hvd.allgather(bad), text)
works()
raises(NotImplementedError, lambda: hvd.allreduce(x, op=hvd.Adasum), "Average")
raises(NotImplementedError, lambda: hvd.DistributedOptimizer(torch.optim.SGD([x], 1), op=hvd.Adasum), "Average")
raises(ValueError, lambda: hvd.allreduce(x, average=True, op=hvd.Sum), "average")
raises(gorun.InvalidError, lambda: hvd.allreduce(x, op=99), "99")
raises(gorun.InvalidError, lambda: hvd.allreduce(x > 0), "")
raises(gorun.InvalidError, lambda: hvd.broadcast(x, size), str(size))
raises(gorun.InvalidError, lambda: hvd.reducescatter(torch.tensor(1.0)), "dimensions")
raises(gorun.InvalidError, lambda: hvd.alltoall(torch.tensor(1.0)), "dimensions")
raises(gorun.InvalidError, lambda: hvd.alltoall(torch.ones(size + 1)), "multiple")
raises(gorun.InvalidError, lambda: hvd.alltoall(torch.ones(1), [1] * size), "splits")
raises(gorun.InvalidError, lambda: hvd.alltoall(x, torch.ones(size)), "int32")
raises(gorun.InvalidError, lambda: hvd.allreduce(x, process_set=hvd.ProcessSet([0])), "add_process_set")
works()

# A name in flight is refused here, and comes to its end.
if rank == 0:
    first = hvd.allreduce_async(x, name="twice")
    raises(gorun.DuplicateError, lambda: hvd.allreduce_async(x, name="twice"), "twice")
    assert not hvd.poll(first)
    hvd.barrier()
else:
    hvd.barrier()
    first = hvd.allreduce_async(x, name="twice")
assert hvd.synchronize(first).sum() == 4 and hvd.poll(first) and hvd.synchronize(first) is hvd.synchronize(first)

# A handle that is dropped goes on, with its memory.
for step in range(20):
    hvd.allreduce_async(torch.full((1000,), float(rank)), name="dropped.%d" % step)
works()

# A rank without data joins: it gives zeros, and what cannot run without it fails.
if rank == 0:
    assert hvd.allreduce(x, name="without", op=hvd.Sum).tolist() == [1.0] * 4
    assert (hvd.allreduce(x) - 1 / size).abs().max() < 1e-6  # without a name, as none counts what others missed
    raises(gorun.MismatchError, lambda: hvd.allgather(x, name="needs all"), "joined")
assert hvd.join() in range(size)
works()

# Ctrl-C ends a wait, and nothing else.
if rank == 1:
    waiting = hvd.allreduce_async(x, name="late", op=hvd.Sum)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    raises(KeyboardInterrupt, lambda: hvd.synchronize(waiting))
    assert 0.2 < time.monotonic() - began < 5
    assert not hvd.poll(waiting)
hvd.barrier()
late = hvd.synchronize(waiting) if rank == 1 else hvd.allreduce(x, name="late", op=hvd.Sum)
assert late.sum() == 4 * size
works()

# A fork may live, but not call.
child = os.fork()
if child == 0:
    code = 1
    try:
        raises(gorun.ForkedError, lambda: hvd.allreduce(x), "fork")
        raises(gorun.ForkedError, lambda: hvd.synchronize(hvd.allgather_async(x)), "fork")
        raises(gorun.ForkedError, hvd.init, "spawn")
        raises(gorun.ForkedError, hvd.shutdown, "spawn")
        code = 0
    except BaseException as e:
        print("in the fork:", e, file=sys.stderr)
    os._exit(code)
assert os.waitpid(child, 0)[1] == 0
works()

# Threads may all call.
results = [0.0] * 8


def work(i):
    for step in range(20):
        results[i] += hvd.allreduce(torch.full((50,), float(i)), name="thread %d" % i, op=hvd.Sum)[0].item()


threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert results == [20.0 * i * size for i in range(8)], results

# After shutdown nothing works, and who waits for a rank that has gone is told.
waiting = hvd.allreduce_async(x, name="nobody else") if rank == 0 else None
hvd.barrier()
if rank == 0:
    raises(hvd.HorovodInternalError, lambda: hvd.synchronize(waiting), "rank 1")
hvd.shutdown()
raises(gorun.NotInitializedError, lambda: hvd.allreduce(x), "init()")
print("all right")
