"""lib/array/operations.def, include/nabla/array.h and dialect/ops.def agree: each
row has a declaration with its parameters, in order; each function that is declared
below "operations" has a row; each operation of the dialect is recorded by a
row, or one says why not. And the functions of headers that record, or take arrays,
are macros in debug builds (nabla/here.h).

usage: array_table.py SOURCE_FOLDER
"""
import os
import re
import sys

ARRAY, DIMS, COUNT = "nabla_array *", "const int64_t *", "uint32_t"
# The parameters of each kind of row, and of each word of OTHER.
KINDS = {
    "UNARY": [ARRAY], "UNARY_OF": [ARRAY], "BINARY": [ARRAY, ARRAY],
    "COMPARISON": [ARRAY, ARRAY], "REDUCTION": [ARRAY, COUNT, DIMS, "int"],
    "ACROSS": [ARRAY, "int64_t", "int"], "ALONG": [ARRAY, "int64_t"],
    "JOIN": [COUNT, "nabla_array *const *", "int64_t"],
    "FILLED": ["nabla_scope *", "nabla_dtype", COUNT, DIMS], "LIKE": [ARRAY],
    "RANDOM": [ARRAY, "nabla_dtype", COUNT, DIMS]}
WORDS = {"x": [ARRAY], "y": [ARRAY], "list": [COUNT, DIMS], "dim": ["int64_t"],
         "flag": ["int"], "number": ["double"], "dtype": ["nabla_dtype"],
         "scope": ["nabla_scope *"], "arrays": [COUNT, "nabla_array *const *"],
         "out": ["nabla_array **"], "values": [DIMS], "count": [COUNT],
         "kind": [re.compile(r"nabla_(window|scatter)_kind")],
         "text": ["const char *"],
         "options": [re.compile(r"const nabla_\w+ \*")]}
# The op of kinds of rows that do not name one.
OPS = {"COMPARISON": "compare", "REDUCTION": "reduce", "FILLED": "full",
       "LIKE": "full"}


def read(folder, path):
    with open(os.path.join(folder, path), encoding="utf-8") as file:
        return re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)


def rows(folder):
    text = read(folder, "lib/array/operations.def")
    return re.findall(r'^([A-Z_]+)\((\w+)(?:, *([^\n]*))?\)$', text, re.M)


def declarations(folder):
    """Name: types of its parameters, in the header's order."""
    with open(os.path.join(folder, "include/nabla/array.h"),
              encoding="utf-8") as file:
        text = file.read()
    text = text[text.index("/* ---- operations ----"):]
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = re.findall(r"NABLA_API\s+(nabla_array \*|void )nabla_(\w+)\(([^)]*)\);",
                       text)
    return [(name, result.strip(), types(parameters))
            for result, name, parameters in found]


def without_macro(folder):
    """Functions that fail in a scope, and have no macro that enters the place."""
    names = set()
    for header in ("array", "function", "operation", "dlpack", "derivative",
                   "array_rule"):
        text = read(folder, "include/nabla/%s.h" % header)
        if header == "array":
            text += read(folder, "include/nabla/here.def")
        declared = re.findall(r"NABLA_API\s+(?:nabla_array \*|void )(nabla_\w+)\(",
                              text)
        names |= set(declared) - set(re.findall(
            r"^ *# *define (nabla_\w+)\(\.\.\.\)\s*\\?\s*NABLA_HERE\w*\(\1\(", text,
            re.M))
    return names - {"nabla_none", "nabla_operations", "nabla_engine_destroy",
                    "nabla_function_destroy", "nabla_scope_end",
                    "nabla_scope_clear", "nabla_scope_set_eager"}


def types(parameters):
    return [re.sub(r"\w+$", "", " ".join(p.split())).strip()
            for p in parameters.split(",")]


def expected(kind, rest):
    if kind != "OTHER":
        return KINDS[kind]
    words = re.search(r"\(([^)]*)\)", rest).group(1).split(",")
    return [t for word in words for t in WORDS[word.strip()]]


def agrees(want, got):
    return len(want) == len(got) and all(
        w.fullmatch(g) if hasattr(w, "fullmatch") else w == g
        for w, g in zip(want, got))


def main():
    folder = sys.argv[1]
    wrong = []
    table = [r for r in rows(folder) if r[0] != "WITHOUT"]
    declared = [d for d in declarations(folder) if d[0] != "none"]
    if len(table) < 50:
        wrong.append("operations.def cannot be read")
    order = [name for _, name, _ in table]
    for name in set(order) ^ {d[0] for d in declared}:
        wrong.append("nabla_%s has %s" % (name, "no declaration" if name in order
                                          else "no row"))
    if not wrong and order != [d[0] for d in declared]:
        wrong.append("the rows are not in the header's order, from nabla_%s" %
                     next(a for a, d in zip(order, declared) if a != d[0]))
    parameters = {d[0]: d for d in declared}
    for kind, name, rest in table:
        if name in parameters and not agrees(expected(kind, rest),
                                             parameters[name][2]):
            wrong.append("nabla_%s: %s in the table, %s in the header" % (
                name, expected(kind, rest), parameters[name][2]))
    ops = re.findall(r"^OP\((\w+)", read(folder, "dialect/ops.def"), re.M)
    recorded = [OPS.get(kind) or rest.split(",")[0] for kind, _, rest in table]
    without = {name: rest for kind, name, rest in rows(folder)
               if kind == "WITHOUT"}
    for op in ops:
        if (op in recorded) == (op in without):
            wrong.append("nabla.%s is recorded by a row, or has a reason why "
                         "not" % op)
    for op in set(recorded) - set(ops) - {"parts"} | set(without) - set(ops):
        wrong.append("there is no operation nabla.%s" % op)
    for name in without_macro(folder):
        wrong.append("%s has no macro with NABLA_HERE" % name)
    for text in wrong:
        print(text)
    return 1 if wrong else 0


sys.exit(main())
