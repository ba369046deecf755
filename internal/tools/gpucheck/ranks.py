"""One rank of a check of check.py. Rank 0 prints what was found."""

import ctypes
import os
import signal
import statistics
import sys
import time

RANK = int(os.environ["RANK"])
RANKS = int(os.environ["WORLD_SIZE"])
if RANKS > 1:
    os.environ["NCCL_HOSTID"] = "gorun-check-%d" % RANK  # before NCCL reads it: else it refuses ranks that share a GPU

import torch  # noqa: E402

from gorun import PeerError, _ring  # noqa: E402

FAKE = os.environ.get("GPUCHECK_FAKE")  # in tests: the stand-ins' GPU, whose memory is the host's
MOST = 262144  # elements of float32 in a MiB


def found(text):
    if RANK == 0:
        print("found: " + text, flush=True)


def need(good, what):
    if not good:
        raise SystemExit("rank %d: %s" % (RANK, what))


def put(tensor):
    return tensor if FAKE else tensor.cuda()


def stream():
    return 0 if FAKE else torch.cuda.current_stream().cuda_stream


TYPES = {
    torch.float32: (_ring.FLOAT32, 2**-23), torch.float64: (_ring.FLOAT64, 2**-52), torch.float16: (_ring.FLOAT16, 2**-10),
    torch.bfloat16: (_ring.BFLOAT16, 2**-7), torch.int8: (_ring.INT8, 0), torch.uint8: (_ring.UINT8, 0), torch.int16: (_ring.INT16, 0),
    torch.int32: (_ring.INT32, 0), torch.int64: (_ring.INT64, 0), torch.bool: (_ring.BOOL, 0),
}  # fmt: skip
OPS = {"sum": _ring.SUM, "prod": _ring.PROD, "max": _ring.MAX, "min": _ring.MIN, "avg": _ring.AVG, "bor": _ring.BOR, "bxor": _ring.BXOR}


def given(rank, n, dtype):
    """What a rank brings: numbers of which no type loses a bit, for integers; for others of both signs."""
    generator = torch.Generator().manual_seed(1000 * rank + n)
    if dtype.is_floating_point:
        return (torch.rand(n, generator=generator, dtype=torch.float64) * 4 - 2).to(dtype)
    return torch.randint(0, 2 if dtype == torch.bool else 4, (n,), generator=generator).to(dtype)


def reference(op, values, dtype):
    """The reduction in float64, or int64."""
    if dtype == torch.bool:
        return torch.stack(values).any(0) if op in ("sum", "max", "bor") else torch.stack(values).all(0)
    wide = torch.stack([v.to(torch.float64 if dtype.is_floating_point else torch.int64) for v in values])
    if op in ("bor", "bxor"):
        result = wide[0]
        for v in wide[1:]:
            result = result | v if op == "bor" else result ^ v
        return result
    if op == "avg":
        total = wide.sum(0)
        return total / RANKS if dtype.is_floating_point else torch.div(total, RANKS, rounding_mode="trunc")
    return {"sum": wide.sum(0), "prod": wide.prod(0), "max": wide.max(0)[0], "min": wide.min(0)[0]}[op]


def ops_of(dtype):
    if dtype == torch.bool:
        return ("sum", "prod", "max", "min")
    return ("sum", "prod", "max", "min", "avg") if dtype.is_floating_point else ("sum", "prod", "max", "min", "avg", "bor", "bxor")


def close(got, want, values, dtype, what):
    """Each rank's addition or multiplication may round once, relative to the largest intermediate value."""
    got = got.cpu()
    if not dtype.is_floating_point:
        need(torch.equal(got.to(torch.int64), want.to(dtype).to(torch.int64)), "%s: %s, want %s" % (what, got[:8], want[:8]))
        return
    size = torch.stack([v.to(torch.float64).abs() for v in values])
    scale = torch.maximum(size.sum(0), size.clamp(min=1).prod(0))
    wrong = (got.to(torch.float64) - want).abs() > RANKS * TYPES[dtype][1] * scale
    need(not wrong.any(), "%s: %d of %d elements are wrong" % (what, int(wrong.sum()), len(got)))


def device_of(comm, how):
    os.environ["RING_DEVICE"] = how
    d = comm.device(0)
    need(d.native == (how == "nccl"), "it goes by %s" % d.how)
    return d


