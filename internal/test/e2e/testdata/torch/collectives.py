"""Every collective of torch.distributed that gloo has, with its result checked."""

import torch
import torch.distributed as dist

assert dist.is_torchelastic_launched()
dist.init_process_group("gloo")
rank = dist.get_rank()
size = dist.get_world_size()
ranks = range(size)
total = float(sum(ranks))


def of(*values):
    return torch.tensor(values, dtype=torch.float32)


def same(what, got, want):
    assert torch.equal(got, want), f"{what}: rank {rank} has {got}, wants {want}"


t = of(rank, 1)
dist.all_reduce(t)
same("all_reduce", t, of(total, size))
t = of(rank)
dist.all_reduce(t, op=dist.ReduceOp.MAX)
same("all_reduce max", t, of(size - 1))
t = of(rank)
dist.broadcast(t, src=size - 1)
same("broadcast", t, of(size - 1))
t = of(rank)
dist.reduce(t, dst=0)
if rank == 0:
    same("reduce", t, of(total))
parts = [of(0) for _ in ranks]
dist.all_gather(parts, of(rank))
same("all_gather", torch.cat(parts), of(*ranks))
parts = [of(0) for _ in ranks] if rank == 0 else None
dist.gather(of(rank), parts, dst=0)
if rank == 0:
    same("gather", torch.cat(parts), of(*ranks))
t = of(0)
dist.scatter(t, [of(10 * r) for r in ranks] if rank == 0 else None, src=0)
same("scatter", t, of(10 * rank))
objects = [None for _ in ranks]
dist.all_gather_object(objects, {"rank": rank})
assert objects == [{"rank": r} for r in ranks], objects
t = of(-1)
request = dist.isend(of(rank), (rank + 1) % size)
dist.recv(t, (rank - 1) % size)
request.wait()
same("send and recv", t, of((rank - 1) % size))
pair = dist.new_group([0, size - 1])
if rank in (0, size - 1):
    t = of(rank)
    dist.all_reduce(t, group=pair)
    same("all_reduce of a group", t, of(size - 1))
dist.barrier()
print(f"rank {rank} of {size}: all right", flush=True)
dist.destroy_process_group()
