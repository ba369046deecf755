"""Times steps of DistributedDataParallel with 10 million parameters, by backend gorun and by gloo in turn.

Rank 0 prints medians of its steps, also of steps that exchange nothing, and how far the losses of the two are apart.
"""

import argparse
import contextlib
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gorun.torch_backend  # noqa: F401


class Job:
    def __init__(self, group, alone=False):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 1800), nn.ReLU(), nn.Linear(1800, 10))
        self.parameters = sum(p.numel() for p in net.parameters())
        self.model = DistributedDataParallel(net, process_group=group)
        self.mode = self.model.no_sync if alone else contextlib.nullcontext
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.data = torch.Generator().manual_seed(dist.get_rank())
        self.times = []
        self.losses = []

    def step(self, batch, wait):
        x = torch.randn(batch, 1024, generator=self.data)
        label = torch.randint(10, (batch,), generator=self.data)
        wait()
        begin = time.perf_counter()
        self.optimizer.zero_grad()
        with self.mode():
            loss = nn.functional.cross_entropy(self.model(x), label)
            loss.backward()
        self.optimizer.step()
        self.times.append(time.perf_counter() - begin)
        self.losses.append(loss.item())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=4)
    args = parser.parse_args()
    dist.init_process_group("gorun")
    torch.set_num_threads(1)
    jobs = {"gorun": Job(None), "gloo": Job(dist.new_group(backend="gloo")), "alone": Job(None, alone=True)}
    for step in range(args.steps + 5):
        for job in jobs.values():
            job.step(args.batch, dist.barrier)
    apart = max(abs(a - b) for a, b in zip(jobs["gorun"].losses, jobs["gloo"].losses))
    medians = {name: statistics.median(job.times[5:]) for name, job in jobs.items()}
    if dist.get_rank() == 0:
        steps = " ".join("%s %.6f" % (name, median) for name, median in medians.items())
        print("%d parameters: %s apart %.2g" % (jobs["gorun"].parameters, steps, apart), flush=True)
    dist.destroy_process_group()


main()
