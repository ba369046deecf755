"""What has been imported, with what, and which ranks would import the same."""

import os
import sys

from channel import HERE
from process import name_process

# Variables that C code reads when its library is loaded, or that Python reads before it runs any
# module, by their beginnings. Those that Python code reads while it is imported are recorded.
READ_EARLY = (
    "PYTHON", "LD_", "LC_", "LANG", "TZ", "HOME", "MALLOC_", "GLIBC_TUNABLES",
    "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "GOTO_", "BLIS_", "NUMEXPR_", "VECLIB_", "DNNL_", "ONEDNN_",
    "ATEN_", "TORCH_", "PYTORCH_", "CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_", "HIP_", "ROCR_", "HSA_", "TF_", "XLA_",
)
# Those of READ_EARLY that are read only when a GPU is initialised, which no warm interpreter does.
READ_LATE = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


class Unfit(Exception):
    """Why modules cannot be kept, or a program cannot be run in the interpreter that keeps them."""


class Rank:
    """What a rank is to be."""

    def __init__(self, words, files):
        path, folder, cpus, self.score, self.terminal, self.unprivileged, parent, arguments = words[:8]
        self.path = os.fsdecode(path)
        self.folder = os.fsdecode(folder)
        self.cpus = [int(cpu) for cpu in cpus.split()]
        self.parent = int(parent)
        self.argv = words[8:8 + int(arguments)]
        self.environ = words[8 + int(arguments):]
        self.files = files
        self.program = Program([os.fsdecode(word) for word in self.argv], self.folder)


class Program:
    """What Python's arguments ask for: a kind of program (script, module, command or input), its
    text, and sys.argv."""

    def __init__(self, argv, folder):
        options = argv[1:]
        while options[:1] == ["-u"] and os.environ.get("PYTHONUNBUFFERED"):  # it changes nothing
            del options[0]
        first = options[0] if options else "-"
        self.argv = options or [""]
        self.text = None
        if first == "-":
            self.kind = "input"
        elif first in ("-c", "-m"):
            if len(options) < 2:
                raise Unfit("%s has no argument" % first)
            self.kind = {"-c": "command", "-m": "module"}[first]
            self.text = options[1]
            del self.argv[1]
        elif first.startswith("-"):
            raise Unfit("it has the option %s of Python" % first)
        else:
            self.kind = "script"
            self.text = first
        self.path0 = ""
        if self.kind == "module":
            self.path0 = folder
        elif self.kind == "script":
            self.path0 = os.path.dirname(os.path.realpath(os.path.join(folder, first)))


class Recorder(dict):
    """The variables of os.environ, which records those that are read, and by whom all are."""

    def __init__(self, variables):
        super().__init__(variables)
        self.names = set()
        self.copier = None

    def __getitem__(self, name):
        self.names.add(name)
        return super().__getitem__(name)

    def __contains__(self, name):
        self.names.add(name)
        return super().__contains__(name)

    def __iter__(self):
        frame = sys._getframe(1)
        while frame.f_globals.get("__name__") in ("os", "collections.abc", "_collections_abc"):
            frame = frame.f_back
        self.copier = frame.f_globals.get("__name__")
        return super().__iter__()


