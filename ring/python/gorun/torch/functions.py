"""Broadcasts of parameters, optimizer states and objects."""

from __future__ import annotations

from typing import Any, Callable, Iterable, List, Mapping, Tuple, Union

import torch

from .._objects import broadcast_object
from .._world import ProcessSet, global_process_set
from .ops import broadcast_async_


def broadcast_parameters(
    params: Union[Mapping[str, Any], Iterable[Any]], root_rank: int, process_set: ProcessSet = global_process_set
) -> None:
    """Copies to all ranks the root's values of a model's ``state_dict()``, ``named_parameters()`` or ``parameters()``.

    Tensors are written in place. Entries of a dictionary that are no tensors are left alone. Raises MismatchError where
    the ranks' tensors of one name differ in shape or type.
    """
    pairs: List[Any] = sorted(params.items()) if isinstance(params, Mapping) else list(params)
    handles = []
    for i, item in enumerate(pairs):
        name, tensor = item if isinstance(item, tuple) else (str(i), item)
        if isinstance(tensor, torch.Tensor):
            handles.append(broadcast_async_(tensor.detach(), root_rank, "parameter.%s" % name, process_set))
        elif not isinstance(params, Mapping):
            raise ValueError("gorun: broadcast_parameters: %s is no tensor but a %s" % (name, type(tensor).__name__))
    for handle in handles:
        handle.synchronize()


class _Place:
    """A placeholder for a tensor in a state that is sent as an object."""

    def __init__(self, number: int, tensor: torch.Tensor) -> None:
        self.number = number
        self.shape = tuple(tensor.shape)
        self.dtype = tensor.dtype


def _changed(state: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of the state with tensors and placeholders replaced."""
    if isinstance(state, (torch.Tensor, _Place)):
        return change(state)
    if isinstance(state, dict):
        return {k: _changed(v, change) for k, v in state.items()}
    if isinstance(state, (list, tuple)) and type(state) in (list, tuple):
        return type(state)(_changed(v, change) for v in state)
    return state


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer, root_rank: int, model: Any = None, process_set: ProcessSet = global_process_set
) -> None:
    """Copies the root's state of an optimizer to all ranks: its options, and the values for each parameter.

    The optimizers have parameters of the same shapes in the same groups. Raises ValueError for LBFGS, whose state is
    not kept by parameter.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("gorun: broadcast_optimizer_state: the state of LBFGS cannot be broadcast")
    root = process_set.rank() == process_set.index(root_rank)
    tensors: List[torch.Tensor] = []

    def out(t: torch.Tensor) -> _Place:
        tensors.append(t.cpu())  # other ranks make room in the host's memory, and load_state_dict moves it
        return _Place(len(tensors) - 1, t)

    def back(p: _Place) -> torch.Tensor:
        return tensors[p.number]

    def room(p: _Place) -> _Place:
        tensors.append(torch.empty(p.shape, dtype=p.dtype))
        return p

    shell = broadcast_object(_changed(optimizer.state_dict(), out) if root else None, root_rank, "optimizer", process_set)
    if not root:
        _changed(shell, room)
    handles = [broadcast_async_(t, root_rank, "optimizer.%d" % i, process_set) for i, t in enumerate(tensors)]
    for handle in handles:
        handle.synchronize()
    if not root:
        optimizer.load_state_dict(_changed(shell, back))


def named(pairs: Iterable[Tuple[str, Any]]) -> List[Tuple[str, Any]]:
    """The pairs, after a check that names are unique. Raises ValueError."""
    result = list(pairs)
    if any(not isinstance(p, tuple) or len(p) != 2 for p in result):
        raise ValueError("gorun: named_parameters are pairs of name and parameter, as model.named_parameters() gives them")
    names = [name for name, _ in result]
    twice = sorted({n for n in names if names.count(n) > 1}) if len(set(names)) != len(names) else []
    if twice:
        raise ValueError("gorun: parameters share the names %s: names must be unique" % ", ".join(twice))
    return result
