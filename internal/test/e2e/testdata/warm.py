"""Prints what a process can see of how it was started, a line for each fact."""
import sys, os
frame = sys._getframe().f_back
names = sorted((name, type(value).__name__, str(value)[:60].split(" at 0x")[0]) for name, value in globals().items()
               if name not in ("frame", "__builtins__"))
import ctypes, fcntl, resource, signal, threading
import faulthandler


def show(name, *values):
    print(name, *values)


show("frame", frame and (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
show("globals", names)
for name in ("argv", "orig_argv", "path", "flags", "executable", "prefix", "exec_prefix", "warnoptions", "_xoptions"):
    show("sys", name, getattr(sys, name, None))
show("importers", sorted(name for name in sys.path_importer_cache if name.startswith("/proc")))
for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)):
    show("stream", stream.name, stream.fileno(), stream.mode, stream.encoding, stream.errors, stream.line_buffering,
         stream.write_through, stream.isatty(), type(stream.buffer).__name__, stream is sys.__dict__["__%s__" % stream.name.strip("<>")])
for number in range(1, signal.NSIG):
    try:
        show("signal", number, signal.getsignal(number))
    except ValueError:
        pass
show("mask", signal.pthread_sigmask(signal.SIG_BLOCK, []))
with open("/proc/self/status") as status:
    for line in status:
        if line.startswith(("Name", "Umask", "Uid", "Gid", "Groups", "Threads", "SigPnd", "SigBlk", "SigIgn", "SigCgt", "Shd", "Cap", "NoNewPrivs", "Seccomp",
                            "Cpus_allowed", "Mems_allowed")):
            show("status", line.split())
for name in ("cgroup", "limits", "comm", "oom_score_adj", "coredump_filter", "personality", "timerslack_ns"):
    with open("/proc/self/" + name) as text:
        for line in text:
            if ":pids:" not in line:  # to which ranks are moved when they have run for a moment
                show(name, line.split())
show("cmdline", open("/proc/self/cmdline", "rb").read())
own = sorted(open("/proc/self/environ", "rb").read().split(b"\0"))
show("environ is os.environ", own[0] == b"" and dict(word.split(b"=", 1) for word in own[1:]) == dict(os.environb))
for word in own:
    show("env", word)
for descriptor in sorted(os.listdir("/proc/self/fd"), key=int):
    try:
        opened = os.readlink("/proc/self/fd/" + descriptor)
        show("fd", descriptor, opened.split(":")[0], fcntl.fcntl(int(descriptor), fcntl.F_GETFD),
             fcntl.fcntl(int(descriptor), fcntl.F_GETFL))
    except OSError:
        pass  # the one of the list
death = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(death))
show("death signal", death.value)
show("leader", os.getpid() == os.getpgrp() == os.getsid(0))
show("parent", open("/proc/%d/comm" % os.getppid()).read() != "")
show("folder", os.getcwd())
show("nice", os.nice(0), os.sched_getscheduler(0), sorted(os.sched_getaffinity(0)), os.cpu_count())
show("faulthandler", faulthandler.is_enabled())
show("threads", threading.active_count(), threading.current_thread().name, threading.main_thread().name,
     threading.get_native_id() == os.getpid())
show("times", os.times().children_user)
import atexit
atexit.register(lambda: print("atexit", sys._getframe().f_back, "__file__" in globals()))
end = sys.argv[1] if len(sys.argv) > 1 else ""
if end == "fail":
    def fail():
        raise KeyError("fails")
    fail()
elif end == "interrupt":
    os.kill(os.getpid(), signal.SIGINT)
    signal.pause()
elif end == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
elif end:
    sys.exit(end if end.isalpha() else int(end))