class Imports:
    """The imported modules, and with what they have been imported."""

    def __init__(self, modules):
        self.modules = modules
        self.checked = False  # whether the files of the modules have been looked at for this job
        self.cpus = len(os.sched_getaffinity(0))
        self.started = set(sys.modules)
        if os.environ.get("PYTHONINSPECT"):
            raise Unfit("PYTHONINSPECT is set there")
        if os.stat(HERE + "../exe") != os.stat(sys.executable):
            raise Unfit("%s there is a script that starts %s: put the folder of the interpreter first in PATH"
                        % (sys.executable, os.readlink("/proc/self/exe")))
        # warm.go has refused relative entries. An empty one leads from here to nothing, but a rank
        # would import from its own folder.
        folders = os.environ.get("PYTHONPATH")
        if folders and "" in folders.split(os.pathsep):
            raise Unfit("an empty entry of PYTHONPATH would be the folder of each rank")
        self.environ = dict(os.environb)
        recorder = Recorder(self.environ)
        os.environ._data = os.environb._data = recorder
        self.opened = set(open_files())
        self.shared = shared_memory()
        output = os.memfd_create("printed")
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        for module in modules:
            self.load(module)
        sys.stdout.flush()
        sys.stderr.flush()
        self.printed = os.pread(1, 4096, 0)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.close(null)
        environ = dict(dict.items(recorder))
        os.environ._data = os.environb._data = environ
        if recorder.copier:
            raise Unfit("%s copies the whole environment when it is imported" % recorder.copier)
        self.read = recorder.names
        self.changed = {name: environ.get(name) for name in set(environ) | set(self.environ)
                        if environ.get(name) != self.environ.get(name)}
        self.files = {path: version(path) for path in map(origin, list(sys.modules.values())) if path}
        self.names = {name.partition(".")[0] for name in set(sys.modules) - self.started}
        self.names -= set(sys.builtin_module_names)
        self.interpreter = version("/proc/self/exe")

    def load(self, module):
        """Imports a module, and refuses one of which a fork would not copy everything."""
        try:
            __import__(module)
        except BaseException as why:
            raise Unfit("import %s: %s: %s" % (module, type(why).__name__, why)) from None
        child = os.fork()  # libraries that can go on without their threads end them before a fork
        if not child:
            try:
                os._exit(0 if name_process(b"python", [b"python"], [b"A=B"]) else 1)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        if status:
            raise Unfit("the kernel lets no process change what /proc shows as its arguments (PR_SET_MM_MAP)")
        threads = os.listdir("/proc/self/task")
        if len(threads) > 1:
            raise Unfit("%s has started threads when it was imported, which a fork does not copy" % module)
        for descriptor, opened in open_files().items():
            if descriptor not in self.opened:
                raise Unfit("%s has opened %s when it was imported, which forks would share" % (module, opened))
        if not shared_memory() <= self.shared:
            raise Unfit("%s has made memory when it was imported, as for a lock of multiprocessing, which forks would share, "
                        "also those of other jobs" % module)

    def check(self, rank):
        """Raises Unfit if a rank would differ from one that is started."""
        if version(rank.path) != self.interpreter or os.path.dirname(rank.path) != os.path.dirname(sys.executable):
            raise Unfit("its program is not %s" % sys.executable)
        if b"/" in rank.argv[0] and os.fsdecode(rank.argv[0]) != rank.path:
            raise Unfit("the path of its program is relative")
        if len(rank.cpus) != self.cpus:
            raise Unfit("it has %d CPUs, and the modules were imported with %d" % (len(rank.cpus), self.cpus))
        self.check_environment(dict(word.partition(b"=")[::2] for word in rank.environ))
        self.check_program(rank)
        if not self.checked:
            for path, seen in self.files.items():
                if version(path) != seen:
                    raise Unfit("%s has changed since it was imported" % path)
            self.checked = True

    def check_environment(self, environ):
        for name in sorted(set(environ) | set(self.environ)):
            text = os.fsdecode(name)
            early = text.startswith(READ_EARLY) and text not in READ_LATE
            if (early or name in self.read) and environ.get(name) != self.environ.get(name):
                raise Unfit("%s differs from the time of the imports" % text)

    def check_program(self, rank):
        program = rank.program
        if program.kind == "input" and rank.terminal:
            raise Unfit("it is interactive")
        if program.kind == "module":
            for name in (program.text, program.text + ".__main__"):
                if name in sys.modules:
                    raise Unfit("%s is imported already" % name)
        if program.kind == "script":
            path = os.path.join(rank.folder, program.text)
            try:
                with open(path, "rb") as script:
                    script.seek(-min(os.fstat(script.fileno()).st_size, 1 << 16), os.SEEK_END)
                    archive = b"PK\5\6" in script.read()
            except OSError as why:
                raise Unfit("%s: %s" % (path, why.strerror)) from None
            if archive:
                raise Unfit("%s may be an archive" % path)
        if getattr(sys.flags, "safe_path", False) or sys.flags.isolated:
            return
        folder = program.path0 or rank.folder
        try:
            entries = os.listdir(folder)
        except OSError as why:
            raise Unfit("%s: %s" % (folder, why.strerror)) from None
        for entry in entries:
            if entry.partition(".")[0] in self.names:
                raise Unfit("%s in %s would be imported instead of another" % (entry, folder))


def open_files():
    """Returns what each open descriptor leads to."""
    files = {}
    for descriptor in os.listdir(HERE):
        try:
            files[descriptor] = os.readlink(HERE + descriptor)
        except OSError:
            pass  # the one of the list
    return files


def shared_memory():
    """Returns the memory of this process that its forks would share and can change, by its beginning."""
    with open("/proc/self/maps", "rb") as maps:
        return {line.partition(b"-")[0] for line in maps if line.split()[1].endswith(b"s") and b"w" in line.split()[1]}


def version(path):
    """Returns what tells versions of a file apart, or None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def origin(module):
    """Returns the path of the file that a module has been read from, or None."""
    spec = getattr(module, "__dict__", {}).get("__spec__")
    path = getattr(spec, "origin", None)
    return path if isinstance(path, str) and os.path.isabs(path) else None
