"""Tensors as memory of a call: directly if contiguous, else by copies."""

from __future__ import annotations

from typing import Callable, List, Optional, Sequence

import torch

from .. import _ring as ring
from .. import errors

DTYPES = {
    torch.int8: ring.INT8,
    torch.uint8: ring.UINT8,
    torch.int16: ring.INT16,
    torch.int32: ring.INT32,
    torch.int64: ring.INT64,
    torch.float16: ring.FLOAT16,
    torch.bfloat16: ring.BFLOAT16,
    torch.float32: ring.FLOAT32,
    torch.float64: ring.FLOAT64,
    torch.bool: ring.BOOL,
}

CopyBack = Callable[[], None]


def check(what: str, tensors: Sequence[torch.Tensor], reduces: bool = False) -> torch.dtype:
    """Raises an error if these tensors cannot take part in one call. Returns their common type."""
    for t in tensors:
        if not isinstance(t, torch.Tensor):
            raise errors.InvalidError("gorun: %s: expected a tensor, got %s" % (what, type(t).__name__))
        if t.device.type != "cpu" and not t.is_cuda:
            raise errors.InvalidError("gorun: %s: a tensor is on %s, and this backend moves those of the CPU and of CUDA GPUs: use tensor.cpu()" % (what, t.device))
        if t.device != tensors[0].device:
            raise errors.InvalidError("gorun: %s: tensors on both %s and %s" % (what, tensors[0].device, t.device))
        if t.layout != torch.strided:
            raise errors.InvalidError("gorun: %s: a tensor is of layout %s: make it dense by to_dense()" % (what, t.layout))
        if t.dtype != tensors[0].dtype:
            raise errors.InvalidError("gorun: %s: tensors of both %s and %s" % (what, tensors[0].dtype, t.dtype))
        if reduces and t.dtype not in DTYPES:
            raise errors.InvalidError("gorun: %s: %s cannot be reduced" % (what, t.dtype))
    return tensors[0].dtype


def in_one_piece(t: torch.Tensor) -> bool:
    return t.is_contiguous() and not t.is_conj() and not t.is_neg()


def adjacent(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether they are adjacent, as those of chunk() are."""
    end = whole = None
    for t in tensors:
        if t.numel() == 0:
            continue
        if not in_one_piece(t) or end not in (None, t.data_ptr()):
            return False
        begin = t.data_ptr() - t.storage_offset() * t.element_size()
        if t.is_cuda and whole not in (None, begin):
            return False  # a copy of CUDA's must not go from one allocation to the next
        whole = begin
        end = t.data_ptr() + t.numel() * t.element_size()
    return True


class Part:
    """Memory of a call: count elements at an address, on a GPU or, if gpu is -1, on the host. keep owns it."""

    __slots__ = ("address", "count", "dtype", "keep", "copy_back", "gpu")

    def __init__(
        self, first: Optional[torch.Tensor], count: int, dtype: torch.dtype, keep: Sequence[torch.Tensor], copy_back: Optional[CopyBack] = None
    ) -> None:
        self.gpu = keep[0].device.index if keep and keep[0].is_cuda else -1
        self.address = 0 if first is None or count == 0 else first.data_ptr()
        self.count = count
        self.keep = keep
        self.copy_back = copy_back
        self.dtype = DTYPES.get(dtype, -1)
        if self.dtype < 0:  # it is only moved, so it may go as bytes
            size = torch.empty((), dtype=dtype).element_size()
            self.dtype = ring.UINT8
            self.count = count * size


NOTHING = Part(None, 0, torch.uint8, ())


def reads(t: torch.Tensor) -> Part:
    if not in_one_piece(t):
        t = t.clone(memory_format=torch.contiguous_format).resolve_conj().resolve_neg()
    return Part(t, t.numel(), t.dtype, (t,))


def writes(t: torch.Tensor, filled: bool = False) -> Part:
    """filled: what is in t is read as well."""
    if in_one_piece(t):
        return Part(t, t.numel(), t.dtype, (t,))
    copy = torch.empty_like(t, memory_format=torch.contiguous_format)
    if filled:
        copy.copy_(t)
    return Part(copy, t.numel(), t.dtype, (copy, t), lambda: _copy(t, copy))


def reads_all(tensors: Sequence[torch.Tensor]) -> Part:
    count = sum(t.numel() for t in tensors)
    if adjacent(tensors):
        return Part(_first(tensors), count, tensors[0].dtype, tuple(tensors))
    packed = torch.cat([t.reshape(-1) for t in tensors]).resolve_conj().resolve_neg()
    return Part(packed, count, packed.dtype, (packed,))


def writes_all(tensors: Sequence[torch.Tensor]) -> Part:
    count = sum(t.numel() for t in tensors)
    if adjacent(tensors):
        return Part(_first(tensors), count, tensors[0].dtype, tuple(tensors))
    packed = tensors[0].new_empty(count)

    def copy_back() -> None:
        for t, piece in zip(tensors, packed.split([t.numel() for t in tensors])):
            _copy(t, piece)

    return Part(packed, count, packed.dtype, (packed, *tensors), copy_back)


def _first(tensors: Sequence[torch.Tensor]) -> Optional[torch.Tensor]:
    return next((t for t in tensors if t.numel()), None)


def _copy(to: torch.Tensor, data: torch.Tensor) -> None:
    with torch.no_grad():
        to.copy_(data.view(to.shape))


def counts_of(tensors: Sequence[torch.Tensor], part: Part) -> Optional[List[int]]:
    """The lengths of tensors that make up part, if they differ."""
    counts = [t.numel() for t in tensors]
    total = sum(counts)
    if len(set(counts)) == 1:
        return None
    return [n * part.count // total for n in counts]


def rows(what: str, t: torch.Tensor, splits: Sequence[int], ranks: int) -> List[int]:
    """The number of elements of t for each rank, given its rows in splits."""
    first = t.shape[0] if t.dim() else 0
    if not splits:
        if first % ranks:
            raise errors.InvalidError("gorun: %s: %d rows are not equal parts for %d ranks: give the splits" % (what, first, ranks))
        splits = [first // ranks] * ranks
    if len(splits) != ranks or sum(splits) != first or min(splits) < 0:
        raise errors.InvalidError("gorun: %s: splits %s of %d rows for %d ranks" % (what, list(splits), first, ranks))
    size = t.numel() // first if first else 0
    return [n * size for n in splits]
