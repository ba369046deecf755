"""Every collective of backend gorun, of all types, against what it should give."""

import threading

import torch
import torch.distributed as dist

import gorun.torch_backend  # noqa: F401
from gorun import _ring
from gorun.torch_backend import work as works

dist.init_process_group("gorun")
rank = dist.get_rank()
size = dist.get_world_size()
assert dist.get_backend() == "gorun" and size == 4

DTYPES = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool]
MOVED = DTYPES + [torch.complex64]


def of(r, n=6, dtype=torch.float32):
    """What rank r brings."""
    if dtype == torch.bool:
        return (torch.arange(n) + r) % 3 == 0
    return (torch.arange(n) % 5 + r + 1).to(dtype)


def same(got, want, what):
    assert got.shape == want.shape and torch.equal(got, want), "rank %d: %s: %s, not %s" % (rank, what, got, want)


def torn(t):
    """A tensor of t's values that does not lie in one piece."""
    return torch.stack([t, t], dim=-1)[..., 0]


def reduced(op, dtype):
    values = torch.stack([of(r, dtype=dtype) for r in range(size)])
    if dtype == torch.bool:
        return {"SUM": values.any(0), "PRODUCT": values.all(0), "MAX": values.any(0), "MIN": values.all(0)}[op]
    wide = values.double()
    result = {"SUM": wide.sum(0), "PRODUCT": wide.prod(0), "MAX": wide.max(0)[0], "MIN": wide.min(0)[0], "AVG": wide.mean(0)}[op]
    return result.to(torch.int64).to(dtype) if not dtype.is_floating_point else result.to(dtype)


def reductions():
    for dtype in DTYPES:
        for op in ["SUM", "PRODUCT", "MAX", "MIN"] + (["AVG"] if dtype != torch.bool else []):
            want = reduced(op, dtype)
            what = "%s of %s" % (op, dtype)
            opts = getattr(dist.ReduceOp, op)
            for shape in [lambda t: t, torn, lambda t: t.reshape(2, 3)]:
                x = shape(of(rank, dtype=dtype))
                dist.all_reduce(x, opts)
                same(x.reshape(6), want, "all_reduce " + what)
            x = of(rank, dtype=dtype)
            dist.reduce(x, 2, opts)
            same(x, want if rank == 2 else of(rank, dtype=dtype), "reduce " + what)
            x = torch.empty(3, dtype=dtype)
            dist.reduce_scatter(x, list(torch.cat([of(rank, dtype=dtype)] * 2).split(3)), opts)
            same(x, want[rank % 2 * 3 :][:3], "reduce_scatter " + what)
            x = torch.empty(3, dtype=dtype)
            dist._reduce_scatter_base(x, torn(torch.cat([of(rank, dtype=dtype)] * 2)), opts)
            same(x, want[rank % 2 * 3 :][:3], "_reduce_scatter_base " + what)
    x = of(rank, dtype=torch.int32)
    dist.all_reduce(x, dist.ReduceOp.BXOR)
    want = of(0, dtype=torch.int32)
    for r in range(1, size):
        want = want ^ of(r, dtype=torch.int32)
    same(x, want, "BXOR")
    xs = [of(rank), of(rank, 9).reshape(3, 3), torch.tensor(float(rank)), torch.empty(0)]
    dist.all_reduce_coalesced(xs)
    same(xs[0], reduced("SUM", torch.float32), "coalesced")
    same(xs[2], torch.tensor(6.0), "coalesced 0-d")
    for dtype in (torch.float32, torch.int64):  # of different lengths, and of none
        x = torch.sparse_coo_tensor([[rank, 4, 4][: 3 - rank], [0, 1, 1][: 3 - rank]], [1.0, 2.0, 3.0][: 3 - rank], (5, 2), dtype=dtype)
        dist.all_reduce(x)
        same(x.to_dense().to(torch.float32), torch.tensor([[1.0, 0], [1, 0], [1, 0], [0, 0], [0, 7]]), "a sparse one")
    big = torch.full((1_000_003,), float(rank))
    dist.all_reduce(big)
    same(big, torch.full_like(big, 6.0), "a large one")