def reductions(d, n):
    calls = 0
    for dtype, (number, _) in TYPES.items():
        values = [given(r, n, dtype) for r in range(RANKS)]
        for op in ops_of(dtype):
            want = reference(op, values, dtype)
            what = "%s of %d %s" % (op, n, dtype)
            src = put(values[RANK].clone())
            dst = put(torch.zeros(n, dtype=dtype))
            for to in (dst, src):  # the second in place
                d.run(stream(), [_ring.call(_ring.ALLREDUCE, number, OPS[op], dst=to.data_ptr(), dst_count=n, src=src.data_ptr(), src_count=n)])
                d.wait(30)
                close(to, want, values, dtype, "allreduce " + what)
            src = put(torch.cat([values[RANK]] * RANKS))
            part = put(torch.zeros(n, dtype=dtype))
            call = _ring.call(_ring.REDUCE_SCATTER, number, OPS[op], dst=part.data_ptr(), dst_count=n, src=src.data_ptr(), src_count=n * RANKS)
            d.run(stream(), [call])
            d.wait(30)
            close(part, want, values, dtype, "reduce-scatter " + what)
            at_root = n if RANK == RANKS - 1 else 0
            call = _ring.call(
                _ring.REDUCE, number, OPS[op], root=RANKS - 1, dst=dst.data_ptr(), dst_count=at_root, src=src.data_ptr(), src_count=n
            )
            d.run(stream(), [call])
            d.wait(30)
            if at_root:
                close(dst, want, values, dtype, "reduce " + what)
            calls += 4
    return calls


def movements(d, n):
    for dtype, (number, _) in TYPES.items():
        values = [given(r, n, dtype) for r in range(RANKS)]
        mine = put(values[RANK].clone())
        all_of = put(torch.zeros(n * RANKS, dtype=dtype))
        sent = put(torch.cat([given(RANK + 7 * r, n, dtype) for r in range(RANKS)]))
        root = put(values[RANK].clone())
        swapped = put(torch.zeros(n * RANKS, dtype=dtype))
        d.run(stream(), [  # as one group
            _ring.call(_ring.ALLGATHER, number, dst=all_of.data_ptr(), dst_count=n * RANKS, src=mine.data_ptr(), src_count=n),
            _ring.call(_ring.BROADCAST, number, root=RANKS - 1, dst=root.data_ptr(), dst_count=n),
            _ring.call(_ring.ALLTOALL, number, dst=swapped.data_ptr(), dst_count=n * RANKS, src=sent.data_ptr(), src_count=n * RANKS),
        ])  # fmt: skip
        d.wait(30)
        need(torch.equal(all_of.cpu(), torch.cat(values)), "allgather of %d %s" % (n, dtype))
        need(torch.equal(root.cpu(), values[-1]), "broadcast of %d %s" % (n, dtype))
        want = torch.cat([given(r + 7 * RANK, n, dtype) for r in range(RANKS)])
        need(torch.equal(swapped.cpu(), want), "alltoall of %d %s" % (n, dtype))
    return 3 * len(TYPES)


