"""Times calls of torch.distributed and steps of FSDP2, by backend gorun and by gloo in turn.

Rank 0 prints for each the medians of both in microseconds, and how much of gloo's time gorun takes. send, recv is there and back.
"""

import argparse
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

import gorun.torch_backend  # noqa: F401


class Exchange:
    """all_reduce, or send and recv there and back, of so many bytes."""

    def __init__(self, group, size, reduces):
        self.group = group
        self.reduces = reduces
        self.tensor = torch.zeros(size // 4)
        self.calls = max(4, min(300, (32 << 20) // size))

    def __call__(self):
        begin = time.perf_counter()
        for _ in range(self.calls):
            self.once()
        return (time.perf_counter() - begin) / self.calls

    def once(self):
        if self.reduces:
            dist.all_reduce(self.tensor, group=self.group)
        elif dist.get_rank() == 0:
            dist.send(self.tensor, 1, group=self.group)
            dist.recv(self.tensor, 1, group=self.group)
        elif dist.get_rank() == 1:
            dist.recv(self.tensor, 0, group=self.group)
            dist.send(self.tensor, 0, group=self.group)


class Sharded:
    """A step of FSDP2 with 10 million parameters."""

    def __init__(self, group):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 1800), nn.ReLU(), nn.Linear(1800, 10))
        mesh = DeviceMesh.from_group(group or dist.group.WORLD, "cpu")
        for layer in net[::2]:
            fully_shard(layer, mesh=mesh)
        self.model = fully_shard(net, mesh=mesh)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.data = torch.Generator().manual_seed(dist.get_rank())

    def __call__(self):
        x = torch.randn(4, 1024, generator=self.data)
        label = torch.randint(10, (4,), generator=self.data)
        begin = time.perf_counter()
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.model(x), label).backward()
        self.optimizer.step()
        return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    dist.init_process_group("gorun")
    torch.set_num_threads(1)
    groups = {"gorun": None, "gloo": dist.new_group(backend="gloo")}
    cases = {}
    for size in (4, 64 << 10, 64 << 20):
        cases["all_reduce of %d bytes" % size] = {name: Exchange(group, size, True) for name, group in groups.items()}
        cases["send, recv of %d bytes" % size] = {name: Exchange(group, size, False) for name, group in groups.items()}
    cases["step of FSDP2"] = {name: Sharded(group) for name, group in groups.items()}
    for what, runs in cases.items():
        times = {name: [] for name in runs}
        for _ in range(args.rounds + 2):
            for name, run in runs.items():
                dist.barrier()
                times[name].append(run())
        gorun, gloo = (statistics.median(times[name][2:]) * 1e6 for name in ("gorun", "gloo"))
        if dist.get_rank() == 0:
            print("%s: gorun %.1f gloo %.1f ratio %.2f" % (what, gorun, gloo, gorun / gloo), flush=True)
    dist.destroy_process_group()


main()
