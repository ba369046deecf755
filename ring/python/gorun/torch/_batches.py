"""The batches of all ranks together, and each rank's share of them, whatever the number of ranks."""

from __future__ import annotations

from typing import Any, Iterator, List, Optional, Tuple

import torch.utils.data
from torch.utils.data.distributed import DistributedSampler

from .. import errors
from .elastic.sampler import ElasticSampler


class Batches:
    """One pass through a DataLoader. A batch of all ranks is what so many ranks as ranks take in one step."""

    def __init__(self, loader: Any, ranks: int) -> None:
        refuse(loader)
        self.loader = loader
        self.size = loader.batch_size * ranks
        self.order = _order(loader.sampler)
        whole, more = divmod(len(self.order), self.size)
        self.count = whole + (more > 0 and not loader.drop_last)
        self.iterator: Optional[Iterator[Any]] = None
        self.next: Tuple[int, ...] = ()  # number, rank and size of what the iterator has next
        self.batch: Any = None  # the last one, and what it is
        self.is_at: Tuple[int, ...] = ()

    def share(self, number: int, rank: int, size: int) -> List[int]:
        """The samples of a rank in a batch: every size-th. None has no sample: if there are too few, some come twice."""
        samples = self.order[number * self.size : (number + 1) * self.size]
        samples = (samples * -(-size // len(samples)))[: max(size, len(samples))]
        return samples[rank::size]

    def weight(self, number: int, rank: int, size: int) -> float:
        """The part of the samples of a batch that a rank has."""
        shares = [len(self.share(number, r, size)) for r in range(size)]
        return shares[rank] / sum(shares)

    def prepare(self, number: int, rank: int, size: int) -> None:
        """Gets ready to fetch a batch. It may use random numbers, as it did not before other batches."""
        if (number, rank, size) not in (self.is_at, self.next):
            shares = _Shares(self, number, rank, size)
            self.iterator = iter(_like(self.loader, shares))
            self.next = (number, rank, size)

    def fetch(self, number: int, rank: int, size: int) -> Any:
        """A rank's share of a batch. The last one is kept, and is not loaded again."""
        if (number, rank, size) != self.is_at:
            assert self.iterator is not None  # prepare was called
            self.batch = next(self.iterator)
            self.is_at = (number, rank, size)
            self.next = (number + 1, rank, size)
        return self.batch


class _Shares:
    """The shares of a rank from a batch on, as DataLoader takes them."""

    def __init__(self, batches: Batches, begin: int, rank: int, size: int) -> None:
        self.batches = batches
        self.begin = begin
        self.rank = rank
        self.size = size

    def __iter__(self) -> Iterator[List[int]]:
        return (self.batches.share(i, self.rank, self.size) for i in range(self.begin, self.batches.count))

    def __len__(self) -> int:
        return self.batches.count - self.begin


def refuse(loader: Any) -> None:
    """Raises InvalidError if the batches of a loader cannot be dealt out to other ranks."""
    wrong = None
    if not isinstance(loader, torch.utils.data.DataLoader):
        wrong = "it is a %s, and no DataLoader" % type(loader).__name__
    elif isinstance(loader.dataset, torch.utils.data.IterableDataset):
        wrong = "its dataset has no numbered samples"
    elif loader.batch_size is None:
        wrong = "it has a batch_sampler: use batch_size and sampler"
    elif isinstance(loader.sampler, ElasticSampler):
        wrong = "ElasticSampler is for hvd.elastic: use DistributedSampler"
    if wrong is not None:
        raise errors.InvalidError("gorun: Resilient.steps cannot deal out the batches of this loader: " + wrong)


def _order(sampler: Any) -> List[int]:
    """The samples of all ranks. A sampler that takes random numbers must find the generators alike on all ranks."""
    if isinstance(sampler, DistributedSampler):
        every: Any = DistributedSampler(sampler.dataset, num_replicas=1, rank=0, shuffle=sampler.shuffle, seed=sampler.seed, drop_last=sampler.drop_last)
        every.set_epoch(sampler.epoch)
        sampler = every
    return list(sampler)


def _like(loader: Any, shares: _Shares) -> Any:
    """A loader of shares that is otherwise like loader."""
    same = ("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context", "generator", "prefetch_factor")
    options = {name: getattr(loader, name) for name in same}
    return torch.utils.data.DataLoader(loader.dataset, batch_sampler=shares, **options)  # type: ignore[arg-type]
