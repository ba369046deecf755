"""Rank 2 raises an exception while the others are in an allreduce, of gorun.torch's queue or of backend gorun (sys.argv[1])."""

import sys

import torch

if sys.argv[1] == "queue":
    import gorun.torch as hvd

    hvd.init()
    rank = hvd.rank()

    def allreduce():
        hvd.allreduce(torch.ones(1000), name="all")
else:
    import torch.distributed as dist

    import gorun.torch_backend  # noqa: F401

    dist.init_process_group("gorun")
    rank = dist.get_rank()

    def allreduce():
        dist.all_reduce(torch.ones(1000))


for step in range(100):
    if rank == 2 and step == 20:
        raise ValueError("trouble of rank 2")
    allreduce()
