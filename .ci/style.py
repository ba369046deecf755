"""Refuses assignments of several values in the Python files that it is given. A swap may have them."""

import ast
import sys


def packed(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            for target in node.targets:
                if isinstance(target, ast.Tuple) and sorted(map(ast.unparse, target.elts)) != sorted(map(ast.unparse, node.value.elts)):
                    yield node


found = [(name, node) for name in sys.argv[1:] for node in packed(ast.parse(open(name, "rb").read()))]
for name, node in found:
    print("%s:%d: %d values in one assignment: one statement each" % (name, node.lineno, len(node.value.elts)))
sys.exit(bool(found))
