"""Runs one scenario of Horovod's test/integration/elastic_common.py with another program in horovodrun's place.

scenarios.py COMMON TRAIN LAUNCHER HOST1 HOST2 SCENARIO

COMMON and TRAIN are Horovod's files. HOST1 and HOST2 replace the scenarios' localhost and 127.0.0.1.
"""

import os
import re
import subprocess
import sys
import types
import unittest
import unittest.mock

common, train, launcher, first, second, scenario = sys.argv[1:]
sys.modules["mock"] = unittest.mock
sys.path.insert(0, os.path.join(os.path.dirname(common), "..", "utils"))

with open(common) as f:
    source = f.read().replace("127.0.0.1", second).replace("localhost", first)
tests = types.ModuleType("elastic_common")
tests.__file__ = common
exec(compile(source, common, "exec"), tests.__dict__)

from horovod.runner.elastic import constants, driver  # noqa: E402


def run_elastic(_):
    """Replaces horovodrun's function, which raises a RuntimeError if the job fails."""
    argv = [sys.executable if word == "python" else word for word in sys.argv[1:]]
    if driver.ELASTIC_TIMEOUT_SECS != 600:  # a scenario sets it
        argv = ["--elastic-timeout", str(driver.ELASTIC_TIMEOUT_SECS)] + argv
    ended = subprocess.run([launcher] + argv, stderr=subprocess.PIPE, text=True)
    sys.stderr.write(ended.stderr)
    if ended.returncode == 0:
        return
    limit = re.search(r"the limit of (\d+) resets? is reached", ended.stderr)
    if limit:
        raise RuntimeError(constants.RESET_LIMIT_EXCEEDED_MESSAGE.format(limit[1]))
    if re.search(r"rank \d+ on \S+ (exited with code|was killed by)", ended.stderr):
        raise RuntimeError("Horovod detected that one or more processes exited with non-zero status")
    raise RuntimeError(f"exit code {ended.returncode}")


tests._run_elastic = run_elastic


class Scenarios(tests.BaseElasticTests, unittest.TestCase):
    def __init__(self, *args):
        super().__init__(train, *args)

    def _run(self, *args, np=None, **kwargs):  # one scenario still has the old name
        if np is not None:
            kwargs["num_proc"] = np
        return super()._run(*args, **kwargs)


result = unittest.TextTestRunner(verbosity=2).run(Scenarios(scenario))
sys.exit(not result.wasSuccessful())
