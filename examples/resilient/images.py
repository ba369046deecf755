"""Trains a small network on handwritten digits, and loses no step when ranks die.

    gorun -np 4 --min-np 4 -H f1:2,f2:2 python3 images.py --steps 200
"""

import argparse
import hashlib
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import gorun.torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import digits  # noqa: E402


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=32, help="of each rank")
    parser.add_argument("--every", type=int, default=50, help="steps from one line of rank 0 to the next")
    return parser.parse_args()


def main():
    args = options()
    torch.manual_seed(42)
    torch.set_num_threads(1)
    gorun.torch.init_process_group()
    (images, labels), _ = [tuple(map(torch.from_numpy, part)) for part in digits.load()]
    data = TensorDataset(images, labels)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler)
    side = images.shape[-1]
    model = DistributedDataParallel(
        nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(16 * (side // 2) ** 2, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10),
        )
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    run = gorun.torch.Resilient(model=model, optimizer=optimizer)
    for epoch in range(args.steps):
        sampler.set_epoch(epoch)
        for rows, targets in run.steps(loader, until=args.steps):
            loss = F.cross_entropy(model(rows), targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if run.step % args.every == 0 and dist.get_rank() == 0:
                print(f"step {run.step}: {dist.get_world_size()} ranks, loss {loss.item():.3f}", flush=True)
        if run.step == args.steps:
            break
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters()))
    print(f"rank {dist.get_rank()}: step {run.step}, bits {digest.hexdigest()[:16]}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