def movements():
    for dtype in MOVED:
        mine = of(rank, dtype=dtype)
        for shape in [lambda t: t, torn]:
            x = shape(mine.clone())
            dist.broadcast(x, 1)
            same(x, of(1, dtype=dtype), "broadcast %s" % dtype)
            everyone = [shape(torch.zeros(6, dtype=dtype)) for _ in range(size)]
            dist.all_gather(everyone, shape(mine))
            for r in range(size):
                same(everyone[r], of(r, dtype=dtype), "all_gather %s" % dtype)
            flat = shape(torch.zeros(6 * size, dtype=dtype))
            dist._all_gather_base(flat, shape(mine))
            same(flat, torch.cat([of(r, dtype=dtype) for r in range(size)]), "_all_gather_base %s" % dtype)
            got = [shape(torch.zeros(6, dtype=dtype)) for _ in range(size)] if rank == 3 else None
            dist.gather(shape(mine), got, dst=3)
            for r in range(size) if got else []:
                same(got[r], of(r, dtype=dtype), "gather %s" % dtype)
            x = shape(torch.zeros(6, dtype=dtype))
            dist.scatter(x, [shape(of(r + 7, dtype=dtype)) for r in range(size)] if rank == 2 else None, src=2)
            same(x, of(rank + 7, dtype=dtype), "scatter %s" % dtype)
            # of unlike lengths: rank a sends a + b + 1 elements to rank b
            sent = [shape(of(rank, rank + r + 1, dtype)) for r in range(size)]
            got = [torch.zeros(rank + r + 1, dtype=dtype) for r in range(size)]
            dist.all_to_all(got, sent)
            for r in range(size):
                same(got[r], of(r, rank + r + 1, dtype), "all_to_all %s" % dtype)
            splits = [rank + r + 1 for r in range(size)]
            flat = torch.zeros(sum(splits), dtype=dtype)
            dist.all_to_all_single(flat, torch.cat(sent), splits, splits)
            same(flat, torch.cat(got), "all_to_all_single %s" % dtype)
    flat = torch.zeros(size, 2)
    dist.all_to_all_single(flat, torch.full((size, 2), float(rank)))
    same(flat, torch.arange(size).float().unsqueeze(1).expand(size, 2), "all_to_all_single of equal parts")
    lists = [[torch.zeros(2), torch.zeros(3)] for _ in range(size)]
    dist.all_gather_coalesced(lists, [of(rank, 2), of(rank, 3)])
    same(lists[2][1], of(2, 3), "all_gather_coalesced")
    unlike = [torch.zeros(r) for r in range(size)]
    dist.all_gather(unlike, of(rank, rank))
    same(unlike[3], of(3, 3), "all_gather of unlike parts")


def messages():
    x = torch.zeros(300_000)
    if rank == 0:
        dist.send(torch.arange(300_000.0), 3)
    if rank == 3:
        assert dist.recv(x, 0) == 0
        same(x, torch.arange(300_000.0), "recv")
    # Around, each sending first; with two tags, of which the receiver wants the later one first.
    to = (rank + 1) % size
    source = (rank - 1) % size
    sent = [dist.isend(torch.full((200_000,), float(10 * rank + tag)), to, tag=tag) for tag in (0, 1)]
    for tag in (1, 0):
        dist.recv(x[:200_000], source, tag=tag)
        same(x[:200_000], torch.full((200_000,), float(10 * source + tag)), "recv around")
    for work in sent:
        work.wait()
    a = torch.full((5,), float(rank))
    b = torch.zeros(5)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, a, rank ^ 1), dist.P2POp(dist.irecv, b, rank ^ 1)]):
        work.wait()
    same(b, torch.full((5,), float(rank ^ 1)), "batch_isend_irecv")
    # send() and recv() wait at once, so that their messages may go in this thread; isend() and irecv() do not.
    begun = []
    start = _ring.Comm.start
    _ring.Comm.start = lambda *args: (begun.append(args[3]), start(*args))[1]
    for how, exchange in (True, (dist.send, dist.recv)), (False, (dist.isend, dist.irecv)):
        begun.clear()
        awaited = [exchange[(rank + i) % 2](b, rank ^ 1) for i in range(2)]
        for work in awaited if not how else ():
            work.wait()
        assert begun == [how] * 2, "%s: %s" % (exchange, begun)
    _ring.Comm.start = start
    # From whichever rank sends first; what the others send next is for a recv that names the rank.
    for named in (False, True):
        if rank == 0:
            heard = []
            for r in range(1, size):
                heard.append(dist.recv(b, r if named else None, tag=9))
                same(b, torch.full((5,), float(heard[-1] + 10 * named)), "recv from rank %d" % heard[-1])
            assert sorted(heard) == list(range(1, size)), heard
        else:
            dist.send(a + 10 * named, 0, tag=9)
        dist.barrier()
    # More receives are started than may stay unwaited, before other threads send anything.
    most = works.UNWAITED
    works.UNWAITED = 3
    into = [torch.zeros(2) for _ in range(8)]
    awaited = [dist.irecv(t, rank ^ 1, tag=7) for t in into]
    threads = [threading.Thread(target=lambda: dist.send(torch.ones(2), rank ^ 1, tag=7)) for _ in into]
    for thread in threads:
        thread.start()
    for thread, work, t in zip(threads, awaited, into):
        thread.join()
        work.wait()
        same(t, torch.ones(2), "irecv before isend")
    works.UNWAITED = most


