"""Elastic training: ranks fail, come and go, and the others go on. :mod:`gorun.elastic` says how; the names are horovod's.

    state = hvd.elastic.TorchState(model, optimizer, batch=0, epoch=0)

    @hvd.elastic.run
    def train(state): ...
"""

from __future__ import annotations

from ...elastic import HostsUpdatedInterrupt, ObjectState, State, StateLostError, run
from .sampler import ElasticSampler
from .state import TorchState, get_handler_registry, set_handler_registry

__all__ = [
    "ElasticSampler", "HostsUpdatedInterrupt", "ObjectState", "State", "StateLostError", "TorchState", "get_handler_registry", "run",
    "set_handler_registry",
]  # fmt: skip
