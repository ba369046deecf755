"""Replicas are judged by their checksums, which depend on each bit."""

import torch

from gorun.torch import _checks

for sums, shards, wrong, undecided in [
    ([5, 5, 5], None, [], []),
    ([5, 6, 5], None, [1], []),
    ([5, 6, 7, 5, 5], None, [1, 2], []),
    ([5, 6], None, [], [0, 1]),
    ([5, 6, 5, 6], None, [], [0, 1, 2, 3]),
    ([5, 6, 5, 6], [0, 1, 0, 1], [], []),  # replicas of two shards
    ([5, 6, 5, 7], [0, 1, 0, 1], [], [1, 3]),
    ([5, 6, 7, 8], [0, 1, 2, 3], [], []),  # no rank has a replica
]:
    assert _checks.judge(sums, shards) == (wrong, undecided), (sums, shards)

for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
    for size in (1, 3, 1000):
        module = torch.nn.Module()
        module.weight = torch.nn.Parameter(torch.ones(size, dtype=dtype))
        before = _checks.checksum(module)
        assert before == _checks.checksum(module) and 0 <= before < 2**63
        module.weight.detach().view(torch.uint8)[-1] ^= 1
        assert _checks.checksum(module) != before, (dtype, size)
print("all right")
