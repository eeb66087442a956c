"""The structures and numbers that the packages took from the C headers are those of
the C compiler.

usage: test_layout.py CC SOURCE_FOLDER PACKAGE_FOLDER"""
import ctypes
import os
import subprocess
import sys
import tempfile

compiler, source, folder = sys.argv[1:]
sys.path.insert(0, folder)  # the package needs NumPy, this module does not
import _c as c  # noqa: E402
structs = [(name, it) for name, it in vars(c).items()
           if isinstance(it, type) and issubclass(it, ctypes.Structure) and
           it is not ctypes.Structure]
assert len(structs) > 40
include = os.path.join(source, "include")
headers = [h for h in os.listdir(os.path.join(include, "nabla"))
           if h.endswith(".h") and h != "mlir.h"]
lines = ["#include <stdio.h>", "#include <stddef.h>"]
lines += ['#include "nabla/%s"' % h for h in sorted(headers)] + ["int main(void) {"]
want = []
for name, it in structs:
    spelled = "struct " + name
    lines.append('printf("%%zu\\n", sizeof(%s));' % spelled)
    want.append((name, ctypes.sizeof(it)))
    for field, _ in it._fields_:
        lines.append('printf("%%zu %%zu\\n", offsetof(%s, %s), sizeof(((%s *)0)->%s));' %
                     (spelled, field, spelled, field))
        place = getattr(it, field)
        want.append(("%s.%s" % (name, field), "%d %d" % (place.offset, place.size)))
for rows in c.ENUMS.values():
    for row, number in rows.items():
        lines.append('printf("%%d\\n", (int)%s);' % row)
        want.append((row, number))
lines.append("return 0; }")
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "layout.c")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    subprocess.run([compiler, "-std=c17", "-I", include, path, "-o", path + ".out"],
                   check=True)
    got = subprocess.run([path + ".out"], capture_output=True, text=True,
                         check=True).stdout.splitlines()
wrong = [(name, value, g) for (name, value), g in zip(want, got) if str(value) != g]
if wrong or len(got) != len(want):
    sys.exit("layout differs (name, Python, C): %s" % wrong[:20])
print("%d structures, %d numbers" % (len(structs), len(want)))
