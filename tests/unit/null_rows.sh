#!/bin/sh
# The rows of null_cases.def are the pointers of the public functions: none is
# missing, none is left over; and what ends a life is in the tests.
# usage: null_rows.sh SOURCE PYTHON
exec "$2" - "$1" <<'END'
import glob, re, sys
source = sys.argv[1]
anywhere = {"allocator", "os", "environment", "diag", "self", "context"}
wanted, ends = set(), set()
for header in sorted(glob.glob(source + "/include/nabla/*.h")):
    text = re.sub(r"/\*.*?\*/", "", open(header).read(), flags=re.S)
    for m in re.finditer(r"NABLA_API\s+(?:NABLA_MUST_USE\s+)?(\w+)\s+(nabla_\w+)"
                         r"\s*\(((?:[^();]|\([^()]*\))*)\)", text):
        kind, function, inside = m.groups()
        if re.search(r"_(destroy|close)$", function):
            ends.add(function)
        if kind != "nabla_status" or function == "nabla_fail":
            continue
        inside = re.sub(r"\([^()*]+\)", "", re.sub(r"\s+", " ", inside))
        inside = re.sub(r"\(\*(\w+)\)\([^()]*\)", r"*\1", inside)
        for parameter in inside.split(","):
            name = re.search(r"(\w+)\)?$", parameter.strip()).group(1)
            if "*" in parameter and name not in anywhere:
                wanted.add((function, name))
rows, tests = set(), ""
for kind, test in (("unit", "null_test.c"), ("compiler", "null_compiler_test.c")):
    tests += open(f"{source}/tests/{kind}/{test}").read()
    text = open(f"{source}/tests/{kind}/null_cases.def").read()
    rows |= set(re.findall(r"^(?:REFUSED|OPTIONAL)\((\w+), (\w+)", text, re.M))
bad = [f"no row for {f}, {p}" for f, p in sorted(wanted - rows)]
bad += [f"a row for {f}, {p}, which is no pointer" for f, p in sorted(rows - wanted)]
bad += [f"{f}(NULL) is not tested" for f in sorted(ends) if f + "(NULL)" not in tests]
print("\n".join(bad) or
      f"figure: pointers {len(rows)}\nfigure: functions_that_end {len(ends)}")
sys.exit(bool(bad) or len(wanted) < 50 or len(ends) < 8)
END
