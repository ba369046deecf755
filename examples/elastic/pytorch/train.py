"""Trains a small network on handwritten digits while ranks fail, come and go.

    gorun -np 4 --min-np 2 -H localhost:4 python3 train.py
    gorun -np 4 --min-np 2 --max-np 8 --host-discovery-script ./hosts.sh python3 train.py

To run it with Horovod itself, import horovod.torch below: nothing else changes.
"""

import argparse
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gorun.torch as hvd

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import digits  # noqa: E402


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=32, help="of each rank")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.05, help="for one rank; it is multiplied by the number of ranks")
    parser.add_argument("--commit", type=int, default=5, help="batches from one commit to the next")
    parser.add_argument("--pause", type=float, default=0, help="seconds after each batch, to have time to look")
    parser.add_argument("--data-dir", help="folder with MNIST's four files (default: the digits that come with gorun)")
    return parser.parse_args()


def accuracy(model, images, labels):
    """Of the model on all ranks' parts of the test set."""
    model.eval()
    with torch.no_grad():
        part = slice(hvd.rank(), None, hvd.size())
        right = torch.stack([(model(images[part]).argmax(dim=1) == labels[part]).sum().float(), torch.tensor(float(len(labels[part])))])
    model.train()
    right = hvd.allreduce(right, op=hvd.Sum, name="right")
    return (right[0] / right[1]).item()


def main():
    args = options()
    hvd.init()
    torch.manual_seed(42)
    torch.set_num_threads(1)
    (images, labels), test = [tuple(map(torch.from_numpy, s)) for s in digits.load(args.data_dir)]
    side = images.shape[-1]
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                          nn.Linear(16 * (side // 2) ** 2, 64), nn.ReLU(), nn.Linear(64, 10))  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=0.5)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    data = TensorDataset(images, labels)
    sampler = hvd.elastic.ElasticSampler(data)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler)

    def fit_rate():
        for group in optimizer.param_groups:
            group["lr"] = args.lr * hvd.size()

    @hvd.elastic.run
    def train(state):
        if hvd.rank() == 0:
            print(f"size {hvd.size()}, at epoch {state.epoch}, batch {state.batch}", flush=True)
        while state.epoch < args.epochs:
            for rows, targets in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(rows), targets).backward()
                optimizer.step()
                state.batch += 1
                sampler.record_batch(state.batch, args.batch_size)
                time.sleep(args.pause)
                if state.batch % args.commit == 0:
                    state.commit()
            state.epoch += 1
            state.batch = 0
            sampler.set_epoch(state.epoch)
            state.commit()
        print(f"rank {hvd.rank()} of {hvd.size()}: accuracy {accuracy(model, *test):.2%}", flush=True)

    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0, batch=0)
    state.register_reset_callbacks([fit_rate])
    train(state)


if __name__ == "__main__":
    main()
