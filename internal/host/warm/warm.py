"""A warm interpreter: it has imported modules, and forks processes that run as if they were started.

It is started as `python ARCHIVE`, whose __main__ calls serve. CPython runs that by a function of
runpy, which it holds and drops from C. serve returns only in a process that has become a rank, when
the drop of that function runs the rank's program: below the program there is no frame of Python.
"""

import os
import sys
import time

import _weakref as weakref

from channel import HERE, Channel, close_all, place
from imports import Imports, Rank, Unfit
from interpreter import prepare
from process import set_death_signal, settle

SOCKET = 3  # descriptor of the socket on which requests come
ARCHIVE = 4
SIGTERM = 15
SIGKILL = 9


def serve():
    """Answers requests, and returns in a rank, whose program then runs."""
    main = sys.modules["__main__"].__dict__
    for name in set(main) - {"__name__", "__doc__", "__builtins__", "__annotations__"}:
        main[name] = None
    main["__loader__"] = sys.modules["_frozen_importlib"].BuiltinImporter
    for name in ("__file__", "__cached__", "warm"):
        main.pop(name, None)
    sys.path[:] = [entry for entry in sys.path if not entry.startswith(HERE)]
    for cache in (sys.path_importer_cache, sys.modules["zipimport"]._zip_directory_cache):
        for entry in [entry for entry in cache if entry.startswith(HERE)]:
            del cache[entry]
    caller = sys.modules.pop("runpy").__dict__.pop("_run_module_as_main")
    for name in ("warm", "channel", "imports", "process", "interpreter"):
        del sys.modules[name]
    os.close(ARCHIVE)
    channel = Channel(SOCKET)
    cpus, modules, _ = channel.receive()
    try:
        os.sched_setaffinity(0, [int(cpu) for cpu in cpus.split()])
        imports = Imports([name.decode() for name in modules.split()])
    except Unfit as why:
        channel.send(b"no", str(why).encode(errors="replace"))
        os._exit(0)
    channel.send(b"yes", imports.printed)
    while True:
        *words, files = channel.receive()
        if words[0] == b"guard":
            channel = fork_guard(channel, words[1:], files)
        elif words[0] == b"agent":
            channel = become_agent(channel, words[1:], files)
        else:
            run = fork_rank(channel, imports, words[1:], files)
            if run:
                global when_dropped
                when_dropped = weakref.ref(caller, run)
                return


def fork_guard(channel, words, files):
    """Forks a guard, whose parent is the one of this process, and below it the process that is to
    be its agent. It returns the channel on which this process goes on."""
    if not fork_away(int(words[0])):
        return close_all(files, channel)
    os.setsid()
    embryo = os.fork()
    if embryo:
        channel.send(b"yes", str(os.getpid()).encode())
        execute(words[1:], files[:5], embryo)
    os.setpgid(0, 0)
    set_death_signal(SIGTERM)
    return close_all(files[:5], Channel(files[5]), channel)


def become_agent(channel, words, files):
    """Makes this process an agent, with a warm interpreter below it, which returns."""
    warm = os.fork()
    if warm:
        channel.send(b"yes", b"")
        execute(words, files[:5], warm)
    set_death_signal(SIGKILL)
    return close_all(files[:5], Channel(files[5]), channel)


def fork_rank(channel, imports, words, files):
    """Forks a rank, whose parent is that of this process. It returns what runs the program in
    the rank, and None here."""
    try:
        rank = Rank(words, files)
        imports.check(rank)
    except Unfit as why:
        channel.send(b"no", str(why).encode(errors="replace"))
        return close_all(files, None)
    if not fork_away(rank.parent):
        return close_all(files, None)
    set_death_signal(SIGKILL)
    if os.getppid() != rank.parent:  # it ended before it could kill this process
        os._exit(127)
    try:
        settle(rank, channel, imports.changed)
        run = prepare(rank)
        channel.send(b"yes", str(os.getpid()).encode())
    except BaseException as why:
        try:
            channel.send(b"no", ("%s: %s" % (type(why).__name__, why)).encode(errors="replace"))
        finally:
            os._exit(127)
    channel.socket.close()
    return run


def fork_away(parent):
    """Forks a process that is left to its parent, the next subreaper above this process, and returns
    True there."""
    between = os.fork()
    if between:
        os.waitpid(between, 0)
        return False
    between = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == between:
        time.sleep(0.0001)
    if os.getppid() != parent:  # it has ended
        os._exit(127)
    return True


def execute(words, files, below):
    """Replaces this process by a program. Its standard files come first in files, then the program
    and the end of the socket to the process below."""
    import signal

    program = os.dup(files[3])
    arguments = int(words[0])
    place(files[:3] + [files[4]])
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python
        signal.signal(ignored, signal.SIG_DFL)
    argv = words[1:1 + arguments] + [b"%d:%d" % (SOCKET, below)]
    os.execve(HERE + str(program), argv, dict(word.split(b"=", 1) for word in words[1 + arguments:]))
