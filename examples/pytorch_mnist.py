"""Trains a small network on handwritten digits: each rank trains the one model on its share of an epoch.

    gorun -np 4 -H f1:2,f2:2 python3 pytorch_mnist.py --epochs 10

To run it with Horovod itself, import horovod.torch below: nothing else changes.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import digits
import gorun.torch as hvd


def network(side, classes=10):
    """Two convolutions and two dense layers, for images of side x side pixels."""
    small = side // 2
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout2d(0.1),
        nn.Flatten(), nn.Linear(32 * small * small, 64), nn.ReLU(), nn.Linear(64, classes),
    )  # fmt: skip


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=32, help="of each rank")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.05, help="for one rank; it is multiplied by the number of ranks")
    parser.add_argument("--momentum", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--fp16-allreduce", action="store_true", help="gradients travel as float16")
    parser.add_argument("--data-dir", help="folder with MNIST's four files (default: the digits that come with gorun)")
    return parser.parse_args()


def train(model, optimizer, loader, sampler, epoch):
    """One epoch. Returns the mean loss of all ranks."""
    model.train()
    sampler.set_epoch(epoch)  # another order in each epoch, and no two ranks the same images
    losses = []
    for images, labels in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()  # waits for the gradients of all ranks
        losses.append(loss.detach())
    return hvd.allreduce(torch.stack(losses).mean(), name="loss").item()


def test(model, loader):
    """Returns the accuracy on all ranks' shares of the test set."""
    model.eval()
    right = torch.zeros(2)
    with torch.no_grad():
        for images, labels in loader:
            right += torch.tensor([(model(images).argmax(dim=1) == labels).sum(), len(labels)])
    right = hvd.allreduce(right, op=hvd.Sum, name="right")
    return (right[0] / right[1]).item()


def main():
    args = options()
    hvd.init()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    sets = [TensorDataset(*map(torch.from_numpy, s)) for s in digits.load(args.data_dir)]
    samplers = [DistributedSampler(s, num_replicas=hvd.size(), rank=hvd.rank()) for s in sets]
    loaders = [DataLoader(s, batch_size=args.batch_size, sampler=sampler) for s, sampler in zip(sets, samplers)]

    model = network(sets[0].tensors[0].shape[-1])
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=args.momentum)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none,
    )
    for epoch in range(1, args.epochs + 1):
        loss = train(model, optimizer, loaders[0], samplers[0], epoch)
        accuracy = test(model, loaders[1])
        if hvd.rank() == 0:
            print(f"epoch {epoch}: loss {loss:.4f}, accuracy {accuracy:.2%}", flush=True)
    weights = nn.utils.parameters_to_vector(model.parameters())
    print(f"rank {hvd.rank()} of {hvd.size()}: accuracy {accuracy:.2%}, weights {weights.double().norm().item():.12f}", flush=True)


if __name__ == "__main__":
    main()
