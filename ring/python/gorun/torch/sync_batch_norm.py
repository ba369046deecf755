"""Batch normalization with the statistics of all ranks' batches."""

from __future__ import annotations

from typing import Any, List, Tuple

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from .._world import ProcessSet, global_process_set
from .ops import Sum, verbs


class SyncBatchNorm(_BatchNorm):
    """BatchNorm1d, 2d or 3d over the batches of all ranks of the job. Input is (N, C, ...), of at least 2 dimensions.

    Batches may differ in length. Gradients of weight and bias are those of this rank's batch, for DistributedOptimizer
    to combine. Raises ValueError for input of fewer dimensions.
    """

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError("gorun: SyncBatchNorm: input of %d dimensions, want at least 2" % input.dim())

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        if not (self.training or not self.track_running_stats) or global_process_set.size() == 1:
            return super().forward(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats:
            assert self.num_batches_tracked is not None
            self.num_batches_tracked += 1
            if self.momentum is None:
                factor = 1.0 / float(self.num_batches_tracked)
        output, mean, var, count = _Normalize.apply(input, self.weight, self.bias, self.eps, global_process_set)
        if self.training and self.track_running_stats:
            with torch.no_grad():
                unbiased = var * (count / (count - 1).clamp(min=1))
                assert self.running_mean is not None and self.running_var is not None
                self.running_mean.mul_(1 - factor).add_(mean.to(self.running_mean.dtype), alpha=factor)
                self.running_var.mul_(1 - factor).add_(unbiased.to(self.running_var.dtype), alpha=factor)
        return output


def _by_channel(t: torch.Tensor) -> Tuple[List[int], List[int]]:
    """The dimensions that are not the channels, and a channel vector's shape beside t."""
    return [d for d in range(t.dim()) if d != 1], [1, -1] + [1] * (t.dim() - 2)


class _Normalize(torch.autograd.Function):
    """Sums are kept as count, mean and squared deviations, to avoid cancellation."""

    # torch's types know nothing of the arguments: they are those of apply, and the gradients of what forward returns.
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, x: torch.Tensor, weight: Any, bias: Any, eps: float, process_set: ProcessSet
    ) -> Tuple[torch.Tensor, ...]:
        dims, beside = _by_channel(x)
        wide = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
        channels = x.shape[1]
        n = x.numel() // max(channels, 1)
        mean = wide.mean(dims) if n else wide.new_zeros(channels)
        square = (wide - mean.view(beside)).pow(2).sum(dims)
        mine = torch.cat([mean, square, mean.new_tensor([float(n)])])
        every = verbs.allgather(mine.view(1, -1), "sync_batch_norm.%d" % channels, process_set).synchronize()
        means = every[:, :channels]
        squares = every[:, channels:-1]
        counts = every[:, -1:]
        count = counts.sum()
        mean = (means * counts).sum(0) / count
        var = (squares + counts * (means - mean).pow(2)).sum(0) / count
        scale = torch.rsqrt(var + eps)
        normal = (wide - mean.view(beside)) * scale.view(beside)
        ctx.save_for_backward(normal, weight, scale, count)
        ctx.process_set = process_set
        ctx.dtype = x.dtype
        output = normal if weight is None else normal * weight.view(beside) + bias.view(beside)
        ctx.mark_non_differentiable(mean, var, count)
        return output.to(x.dtype), mean, var, count

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, *_: Any) -> Tuple[Any, ...]:  # type: ignore[override]
        normal, weight, scale, count = ctx.saved_tensors
        dims, beside = _by_channel(normal)
        g = gradient.to(normal.dtype)
        of_bias = g.sum(dims)
        of_weight = (g * normal).sum(dims)
        name = "sync_batch_norm.gradient.%d" % normal.shape[1]
        total = verbs.allreduce(torch.stack([of_bias, of_weight]), None, name, Sum, 1.0, 1.0, ctx.process_set).synchronize() / count
        into = (g - total[0].view(beside) - normal * total[1].view(beside)) * (scale if weight is None else scale * weight).view(beside)
        if weight is None:
            return into.to(ctx.dtype), None, None, None, None
        return into.to(ctx.dtype), of_weight.to(weight.dtype), of_bias.to(weight.dtype), None, None
