"""An optimizer that steps with the ranks' gradients combined.

A gradient is submitted as soon as the backward pass has made it, so that it travels, together with others that are
ready, while the rest is computed. step() waits for what is still under way.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple, Union

import torch

from .. import errors
from .._objects import broadcast_data
from .._world import ProcessSet, global_process_set, in_epochs
from .compression import Compression
from .functions import named
from .ops import Average, allreduce_async_, grouped_allreduce_async_, sparse_allreduce_async
from .._verbs import op_number

Groups = Union[None, int, Sequence[Sequence[torch.Tensor]]]


class _Bucket:
    """Parameters whose gradients are submitted together; one, if there are no groups."""

    __slots__ = ("parameters", "waiting", "pending")

    def __init__(self, parameters: Sequence[torch.Tensor], passes: int) -> None:
        self.parameters = list(parameters)
        self.waiting = {p: passes for p in parameters}  # backward passes to come
        self.pending: Optional[Tuple[Any, Optional[List[Tuple[torch.Tensor, Any]]]]] = None  # a handle and what is under way, for finish


class _Distributed(torch.optim.Optimizer):
    """What DistributedOptimizer adds to an optimizer, whose class comes after it in the order of methods."""

    def _setup(
        self,
        named_parameters: Optional[Iterable[Tuple[str, Any]]],
        compression: Any,
        backward_passes_per_step: int,
        op: int,
        gradient_predivide_factor: float,
        groups: Groups,
        sparse_as_dense: bool,
        process_set: ProcessSet,
    ) -> None:
        mine = [p for group in self.param_groups for p in group["params"]]
        if named_parameters is None:
            pairs = [
                ("gradient.noname.%d.%d" % (i, j), p) for i, group in enumerate(self.param_groups) for j, p in enumerate(group["params"])
            ]
        else:
            pairs = named(named_parameters)
        self._parameter_names = {p: name for name, p in pairs}
        unnamed = [tuple(p.shape) for p in mine if p not in self._parameter_names]
        if unnamed:
            raise ValueError("gorun: named_parameters lacks %d parameters of the optimizer, of shapes %s" % (len(unnamed), unnamed[:5]))
        self._compression = compression
        self.op = op
        self.process_set = process_set
        self.backward_passes_per_step = backward_passes_per_step
        self.gradient_predivide_factor = gradient_predivide_factor
        self.sparse_as_dense = sparse_as_dense
        self._synchronized = False
        self._should_synchronize = True
        self._buckets: List[_Bucket] = []
        self._bucket_of: Dict[torch.Tensor, _Bucket] = {}
        self._hooks: List[Any] = []
        self._touched: Set[_Bucket] = set()  # have gradients that no step has used
        _check_groups(groups)
        if process_set.included() and (process_set.size() > 1 or in_epochs()):
            parameters = [p for p in mine if p.requires_grad]
            self._buckets = [_Bucket(ps, backward_passes_per_step) for ps in self._grouped(parameters, groups)]
            self._bucket_of = {p: b for b in self._buckets for p in b.parameters}
            for p in parameters:
                self._hooks.append(_on_gradient(p, self._ready))

    def _grouped(self, parameters: List[torch.Tensor], groups: Groups) -> List[List[torch.Tensor]]:
        """The parameters by bucket, alike on all ranks."""
        if not groups:
            return [[p] for p in parameters]
        if not isinstance(groups, int):
            wanted = {p for p in parameters}
            listed = [[p for p in group if p in wanted] for group in groups]
            loose = wanted.difference(*listed)
            return [g for g in listed if g] + [[p] for p in parameters if p in loose]
        names = [self._parameter_names[p] for p in parameters]
        root = 0 if self.process_set.process_set_id == 0 else self.process_set.ranks[0]
        order = broadcast_data(names, root, "optimizer.groups", self.process_set)
        # Texts have hashes that nobody can choose, whoever sends them.
        if type(order) is not list or any(type(name) is not str for name in order) or sorted(order) != sorted(names):
            raise errors.MismatchError("gorun: optimizer.groups: rank %d says that it has other parameters than this rank" % root)
        place = {name: i for i, name in enumerate(order)}
        parameters = sorted(parameters, key=lambda p: place[self._parameter_names[p]])
        each, more = divmod(len(parameters), groups)
        result = []
        at = 0
        for i in range(groups):
            n = each + (i < more)
            result.append(parameters[at : at + n])
            at += n
        return [g for g in result if g]

    def _ready(self, p: torch.Tensor) -> None:
        """A backward pass has added to the gradient of p."""
        bucket = self._bucket_of[p]
        if bucket.waiting[p] <= 0:
            raise AssertionError(
                "gorun: gradients were computed more often than backward_passes_per_step before step() or synchronize(): "
                "increase backward_passes_per_step to add up gradients"
            )
        bucket.waiting[p] -= 1
        self._touched.add(bucket)
        if not any(bucket.waiting.values()):
            self._submit(bucket)

    def _submit(self, bucket: _Bucket) -> None:
        factor = self.gradient_predivide_factor if self.op == Average else 1.0
        gradients = [_gradient(p) for p in bucket.parameters]
        first = bucket.parameters[0]
        if len(gradients) == 1 and gradients[0].is_sparse and not self.sparse_as_dense:
            bucket.pending = (sparse_allreduce_async(gradients[0], self._parameter_names[first], self.op, self.process_set), None)
            return
        sent = [self._compression.compress(g.to_dense() if g.is_sparse else g) for g in gradients]
        common: Dict[str, Any] = dict(op=self.op, prescale_factor=1.0 / factor, postscale_factor=factor, process_set=self.process_set)
        name = self._parameter_names[first]
        with torch.no_grad():
            if len(sent) == 1:
                handle = allreduce_async_(sent[0][0], name=name, **common)
            else:
                handle = grouped_allreduce_async_([t for t, _ in sent], name=name, **common)
        bucket.pending = (handle, sent)

    def _finish(self, bucket: _Bucket) -> None:
        """Waits for a bucket and puts the result into its gradients."""
        assert bucket.pending is not None
        handle, sent = bucket.pending
        bucket.pending = None
        bucket.waiting = dict.fromkeys(bucket.waiting, self.backward_passes_per_step)
        if sent is None:
            bucket.parameters[0].grad = handle().coalesce()
            return
        outputs = handle.synchronize()
        with torch.no_grad():
            for p, output, (_, ctx) in zip(bucket.parameters, [outputs] if len(sent) == 1 else outputs, sent):
                result = self._compression.decompress(output, ctx)
                gradient = p.grad
                assert gradient is not None
                if gradient.is_sparse:
                    p.grad = result.to_sparse(gradient.sparse_dim())
                elif result is not gradient:
                    gradient.copy_(result)

    def synchronize(self) -> None:
        """Waits until the gradients are combined on all ranks of the set.

        Then gradients may be looked at or clipped before step(), which goes into ``with optimizer.skip_synchronize()``.
        """
        for bucket in self._buckets:
            if bucket.pending is None:
                self._submit(bucket)
        first: Optional[Exception] = None
        for bucket in self._buckets:
            try:
                self._finish(bucket)
            except RuntimeError as e:
                first = first or e
        self._touched.clear()
        if first is not None:
            raise first
        self._synchronized = True

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """In it step() does not combine gradients, as synchronize() did it."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def set_backward_passes_per_step(self, passes: int) -> None:
        """How many backward passes add up gradients before they are combined, from the next step on."""
        self.backward_passes_per_step = passes
        for bucket in self._buckets:
            bucket.waiting = dict.fromkeys(bucket.waiting, passes)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> None:
        for bucket in self._buckets:
            bucket.pending = None
        self._touched.clear()
        self._synchronized = False
        self._should_synchronize = True
        self.set_backward_passes_per_step(self.backward_passes_per_step)
        super().load_state_dict(*args, **kwargs)

    def step(self, closure: Any = None) -> Any:
        """Combines the gradients, unless that was done, and steps."""
        if self._should_synchronize:
            if self._synchronized:
                warnings.warn(
                    "gorun: optimizer.step() called without optimizer.skip_synchronize() context after "
                    "optimizer.synchronize(): gradients are combined twice"
                )
            self.synchronize()
        self._synchronized = False
        return super().step(closure)

    def zero_grad(self, *args: Any, **kwargs: Any) -> Any:
        """Forgets the gradients. Raises AssertionError while they are under way."""
        if self._touched:
            raise AssertionError(
                "gorun: optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or "
                "optimizer.synchronize(): gradients are under way"
            )
        return super().zero_grad(*args, **kwargs)


