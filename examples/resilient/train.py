"""Trains a small transformer on Python's own documentation, and loses no step when ranks die.

    gorun -np 4 --min-np 4 -H f1:2,f2:2 python3 train.py --steps 200
    torchrun --nproc-per-node 4 train.py --steps 200
    python3 train.py --steps 200

Kill a rank of the first: the others wait for another one, which gets the state from them, and the bits at the end are the same.
"""

import argparse
import hashlib
import inspect
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

import gorun.torch

MODULES = (argparse, hashlib, inspect, time)


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=8, help="of each rank")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--backend", help="of torch.distributed (default: gorun under gorun, else gloo)")
    parser.add_argument("--shard", choices=("fsdp", "hsdp"), help="the model over all ranks, or over each two of them")
    parser.add_argument("--copy-every", type=int, default=1, help="with fsdp: steps from one copy of the shards to the next")
    parser.add_argument("--check", type=int, default=0, help="steps after which replicas compare their parameters")
    parser.add_argument("--every", type=int, default=50, help="steps from one line of rank 0 to the next")
    parser.add_argument("--pause", type=float, default=0, help="seconds in each step, to have time to kill a rank")
    return parser.parse_args()


class Text(Dataset):
    """Pieces of the documentation strings of Python's library, as bytes."""

    def __init__(self, length=64):
        texts = [inspect.getdoc(thing) or "" for module in MODULES for _, thing in sorted(vars(module).items()) if callable(thing)]
        data = torch.tensor(list("\n".join(texts).encode("ascii", "replace")))
        self.pieces = data[: len(data) // length * length].view(-1, length)

    def __len__(self):
        return len(self.pieces)

    def __getitem__(self, i):
        return self.pieces[i]


class Transformer(nn.Module):
    """Predicts each byte from those before it."""

    def __init__(self, width, layers):
        super().__init__()
        self.bytes = nn.Embedding(128, width)
        self.places = nn.Embedding(64, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers)
        self.out = nn.Linear(width, 128)

    def forward(self, text):
        length = text.shape[1]
        later = torch.full((length, length), float("-inf")).triu(1)
        x = self.bytes(text) + self.places(torch.arange(length))
        return self.out(self.layers(x, mask=later))


def parallel(model, shard):
    """The model of all ranks."""
    if shard is None:
        return DistributedDataParallel(model)
    ranks = dist.get_world_size()
    mesh = init_device_mesh("cpu", (ranks // 2, 2), mesh_dim_names=("replicate", "shard")) if shard == "hsdp" else init_device_mesh("cpu", (ranks,))
    for layer in model.layers.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def bits(model):
    """A hash of all parameters."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        if isinstance(parameter, DTensor):
            parameter = parameter.full_tensor()
        digest.update(bytes(parameter.detach().contiguous().view(-1).view(torch.uint8).tolist()))
    return digest.hexdigest()[:16]


def main():
    args = options()
    torch.manual_seed(42)
    torch.set_num_threads(1)
    gorun.torch.init_process_group(args.backend, sharded=args.shard is not None)
    data = Text()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler)
    model = parallel(Transformer(args.width, args.layers), args.shard)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    copies = int(args.shard == "fsdp")
    run = gorun.torch.Resilient(
        model=model, optimizer=optimizer, scheduler=scheduler, copies=copies, copy_every=args.copy_every, check_every=args.check
    )
    for epoch in range(args.steps):
        sampler.set_epoch(epoch)
        for text in run.steps(loader, until=args.steps):
            loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            time.sleep(args.pause)
            if run.step % args.every == 0 and dist.get_rank() == 0:
                print(f"step {run.step}: {dist.get_world_size()} ranks, loss {loss.item():.3f}", flush=True)
        if run.step == args.steps:
            break
    print(f"rank {dist.get_rank()}: step {run.step}, bits {bits(model)}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
