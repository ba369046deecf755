"""An interpreter as CPython would have made it for a program, and the program's run."""

import ctypes
import importlib.util
import marshal
import os
import sys
from functools import partial

from channel import HERE
from process import libc

PYCF_IGNORE_COOKIE = 0x10


def prepare(rank):
    """Makes this interpreter what the rank's would be, and returns what runs the program."""
    sys.executable = rank.path
    if hasattr(sys, "orig_argv"):
        sys.orig_argv = [os.fsdecode(word) for word in rank.argv]
    sys.argv = rank.program.argv
    if not getattr(sys.flags, "safe_path", False) and not sys.flags.isolated:
        sys.path.insert(0, rank.program.path0)
    for descriptor, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)):
        reopen(descriptor, stream)
    reseed()
    return PROGRAMS[rank.program.kind](rank.program.text)


def reopen(descriptor, stream):
    """Makes a standard stream what it is after a start with the descriptor, as CPython's
    create_stdio does."""
    import io
    writes = descriptor > 0
    buffered = not os.environ.get("PYTHONUNBUFFERED")
    buffer = io.open(descriptor, "wb" if writes else "rb", -1 if buffered or not writes else 0, closefd=False)
    raw = getattr(buffer, "raw", buffer)
    raw.name = ("<stdin>", "<stdout>", "<stderr>")[descriptor]
    lines = raw.isatty() or descriptor == 2 and sys.version_info >= (3, 9)
    stream.__init__(buffer, stream.encoding, stream.errors, "\n", buffered and lines, not buffered)
    stream.mode = "w" if writes else "r"


def reseed():
    """Gives the rank random numbers of its own. The module random does so by itself."""
    numpy = sys.modules.get("numpy.random")
    if numpy:
        numpy.seed()
    processes = sys.modules.get("multiprocessing.process")
    if processes:
        processes.current_process().authkey = os.urandom(32)


def run_script(name):
    file = open_file(os.fsencode(name))
    if not os.path.isabs(name) and sys.version_info >= (3, 9):
        name = os.path.join(os.getcwd(), name)
    return program_of("PyRun_AnyFileExFlags", file, os.fsencode(name), 1)


def run_input(_):
    return program_of("PyRun_AnyFileExFlags", ctypes.c_void_p.in_dll(libc, "stdin"), b"<stdin>", 0)


def compile_or_none(text):
    try:
        return compile(text, "<string>", "exec")
    except (SyntaxError, ValueError):
        return None  # the program reports it


def run_command(text):
    if sys.version_info >= (3, 13):  # whose tracebacks show lines of the text
        import linecache
        for key in ("<string>", compile_or_none(text)):  # as 3.13.0 and later versions have it
            try:
                linecache._register_code(key, text, "<string>")
            except (AttributeError, TypeError):
                pass
    return program_of("PyRun_SimpleStringFlags", text.encode(errors="surrogateescape"), flags=PYCF_IGNORE_COOKIE)


MODULE = """
__import__("os").close({descriptor})
try:
    __import__("runpy").found = __import__("runpy")._get_module_details({name!r}, __import__("runpy")._Error)
except __import__("runpy")._Error:
    __import__("sys").exit("%s: %s" % (__import__("sys").executable, __import__("sys").exc_info()[1]))
__import__("sys").argv[0] = __import__("runpy").found[1].origin
__import__("runpy")._run_code(__import__("runpy").found[2], globals(), None, "__main__",
                              __import__("runpy").__dict__.pop("found")[1])
"""  # runpy._run_module_as_main without names of its own


def run_module(name):
    """Runs a module as runpy does, and by code that says that it is runpy's."""
    import runpy
    replaced = runpy._run_module_as_main.__code__
    with open(runpy.__file__, encoding="utf-8") as source:
        lines = source.readlines()
    last = next(at for at in range(replaced.co_firstlineno, len(lines)) if "return _run_code(" in lines[at])
    memory = os.memfd_create("module")
    text = MODULE.format(name=name, descriptor=memory)
    code = compile("\n" * (last + 2 - text.count("\n")) + text, replaced.co_filename, "exec")
    code = code.replace(co_name=replaced.co_name)
    if hasattr(code, "co_qualname"):
        code = code.replace(co_qualname=replaced.co_qualname)
    os.write(memory, importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(code))
    sys.modules["__main__"].__file__ = name  # until runpy sets it: CPython would remove its own
    path = os.fsencode(HERE + str(memory))
    return program_of("PyRun_AnyFileExFlags", open_file(path), path, 1)


PROGRAMS = {"script": run_script, "input": run_input, "command": run_command, "module": run_module}


class Flags(ctypes.Structure):
    """PyCompilerFlags."""
    _fields_ = [("flags", ctypes.c_int), ("version", ctypes.c_int)]


def open_file(path):
    libc.fopen.restype = ctypes.c_void_p
    file = libc.fopen(path, b"rb")
    if not file:
        raise OSError(ctypes.get_errno(), "open the program")
    return ctypes.c_void_p(file)


class Ignored:
    """An argument that a function of C does not have."""

    @classmethod
    def from_param(cls, _):
        return None


def program_of(name, *arguments, flags=0):
    """Returns a function of C that runs a program by a function of CPython, which prints its
    exception, and ends the process. Its caller passes one argument more."""
    run = getattr(ctypes.pythonapi, name)
    kinds = {bytes: ctypes.c_char_p, int: ctypes.c_int, ctypes.c_void_p: ctypes.c_void_p}
    run.argtypes = [kinds[type(argument)] for argument in arguments] + [ctypes.POINTER(Flags), Ignored]
    run.restype = exit_code
    run.errcheck = ctypes.pythonapi.Py_Exit
    run.errcheck.argtypes = [ctypes.c_int, Ignored, Ignored]
    return partial(run, *arguments, ctypes.pointer(Flags(flags, sys.version_info[1])))


def exit_code(result):
    """Returns the exit code for the result of a program. Ctrl-C becomes the signal that it is."""
    if result and getattr(sys, "last_type", None) is KeyboardInterrupt:
        libc.on_exit(getattr(libc, "raise"), None)  # with the exit code
        return 2
    return 1 if result else 0