def values(how):
    comm = _ring.Library().init()
    d = device_of(comm, how)
    calls = sum(reductions(d, n) + movements(d, n) for n in (1, 1003, MOST // 16))
    d.close()
    comm.close()
    found("%d calls are right, by %s" % (calls, d.how))


def same(got, want, what):
    need(torch.equal(got.cpu(), want.cpu()), "%s: %s, want %s" % (what, got, want))


def check_torch():
    import gorun.torch as hvd

    hvd.init()
    torch.cuda.set_device(0)
    total = RANKS * (RANKS + 1) / 2
    x = torch.full((100, 3), RANK + 1.0, device="cuda")
    same(hvd.allreduce(x, op=hvd.Sum), torch.full((100, 3), total), "allreduce")
    same(hvd.allreduce(x, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5), torch.full((100, 3), total), "allreduce with factors")
    y = x.clone()
    hvd.broadcast_(y, 0)
    same(y, torch.ones(100, 3), "broadcast")
    same(hvd.allgather(x[: RANK + 1]), torch.cat([torch.full((r + 1, 3), r + 1.0) for r in range(RANKS)]), "allgather")
    same(hvd.reducescatter(torch.ones(2 * RANKS, device="cuda"), op=hvd.Sum), torch.full((2,), float(RANKS)), "reducescatter")
    same(hvd.alltoall(torch.full((RANKS,), float(RANK), device="cuda")), torch.arange(RANKS).float(), "alltoall")
    order = list(range(50))
    if RANK % 2:
        order.reverse()  # ranks submit in different orders, while the GPU computes
    a = torch.randn(512, 512, device="cuda")
    handles = {}
    for i in order:
        a = (a @ a).clamp(-1, 1)
        handles[i] = hvd.allreduce_async(torch.full((1000 + i,), float(RANK + i), device="cuda") + a.sum() * 0, name=str(i), op=hvd.Sum)
    for i in reversed(order):
        same(hvd.synchronize(handles[i]), torch.full((1000 + i,), RANKS * i + RANKS * (RANKS - 1) / 2), "asynchronous %d" % i)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        z = torch.ones(MOST, device="cuda")
        for _ in range(20):
            z = hvd.allreduce(z + 0)
    side.synchronize()
    same(z, torch.ones(MOST), "on another stream")
    for g in hvd.grouped_allreduce([torch.ones(n, device="cuda", dtype=torch.bfloat16) for n in (1, 10, 1000)], op=hvd.Sum):
        same(g, torch.full_like(g, RANKS), "grouped")
    hvd.shutdown()
    found("operations on CUDA tensors are right")


def net():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8)).double().cuda()


def trained(model, optimizer, batches):
    for batch in batches:
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()]).cpu()


def compare_training(make, name):
    """Trains a net on this rank's part of each batch, and one on all of it."""
    data = torch.randn(10, RANKS * 4, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(5)).cuda()
    alone = net()
    want = trained(alone, torch.optim.SGD(alone.parameters(), lr=0.1), data)
    model, optimizer = make(net())
    got = trained(model, optimizer, data[:, RANK * 4 : RANK * 4 + 4])
    need(torch.allclose(got, want, atol=1e-12), "%s: weights differ by %g" % (name, (got - want).abs().max()))
    found("10 steps of %s are those of one process: they differ by %.1g" % (name, (got - want).abs().max()))


def optimizer():
    import gorun.torch as hvd

    hvd.init()

    def make(model):
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        chosen = torch.optim.SGD(model.parameters(), lr=0.1)
        return model, hvd.DistributedOptimizer(chosen, named_parameters=model.named_parameters())

    compare_training(make, "DistributedOptimizer")
    hvd.shutdown()


def ddp():
    import gorun.torch_backend  # noqa: F401

    torch.distributed.init_process_group("gorun")

    def make(model):
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])
        return model, torch.optim.SGD(model.parameters(), lr=0.1)

    compare_training(make, "DDP with backend gorun")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def beside_nccl():
    """torch's own group, and a device."""
    torch.cuda.set_device(0)
    torch.distributed.init_process_group("nccl")
    comm = _ring.Library().init()
    return comm, device_of(comm, "nccl")


def leave(comm, d):
    d.close()
    comm.close()
    torch.distributed.destroy_process_group()


def allreduce_of(src, dst):
    number = TYPES[src.dtype][0]
    return _ring.call(_ring.ALLREDUCE, number, _ring.SUM, dst=dst.data_ptr(), dst_count=dst.numel(), src=src.data_ptr(), src_count=src.numel())


