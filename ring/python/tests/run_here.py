"""gorun.run() in a directory where others have put modules, and in one of this program's own."""

import os
import sys
import tempfile

import gorun

NAMES = ("gorun", "cloudpickle", "numpy", "pickle", "runpy", "traceback", "json", "typing", "helper")

with tempfile.TemporaryDirectory() as folder:
    mark = os.path.join(folder, "mark")
    for name in NAMES:
        with open(os.path.join(folder, name + ".py"), "w") as f:
            f.write("open(%r, 'a').write(%r)\n" % (mark, name + " "))
    os.chdir(folder)
    assert gorun.run(len, ("abc",), np=2) == [3, 3]
    assert not os.path.exists(mark), open(mark).read()
    with open("helper.py", "w") as f:
        f.write("def twice(n):\n    return 2 * n\n")
    for path in ("", folder):
        sys.path.insert(0, path)
        import helper

        assert gorun.run(helper.twice, (2,), np=1) == [4]
        sys.path.pop(0)
    os.chdir("/")
print("all right")
