"""Images per second of a training step on random images, every rank its own batch.

    gorun -np 4 -H f1:2,f2:2 python3 pytorch_synthetic_benchmark.py --model small --num-iters 5

The flags and the lines that it prints are those of the benchmark of this name that comes with Horovod, so results can be
laid side by side. To run it with Horovod itself, import horovod.torch below: nothing else changes.
"""

import argparse
import timeit

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import gorun.torch as hvd


def small():
    """A network of five layers, for machines on which resnet50 takes too long."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        nn.Linear(512, 256), nn.ReLU(),
        nn.Linear(256, 1000),
    )  # fmt: skip


def model_of(name):
    """small, or any model of torchvision."""
    if name == "small":
        return small()
    try:
        from torchvision import models
    except ImportError:
        raise SystemExit("torchvision is not installed: take --model small")
    return getattr(models, name)()


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet50", help="small, or a model of torchvision")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--num-warmup-batches", type=int, default=10)
    parser.add_argument("--num-batches-per-iter", type=int, default=10)
    parser.add_argument("--num-iters", type=int, default=10)
    parser.add_argument("--fp16-allreduce", action="store_true", help="gradients travel as float16")
    parser.add_argument("--use-adasum", action="store_true", help="combine gradients by Adasum")
    parser.add_argument("--no-cuda", action="store_true", help="train on the processors also where there is a GPU")
    return parser.parse_args()


def main():
    args = options()
    hvd.init()
    cuda = not args.no_cuda and torch.cuda.is_available()
    device = torch.device("cuda", hvd.local_rank()) if cuda else torch.device("cpu")
    model = model_of(args.model).to(device)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01 * (1 if args.use_adasum else hvd.size())),
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none,
        op=hvd.Adasum if args.use_adasum else hvd.Average,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    images = torch.randn(args.batch_size, 3, args.image_size, args.image_size, device=device)
    labels = torch.randint(1000, (args.batch_size,), device=device)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()

    def say(text):
        if hvd.rank() == 0:
            print(text, flush=True)

    kind = "GPU" if cuda else "CPU"
    say(f"Model: {args.model}")
    say(f"Batch size: {args.batch_size}")
    say(f"Number of {kind}s: {hvd.size()}")
    say("Running warmup...")
    timeit.timeit(step, number=args.num_warmup_batches)
    say("Running benchmark...")
    rates = []
    for i in range(args.num_iters):
        seconds = timeit.timeit(step, number=args.num_batches_per_iter)
        rates.append(args.batch_size * args.num_batches_per_iter / seconds)
        say(f"Iter #{i}: {rates[-1]:.1f} img/sec per {kind}")
    mean = np.mean(rates)
    spread = 1.96 * np.std(rates)
    say(f"Img/sec per {kind}: {mean:.1f} +-{spread:.1f}")
    say(f"Total img/sec on {hvd.size()} {kind}(s): {hvd.size() * mean:.1f} +-{hvd.size() * spread:.1f}")


if __name__ == "__main__":
    main()
