"""The samples of a data set for the ranks of an elastic job."""

from __future__ import annotations

import random
from typing import Any, Dict, Iterator, List, Sized

import torch.utils.data

from ..._world import rank, size


class ElasticSampler(torch.utils.data.Sampler):  # type: ignore[type-arg]
    """Deals out the samples of an epoch that were not processed yet, as many to each rank, in an order that seed and epoch decide.

    Give it to a TorchState, call :meth:`record_batch` after each batch, on all ranks, and :meth:`set_epoch` at the end of an epoch. When
    ranks have come or gone those that are there share what is left. So that all have as many, some samples come twice at the end.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0  # by all ranks together: they are the first ones in order
        self.remaining_indices: List[int] = []
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch, of which nothing is processed. Call it at the end of the one before, as the beginning may come twice."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Says that each rank has processed its next batch."""
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> Dict[str, Any]:
        """How far it has got."""
        return dict(epoch=self.epoch, processed_num=self.processed_num)

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Goes on from there."""
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Deals out again what is left."""
        self.rank = rank()
        self.num_replicas = size()
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        self.remaining_indices = order[self.processed_num :]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        left = self.remaining_indices
        return iter([left[i % len(left)] for i in range(self.rank, self.total_size, self.num_replicas)])

    def __len__(self) -> int:
        return self.num_samples