def asynchronous():
    xs = [torch.full((1000,), float(rank + i)) for i in range(50)]
    works = [dist.all_reduce(x, async_op=True) for x in xs]
    for i in reversed(range(50)):
        assert works[i].wait() and works[i].is_completed() and works[i].is_success()
        same(xs[i], torch.full((1000,), 6.0 + 4 * i), "async")
    futures = [dist.all_reduce(x, async_op=True).get_future() for x in xs]
    assert torch.equal(futures[3].wait()[0], torch.full((1000,), 4 * (6.0 + 12)))
    torch.futures.wait_all(futures)
    dist.all_reduce(xs[0], async_op=True)  # nobody waits for it
    dist.barrier()
    later = dist.barrier(async_op=True)
    while not later.is_completed():
        pass


def objects():
    everyone = [None] * size
    dist.all_gather_object(everyone, {"rank": rank, "text": "x" * rank})
    assert everyone == [{"rank": r, "text": "x" * r} for r in range(size)], everyone
    told = [None, None] if rank else [{"a": 1}, "b" * 1000]
    dist.broadcast_object_list(told, src=0)
    assert told == [{"a": 1}, "b" * 1000], told
    mine = [None]
    dist.scatter_object_list(mine, [[r] for r in range(size)] if rank == 1 else None, src=1)
    assert mine == [[rank]], mine
    gathered = [None] * size if rank == 2 else None
    dist.gather_object(str(rank), gathered, dst=2)
    assert gathered in (None, ["0", "1", "2", "3"])


def pair():
    """This rank's group of two."""
    return [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])][rank // 2]


def groups():
    odd = dist.new_group([1, 3])
    reverse = dist.new_group([3, 2, 0])
    alone = dist.new_group([2])
    everyone = dist.new_group()
    x = torch.tensor(float(rank))
    if rank in (1, 3):
        dist.all_reduce(x, group=odd)
        same(x, torch.tensor(4.0), "of a group")
        dist.broadcast(x, 3, group=odd)
        y = torch.tensor(float(rank))
        if rank == 1:
            dist.send(y, 3, group=odd)
        else:
            dist.recv(y, 1, group=odd)
            same(y, torch.tensor(1.0), "recv in a group")
    if rank != 1:
        y = torch.tensor(float(rank))
        dist.all_reduce(y, group=reverse)
        same(y, torch.tensor(5.0), "of a group")
        got = [torch.zeros(()) for _ in range(3)]
        dist.all_gather(got, torch.tensor(float(rank)), group=reverse)
        same(torch.stack(got), torch.tensor([0.0, 2.0, 3.0]), "gathered in a group")
    if rank == 2:
        dist.all_reduce(x, group=alone)
    dist.all_reduce(x, group=everyone)
    dist.destroy_process_group(everyone)
    gloo = dist.new_group(backend="gloo")
    y = torch.ones(1)
    dist.all_reduce(y, group=gloo)
    same(y, torch.full((1,), 4.0), "gloo beside it")
    y = torch.ones(1)
    dist.all_reduce(y, group=pair())
    same(y, torch.full((1,), 2.0), "one of several groups")


for part in (reductions, movements, messages, asynchronous, objects, groups):
    part()
    if rank == 0:
        print(part.__name__, flush=True)
# Again, in the store that is there: a second one at the same port may meet ranks that take it for the first.
store = dist.distributed_c10d._get_default_store()
dist.destroy_process_group()
dist.init_process_group("gorun", store=dist.PrefixStore("again", store), rank=rank, world_size=size)
y = torch.ones(1)
dist.all_reduce(y)
dist.all_reduce(y, group=pair())
same(y, torch.full((1,), 8.0), "the second time")
dist.barrier()  # rank 0 keeps torch's store, which new_group asks to the end
dist.destroy_process_group()
print("all right", flush=True)
