"""torch.compile with backend gorun: DistributedDataParallel, FSDP2, functional collectives, and collectives in compiled functions."""

import sys

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import gorun.torch_backend  # noqa: F401

dist.init_process_group("gorun")
rank = dist.get_rank()
size = dist.get_world_size()


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 2))


def train(model):
    """Three steps. The same data on all ranks, so that a model that does not communicate has the same losses."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(0)
    losses = []
    for _ in range(3):
        loss = model(torch.randn(4, 8, generator=data)).pow(2).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return torch.tensor(losses)


def sharded():
    model = net()
    fully_shard(model[0])
    fully_shard(model)
    return model


want = train(net())
for what, make in {"DDP": lambda: DistributedDataParallel(net()), "FSDP2": sharded}.items():
    got = train(torch.compile(make(), backend="aot_eager"))
    assert torch.allclose(got, want, rtol=1e-4), "%s: %s, not %s" % (what, got, want)


@torch.compile(backend="aot_eager", fullgraph=True)
def collectives(x):
    total = functional.all_reduce(x * 2, "sum", dist.group.WORLD) + 1
    return total, functional.all_gather_tensor(x, 0, dist.group.WORLD) * 2


total, every = collectives(torch.full((3,), float(rank)))
assert total.tolist() == [2.0 * sum(range(size)) + 1] * 3, total
assert every.tolist() == [2.0 * r for r in range(size) for _ in range(3)], every


@torch.compile(backend="aot_eager")
def inside(x):
    y = x * 2
    dist.all_reduce(y)
    return y + 1


for _ in range(2):
    assert inside(torch.ones(3)).tolist() == [2.0 * size + 1] * 3
print("all right", flush=True)
sys.exit(0)
