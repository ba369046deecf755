"""The state of a model and its optimizer as plain tensors: of a sharded one (FSDP2, HSDP), this rank's shard."""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, List, Optional

import torch

from .. import errors


def _is_dtensor(thing: Any) -> bool:
    module = sys.modules.get("torch.distributed.tensor")  # without an import, which takes time: before it there is none
    return module is not None and isinstance(thing, module.DTensor)


def shards_of(model: Any, size: int) -> Optional[List[int]]:
    """By rank, the number of its shard. Ranks with the same number have the same parameters. None: the model is not sharded."""
    sharded = [p for p in model.parameters() if _is_dtensor(p)]
    if not sharded:
        return None
    mesh = sharded[0].device_mesh
    if any(p.device_mesh != mesh for p in sharded) or mesh.mesh.numel() != size:
        raise errors.InvalidError("gorun: Resilient takes a model that is sharded over one mesh of all %d ranks, and this one has %s" % (size, mesh))
    split = [dim for dim in range(mesh.ndim) if any(not p.placements[dim].is_replicate() for p in sharded)]
    found = [0] * size
    for rank in range(size):
        (at,) = (mesh.mesh == rank).nonzero().tolist()
        for dim in split:
            found[rank] = found[rank] * mesh.size(dim) + at[dim]
    return found


def is_sharded(model: Any) -> bool:
    return any(_is_dtensor(p) for p in model.parameters())


def before_reduce(model: Any, change: Callable[[torch.Tensor], None]) -> None:
    """Calls change with the gradients of each part of a model of fully_shard, before all ranks take their average."""
    if not is_sharded(model):
        return
    from torch.distributed import fsdp
    from torch.distributed.fsdp._fully_shard._fsdp_collectives import DefaultReduceScatter

    class Changed(DefaultReduceScatter):
        def __call__(self, output_tensor: Any, input_tensor: Any, *args: Any, **more: Any) -> Any:
            change(input_tensor)
            return super().__call__(output_tensor, input_tensor, *args, **more)

    for module in model.modules():
        if isinstance(module, getattr(fsdp, "FSDPModule")):
            module.set_custom_reduce_scatter(Changed())


def plain(value: Any) -> Any:
    """A state with this rank's part of each DTensor in its place."""
    if _is_dtensor(value):
        return value.to_local().detach()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(plain(v) for v in value)
    return value


def load_model(model: Any, state: Dict[str, Any]) -> None:
    """Loads plain(model.state_dict())."""
    model.load_state_dict({name: _like(thing, state[name]) for name, thing in model.state_dict().items()})


# Options by which an optimizer chooses PyTorch's kernels. They are those of this program, whatever a state says: those of fused=True believe that the state
# of a parameter is as long as the parameter, and would write beyond it.
_KERNELS = ("fused", "foreach", "capturable", "differentiable")


def load_optimizer(optimizer: Any, state: Dict[str, Any]) -> None:
    """Loads plain(optimizer.state_dict()) of another rank."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    numbers = iter(range(len(parameters)))
    groups = [_options(group, [next(numbers) for _ in group["params"]], got) for group, got in zip(optimizer.param_groups, state["param_groups"])]
    fused = {n for group in groups if group.get("fused") for n in group["params"]}
    for i, entries in state["state"].items():
        for k, v in entries.items() if i in fused else ():
            _check_length(parameters[i], k, v)
    of_each = {i: {k: _like(parameters[i], _like_numbers(None, v)) for k, v in entries.items()} for i, entries in state["state"].items()}
    optimizer.load_state_dict({**state, "state": of_each, "param_groups": groups})


def _options(group: Dict[str, Any], numbers: List[int], got: Dict[str, Any]) -> Dict[str, Any]:
    """The options that another rank gives for a group of parameters, as far as they are not this program's own."""
    if got["params"] != numbers:
        raise errors.MismatchError("gorun: the state of the optimizer that another rank sends is of other parameters")
    own = {k: group[k] for k in _KERNELS if k in group}
    return {**{k: _like_numbers(group.get(k), v) for k, v in got.items() if k not in _KERNELS}, **own}


def load_scheduler(scheduler: Any, state: Dict[str, Any]) -> None:
    """Loads scheduler.state_dict() of another rank."""
    scheduler.load_state_dict(_like_numbers(scheduler.state_dict(), state))


def _like_numbers(own: Any, got: Any) -> Any:
    """A value of another rank, with floats where this rank has them: a power of integers can take hours and all memory, as can the quotient of
    integers of millions of digits."""
    if type(got) is int and got.bit_length() > 64:
        raise errors.MismatchError("gorun: the state of the training that another rank sends has a number that is too large")
    if type(own) is float and type(got) is int:
        return float(got)
    if isinstance(got, dict):
        named = own if isinstance(own, dict) else {}
        return {k: _like_numbers(named.get(k), v) for k, v in got.items()}
    if type(got) in (list, tuple):
        listed = own if isinstance(own, (list, tuple)) else ()
        return type(got)(_like_numbers(listed[i] if i < len(listed) else None, v) for i, v in enumerate(got))
    return got


def _check_length(parameter: Any, name: Any, value: Any) -> None:
    wants = parameter.to_local() if _is_dtensor(parameter) else parameter
    if isinstance(value, torch.Tensor) and value.shape != wants.shape and (name != "step" or value.numel() != 1):
        raise errors.MismatchError(
            "gorun: the state of the optimizer that another rank sends has %d elements for a parameter of %d" % (value.numel(), wants.numel())
        )


def _like(thing: Any, value: Any) -> Any:
    """A value as a DTensor, if thing is one and has as large a part here."""
    if not _is_dtensor(thing) or not isinstance(value, torch.Tensor) or value.shape != thing.to_local().shape:
        return value
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(value, thing.device_mesh, thing.placements, run_check=False, shape=thing.shape, stride=thing.stride())
