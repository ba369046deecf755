"""NumPy's arrays and PyTorch's tensors as a type, a shape and bytes. Neither is imported unless there is one."""

from __future__ import annotations

import re
import sys
from typing import Any, List, Optional, Tuple

# Types of arrays, as numpy.dtype.str writes them: numbers, times, texts and raw bytes, and no objects.
_ARRAY_TYPE = re.compile(r"[<>|](?:b1|[iu][1248]|f(?:2|4|8|12|16)|c(?:8|16|24|32)|[mM]8(?:\[[0-9]{0,9}[A-Za-z]{1,3}\])?|[SUV][1-9][0-9]{0,8})")
_TENSOR_TYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64",
    "float8_e4m3fn", "float8_e5m2", "complex64", "complex128",
)  # fmt: skip
_MOST_AXES = 32  # NumPy's limit

Parts = Tuple[str, str, List[int], bytes]  # array, scalar or tensor; its type, shape and bytes


class DataError(ValueError):
    """The bytes are no data of this package."""


def parts_of(value: Any) -> Optional[Parts]:
    """The parts of an array, a NumPy scalar or a tensor; None for another value, and for types that are more than data."""
    np = sys.modules.get("numpy")
    torch = sys.modules.get("torch")
    if np is not None and (type(value) is np.ndarray or isinstance(value, np.generic)):
        name = value.dtype.str
        if not _ARRAY_TYPE.fullmatch(name) or np.dtype(name) != value.dtype:
            return None
        return "array" if type(value) is np.ndarray else "scalar", name, list(value.shape), value.tobytes()
    if torch is not None and type(value) in (torch.Tensor, torch.nn.Parameter):
        name = str(value.dtype).rpartition(".")[2]
        if name not in _TENSOR_TYPES or value.layout != torch.strided or value.is_meta or getattr(value, "is_nested", False):
            return None
        tensor = value.detach().cpu()
        for resolve in ("resolve_conj", "resolve_neg"):  # which older PyTorch lacks
            if hasattr(tensor, resolve):
                tensor = getattr(tensor, resolve)()
        tensor = tensor.contiguous()
        size = tensor.numel() * tensor.element_size()
        import ctypes  # here, so that importing gorun loads no library

        data = bytes((ctypes.c_char * size).from_address(tensor.data_ptr())) if size else b""
        return "tensor", name, list(tensor.shape), data
    return None


def array_of(name: Any, shape: Any, data: memoryview) -> Any:
    """The array of a type, a shape and bytes, in memory of its own."""
    if type(name) is not str or not _ARRAY_TYPE.fullmatch(name):
        raise DataError("%.20r is no type of an array" % (name,))
    try:
        import numpy as np
    except ImportError:
        raise DataError("it holds an array, and NumPy is not installed here") from None
    dtype = np.dtype(name)
    _check_size(shape, dtype.itemsize, data)
    if dtype.kind == "b":
        _check_bools(data)
    if dtype.kind == "U" and len(data) and int(np.frombuffer(data, name[0] + "u4").max()) > sys.maxunicode:
        raise DataError("a text in an array has a character that does not exist")
    return np.frombuffer(bytearray(data), dtype).reshape(shape) if len(data) else np.zeros(shape, dtype)


def tensor_of(name: Any, shape: Any, data: memoryview) -> Any:
    """The tensor of a type, a shape and bytes, in memory of this process."""
    if name not in _TENSOR_TYPES:
        raise DataError("%.20r is no type of a tensor" % (name,))
    try:
        import torch
    except ImportError:
        raise DataError("it holds a tensor, and PyTorch is not installed here") from None
    dtype = getattr(torch, name, None)
    if dtype is None:
        raise DataError("PyTorch %s has no tensors of %s" % (torch.__version__, name))
    _check_size(shape, torch.empty(0, dtype=dtype).element_size(), data)
    if name == "bool":
        _check_bools(data)
    tensor = torch.empty(shape, dtype=dtype)
    import ctypes

    ctypes.memmove(tensor.data_ptr(), bytes(data), len(data))
    return tensor


def _check_size(shape: Any, size: int, data: memoryview) -> None:
    """Checks that elements of size bytes in a shape have as many bytes as the data."""
    fits = type(shape) is list and len(shape) <= _MOST_AXES and all(type(n) is int and n >= 0 for n in shape)
    for n in shape if fits else ():
        size *= n
    if not fits or size != len(data):
        raise DataError("%d bytes are no array of the shape %.100r" % (len(data), shape))


def _check_bools(data: memoryview) -> None:
    if bytes(data).translate(None, b"\0\1"):  # code that adds the bytes to count them would write out of bounds
        raise DataError("an array of bools has other elements")
