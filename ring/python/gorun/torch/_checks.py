"""Which ranks have other parameters than those of which they are replicas: a checksum of each, and the majority's."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any, List, NamedTuple, Optional, Sequence

import torch

from . import _shards


class Verdict(NamedTuple):
    wrong: List[int]  # ranks that differ from most of their replicas
    undecided: List[int]  # ranks that differ, of which no value has a majority


def checksum(model: Any) -> int:
    """A number below 2**63 of the bits of this rank's parameters. One that differs in a single bit has another number."""
    sums = [int(_words(_shards.plain(p.detach())).sum(dtype=torch.int64)) for p in model.parameters()]
    return int.from_bytes(hashlib.sha256(repr(sums).encode()).digest()[:8], "big") >> 1


def _words(tensor: torch.Tensor) -> torch.Tensor:
    data = tensor.contiguous().view(-1)
    try:
        return data.view(torch.int32)
    except RuntimeError:  # its length is no whole number of them
        return data.view(torch.uint8)


def judge(sums: Sequence[int], shards: Optional[Sequence[int]]) -> Verdict:
    """Decides by the checksums of all ranks. shards: ranks with the same number are replicas of each other; None: all are."""
    verdict = Verdict([], [])
    of = shards or [0] * len(sums)
    for shard in sorted(set(of)):
        ranks = [rank for rank in range(len(sums)) if of[rank] == shard]
        ((most, count),) = Counter(sums[rank] for rank in ranks).most_common(1)
        if 2 * count > len(ranks):
            verdict.wrong.extend(rank for rank in ranks if sums[rank] != most)
        else:
            verdict.undecided.extend(ranks)
    return verdict
