"""Every operation of gorun.torch on every type and kind of shape, against what plain PyTorch makes of all ranks' tensors."""

import itertools
import time

import torch

import gorun.torch as hvd
from gorun import _ring

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
DTYPES = FLOATS + INTEGERS + [torch.bool]

LAYOUTS = {
    "0-d": ((), lambda t: t),
    "empty": ((0,), lambda t: t),
    "rows without elements": ((3, 0), lambda t: t),
    "no rows": ((0, 3), lambda t: t),
    "vector": ((7,), lambda t: t),
    "matrix": ((5, 3), lambda t: t),
    "transposed": ((4, 6), lambda t: t.t()),
    "every other": ((10, 2), lambda t: t[::2]),
    "column": ((6, 4), lambda t: t[:, 1]),
    "offset": ((9,), lambda t: t[1:]),
    "channels last": ((2, 3, 4, 2), lambda t: t.contiguous(memory_format=torch.channels_last)),
    "large": ((300, 1001), lambda t: t),
}

hvd.init()
rank = hvd.rank()
size = hvd.size()


def wide(t):
    """t in a type that can add up all ranks without an error."""
    return t.to(torch.float64 if t.is_floating_point() else torch.int64)


def value(r, shape, dtype, seed=0):
    """The elements of rank r: small integers, so that all sums are exact."""
    generator = torch.Generator().manual_seed(1000 * seed + r)
    t = torch.randint(0, 4, shape, generator=generator)
    return t.to(dtype)


def same(got, want, what):
    assert got.dtype == want.dtype and got.shape == want.shape, (what, got.dtype, got.shape, want.dtype, want.shape)
    assert torch.equal(wide(got), wide(want)), (what, got, want)


def cases():
    return itertools.product(DTYPES, LAYOUTS.items())


def everyone(name, shape, layout, dtype):
    seed = list(LAYOUTS).index(name)
    return [layout(value(r, shape, dtype, seed)) for r in range(size)]


def reductions():
    for dtype, (name, (shape, layout)) in cases():
        ranks = everyone(name, shape, layout, dtype)
        stack = wide(torch.stack([t.contiguous() for t in ranks]))
        wants = {hvd.Sum: stack.sum(0), hvd.Min: stack.min(0)[0], hvd.Max: stack.max(0)[0], hvd.Product: stack.prod(0)}
        if dtype != torch.bool:
            wants[hvd.Average] = stack.sum(0) / size if dtype in FLOATS else stack.sum(0) // size
        if dtype == torch.bool:
            wants[hvd.Sum] = stack.max(0)[0]
            wants[hvd.Product] = stack.min(0)[0]
        handles = {}
        inplace = {}
        for op in wants:
            label = "%s %s %d" % (dtype, name, op)
            handles[op] = hvd.allreduce_async(ranks[rank], name=label, op=op)
            mine = ranks[rank].clone(memory_format=torch.preserve_format)
            inplace[op] = mine, hvd.allreduce_async_(mine, name=label + " in place", op=op)
        for op, want in wants.items():
            what = dtype, name, op
            same(hvd.synchronize(handles[op]), want.to(dtype), what)
            mine, handle = inplace[op]
            assert hvd.synchronize(handle) is mine, what
            same(mine, want.to(dtype), what)
        same(ranks[rank], everyone(name, shape, layout, dtype)[rank], "the input")
        outputs = hvd.grouped_allreduce([ranks[rank], ranks[rank].clone()], op=hvd.Sum)
        for got in outputs:
            same(got, wants[hvd.Sum].to(dtype), (dtype, name, "grouped"))


def scaling():
    for dtype in FLOATS + [torch.int32, torch.int64]:
        x = torch.tensor([8, 16, 24], dtype=dtype)
        same(hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.25), (x.double() * 0.25 * size).to(dtype), dtype)
        same(hvd.allreduce(x, op=hvd.Sum, postscale_factor=0.5), (x.double() * size * 0.5).to(dtype), dtype)
        same(hvd.allreduce(x, op=hvd.Average, prescale_factor=0.5, postscale_factor=4.0), (x.double() * 2).to(dtype), dtype)
        same(hvd.grouped_allreduce([x], op=hvd.Sum, postscale_factor=0.5)[0], (x.double() * size * 0.5).to(dtype), dtype)