def bits():
    comm, d = beside_nccl()
    equal = 0
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32):
        for n in (1, 1003, MOST // 4, MOST):
            x = given(RANK, n, dtype).cuda()
            theirs = x.clone()
            ours = x.clone()
            torch.distributed.all_reduce(theirs)
            torch.cuda.synchronize()  # never two of NCCL's communicators at once on one GPU
            d.run(stream(), [allreduce_of(ours, ours)])
            d.wait(30)
            same(ours.view(torch.uint8), theirs.view(torch.uint8), "%d %s, by bits" % (n, dtype))
            equal += 1
    leave(comm, d)
    found("%d sums have the bits of torch.distributed's nccl" % equal)


def each(call, times):
    """Seconds for one of so many calls."""
    torch.cuda.synchronize()
    torch.distributed.barrier()
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(times):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / times


def check_time():
    comm, d = beside_nccl()
    x = torch.ones(MOST, device="cuda")
    work = [allreduce_of(x, x)]
    sides = {"gorun": lambda: d.run(stream(), work), "nccl": lambda: torch.distributed.all_reduce(x)}
    took = {name: [each(call, 50) for _ in range(1)] and [] for name, call in sides.items()}  # once to warm up
    for _ in range(7):
        for name, call in sides.items():
            took[name].append(each(call, 50))
            x.fill_(1)
    medians = {name: statistics.median(t) for name, t in took.items()}
    leave(comm, d)
    ratio = medians["gorun"] / medians["nccl"]
    need(RANK != 0 or ratio <= 1.05, "1 MiB takes %.0f µs, %.3f of nccl's %.0f µs; the goal is 1.05" % (medians["gorun"] * 1e6, ratio, medians["nccl"] * 1e6))
    found("1 MiB takes %.0f µs, %.3f of nccl's %.0f µs (goal: 1.05)" % (medians["gorun"] * 1e6, ratio, medians["nccl"] * 1e6))


def cost():
    """An allreduce of one rank, and an empty copy of the driver's on the same stream, both called by ctypes."""
    comm = _ring.Library().init()
    d = device_of(comm, "nccl")
    x = torch.ones(256, device="cuda")
    y = torch.empty(256, device="cuda")
    cuda = ctypes.CDLL("libcuda.so.1")
    cuda.cuMemcpyDtoDAsync_v2.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p]
    s = stream()
    calls = (_ring.Call * 1)(allreduce_of(x, y))
    library = d.library.c

    def spend(call):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(500):
            call()
        torch.cuda.synchronize()
        return (time.perf_counter() - begun) / 500 * 1e6

    def ours():
        library.ring_device_run(d.handle, s, 1, calls, None)

    def theirs():
        cuda.cuMemcpyDtoDAsync_v2(y.data_ptr(), x.data_ptr(), 1024, s)

    spend(ours), spend(theirs)
    pairs = [(spend(ours), spend(theirs)) for _ in range(9)]
    a = statistics.median(p[0] for p in pairs)
    b = statistics.median(p[1] for p in pairs)
    d.wait(30)
    need(torch.equal(x, y), "the result is wrong")
    need(a - b <= 20, "a call takes %.1f µs, a copy on the stream %.1f µs: %.1f more, the goal is 20" % (a, b, a - b))
    found("a call takes %.1f µs, a copy on the stream %.1f µs: %.1f more (goal: 20)" % (a, b, a - b))
    d.close()
    comm.close()


def dies():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # of gorun, that ends a job whose rank has died
    comm = _ring.Library().init()
    d = device_of(comm, "nccl")
    x = put(torch.zeros(MOST))
    last = time.monotonic()
    try:
        for i in range(10**6):
            d.run(stream(), [allreduce_of(x, x)])
            if RANK == 1 and i == 20:
                os.kill(os.getpid(), signal.SIGKILL)
            d.wait(30)
            last = time.monotonic()
    except PeerError as e:
        took = time.monotonic() - last
        need(e.rank == 1, "it names rank %d: %s" % (e.rank, e))
        if not FAKE:
            torch.cuda.synchronize()  # its stream goes on
        need(took < 5, "it was told after %.1f s" % took)  # the goal is one second
        found("the other rank was told after %.2f s: %s" % (took, e))
        d.close()
        return
    need(False, "nobody said that a rank is gone")


def hangs():
    """Rank 1 skips a collective until check.py, which looks at the stacks meanwhile, ends the job."""
    torch.cuda.set_device(0)
    torch.distributed.init_process_group("nccl")
    x = torch.ones(1024, device="cuda")
    for _ in range(3):
        torch.distributed.all_reduce(x)
    torch.cuda.synchronize()
    if RANK == 0:
        torch.distributed.all_reduce(x)
        torch.cuda.synchronize()
    time.sleep(600)


def main(name):
    checks = {
        "values-host": lambda: values("host"), "values-nccl": lambda: values("nccl"), "torch": check_torch, "optimizer": optimizer, "ddp": ddp,
        "bits": bits, "time": check_time, "cost": cost, "dies": dies, "hangs": hangs,
    }  # fmt: skip
    checks[name]()


if __name__ == "__main__":
    main(sys.argv[1])
