"""How long an allreduce of float32 on the CPU takes: one of torch (gorun.torch), horovod (horovod.torch), gloo (torch.distributed).

    gorun -np 2 python3 bench_allreduce.py torch

Rank 0 prints for each size the median of a call, in place and into a new tensor, in microseconds.
"""

import os
import statistics
import sys
import time

import torch

SIZES = [4, 4 << 10, 64 << 10, 1 << 20, 16 << 20]

kind = sys.argv[1]
if kind == "gloo":
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method="env://")
    rank = dist.get_rank()
    barrier = dist.barrier
    runs = {"in place": dist.all_reduce}
else:
    if kind == "torch":
        import gorun.torch as hvd
    else:
        import horovod.torch as hvd
    hvd.init()
    rank = hvd.rank()
    barrier = hvd.barrier
    runs = {
        "in place": lambda t: hvd.allreduce_(t, op=hvd.Sum, name="bench"),
        "new": lambda t: hvd.allreduce(t, op=hvd.Sum, name="bench"),
    }

for size in SIZES:
    x = torch.zeros(size // 4)
    calls = max(10, min(400, int((64 << 20) / max(size, 1))))
    for how, run in runs.items():
        for _ in range(5):
            run(x)
        barrier()
        times = []
        for _ in range(calls):
            start = time.perf_counter()
            run(x)
            times.append(time.perf_counter() - start)
        if rank == 0:
            print("%s %s %d bytes %.1f us" % (kind, how, size, 1e6 * statistics.median(times)), flush=True)
sys.stdout.flush()
barrier()
if kind == "gloo":
    dist.destroy_process_group()
