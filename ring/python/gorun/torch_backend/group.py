"""The process group, and the backend that newer PyTorch registers in it.

PyTorch up to 2.14 has only C++ backends, so all of a group is Group there. Later it has both: Python that calls a group reaches Group, and what asks
the group for its backend, such as C++ code and split groups, gets Backend. Both make the same calls on one engine.
"""

# In torch's types each collective can also be called with single tensors; torch itself never calls a group so.
# mypy: disable-error-code="override,misc"

from __future__ import annotations

import weakref
from datetime import timedelta
from typing import Any, List, Optional

import torch
import torch.distributed as dist

from .collectives import Collectives, seconds
from .engine import Engine
from .work import Work

_CBackend: Any = getattr(torch._C._distributed_c10d, "Backend", object)


def _python_may_subclass(backend: Any) -> bool:
    class Probe(backend):  # type: ignore[misc,valid-type]
        pass

    try:
        Probe(0, 1)
    except TypeError:  # no constructor
        return False
    return True


# Whether torch takes a backend of Python: from 2.15.
HAS_BACKENDS = _python_may_subclass(_CBackend)


class Backend(Collectives, _CBackend):
    """A backend over ring. It ends by shutdown(), or with the interpreter: torch's C++ does not keep the Python half of it, so it keeps itself."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine.comm.rank, engine.comm.size)
        self.engine = engine
        engine.users.append(self)
        self._end = weakref.finalize(self, engine.close)

    def shutdown(self) -> None:
        self._end()

    abort = shutdown

    def name(self) -> str:
        return "gorun"

    @property
    def options(self) -> Any:
        made = _CBackend.Options("gorun", timedelta(seconds=self.engine.timeout or 1800.0))
        made.global_ranks_in_group = self.engine.ranks
        return made

    @property
    def supports_splitting(self) -> bool:
        return True

    # Torch 2.15 calls itself without end unless Python answers these.
    supports_coalescing = supports_shrinking = supports_reconfigure = supports_window = _supports_time_estimate = property(lambda self: False)

    def split(self, store: Any, ranks: List[int], options: Any) -> Optional["Backend"]:
        """Makes the backend of some ranks. The others get None."""
        if self.engine.comm.rank not in ranks:
            return None
        timeout = seconds(options._timeout) if options is not None else self.engine.timeout
        return Backend(self.engine.part("split/" + options.group_name, ranks, timeout, store))


class Group(Collectives, dist.ProcessGroup):
    """A process group over ring. It ends by shutdown(), when nothing refers to it, or with the interpreter."""

    def __init__(self, engine: Engine) -> None:
        rank = engine.comm.rank
        size = engine.comm.size
        if HAS_BACKENDS and engine.store is not None:
            super().__init__(engine.store, rank, size)  # type: ignore[call-arg]
        else:
            super().__init__(rank, size)  # type: ignore[call-arg]  # torch's types lack them
        self.engine = engine
        self._name = self._description = ""
        self._end = weakref.finalize(self, engine.close)
        if HAS_BACKENDS:
            base: Any = super()
            custom = base.BackendType.CUSTOM
            base._set_default_backend(custom)
            backend = Backend(engine)
            for device in ("cpu", "cuda"):
                base._register_backend(torch.device(device), custom, backend)

    def shutdown(self) -> None:
        self._end()

    abort = shutdown

    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupName(self) -> str:
        return self._name

    def setGroupDesc(self, text: str) -> None:
        self._description = text

    def getGroupDesc(self) -> str:
        return self._description

    def split_group(
        self,
        new_ranks: List[int],
        timeout: Optional[timedelta] = None,
        opts: Any = None,
        group_name: Optional[str] = None,
        group_desc: Optional[str] = None,
        device_types: Any = None,
    ) -> Optional["Group"]:
        """Makes a group of some ranks. The others get None."""
        if self.engine.comm.rank not in new_ranks:
            return None
        name = group_name or "%s:split:%s" % (self._name, "_".join(map(str, new_ranks)))
        limit = seconds(timeout) or self.engine.timeout
        store = dist.PrefixStore(name + "/", self.engine.store)
        part: Any = Group(self.engine.part("split/" + name, new_ranks, limit, store))
        part._set_group_name(name)
        part._set_group_desc(group_desc or "%s:split" % self._description)
        return part  # type: ignore[no-any-return]

    def _start_coalescing(self, device: Any = None) -> None:
        self.start_coalescing()

    def _end_coalescing(self, device: Any = None) -> Work:
        return self.end_coalescing()


def make(engine: Engine, only: bool) -> Any:
    """What torch gets: a group, or one of several backends of torch's own group (only is False)."""
    if HAS_BACKENDS and not only:
        return Backend(engine)
    return Group(engine)
