"""Training with gorun.torch gives what one process with all the data gets."""

import copy
import time
import warnings

import torch
from torch.utils.data import DataLoader, Dataset

import gorun.torch as hvd

hvd.init()
rank = hvd.rank()
size = hvd.size()
BATCH = 6


def model():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.Flatten(), torch.nn.Linear(4 * 16, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))


def data(step):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(BATCH * size, 1, 6, 6, generator=generator), torch.randn(BATCH * size, 3, generator=generator)


def loss(net, x, y):
    return torch.nn.functional.mse_loss(net(x), y)


def single(make, steps=4):
    """The parameters that one process gets with whole batches."""
    net = model()
    optimizer = make(net.parameters())
    for step in range(steps):
        optimizer.zero_grad()
        loss(net, *data(step)).backward()
        optimizer.step()
    return list(net.parameters())


def mine(t, parts=1, part=0):
    """This rank's share of a batch, or a part of it."""
    rows = BATCH // parts
    begin = rank * BATCH + part * rows
    return t[begin : begin + rows]


def close(net, wants, what, tolerance=1e-5):
    for got, want in zip(net.parameters(), wants):
        assert torch.allclose(got, want, rtol=tolerance, atol=tolerance), (what, (got - want).abs().max())


def distributed(make, what, tolerance=1e-5, passes=1, channels_last=False, **options):
    """The same with a share of each batch on each rank."""
    net = model()
    if channels_last:
        net = net.to(memory_format=torch.channels_last)
    if rank:
        for p in net.parameters():
            p.data.fill_(9)
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    if callable(options.get("groups")):
        options["groups"] = options["groups"](net)
    optimizer = make(net.parameters())
    kind = type(optimizer)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters(), backward_passes_per_step=passes, **options)
    assert isinstance(optimizer, kind) and type(optimizer).__name__ == kind.__name__
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    for step in range(4):
        x, y = data(step)
        optimizer.zero_grad()
        for part in range(passes):
            (loss(net, mine(x, passes, part), mine(y, passes, part)) / passes).backward()
        optimizer.step()
        scheduler.step()
    close(net, wants[make], what, tolerance)
    return net, optimizer


def sgd(ps):
    return torch.optim.SGD(ps, lr=0.1, momentum=0.9)


def adam(ps):
    return torch.optim.Adam(ps, lr=0.01)


wants = {make: single(make) for make in (sgd, adam)}


def optimizers():
    distributed(sgd, "sgd")
    distributed(adam, "adam", 1e-4)
    distributed(sgd, "predivided", gradient_predivide_factor=2.0)
    distributed(sgd, "two passes", passes=2)
    distributed(sgd, "two groups", groups=2)
    distributed(sgd, "listed groups", groups=lambda net: [list(net[0].parameters()), list(net[4].parameters())])
    distributed(sgd, "float16", 2e-2, compression=hvd.Compression.fp16)
    distributed(sgd, "bfloat16", 1e-1, compression=hvd.Compression.bf16)
    distributed(sgd, "channels last", channels_last=True)


def uneven():
    """Parameters that only some ranks use, in another order, and clipping between synchronize and step."""
    a = torch.nn.Linear(2, 1, bias=False)
    b = torch.nn.Linear(2, 1, bias=False)
    for net in (a, b):
        net.weight.data.fill_(1)
    plain = torch.optim.SGD([a.weight, b.weight], lr=1.0)
    torch.optim.lr_scheduler.LambdaLR(plain, lambda _: 1.0)  # puts a step of its own into it
    optimizer = hvd.DistributedOptimizer(plain, [("a", a.weight), ("b", b.weight)])
    x = torch.ones(1, 2)
    (a(x) + b(x) if rank == 0 else a(x)).sum().backward()
    optimizer.synchronize()
    assert torch.equal(a.weight.grad, torch.ones(1, 2)) and torch.allclose(b.weight.grad, torch.full((1, 2), 1 / size))
    torch.nn.utils.clip_grad_value_(a.parameters(), 0.5)
    with optimizer.skip_synchronize():
        optimizer.step()
    assert torch.equal(a.weight, torch.full((1, 2), 0.5))
    optimizer.zero_grad()
    a(x).sum().backward()
    for wrong in (optimizer.zero_grad, a(x).sum().backward):
        try:
            wrong()
            raise SystemExit("gradients under way were lost")
        except AssertionError as e:
            assert "gradients" in str(e)
    optimizer.synchronize()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        optimizer.step()
    assert "skip_synchronize" in str(said[0].message)


