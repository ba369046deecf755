"""Trains a network on handwritten digits with DistributedDataParallel: every rank its part of the data, one model.

    gorun -np 4 -H f1:2,f2:2 python3 pytorch_ddp.py
    gorun -np 4 -H f1:2,f2:2 python3 pytorch_ddp.py --backend gloo

The digits are those of examples/mnist. Only the import is gorun's: init_process_group finds the other ranks by the
variables that torchrun sets as well.
"""

import argparse
import gzip
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def read(path):
    """The array in a file of the IDX format: two zeros, the type, dimensions, their lengths, the bytes."""
    data = gzip.decompress(path.read_bytes())
    shape = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(data[3])]
    return torch.frombuffer(bytearray(data[4 + 4 * len(shape) :]), dtype=torch.uint8).view(shape)


def digits(folder, name):
    images = read(folder / (name + "-images-idx3-ubyte.gz"))
    labels = read(folder / (name + "-labels-idx1-ubyte.gz"))
    return TensorDataset(images.unsqueeze(1).float().div(255), labels.long())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="gorun", help="of torch.distributed: gorun, gloo, ...")
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parent / "mnist" / "data")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=16, help="images of a step, on each rank")
    args = parser.parse_args()

    if args.backend == "gorun":
        import gorun.torch_backend  # noqa: F401  makes the name known to torch
    dist.init_process_group(args.backend)
    rank = dist.get_rank()
    size = dist.get_world_size()
    torch.manual_seed(1)  # the same first weights on all ranks
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 4 * 4, 64), nn.ReLU(), nn.Linear(64, 10))
    train = digits(args.data, "train")
    test = digits(args.data, "t10k")
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    sampler = DistributedSampler(train, seed=1)
    loader = DataLoader(train, batch_size=args.batch, sampler=sampler)

    begin = time.perf_counter()
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        total = torch.zeros(2)
        for image, label in loader:
            optimizer.zero_grad()
            loss = loss_of(model(image), label)
            loss.backward()  # gradients are averaged over the ranks here
            optimizer.step()
            total += torch.tensor([loss.item(), 1])
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch + 1}: loss {total[0] / total[1]:.5f}", flush=True)

    with torch.no_grad():
        images, labels = test.tensors
        mine = slice(rank * len(labels) // size, (rank + 1) * len(labels) // size)
        right = (model.module(images[mine]).argmax(dim=1) == labels[mine]).sum()
    dist.all_reduce(right)
    if rank == 0:
        seconds = time.perf_counter() - begin
        print(f"{right / len(labels):.1%} of {len(labels)} digits right: {size} ranks, backend {args.backend}, {seconds:.1f} s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
