"""Trains a small network with DistributedDataParallel: every rank its part of the data, one model.

    gorun -np 4 -H f1:2,f2:2 python3 ddp.py

Nothing in it is gorun's: init_process_group finds the other ranks by the variables that torchrun sets as well.
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def data(samples):
    """Points of the plane, and whether they are inside a circle."""
    points = torch.rand(samples, 2, generator=torch.Generator().manual_seed(1)) * 2 - 1
    inside = (points.pow(2).sum(dim=1) < 0.6).float().unsqueeze(1)
    return points, inside


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--samples", type=int, default=2048)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    size = dist.get_world_size()
    torch.manual_seed(0)  # the same first weights on all ranks
    model = DistributedDataParallel(nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    loss_of = nn.BCEWithLogitsLoss()

    points, inside = data(args.samples)
    share = slice(rank * args.samples // size, (rank + 1) * args.samples // size)
    for epoch in range(args.epochs):
        optimizer.zero_grad()
        loss = loss_of(model(points[share]), inside[share])
        loss.backward()  # gradients are averaged over the ranks here
        optimizer.step()

    with torch.no_grad():
        right = ((model.module(points) > 0) == (inside > 0.5)).float().mean().item()
    weights = nn.utils.parameters_to_vector(model.parameters())
    print(f"rank {rank} of {size}: {right:.1%} right, weights {weights.double().norm().item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