def sparse():
    for as_dense in (False, True):
        torch.manual_seed(1)
        net = torch.nn.Embedding(6, 2, sparse=True)
        before = net.weight.detach().clone()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=1.0), net.named_parameters(), sparse_as_dense=as_dense)
        net(torch.tensor([1, 2 + rank % 2])).sum().backward()
        optimizer.step()
        change = torch.zeros(6, 2)
        for r in range(size):
            change[1] += 1 / size
            change[2 + r % 2] += 1 / size
        assert torch.allclose(before - net.weight, change), as_dense


def states():
    """Rank 0's optimizer goes to the others, whatever they had."""
    for make in (sgd, adam, lambda ps: torch.optim.RMSprop(ps, lr=0.1, centered=True), lambda ps: torch.optim.Adagrad(ps, lr=0.1)):
        net = model()
        optimizer = make(net.parameters())
        if rank == 0:
            loss(net, *data(1)).backward()
            optimizer.step()
            optimizer.param_groups[0]["lr"] = 0.25
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        assert optimizer.param_groups[0]["lr"] == 0.25
        every = hvd.allgather_object(copy.deepcopy(optimizer.state_dict()))
        assert str(every[0]) == str(every[rank]) and every[0]["state"], make


def normalization():
    """Batches of unlike length, in one process and in many."""
    for shape in ((3,), (3, 2, 2)):
        for affine in (True, False):
            lengths = [r + 1 for r in range(size)]
            torch.manual_seed(3)
            whole = torch.randn(sum(lengths), *shape) * 3 + 100
            weights = torch.randn(sum(lengths), *shape)
            plain = (torch.nn.BatchNorm1d if len(shape) == 1 else torch.nn.BatchNorm2d)(3, affine=affine)
            ours = hvd.SyncBatchNorm(3, affine=affine)
            begin = sum(lengths[:rank])
            part = slice(begin, begin + lengths[rank])
            a = whole.clone().requires_grad_()
            b = whole[part].clone().requires_grad_()
            want = plain(a)
            got = ours(b)
            assert torch.allclose(got, want[part], atol=1e-4)
            (want * weights).sum().backward()
            (got * weights[part]).sum().backward()
            assert torch.allclose(b.grad, a.grad[part], atol=1e-4)
            assert torch.allclose(ours.running_mean, plain.running_mean) and torch.allclose(ours.running_var, plain.running_var, atol=1e-4)
            if affine:
                assert torch.allclose(hvd.allreduce(ours.weight.grad, op=hvd.Sum), plain.weight.grad, atol=1e-3)
                assert torch.allclose(hvd.allreduce(ours.bias.grad, op=hvd.Sum), plain.bias.grad, atol=1e-3)
            ours.eval(), plain.eval()
            assert torch.allclose(ours(whole), plain(whole), atol=1e-4)


class Numbers(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, i):
        return torch.tensor(float(i))


def loader():
    """Workers that are forks run beside the ring."""
    for epoch in range(2):
        total = 0.0
        for batch in DataLoader(Numbers(), batch_size=5, num_workers=2, multiprocessing_context="fork"):
            total += hvd.allreduce(batch, op=hvd.Sum).sum().item()
        assert total == 780.0 * size


start = time.monotonic()
for part in (optimizers, uneven, sparse, states, normalization, loader):
    part()
    if rank == 0:
        print(part.__name__, "%.1f s" % (time.monotonic() - start), flush=True)
print("all right")
