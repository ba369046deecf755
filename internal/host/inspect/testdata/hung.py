"""Hangs in all its threads, and prints the stack of each as Python knows it: lines of JSON, the main thread first."""
import json, sys, threading, time

arrived = threading.Semaphore(0)


def hang():
    arrived.release()
    time.sleep(
        1000
    )


def generator():
    for i in range(3):
        yield i
        if i:
            hang()


def consume():
    return sum(
        i
        for i in generator()
    )


class Manager:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            raise KeyError("ä")
        except KeyError:
            [hang() for _ in range(1)]


def manage():
    with Manager():
        pass


def sorted_by_call():
    return sorted([1], key=lambda _: hang())


def recurse(n):
    hang() if n == 0 else recurse(n - 1)


async def wait():
    hang()


def coroutine():
    wait().send(None)


# Line numbers that go far and back, long code, and names of all widths.
far = "def far():\n    x = [0" + ",\n0" * 400 + "]\n" + "    x = x[0] + 1 if 0 else x\n" * 300 + "\n" * 1000
far += "    try:\n        return (hang\n(\n))\n    finally:\n        pass\n"
widths = "def é():\n ж()\ndef ж():\n 𝔥()\ndef 𝔥():\n\n\n hang()\n"
exec(compile(far, "/tmp/far.py", "exec"))
exec(compile(widths, "/tmp/é/ж/𐀀.py", "exec"))
exec(compile("def long(): hang()", "/" + 200 * "long", "exec"))

functions = [consume, manage, sorted_by_call, lambda: recurse(20), coroutine, far, é, long]
threads = [threading.Thread(target=f, daemon=True) for f in functions]
for t in threads:
    t.start()


def stacks(main):
    def stack(frame):
        found = []
        while frame:
            found.append([frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno])
            frame = frame.f_back
        return found
    for _ in range(len(threads) + 1):
        arrived.acquire()
    time.sleep(0.2)
    frames = sys._current_frames()
    for t in [main] + threads:
        print(json.dumps(stack(frames[t.ident])))
    print("ready", flush=True)
    time.sleep(1000)


threading.Thread(target=stacks, args=[threading.current_thread()], daemon=True).start()
recurse(3)
