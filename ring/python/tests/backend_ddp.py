"""DistributedDataParallel on backend gorun and on gloo: the same losses, with all of its switches."""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gorun.torch_backend

dist.init_process_group("gorun")
rank = dist.get_rank()
size = dist.get_world_size()
gloo = dist.new_group(backend="gloo")
STEPS = 20


class Net(nn.Module):
    """Layers of several kinds: convolution, batch norm (buffers), embedding, recurrence, one that is not always used."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.words = nn.Embedding(20, 16)
        self.rnn = nn.GRU(16, 16, batch_first=True)
        self.spare = nn.Linear(16, 16)
        self.out = nn.Linear(8 * 6 * 6 + 16, 10)

    def forward(self, image, text, spare):
        a = F.relu(self.norm(self.conv(image))).flatten(1)
        b = self.rnn(self.words(text))[0][:, -1]
        if spare:
            b = b + self.spare(b)
        return self.out(torch.cat([a, b], dim=1))


def train(group, hook=None, sync_every=1, spare=lambda step: True, **switches):
    torch.manual_seed(rank)  # other weights on each rank: DDP gives all those of rank 0
    model = DistributedDataParallel(Net(), process_group=group, **switches)
    if hook is not None:
        model.register_comm_hook(None, hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    data = torch.Generator().manual_seed(100 + rank)
    losses = []
    for step in range(STEPS):
        image = torch.randn(4, 1, 8, 8, generator=data)
        text = torch.randint(20, (4, 5), generator=data)
        label = torch.randint(10, (4,), generator=data)
        if (step + 1) % sync_every:
            with model.no_sync():
                F.cross_entropy(model(image, text, spare(step)), label).backward()
            continue
        loss = F.cross_entropy(model(image, text, spare(step)), label)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    everyone = [torch.empty_like(weights) for _ in range(size)]
    dist.all_gather(everyone, weights)
    assert all(torch.equal(w, weights) for w in everyone), "the ranks' weights differ"
    return torch.tensor(losses, dtype=torch.float64)


def compare(what, ours, theirs):
    apart = (ours - theirs).abs().max().item()
    assert len(ours) > 1 and apart <= 1e-6, "rank %d: %s: losses are %g apart: %s, %s" % (rank, what, apart, ours, theirs)
    assert ours[0] != ours[-1]
    if rank == 0:
        print("%s: apart %.1g" % (what, apart), flush=True)


cases = {
    "plain": {},
    "small buckets": {"bucket_cap_mb": 0.005},
    "gradient_as_bucket_view": {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.01},
    "find_unused_parameters": {"find_unused_parameters": True, "spare": lambda step: (step + rank) % 3 == 0},
    "static_graph": {"static_graph": True},
    "no_sync": {"sync_every": 3},
}
for what, switches in cases.items():
    compare(what, train(None, **switches), train(gloo, **switches))
compare("ddp_hook over gloo", train(gloo, hook=gorun.torch_backend.ddp_hook), train(gloo))

everyone = dist.group.WORLD
try:
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    half = train(None, hook=fp16_compress_hook)
    assert half.isfinite().all()
except ImportError:
    pass
odd = dist.new_group(list(range(1, size)))
if rank > 0:
    model = DistributedDataParallel(nn.Linear(3, 1), process_group=odd)
    model(torch.full((2, 3), float(rank))).sum().backward()
    want = 2 * sum(range(1, size)) / (size - 1)
    assert torch.allclose(model.module.weight.grad, torch.full((1, 3), want)), model.module.weight.grad
print("all right", flush=True)
sys.exit(0)  # without destroy_process_group
