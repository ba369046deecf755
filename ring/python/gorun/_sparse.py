"""Sparse tensors of what several ranks have sent."""

from __future__ import annotations

from typing import Any, Dict

import torch

from . import errors


def tensor_of(indices: torch.Tensor, values: torch.Tensor, shape: Any) -> torch.Tensor:
    """The tensor of all ranks' elements. A MismatchError says that one is beyond the shape: PyTorch would read and write there."""
    checked: Dict[str, Any] = {}
    if hasattr(torch.sparse, "check_sparse_tensor_invariants"):  # older PyTorch always checks
        checked["check_invariants"] = True
    try:
        return torch.sparse_coo_tensor(indices, values, shape, **checked)
    except RuntimeError as e:
        raise errors.MismatchError("gorun: allreduce of sparse tensors: those of the ranks do not fit together: %.200s" % e) from None
