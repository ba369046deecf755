"""Models, optimizers and samplers as state of an elastic job."""

from __future__ import annotations

import copy
from typing import Any, Dict, List, Optional, Tuple, Type

import torch

from ..._objects import broadcast_object
from ...elastic import ObjectState
from ..functions import broadcast_optimizer_state, broadcast_parameters
from .sampler import ElasticSampler


class StateHandler:
    """How values of a type are saved, restored and synchronized."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def save(self) -> None:
        """Keeps the value's state in memory."""
        raise NotImplementedError()

    def restore(self) -> None:
        """Makes the value what it was at the last save."""
        raise NotImplementedError()

    def sync(self) -> None:
        """Gives all ranks the state of rank 0."""
        raise NotImplementedError()

    def set_value(self, value: Any) -> None:
        """Takes another value in place of the one so far."""
        self.value = value
        self.save()


class _DictHandler(StateHandler):
    """For what has a state_dict."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.save()

    def save(self) -> None:
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(copy.deepcopy(self._saved))  # an optimizer may go on to write to what it is given

    def sync(self) -> None:
        self.value.load_state_dict(broadcast_object(self.value.state_dict()))


class ModelStateHandler(_DictHandler):
    """For a model."""

    def sync(self) -> None:
        broadcast_parameters(self.value.state_dict(), root_rank=0)


class OptimizerStateHandler(_DictHandler):
    """For an optimizer."""

    def sync(self) -> None:
        broadcast_optimizer_state(self.value, root_rank=0)


class SamplerStateHandler(_DictHandler):
    """For an ElasticSampler, which deals out its samples anew."""


class SchedulerStateHandler(_DictHandler):
    """For a schedule of the learning rate, which keeps its optimizer."""


Registry = List[Tuple[Type[Any], Type[StateHandler]]]

_registry: Registry = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
    (getattr(torch.optim.lr_scheduler, "LRScheduler", torch.optim.lr_scheduler._LRScheduler), SchedulerStateHandler),  # since torch 2.0
]


def get_handler_registry() -> Registry:
    """The types that have handlers of their own."""
    return _registry


def set_handler_registry(registry: Registry) -> None:
    """Replaces them, for states that are made afterwards."""
    global _registry
    _registry = registry


def _handler(value: Any) -> Optional[StateHandler]:
    return next((handler(value) for kind, handler in _registry if isinstance(value, kind)), None)


class TorchState(ObjectState):
    """A training's state: a model, an optimizer, and whatever else is given by name. All become attributes.

    Models, optimizers, ElasticSamplers and schedules of the learning rate are saved by their state_dict; other things are copied,
    and pickled to be synchronized.
    """

    def __init__(self, model: Any = None, optimizer: Any = None, **kwargs: Any) -> None:
        values = dict(kwargs, model=model, optimizer=optimizer)
        handlers = {name: _handler(value) for name, value in values.items()}
        self._handlers: Dict[str, StateHandler] = {name: h for name, h in handlers.items() if h is not None}
        super().__init__(**{name: value for name, value in values.items() if handlers[name] is None})
        for name, handler in self._handlers.items():
            super().__setattr__(name, handler.value)

    def save(self) -> None:
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def __setattr__(self, name: str, value: Any) -> None:
        handler = self.__dict__.get("_handlers", {}).get(name)
        if handler is not None:
            handler.set_value(value)
        super().__setattr__(name, value)
