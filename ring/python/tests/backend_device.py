"""The process group on tensors that say they are on a GPU: called as torch calls it, but for torch's C++, which would
forget what they say."""

from unittest import mock

import torch
import torch.distributed as dist
from on_gpu import Stream, cpu, gpu

import gorun
import gorun.torch_backend
from gorun._cuda import CudaLane
from gorun.torch_backend import _registry
from gorun.torch_backend.memory import adjacent

group = gorun.torch_backend.Group(_registry.engine(60))
group.engine.make_lane = Stream
rank = group.getRank()
size = group.getSize()


def same(got, want):
    assert cpu(got).tolist() == torch.as_tensor(want).tolist(), "%s, want %s" % (got, want)


def mine(n=4, more=0):
    return gpu(torch.arange(float(n)) + 10 * (rank + more))


def of(r, n=4):
    return torch.arange(float(n)) + 10 * r


def torn(t):
    """A tensor of t's values that does not lie in one piece."""
    return gpu(torch.stack([cpu(t), cpu(t)], dim=-1)[..., 0])


def options(kind, **more):
    result = kind()
    for name, value in more.items():
        setattr(result, name, value)
    return result


total = sum(of(r) for r in range(size))
for shape in (lambda t: t, torn):
    x = shape(mine())
    assert group.allreduce([x]).wait()
    same(x, total)
    x = shape(mine())
    group.allreduce([x], options(dist.AllreduceOptions, reduceOp=dist.ReduceOp.AVG)).wait()
    same(x, total / size)
    x = shape(mine())
    group.broadcast([x], options(dist.BroadcastOptions, rootRank=1)).wait()
    same(x, of(1))
    x = shape(mine())
    group.reduce([x], options(dist.ReduceOptions, reduceOp=dist.ReduceOp.SUM, rootRank=1)).wait()
    same(x, total if rank == 1 else of(rank))
    got = [shape(gpu(torch.zeros(4))) for _ in range(size)]
    group.allgather([got], [shape(mine())]).wait()
    for r in range(size):
        same(got[r], of(r))
    flat = shape(gpu(torch.zeros(4 * size)))
    group._allgather_base(flat, shape(mine())).wait()
    same(flat, torch.cat([of(r) for r in range(size)]))
    x = shape(gpu(torch.zeros(4)))
    group.reduce_scatter([x], [[shape(mine(more=r)) for r in range(size)]]).wait()
    same(x, sum(of(r + rank) for r in range(size)))
    x = shape(gpu(torch.zeros(2)))
    group._reduce_scatter_base(x, shape(gpu(torch.arange(2.0 * size)))).wait()
    same(x, [size * 2.0 * rank, size * (2.0 * rank + 1)])
    got = [shape(gpu(torch.zeros(rank + r))) for r in range(size)]
    group.alltoall(got, [shape(gpu(torch.full((rank + r,), float(rank)))) for r in range(size)]).wait()
    for r in range(size):
        same(got[r], [float(r)] * (rank + r))
    x = shape(gpu(torch.zeros(4)))
    group.scatter([x], [[shape(mine(more=r)) for r in range(size)]] if rank == 0 else [], options(dist.ScatterOptions, rootRank=0)).wait()
    same(x, of(rank))
xs = [mine(), mine(2), torn(mine(3))]
work = group.allreduce_coalesced(xs)
work.wait()
same(xs[0], total)
same(xs[2], sum(of(r, 3) for r in range(size)))
outs = [gpu(torch.zeros(size)), gpu(torch.zeros(2 * size))]
group.allgather_into_tensor_coalesced(outs, [gpu(torch.ones(1)), gpu(torch.full((2,), float(rank)))]).wait()
same(outs[0], [1.0] * size)
same(outs[1], [float(r // 2) for r in range(2 * size)])

# Beside tensors of the CPU, and without waiting: the lane keeps the order.
x = torch.ones(3)
y = gpu(torch.ones(3))
works = [group.allreduce([t]) for t in (x, y, x, y)]
future = works[3].get_future()
same(future.wait()[0], [float(size * size)] * 3)
for w in works:
    w.wait()
while not works[1].is_completed():
    pass
assert works[1].is_success() and works[1].exception() is None
same(x, [float(size * size)] * 3)
group.barrier().wait()
for what, f in {
    "both cpu and cuda:0": lambda: group._allgather_base(torch.zeros(size), gpu(torch.ones(1))),
    "tensor.cpu()": lambda: group.send([y], (rank + 1) % size),
    "complex": lambda: group.allreduce([gpu(torch.ones(2, dtype=torch.complex64))]),
}.items():
    try:
        f()
    except gorun.InvalidError as e:
        assert what in str(e), e
    else:
        raise SystemExit("it went well, want %s" % what)
other = gpu(torch.ones(2))
other.device = torch.device("cuda:1")
try:
    group.allreduce([other])
except gorun.InvalidError as e:
    assert "GPU 1" in str(e) and "GPU 0" in str(e), e
group.allreduce([y]).wait()
same(y, [float(size**3)] * 3)
group.shutdown()

# Allocations of a GPU may lie side by side, and no copy goes from one to the next.
room = bytearray(32)
two = [gpu(torch.frombuffer(room, dtype=torch.float32, count=4, offset=at)) for at in (0, 16)]
assert not adjacent(two) and adjacent([cpu(t) for t in two])
assert adjacent(gpu(torch.zeros(12))[2:].split(5))

# What PyTorch captures in a graph is refused, and not drawn into the capture.
with mock.patch.object(torch.cuda, "Stream"), mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: True):
    lane = CudaLane(0)
    try:
        lane.begin([])
    except gorun.InvalidError as e:
        assert "cannot be captured" in str(e) and not lane.side.wait_stream.called, e
    else:
        raise SystemExit("it was captured")
print("all right")
