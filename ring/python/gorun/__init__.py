"""gorun for Python: collectives among the ranks of a job.

``import gorun.torch as hvd`` takes the place of horovod.torch, ``gorun.numpy`` does the same for arrays,
``gorun.torch_backend`` is a backend of torch.distributed, and :func:`gorun.run` makes ranks of a function. Nothing here loads
the library, or PyTorch, before it is needed.
"""

from ._run import JobError, run
from .errors import GorunError

__all__ = ["GorunError", "JobError", "run"]
__version__ = "0.1.0"
