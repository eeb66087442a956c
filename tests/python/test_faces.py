"""Every function of the C headers is called by the Python packages, or has a reason in
without.txt.

usage: test_faces.py SOURCE_FOLDER PACKAGE_FOLDER"""
import os
import re
import sys

source, folder = sys.argv[1:]
sys.path.insert(0, folder)  # the package needs NumPy, this module does not
import _c  # noqa: E402

text = ""
for name in os.listdir(folder):
    if name.endswith(".py") and name != "_c.py":
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            text += file.read()
used = set(re.findall(r"\b(?:LIB\.|\")(nabla_\w+)", text))
reasons = {}
with open(os.path.join(source, "tests/python/without.txt"), encoding="utf-8") as file:
    for line in file:
        if line.strip() and not line.startswith("#"):
            pattern, _, reason = line.strip().partition(": ")
            assert reason, line
            reasons[pattern] = reason
wrong = []
seen = set()
for function in _c.FUNCTIONS:
    matched = [p for p in reasons if re.fullmatch(p, function)]
    seen.update(matched)
    if function in used and matched:
        wrong.append("%s is called, and has the reason %r" % (function, matched[0]))
    if function not in used and not matched:
        wrong.append("%s has no face in Python and no reason" % function)
wrong += ["no function is %s" % p for p in reasons if p not in seen]
if wrong:
    sys.exit("\n".join(wrong))
print("%d functions, %d reasons" % (len(_c.FUNCTIONS), len(reasons)))