def moves():
    for dtype, (name, (shape, layout)) in cases():
        ranks = everyone(name, shape, layout, dtype)
        what = (dtype, name)
        root = len(name) % size
        same(hvd.broadcast(ranks[rank], root), ranks[root].contiguous(), what)
        mine = ranks[rank].clone(memory_format=torch.preserve_format)
        assert hvd.broadcast_(mine, root) is mine
        same(mine, ranks[root], what)
        rows = [t.reshape(1) if t.dim() == 0 else t for t in ranks]
        same(hvd.allgather(ranks[rank]), torch.cat(rows), what)
        unlike = [torch.cat([t] * (r % 3)) if r % 3 else t[:0] for r, t in enumerate(rows)]
        same(hvd.allgather(unlike[rank]), torch.cat(unlike), what)
        for got in hvd.grouped_allgather([unlike[rank], unlike[rank].clone()]):
            same(got, torch.cat(unlike), what)
        if ranks[0].dim() == 0:
            continue
        splits = [[(r + to) % 3 for to in range(size)] for r in range(size)]
        sent = [torch.cat([t] * (2 * size))[: sum(splits[r])] if len(t) else t for r, t in enumerate(ranks)]
        if len(ranks[0]) == 0:
            splits = [[0] * size] * size
        got, came = hvd.alltoall(sent[rank], torch.tensor(splits[rank], dtype=torch.int32))
        parts = [sent[r].split(splits[r])[rank] if sum(splits[r]) else sent[r][:0] for r in range(size)]
        same(got, torch.cat(parts), what)
        assert came.dtype == torch.int32 and came.tolist() == [splits[r][rank] for r in range(size)], (what, came)
        even = [torch.cat([t] * size) for t in ranks]
        same(hvd.alltoall(even[rank]), torch.cat([t.split(max(len(t) // size, 1))[rank] if len(t) else t for t in even]), what)


def scatters():
    for dtype, (name, (shape, layout)) in cases():
        ranks = everyone(name, shape, layout, dtype)
        what = (dtype, name)
        if ranks[0].dim() == 0:
            continue
        total = wide(torch.stack([t.contiguous() for t in ranks])).sum(0).to(dtype)  # of bool: any
        each, more = divmod(len(total), size)
        begin = rank * each + min(rank, more)
        want = total[begin : begin + each + (rank < more)]
        same(hvd.reducescatter(ranks[rank], op=hvd.Sum), want, what)
        for got in hvd.grouped_reducescatter([ranks[rank]] * 2, op=hvd.Sum):
            same(got, want, what)
        if dtype in FLOATS:
            same(hvd.reducescatter(ranks[rank], op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0), (want.double() * 2).to(dtype), what)
            same(hvd.reducescatter(ranks[rank]), (want.double() / size).to(dtype), what)


def gradients():
    """Each operation's gradient is what its sum over all ranks says, by the rules of horovod."""
    x = torch.arange(6.0).reshape(3, 2) + rank
    weights = [torch.arange(6.0).reshape(3, 2) * (r + 1) for r in range(size)]

    def gradient(f, weight):
        t = x.clone().requires_grad_()
        (f(t) * weight).sum().backward()
        return t.grad

    total = sum(weights)
    same(gradient(lambda t: hvd.allreduce(t, op=hvd.Sum), weights[rank]), total, "allreduce")
    same(gradient(lambda t: hvd.allreduce(t), weights[rank]), total / size, "allreduce average")
    same(gradient(lambda t: hvd.grouped_allreduce([t, t], op=hvd.Sum)[1], weights[rank]), total, "grouped allreduce")
    same(gradient(lambda t: hvd.broadcast(t, 1), weights[rank]), total / size if rank == 1 else torch.zeros(3, 2), "broadcast")
    every = [torch.arange(6.0 * size).reshape(3 * size, 2) * (r + 1) for r in range(size)]
    mine = (sum(every) / size)[3 * rank : 3 * rank + 3]
    same(gradient(lambda t: hvd.allgather(t), every[rank]), mine, "allgather")
    same(gradient(lambda t: hvd.grouped_allgather([t])[0], every[rank]), mine, "grouped allgather")
    long = torch.ones(size, 2, requires_grad=True)
    (hvd.alltoall(long) * (rank + 1)).sum().backward()
    same(long.grad, torch.arange(1.0, size + 1).reshape(-1, 1).expand(-1, 2).contiguous(), "alltoall")
    long = torch.ones(2 * size, 2, requires_grad=True)
    (hvd.reducescatter(long, op=hvd.Sum) * (rank + 1)).sum().backward()
    same(long.grad, (torch.arange(1.0, size + 1) * size).repeat_interleave(2).reshape(-1, 1).expand(-1, 2).contiguous(), "reducescatter")
    assert not hvd.allreduce(torch.ones(1)).requires_grad


def sets():
    """Process sets have operations of their own, roots by the job's ranks, and go away."""
    odd = hvd.add_process_set(range(1, size, 2))
    even = hvd.add_process_set(hvd.ProcessSet(range(0, size, 2)))
    mine = odd if rank % 2 else even
    assert mine.included() and not (even if rank % 2 else odd).included()
    assert mine.size() == len(mine.ranks) and mine.ranks[mine.rank()] == rank
    x = torch.tensor([float(rank)])
    same(hvd.allreduce(x, op=hvd.Sum, process_set=mine), torch.tensor([float(sum(mine.ranks))]), "set")
    same(hvd.allgather(x, process_set=mine), torch.tensor([float(r) for r in mine.ranks]), "set")
    same(hvd.broadcast(x, mine.ranks[-1], process_set=mine), torch.tensor([float(mine.ranks[-1])]), "set")
    assert hvd.broadcast_object(rank, mine.ranks[-1], process_set=mine) == mine.ranks[-1]
    assert hvd.allgather_object({"of": rank}, process_set=mine) == [{"of": r} for r in mine.ranks]
    hvd.barrier(process_set=mine)
    other = even if mine is odd else odd
    for wrong in (lambda: hvd.allreduce(x, process_set=other), lambda: hvd.broadcast(x, other.ranks[0], process_set=mine)):
        try:
            wrong()
            raise SystemExit("a set took what is not its own")
        except ValueError as e:
            assert "process set" in str(e), e
    for bad in ([size], [0, 0], []):
        try:
            hvd.add_process_set(bad)
            raise SystemExit("%s was taken" % bad)
        except ValueError:
            pass
    assert hvd.process_set_ids() == [0, 1, 2]
    assert hvd.remove_process_set(odd) and hvd.remove_process_set(even) and not hvd.remove_process_set(hvd.global_process_set)
    try:
        hvd.allreduce(x, process_set=mine)
        raise SystemExit("a removed set works")
    except ValueError as e:
        assert "removed" in str(e), e


def objects():
    """Objects of any size, from any rank."""
    for root, thing in enumerate([None, list(range(100000)), {"a": torch.ones(2)}]):
        got = hvd.broadcast_object(thing if rank == root % size else "not this", root % size)
        assert str(got) == str(thing)
    every = hvd.allgather_object("x" * (1000 * rank))
    assert [len(s) for s in every] == [1000 * r for r in range(size)]


def negated():
    """A tensor that is written negated in memory is a tensor like others."""
    view = torch._neg_view(torch.full((4,), -2.0))
    hvd.allreduce_(view, op=hvd.Sum)
    same(view, torch.full((4,), 2.0 * size), "allreduce_")
    view = torch._neg_view(torch.full((4,), float(rank)))
    hvd.broadcast_(view, 0)
    same(view, torch.zeros(4), "broadcast_")


def dropped():
    """What nobody waits for keeps nothing of the library alive when its channel is closed: be it dropped before or after."""
    for early in (True, False):
        channel = hvd.global_process_set.channel
        handle = hvd.allreduce_async(torch.ones(3), name="dropped")
        numbers = channel.queue.handle, channel.comm.handle
        if early:
            del handle
        hvd.barrier()  # so that it is no error for others
        hvd.shutdown()
        if not early:
            del handle
        codes = [channel.library.c.ring_error_text(n, None, 0) for n in numbers]
        assert codes == [_ring.CLOSED] * 2, (early, codes)
        hvd.init()


def again():
    """init after shutdown works, with names and sets as at first."""
    hvd.add_process_set([0])
    hvd.shutdown()
    hvd.shutdown()
    assert not hvd.is_initialized()
    hvd.init(process_sets=[[0], [size - 1]])
    assert hvd.process_set_ids() == [0, 1, 2]
    same(hvd.allreduce(torch.ones(2), op=hvd.Sum), torch.full((2,), float(size)), "again")


start = time.monotonic()
for part in (reductions, scaling, moves, scatters, gradients, sets, objects, negated, dropped, again):
    part()
    if rank == 0:
        print(part.__name__, "%.1f s" % (time.monotonic() - start), flush=True)
print("all right")
