"""What PyTorch asks of the backend that is registered in a group: from PyTorch 2.15 on."""

import os
import sys
import tempfile
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

import gorun.torch_backend
from gorun.torch_backend.group import Backend, Group

CPU = torch.device("cpu")
store = dist.FileStore(sys.argv[1], int(os.environ["WORLD_SIZE"]))
begun = 0


def begin(backend="gorun"):
    global begun
    begun += 1
    dist.init_process_group(backend, store=dist.PrefixStore(str(begun), store), rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]), timeout=timedelta(seconds=60))


begin()
rank = dist.get_rank()
size = dist.get_world_size()
world = dist.group.WORLD
assert isinstance(world, Group) and isinstance(world._get_backend(CPU), Backend) and {d.type for d in world._device_types} == {"cpu", "cuda"}
neighbours = [dist.P2POp(dist.isend, torch.full((3,), float(rank)), (rank + 1) % size), dist.P2POp(dist.irecv, torch.empty(3), (rank - 1) % size)]
for work in dist.batch_isend_irecv(neighbours):
    work.wait()
assert neighbours[1].tensor.tolist() == [float((rank - 1) % size)] * 3

dist.monitored_barrier(timeout=timedelta(seconds=30), wait_all_ranks=True)

# Coalescing: the collectives that PyTorch joins itself, and those between start and end of a backend.
xs = [torch.ones(2) * (i + 1) for i in range(3)]
with dist.distributed_c10d._coalescing_manager(async_ops=True) as cm:
    for x in xs:
        dist.all_reduce(x)
cm.wait()
assert [x[0].item() for x in xs] == [size * (i + 1) for i in range(3)], xs
with dist.distributed_c10d._coalescing_manager(device=CPU, async_ops=True) as cm:
    y = torch.full((2,), float(rank))
    dist.broadcast(y, 0, async_op=True)
    dist.broadcast(z := torch.full((2,), float(rank)), size - 1, async_op=True)
cm.wait()
assert y.tolist() == [0, 0] and z.tolist() == [size - 1] * 2

halves = [list(range(size // 2)), list(range(size // 2, size))]
part = dist.split_group(split_ranks=halves)
x = torch.ones(2)
dist.all_reduce(x, group=part)
assert x[0] == size // 2 and dist.get_world_size(part) == size // 2

# A checkpoint that is written while the program goes on.
with tempfile.TemporaryDirectory() as folder:
    folders = [folder]
    dist.broadcast_object_list(folders, 0)
    begun_saving = checkpoint.async_save({"weight": torch.arange(4.0)}, checkpoint_id=folders[0] + "/saved", process_group=world)
    begun_saving.result()
    loaded = {"weight": torch.zeros(4)}
    checkpoint.load(loaded, checkpoint_id=folders[0] + "/saved", process_group=world)
    assert loaded["weight"].tolist() == [0, 1, 2, 3]
    dist.barrier()

# A pipeline of a stage for each rank does what its layers do.
torch.manual_seed(0)
layers = [nn.Linear(6, 6) for _ in range(size)]
stage = PipelineStage(layers[rank], rank, size, CPU)
schedule = ScheduleGPipe(stage, n_microbatches=2)
data = torch.randn(4, 6)
if rank == 0:
    schedule.step(data)
else:
    output = schedule.step()
    if rank == size - 1:
        assert torch.allclose(output, nn.Sequential(*layers)(data), atol=1e-5)
dist.destroy_process_group()

# One of several backends, each for its kind of device: torch's own group has both.
begin("cpu:gorun,cuda:gloo")
assert not isinstance(dist.group.WORLD, Group) and isinstance(dist.group.WORLD._get_backend(CPU), Backend)
assert dist.group.WORLD._get_backend(torch.device("cuda")).name() == "gloo"
x = torch.ones(2)
dist.all_reduce(x)
work = dist.all_gather(everyone := [torch.empty(2) for _ in range(size)], x, async_op=True)
work.wait()
assert x[0] == size and everyone[-1][0] == size
assert dist.all_reduce(x, async_op=True).get_future().wait()[0][0] == size * size
try:
    dist.monitored_barrier(timeout=timedelta(seconds=0.2)) if rank == 0 else None
    assert rank != 0
except RuntimeError as e:
    assert "Rank 1 failed to pass monitoredBarrier" in str(e), e
dist.destroy_process_group()

# Torch's checks of what ranks call, in front of the backend.
os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
dist.set_debug_level_from_env()
begin()
x = torch.ones(2)
dist.all_reduce(x)
assert x[0] == size
try:
    dist.all_reduce(torch.ones(2 + rank))
    raise SystemExit("it was taken")
except RuntimeError as e:
    assert "Detected mismatch between collectives" in str(e), e
dist.destroy_process_group()
print("all right", flush=True)
sys.exit(0)
