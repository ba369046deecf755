"""gorun.torch on tensors that say they are on a GPU."""

import os
import random
import sys
import time

import torch
from on_gpu import Stream, cpu, gpu

import gorun
import gorun.torch as hvd
from gorun.torch import ops
from gorun.torch._tensors import Tensors


class Fakes(Tensors):
    def empty(self, shape, like):
        made = torch.empty(shape, dtype=like.dtype)
        return gpu(made) if like.is_cuda else made

    def lane(self, gpu):
        return Stream(gpu)

    def to_host(self, array):
        return cpu(array).clone()

    def to_gpu(self, array, ordinal):
        assert ordinal == 0
        return gpu(array)


ops.verbs.arrays = Fakes()
hvd.init()
rank = hvd.rank()
size = hvd.size()
total = size * (size + 1) // 2


def raises(kind, f, *parts):
    try:
        f()
    except kind as e:
        for part in parts:
            assert part in str(e), "%r is not in %r" % (part, str(e))
        return
    raise SystemExit("it went well, want %s" % kind)


def same(got, want):
    assert cpu(got).tolist() == torch.as_tensor(want).tolist(), "%s, want %s" % (got, want)


if "none" in sys.argv:  # no driver on one rank: all say so, and tensors of the CPU are as ever
    for _ in range(2):
        raises(gorun.NoGPUError, lambda: hvd.allreduce(gpu(torch.ones(2))), "rank 1")
    same(hvd.allreduce(torch.ones(2)), [1, 1])
    hvd.shutdown()
    print("all right")
    sys.exit()

# The operations, beside those on tensors of the CPU.
for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.int8, torch.uint8, torch.int16):
    x = torch.full((3, 2), rank + 1, dtype=dtype)
    for move in (gpu, cpu):
        out = hvd.allreduce(move(x.clone()), op=hvd.Sum)
        assert out.is_cuda == (move is gpu) and out.dtype == dtype and out.shape == x.shape
        same(out, torch.full((3, 2), total))
x = torch.full((3, 2), float(rank + 1))
same(hvd.allreduce(gpu(x.clone())), torch.full((3, 2), total / size))
same(hvd.allreduce(gpu(x.clone()), op=hvd.Max), torch.full((3, 2), float(size)))
same(hvd.allreduce(gpu(x.clone()), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0), torch.full((3, 2), 2.0 * total))
same(hvd.allreduce(gpu(x.clone()), postscale_factor=2.0), torch.full((3, 2), 2.0 * total / size))
y = gpu(x.clone())
assert hvd.allreduce_(y, op=hvd.Sum) is y
same(y, torch.full((3, 2), float(total)))
y = gpu(torch.zeros(2, 3)).t()  # not in one piece
y.fill_(rank + 1)
hvd.allreduce_(y, op=hvd.Sum)
same(y, torch.full((3, 2), float(total)))
same(hvd.broadcast(gpu(x.clone()), 1), torch.full((3, 2), 2.0))
y = gpu(x.clone())
hvd.broadcast_(y, 0)
same(y, torch.ones(3, 2))
out = hvd.allgather(gpu(torch.full((rank + 1, 2), float(rank))))
assert out.is_cuda
same(out, torch.cat([torch.full((r + 1, 2), float(r)) for r in range(size)]))
out, rows = hvd.alltoall(gpu(torch.arange(size * 1.0) + 10 * rank), splits=[1] * size)
same(out, [10.0 * r + rank for r in range(size)])
same(rows, [1] * size)
rest = hvd.reducescatter(gpu(torch.arange(2.0 * size + 1) + rank), op=hvd.Sum)  # the first rank has one row more
first = 0 if rank == 0 else 2 * rank + 1
same(rest, [size * i + size * (size - 1) / 2.0 for i in range(first, first + 2 + (rank == 0))])
for name, out in zip("ab", hvd.grouped_allreduce([gpu(x.clone()), gpu(2 * x)], op=hvd.Sum)):
    same(out, torch.full((3, 2), float(total) * (1 + (name == "b"))))
outs = hvd.grouped_reducescatter([gpu(torch.ones(size)), gpu(torch.ones(size, 2))], op=hvd.Sum)
same(outs[0], [float(size)])
same(outs[1], [[float(size)] * 2])
z = gpu(torch.ones(3)).requires_grad_()
hvd.allreduce(z, op=hvd.Sum).sum().backward()
same(z.grad, torch.full((3,), float(size)))
assert hvd.allreduce(gpu(torch.ones(0))).shape == (0,)

