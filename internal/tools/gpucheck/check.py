"""Checks on a machine with an NVIDIA GPU, PyTorch with CUDA, and no network: make gpu-test.

It prints a line for each check and ends with 0, with 1 if one has failed, with 2 if programs are missing, or with 77 where there is no
GPU. It builds nothing: bin/gorun, bin/gorun-gpu, bin/gorun-bench and lib/libring.so are there before, by make build.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NO_GPU = 77
LIMIT = 570  # seconds for all
NEEDED = ("bin/gorun", "bin/gorun-gpu", "bin/gorun-bench", "lib/libring.so")


class Skipped(Exception):
    """Why a check was not made."""


class Failed(Exception):
    """What was wrong."""


def shared_gpu(environ, ranks):
    """The environment for so many ranks on one GPU; ranks.py adds an NCCL_HOSTID for each."""
    more = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket", "NCCL_MAX_NCHANNELS": "2", "PYTHONPATH": str(ROOT / "ring/python")}
    if ranks > 1:
        more["NCCL_MULTI_RANK_GPU_ENABLE"] = "1"  # from 2.30
    more["GORUN_RING"] = str(ROOT / "lib/libring.so")
    return {**environ, **more}


def gpus_of_smi(text):
    """What nvidia-smi prints as index, uuid, bus, name, MiB; by uuid."""
    rows = [[field.strip() for field in line.split(",")] for line in text.splitlines() if line.strip()]
    return {r[1]: {"index": int(r[0]), "bus_id": bus_id(r[2]), "name": r[3], "mib": int(r[4])} for r in rows}


def bus_id(text):
    """A PCI address with a domain of four digits, in lower case."""
    domain, rest = text.lower().split(":", 1)
    return "%04x:%s" % (int(domain, 16), rest)


def compare_inventories(ours, smi):
    """What differs between gorun's GPUs and nvidia-smi's; nothing if they are alike."""
    wrong = []
    if {g["uuid"] for g in ours} != set(smi):
        wrong.append("gorun has %s, nvidia-smi %s" % (sorted(g["uuid"] for g in ours), sorted(smi)))
    for g in ours:
        other = smi.get(g["uuid"])
        if other is None:
            continue
        for what, a, b in (
            ("index", g["index"], other["index"]),
            ("bus", bus_id(g["bus_id"]), other["bus_id"]),
            ("name", g["name"], other["name"]),
            ("MiB", g["memory_bytes"] >> 20, other["mib"]),
        ):
            if a != b:
                wrong.append("%s of %s: gorun says %s, nvidia-smi %s" % (what, g["uuid"], a, b))
    return wrong


def health_of_smi(text):
    """The answers of nvidia-smi about health, by UUID. What it does not know is left out."""
    rows = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        uuid, limit, width, persistence, pending, clock = [v.strip() for v in line.split(",")]
        row = {"W": limit, "lanes": width, "persistence": persistence, "remap": pending, "MHz": clock}
        rows[uuid] = {what: value for what, value in row.items() if not value.startswith("[")}
    return rows


def compare_health(ours, smi):
    """What differs between the health that gorun-gpu and nvidia-smi tell."""
    wrong = []
    for g in ours:
        h = g["health"]
        said = {
            "W": "%.2f" % h["power_limit_w"],
            "lanes": str(h["pcie"]["width"]),
            "persistence": "Enabled" if h.get("persistence") else "Disabled",
            "remap": "Yes" if h.get("remap_pending") else "No",
            "MHz": str(h["max_clock_mhz"]),
        }
        for what, value in smi.get(g["uuid"], {}).items():
            if said[what] != value and not (what == "remap" and {said[what], value} <= {"No", "0"}):
                wrong.append("%s of %s: gorun-gpu says %s, nvidia-smi %s" % (what, g["uuid"], said[what], value))
    return wrong


def finding(output):
    """The last line that rank 0 of a check has begun with "found: "."""
    lines = [line[len("found: ") :] for line in output.splitlines() if line.startswith("found: ")]
    return lines[-1] if lines else ""


class Checks:
    def __init__(self, environ, out=sys.stdout):
        self.environ = environ
        self.out = out
        self.begun = time.monotonic()
        self.failed = 0

    def left(self):
        return LIMIT - (time.monotonic() - self.begun)

    def make(self, name, check, limit=60):
        """Makes a check, which returns what it has found, and prints a line."""
        start = time.monotonic()
        try:
            if self.left() < 5:
                raise Skipped("no time is left of %d s" % LIMIT)
            text = check(min(limit, self.left()))
            verdict = "ok"
        except Skipped as e:
            verdict = "skipped"
            text = str(e)
        except (Failed, OSError, ValueError, KeyError) as e:
            verdict = "FAIL"
            text = str(e) or type(e).__name__
            self.failed += 1
        print("%-8s%s: %s (%.1f s)" % (verdict, name, text, time.monotonic() - start), file=self.out, flush=True)

    def run(self, argv, limit, environ=None, codes=(0,)):
        """Runs a program, with a group of processes of its own that ends with it, and returns what it printed."""
        p = subprocess.Popen(
            argv, env=environ or self.environ, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        try:
            output, _ = p.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            p.terminate()  # gorun ends its ranks
            try:
                output, _ = p.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(p.pid, signal.SIGKILL)
                output, _ = p.communicate()
            raise Failed("not over after %.0f s%s" % (limit, ending(output)))
        if p.returncode not in codes:
            raise Failed("exit code %d%s" % (p.returncode, ending(output)))
        return output

    def ranks(self, n, check, limit, codes=(0,)):
        """Runs a check of ranks.py as so many ranks on one GPU."""
        argv = [str(ROOT / "bin/gorun"), "-np", str(n), "--oversubscribe", "--gpus-per-rank", "none", "--prefix", "none"]
        program = [sys.executable, str(ROOT / "internal/tools/gpucheck/ranks.py"), check]
        output = self.run(argv + program, limit, shared_gpu(self.environ, n), codes)
        if "skip: " in output:
            raise Skipped(re.search("skip: (.*)", output).group(1))
        found = finding(output)
        if not found:
            raise Failed("it says nothing" + ending(output))
        return found

    def stacks(self, limit):
        """Looks at two ranks, of which one skips a collective, until gorun says so."""
        end = time.monotonic() + limit
        with tempfile.TemporaryDirectory() as folder:
            environ = dict(shared_gpu(self.environ, 2), XDG_RUNTIME_DIR=folder)
            environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] = folder + "/pipe-"
            environ["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"] = folder + "/dump-"
            environ["TORCH_NCCL_TRACE_BUFFER_SIZE"] = "2000"  # older PyTorch keeps none without it
            argv = [str(ROOT / "bin/gorun"), "--name", "hangs", "-np", "2", "--oversubscribe", "--gpus-per-rank", "none"]
            job = subprocess.Popen(
                argv + [sys.executable, str(ROOT / "internal/tools/gpucheck/ranks.py"), "hangs"],
                env=environ, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            try:
                return self.await_stacks(job, environ, end)
            finally:
                job.kill()
                job.communicate()

    def await_stacks(self, job, environ, end):
        text = ""
        while job.poll() is None and time.monotonic() < end:
            asked = time.monotonic()
            text = self.run([str(ROOT / "bin/gorun"), "stacks", "hangs"], 30, environ, codes=(0, 125))  # 125: it has not begun
            took = time.monotonic() - asked
            named = [line for line in text.splitlines() if line.startswith("rank 1 has not come to all_reduce")]
            if named and "NCCL RAS: " in text:
                return "%s, after %.1f s" % (named[0], took)
            time.sleep(0.5)
        if job.poll() is not None:
            raise Failed("the job has ended" + ending(job.communicate()[0]))
        raise Failed("gorun stacks does not name rank 1" + ending(text))

    def inventory(self, limit):
        query = "--query-gpu=index,uuid,pci.bus_id,name,memory.total"
        smi = gpus_of_smi(self.run(["nvidia-smi", query, "--format=csv,noheader,nounits"], limit))
        answer = json.loads(self.run([str(ROOT / "bin/gorun"), "gpus", "--json"], limit))
        ours = [g for host in answer["hosts"] for g in host["gpus"]]
        wrong = compare_inventories(ours, smi)
        if wrong:
            raise Failed("; ".join(wrong))
        return "%d GPUs, as nvidia-smi has them: %s" % (len(ours), ", ".join(g["name"] for g in ours))

    def health(self, limit):
        query = "--query-gpu=uuid,power.limit,pcie.link.width.current,persistence_mode,remapped_rows.pending,clocks.max.sm"
        smi = health_of_smi(self.run(["nvidia-smi", query, "--format=csv,noheader,nounits"], limit))
        answer = json.loads(self.run([str(ROOT / "bin/gorun-gpu"), "health"], limit))
        wrong = compare_health(answer["devices"], smi)
        if wrong:
            raise Failed("; ".join(wrong))
        return "%d GPUs, as nvidia-smi has them" % len(answer["devices"])

    def bench(self, n, limit):
        argv = [str(ROOT / "bin/gorun"), "bench", "allreduce", "-np", str(n), "--oversubscribe", "--gpus-per-rank", "none", "--device", "cuda"]
        environ = shared_gpu(self.environ, n)
        output = self.run(argv + ["--max", "1M", "--stepfactor", "8", "--time", "0.1", "--json"], limit, environ)
        rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        if not rows or any(r["wrong"] for r in rows):
            raise Failed("rows %s" % rows)
        last = rows[-1]
        return "%d rows, 1 MiB in %.0f µs, busbw %.2f GB/s, by %s" % (len(rows), last["median_us"], last["busbw_gb_s"], last["device"])


def ending(output):
    """The end of an output, for an error."""
    lines = [line for line in output.splitlines() if line.strip()]
    return ": " + " | ".join(lines[-6:]) if lines else ""


def nccl_of(maps):
    """The path of libnccl in the text of /proc/self/maps."""
    found = re.search(r"(/\S*libnccl\.so\S*)", maps)
    return found.group(1) if found else None


def version_of(path):
    import ctypes

    version = ctypes.c_int()
    if ctypes.CDLL(path).ncclGetVersion(ctypes.byref(version)):
        raise Failed("ncclGetVersion of %s" % path)
    return version.value


def all_checks(checks, nccl):
    """Makes all checks. nccl is the library's version, 0 if there is none."""
    checks.make("inventory", checks.inventory)
    checks.make("health", checks.health)
    without = "PyTorch has loaded no libnccl.so.2, so data would go through host memory only"
    for n in (1, 2, 4):
        # Through host memory first: where that fails NCCL is not to blame.
        checks.make("host memory, %d ranks" % n, lambda limit: checks.ranks(n, "values-host", limit))
    if not nccl:
        print("skipped all checks of NCCL: " + without, file=checks.out)
        return
    for n in (1, 2, 4):
        checks.make("NCCL, %d ranks" % n, lambda limit: checks.ranks(n, "values-nccl", limit))
    for name in ("torch", "optimizer", "ddp", "bits"):
        for n in (1, 2):
            checks.make("%s, %d ranks" % (name, n), lambda limit: checks.ranks(n, name, limit))
    checks.make("cost of a call, 1 rank", lambda limit: checks.ranks(1, "cost", limit))
    checks.make("time beside torch's nccl, 2 ranks", lambda limit: checks.ranks(2, "time", limit))
    checks.make("a rank is killed", lambda limit: checks.ranks(2, "dies", limit, codes=(137,)))
    checks.make("stacks of a hang, 2 ranks", checks.stacks)
    checks.make("gorun bench, 1 rank", lambda limit: checks.bench(1, limit))

    def bench_of_two(limit):
        if nccl < 23000:
            raise Skipped("NCCL %d wants a NCCL_HOSTID for each rank, which gorun bench does not give" % nccl)
        return checks.bench(2, limit)

    checks.make("gorun bench, 2 ranks", bench_of_two)


