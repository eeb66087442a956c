"""Runs the Python blocks of a page, one after the other, in a folder of their own, and a
second time there, as readers do.

usage: python_blocks.py PAGE; exit 77 without NumPy"""
import contextlib
import io
import os
import re
import sys
import tempfile

try:
    import numpy  # noqa: F401
except ImportError:
    print("skipped: no NumPy")
    sys.exit(77)
page = sys.argv[1]
with open(page, encoding="utf-8") as file:
    text = file.read()
blocks = [m for m in re.finditer(r"(<!-- not run[^\n]*-->\n)?```python\n(.*?)```", text,
                                 re.S)]
space = {"__name__": "blocks"}
sys.modules["blocks"] = type(sys)("blocks")
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    ran = 0
    for block in blocks + blocks:
        line = text.count("\n", 0, block.start(2))
        code = compile("\n" * line + block[2], page, "exec")
        if block[1]:
            continue
        with contextlib.redirect_stdout(io.StringIO()):
            exec(code, space)
        ran += 1
    os.chdir("/")
    space.clear()
if not ran:
    sys.exit("%s has no Python block that is run" % page)
print("%d blocks" % (ran // 2))