# Submitted in an order of its own by each rank, and waited for in another.
for round in range(3):
    names = list(range(40))
    random.shuffle(names)
    handles = {}
    for n in names:
        t = torch.full((n + 1,), float(rank + n))
        if n % 4 == 0:
            handles[n] = hvd.allreduce_async(t, name=str(n), op=hvd.Sum)
        elif n % 4 == 1:
            handles[n] = hvd.grouped_allreduce_async([gpu(t), gpu(t.clone())], name=str(n), op=hvd.Sum)
        else:
            handles[n] = hvd.allreduce_async_(gpu(t), name=str(n), op=hvd.Sum)
    random.shuffle(names)
    for n in names:
        want = torch.full((n + 1,), float(size * n + size * (size - 1) // 2))
        if n % 3 == 0:
            while not hvd.poll(handles[n]):
                time.sleep(0.0001)
        out = hvd.synchronize(handles[n])
        for o in out if n % 4 == 1 else [out]:
            same(o, want)
for i in range(50):  # dropped: they go on all the same
    hvd.allreduce_async_(gpu(torch.ones(3)), name="dropped.%d" % i)
hvd.barrier()

# One lane of the set, which begins before what is enqueued, and is followed by who waits.
lane = hvd.global_process_set.channel.lanes[0]
lane.log.clear()
handle = hvd.allreduce_async(gpu(torch.ones(3)), name="order")
assert lane.log == ["begin"], lane.log
hvd.synchronize(handle)
assert lane.log == ["begin", "mark", "follow"] and len(hvd.global_process_set.channel.lanes) == 1, lane.log
assert hvd.synchronize(handle) is handle.output

# What is wrong.
raises(gorun.MismatchError, lambda: hvd.allreduce((gpu if rank else cpu)(torch.ones(2)), name="m"), "on GPUs", "rank 0 submitted")
raises(gorun.InvalidError, lambda: hvd.grouped_allreduce([gpu(torch.ones(2)), torch.ones(2)]), "not all on one device")
raises(gorun.InvalidError, lambda: hvd.allreduce(gpu(torch.ones(2, dtype=torch.complex64))), "complex64")
other = gpu(torch.ones(2))
other.device = torch.device("cuda:1")
raises(gorun.InvalidError, lambda: hvd.allreduce_async(other, name="other"), "GPU 1", "GPU 0")
raises(gorun.DuplicateError, lambda: [hvd.allreduce_async(gpu(torch.ones(2)), name="twice") for _ in range(2 + 2 * (rank + 1))], "twice") if size > 1 else None
hvd.barrier()

# Sets of ranks have lanes of their own.
even = hvd.add_process_set(range(0, size, 2))
if even.included():
    same(hvd.allreduce(gpu(torch.ones(2)), op=hvd.Sum, process_set=even), [float(even.size())] * 2)
    assert even.channel.lanes[0] is not lane
hvd.remove_process_set(even)


# Gradients and parameters. A compressor makes tensors of a GPU of gradients, whose class torch would not let us choose.
class ToGPU:
    @staticmethod
    def compress(tensor):
        return gpu(tensor), None

    @staticmethod
    def decompress(tensor, ctx):
        return cpu(tensor)


data = torch.randn(size, 6, 4, generator=torch.Generator().manual_seed(7))
for groups in (None, 2):
    torch.manual_seed(rank)
    model, plain = (torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)) for _ in range(2))
    hvd.broadcast_parameters([(n, gpu(p.detach())) for n, p in model.named_parameters()], root_rank=0)
    plain.load_state_dict(model.state_dict())
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters(), compression=ToGPU, groups=groups
    )
    reference = torch.optim.SGD(plain.parameters(), lr=0.1)
    lane.log.clear()
    for step in range(3):
        optimizer.zero_grad()
        model(data[rank]).pow(2).mean().backward()
        optimizer.step()
        reference.zero_grad()
        plain(data.flatten(0, 1)).pow(2).mean().backward()
        reference.step()
    assert lane.log.count("follow") == 12, lane.log  # four parameters in three steps: none went another way
    for mine, want in zip(model.parameters(), plain.parameters()):
        assert torch.allclose(mine, want, atol=1e-6), (mine, want)

if "dies" in sys.argv:  # a rank dies, and the next operations of the others say which
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        while True:
            hvd.allreduce(gpu(torch.ones(5)))
    except gorun.PeerError as e:
        assert e.rank == 1 and "rank 1" in str(e), e
    print("told")
    sys.exit()
hvd.shutdown()
print("all right")