def main():
    if shutil.which("nvidia-smi") is None:
        print("gpu-test: no GPU: there is no nvidia-smi")
        return NO_GPU
    try:
        import torch
    except ImportError as e:
        print("gpu-test: no PyTorch for %s: %s" % (sys.executable, e))
        return NO_GPU
    if not torch.cuda.is_available():
        print("gpu-test: no GPU: PyTorch %s can use none" % torch.__version__)
        return NO_GPU
    missing = [name for name in NEEDED if not (ROOT / name).exists()]
    if missing:
        print("gpu-test: there is no %s: run make build where Go and a C compiler are, and bring bin and lib here" % ", ".join(missing))
        return 2
    environ = dict(os.environ)
    torch.cuda.nccl.version()
    library = environ.get("RING_NCCL_LIB") or nccl_of(Path("/proc/self/maps").read_text())
    nccl = 0
    if library:
        nccl = version_of(library)
        environ["RING_NCCL_LIB"] = library
    print("PyTorch %s, NCCL %d at %s, %s" % (torch.__version__, nccl, library, torch.cuda.get_device_name(0)), flush=True)
    checks = Checks(environ)
    all_checks(checks, nccl)
    print("%d checks have failed, after %.0f s" % (checks.failed, LIMIT - checks.left()))
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
