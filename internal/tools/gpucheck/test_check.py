"""Tests of what check.py decides, which needs no GPU."""

import io
import os
import sys
import time
import types
import unittest

import check

SMI = """0, GPU-1, 00000000:17:00.0, NVIDIA H100 80GB HBM3, 81559
1, GPU-2, 00000001:65:00.0, NVIDIA H100 80GB HBM3, 81559
"""
GPUS = [
    {"index": 0, "uuid": "GPU-1", "bus_id": "0000:17:00.0", "name": "NVIDIA H100 80GB HBM3", "memory_bytes": 81559 << 20},
    {"index": 1, "uuid": "GPU-2", "bus_id": "0001:65:00.0", "name": "NVIDIA H100 80GB HBM3", "memory_bytes": 81559 << 20},
]


class Inventories(unittest.TestCase):
    def test_alike(self):
        self.assertEqual(check.compare_inventories(GPUS, check.gpus_of_smi(SMI)), [])

    def test_different(self):
        for field, value, says in (("index", 5, "index"), ("uuid", "GPU-3", "GPU-3"), ("bus_id", "0000:18:00.0", "bus"), ("name", "T4", "T4"), ("memory_bytes", 1, "MiB")):
            wrong = check.compare_inventories([GPUS[0], dict(GPUS[1], **{field: value})], check.gpus_of_smi(SMI))
            self.assertEqual(len(wrong), 1)
            self.assertIn(says, wrong[0])
        self.assertEqual(len(check.compare_inventories(GPUS[:1], check.gpus_of_smi(SMI))), 1)

    def test_health(self):
        health = {"power_limit_w": 700, "pcie": {"width": 16}, "persistence": True, "max_clock_mhz": 1980}
        for text, count in (
            ("GPU-1, 700.00, 16, Enabled, No, 1980\n", 0),
            ("GPU-1, 700.00, [N/A], Enabled, 0, 1980\n", 0),
            ("GPU-1, 300.00, 8, Disabled, Yes, 1200\n", 5),
        ):
            self.assertEqual(len(check.compare_health([{"uuid": "GPU-1", "health": health}], check.health_of_smi(text))), count)


class Outputs(unittest.TestCase):
    def test_finding(self):
        self.assertEqual(check.finding("found: a\nnoise\nfound: b c\n"), "b c")
        self.assertEqual(check.finding("not found: a\n"), "")

    def test_nccl(self):
        maps = "7f00-7f01 r-xp 00000000 08:01 12  /usr/lib/libc.so.6\n7f02-7f03 r-xp 0 08:01 13   /x/nvidia/nccl/lib/libnccl.so.2\n"
        self.assertEqual(check.nccl_of(maps), "/x/nvidia/nccl/lib/libnccl.so.2")
        self.assertIsNone(check.nccl_of("7f00-7f01 r-xp 00000000 08:01 12  /usr/lib/libc.so.6\n"))

    def test_environment(self):
        one = check.shared_gpu({"A": "b"}, 1)
        two = check.shared_gpu({}, 2)
        self.assertEqual((one["A"], one["NCCL_SOCKET_IFNAME"], two["NCCL_MULTI_RANK_GPU_ENABLE"]), ("b", "lo", "1"))
        self.assertNotIn("NCCL_MULTI_RANK_GPU_ENABLE", one)


class Verdicts(unittest.TestCase):
    def setUp(self):
        self.out = io.StringIO()
        self.checks = check.Checks(dict(os.environ), self.out)

    def lines(self):
        return self.out.getvalue().splitlines()

    def test_lines(self):
        def skip(limit):
            raise check.Skipped("why")

        def fail(limit):
            raise check.Failed("what")

        def bug(limit):
            return {}["key"]

        for name, f in (("good", lambda limit: "limit %d" % limit), ("left out", skip), ("bad", fail), ("odd", bug)):
            self.checks.make(name, f)
        heads = [line.rsplit(" (", 1)[0] for line in self.lines()]
        self.assertEqual(heads, ["ok      good: limit 60", "skipped left out: why", "FAIL    bad: what", "FAIL    odd: 'key'"])
        self.assertEqual(self.checks.failed, 2)

    def test_no_time(self):
        self.checks.begun -= check.LIMIT - 3
        self.checks.make("late", lambda limit: "made")
        self.assertIn("skipped late: no time is left", self.lines()[0])

    def test_programs(self):
        self.assertEqual(self.checks.run([sys.executable, "-c", "print(5)"], 20), "5\n")
        with self.assertRaisesRegex(check.Failed, "exit code 3: sorry"):
            self.checks.run([sys.executable, "-c", "print('sorry'); raise SystemExit(3)"], 20)
        self.assertEqual(self.checks.run([sys.executable, "-c", "raise SystemExit(3)"], 20, codes=(3,)), "")
        with self.assertRaisesRegex(check.Failed, "not over after 1 s: begun"):
            self.checks.run([sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(60)"], 1)

    def test_stacks(self):
        texts = ["no job", "rank 1 has not come to all_reduce of 8 Float by nccl\n", "rank 1 has not come to all_reduce of 8 Float by nccl\nNCCL RAS: rank 1 x\n"]
        answers = iter(texts)
        self.checks.run = lambda argv, limit, environ, codes: next(answers)
        job = types.SimpleNamespace(poll=lambda: None, communicate=lambda: ("sorry", None))
        found = self.checks.await_stacks(job, {}, time.monotonic() + 3600)
        self.assertTrue(found.startswith("rank 1 has not come to all_reduce of 8 Float by nccl, after "), found)
        with self.assertRaisesRegex(check.Failed, "does not name rank 1"):
            self.checks.await_stacks(job, {}, time.monotonic() - 1)
        job.poll = lambda: 1
        with self.assertRaisesRegex(check.Failed, "the job has ended: sorry"):
            self.checks.await_stacks(job, {}, time.monotonic() + 3600)

    def test_without_nccl(self):
        made = []
        self.checks.make = lambda name, f, limit=60: made.append(name)
        check.all_checks(self.checks, 0)
        self.assertEqual(made, ["inventory", "health"] + ["host memory, %d ranks" % n for n in (1, 2, 4)])
        self.assertIn("skipped all checks of NCCL", self.lines()[0])
        check.all_checks(self.checks, 22703)
        self.assertEqual(made[-1], "gorun bench, 2 ranks")


if __name__ == "__main__":
    unittest.main()