def _check_groups(groups: Groups) -> None:
    if groups is None:
        return
    if isinstance(groups, int):
        if groups < 0:
            raise ValueError("gorun: %d groups" % groups)
        return
    seen: Set[int] = set()
    for group in groups:
        for p in group:
            if not isinstance(p, torch.Tensor):
                raise ValueError("gorun: groups have a %s, want parameters" % type(p).__name__)
            if id(p) in seen:
                raise ValueError("gorun: a parameter stands in groups twice")
            seen.add(id(p))


def _gradient(p: torch.Tensor) -> torch.Tensor:
    """The gradient of p: zeros if no backward pass has come to it."""
    if p.grad is None:
        p.grad = torch.zeros_like(p)
    return p.grad


def _on_gradient(p: torch.Tensor, ready: Any) -> Any:
    """Has ready(p) called whenever a backward pass has added to the gradient of p. Keep what is returned."""
    if hasattr(p, "register_post_accumulate_grad_hook"):  # since torch 2.1
        return p.register_post_accumulate_grad_hook(ready)
    accumulator = p.expand_as(p).grad_fn.next_functions[0][0]
    accumulator.register_hook(lambda *_: ready(p))
    return accumulator


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Optional[Iterable[Tuple[str, Any]]] = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Groups = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> torch.optim.Optimizer:
    """The optimizer, stepping with the gradients of all ranks of the set combined: averaged if op is not given.

    named_parameters is model.named_parameters(); names must be the same on all ranks. Gradients add up over
    backward_passes_per_step backward passes before they are combined. They are divided by gradient_predivide_factor
    before they are added up and by the rest of the number of ranks after it. groups, or a number of them, says which
    gradients are submitted together. What is returned is of a class made of the optimizer's own, and has its state.

    Raises ValueError for names that are missing or come twice, and for wrong arguments; NotImplementedError for Adasum.
    """
    op_number(op, "DistributedOptimizer")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gorun: gradient_predivide_factor is for op=Average only")
    if num_groups:
        warnings.warn("gorun: num_groups is deprecated: use groups", DeprecationWarning, stacklevel=2)
        groups = num_groups if groups is None else groups
    base = optimizer.__class__
    result: Any = object.__new__(type(base.__name__, (_Distributed, base), {"__module__": base.__module__}))
    # A scheduler that was made before has put its own step, bound to the old optimizer, there.
    result.__dict__.update({k: v for k, v in optimizer.__dict__.items() if k != "step"})
    result._setup(
        named_parameters, compression, backward_passes_per_step, op, gradient_predivide_factor, groups, sparse_as_dense, process_set
    )
    return result
