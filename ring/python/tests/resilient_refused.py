"""Runs a training program in which rank 1 says, from step 3 on, that a later one is committed, and ends well: PROGRAM [ARGUMENT…]."""

import os
import runpy
import sys

import gorun.torch
from gorun import errors
from gorun.torch import resilient


class Lying(resilient.Resilient):
    def _try_step(self, batches):
        if self._ledger.committed == 3 and os.environ["GORUN_RANK"] == "1":
            self._ledger.committed = self._at.passes = 10**6
            self._at.index = 0
            while True:  # also without the others, which refuse that
                try:
                    self._renew()
                    self._settle()
                    os._exit(0)
                except errors.PeerError:
                    if not self._job.attached:
                        raise
        yield from super()._try_step(batches)


gorun.torch.Resilient = Lying
sys.argv[:] = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
