"""PyTorch's tensors as memory."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import torch

from .. import _ring, errors
from .._calls import Lane
from .._cuda import CudaLane
from .._verbs import Arrays, View

_DTYPES = {
    torch.bool: _ring.BOOL, torch.int8: _ring.INT8, torch.uint8: _ring.UINT8, torch.int16: _ring.INT16, torch.int32: _ring.INT32,
    torch.int64: _ring.INT64, torch.float16: _ring.FLOAT16, torch.bfloat16: _ring.BFLOAT16, torch.float32: _ring.FLOAT32,
    torch.float64: _ring.FLOAT64,
}  # fmt: skip

_HALF = (torch.float16, torch.bfloat16)


class Tensors(Arrays):
    """Dense tensors of the CPU and of CUDA GPUs."""

    def view(self, array: Any) -> View:
        dtype = _DTYPES.get(array.dtype)
        if dtype is None or array.layout is not torch.strided:
            raise refused(array)
        if array.is_cpu:
            return View(dtype, array.data_ptr(), array.numel(), array.shape)
        if not array.is_cuda:
            raise refused(array)
        return View(dtype, array.data_ptr(), array.numel(), array.shape, array.device.index)

    def is_contiguous(self, array: Any) -> bool:
        return bool(array.is_contiguous()) and not lazy(array)

    def contiguous(self, array: Any) -> Any:
        if array.layout is not torch.strided:
            raise refused(array)
        array = array.detach() if array.requires_grad else array
        return array if array.is_contiguous() and not lazy(array) else array.resolve_neg().clone(memory_format=torch.contiguous_format)

    def empty(self, shape: Sequence[int], like: Any) -> Any:
        return torch.empty(shape, dtype=like.dtype, device=like.device)

    def copy(self, to: Any, array: Any) -> None:
        with torch.no_grad():
            to.copy_(array)

    def scaled(self, array: Any, factor: float) -> Any:
        wide = torch.float32 if array.dtype in _HALF else array.dtype if array.is_floating_point() else torch.float64
        return (array.to(wide) * torch.tensor(factor, dtype=wide)).to(array.dtype)


    def lane(self, gpu: int) -> Lane:
        return CudaLane(gpu)

    def to_host(self, array: Any) -> Any:
        return array.cpu()  # when the current stream has come to it

    def to_gpu(self, array: Any, gpu: int) -> Any:
        return array.to(torch.device("cuda", gpu))


def lazy(tensor: Any) -> bool:
    """Whether the tensor is a lazy view (conjugated or negated), so that its memory differs."""
    return bool(tensor.is_neg())


def refused(tensor: Any) -> errors.InvalidError:
    """Why a tensor is not supported."""
    if not isinstance(tensor, torch.Tensor):
        return errors.InvalidError("gorun: %s is no tensor" % type(tensor).__name__)
    if tensor.device.type != "cpu" and not tensor.is_cuda:
        return errors.InvalidError("gorun: the tensor is on %s, and gorun.torch moves those of the CPU and of CUDA GPUs: use tensor.cpu()" % tensor.device)
    if tensor.layout is not torch.strided:
        return errors.InvalidError("gorun: the tensor is sparse: use sparse_allreduce_async, or tensor.to_dense()")
    return errors.InvalidError("gorun: tensors of %s are not taken: convert it to one of %s" % (tensor.dtype, ", ".join(map(str, _DTYPES))))


def splits_of(splits: Optional[Any]) -> Optional[List[int]]:
    """The splits of an alltoall as a list."""
    if splits is None:
        return None
    if isinstance(splits, torch.Tensor):
        if splits.dtype not in (torch.int32, torch.int64) or splits.dim() != 1:
            raise errors.InvalidError("gorun: alltoall: splits are of %s and %d dimensions, want one of int32" % (splits.dtype, splits.dim()))
        return splits.tolist()
    return [int(n) for n in splits]


def differentiable(run: Any, back: Any, tensors: Sequence[Any]) -> Tuple[Any, ...]:
    """``run(*tensors)``, a tuple, through which gradients flow back as ``back(*gradients)`` says, if any tensor needs them."""
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return _Differentiable.apply(run, back, *tensors)
    return run(*tensors)


class _Differentiable(torch.autograd.Function):
    # torch's types know nothing of the arguments: they are those of apply.
    @staticmethod
    def forward(ctx: Any, run: Any, back: Any, *tensors: Any) -> Tuple[Any, ...]:  # type: ignore[override]
        ctx.back = back
        return tuple(run(*tensors))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Tuple[Any, ...]:
        return (None, None) + tuple(ctx.back(*gradients))
