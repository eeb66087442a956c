"""scripts/structure names double names, headers whose functions are elsewhere,
folders that include each other, and wide folders, in a small tree of its own.

usage: structure_test.py SCRIPT
"""
import os
import shutil
import subprocess
import sys
import tempfile

GOOD = {
    "lib/a/one.h": '/* One. */\ntypedef struct nabla_one { int x; } nabla_one;\n'
                   "int nabla_one_get(const nabla_one *one);\n",
    "lib/a/one.c": '#include "lib/a/one.h"\n'
                   "int nabla_one_get(const nabla_one *one) { return one->x; }\n",
    "lib/b/two.h": '/* Two. */\n#include "lib/a/one.h"\n#define NABLA_TWO 2\n',
}

# name: (files that are put beside, or in place of, those of GOOD; what is said)
BAD = {
    "type": ({"lib/b/more.h": "/* */\ntypedef struct nabla_one nabla_one;\n"
                              "struct nabla_one { int y; };\n"},
             "nabla_one is declared by lib/a/one.h (type), lib/b/more.h (type)"),
    "macro": ({"lib/a/more.h": "/* */\n#define NABLA_TWO 3\n"},
              "NABLA_TWO is declared by lib/a/more.h (macro), lib/b/two.h (macro)"),
    "enumerator": ({"lib/a/more.h": "/* */\nenum { NABLA_X, NABLA_TWO };\n"},
                   "NABLA_TWO is declared by lib/a/more.h (enumerator), lib/b/two.h (macro)"),
    "function": ({"lib/b/more.h": "/* */\nint nabla_one_get(void);\n"},
                 "nabla_one_get is declared by lib/a/one.h (function), "
                 "lib/b/more.h (function)"),
    "elsewhere": ({"lib/a/one.c": "", "lib/b/far.c":
                   '#include "lib/a/one.h"\nint nabla_one_get(const nabla_one *one)\n'
                   "{ return one->x; }\n"},
                  "lib/a/one.h: its head does not say that functions are defined in "
                  "lib/b/far.c"),
    "cycle": ({"lib/a/one.c": '#include "lib/c/three.h"\n',
               "lib/c/three.h": '/* */\n#include "lib/b/two.h"\n'},
              "folders include each other: lib/a, lib/b, lib/c: "),
    "wide": ({f"lib/b/c{i}.c": "" for i in range(45)},
             "lib/b holds 46 source files, more than 45: "),
}


def run(script, changes, *arguments):
    """What the script prints about GOOD with changes."""
    with tempfile.TemporaryDirectory() as root:
        os.mkdir(os.path.join(root, "scripts"))
        shutil.copy(script, os.path.join(root, "scripts/structure"))
        for name, text in {**GOOD, **changes}.items():
            path = os.path.join(root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)
        return subprocess.run([sys.executable, "scripts/structure", *arguments], cwd=root,
                              capture_output=True, text=True, check=True).stdout


def main():
    script = sys.argv[1]
    failures = []
    if run(script, {}):
        failures.append(f"good: {run(script, {})}")
    for name, (changes, wanted) in BAD.items():
        got = run(script, changes)
        if not got.startswith(wanted):
            failures.append(f"{name}: wanted {wanted!r}, got {got!r}")
    cases = {f"tests/unit/c{i}.c": "" for i in range(60)}
    if run(script, cases):
        failures.append(f"cases of tests: {run(script, cases)}")
    said = {"lib/a/one.h": GOOD["lib/a/one.h"].replace("One.", "One. Functions: lib/b."),
            **BAD["elsewhere"][0]}
    if run(script, said):
        failures.append(f"said: {run(script, said)}")
    if '"lib/b" -> "lib/a" [label=1]' not in run(script, {}, "--graph"):
        failures.append("graph: " + run(script, {}, "--graph"))
    for failure in failures:
        print("FAILED", failure)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
