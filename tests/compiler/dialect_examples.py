"""Every operation of docs/DIALECT.md has an example, and each example compiles.

  dialect_examples.py NABLA_OPT DIALECT.md

Examples are the mlir blocks of the page. Each is parsed, verified and lowered
by nabla-cpu. Its text, as printed, is parsed and printed again: the same text,
and the same operations in the generic form, where every type is written.
Operations whose results may be packed or dense are there with both, and what
is printed says which.
"""
import re
import subprocess
import sys

# With results that are dense, and implicit; of each, in this order.
W = "!nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>"
NESTED = ("!nabla.implicit<8x64xf32, #nabla.nf4<block = 64, scale = "
          "#nabla.dynamic8<block = 256>>>")
HALF = "!nabla.implicit<8x64xf32, #nabla.splat<0.5 : f32>>"
SPLIT = "\n// -----\n"
EYE = "!nabla.implicit<8x8xf32, #nabla.identity>"
DENSE = "tensor<8x64xf32>"
BOTH = [
    ("neg %0", [DENSE], [W]),
    ("mul %0, %1", [DENSE, DENSE], [W, HALF]),
    ("mul %0, %1", [W, DENSE], [HALF, W]),
    ("concatenate %0, %1 dim = 0", [W, DENSE], [W, W]),
    ("concatenate %0, %1 dim = 1", [W, W], [HALF, HALF]),
    ("stack %0, %1 dim = 0", [DENSE, DENSE], [W, W]),
    ("stack %0, %1 dim = 1", [W, W], None),
    ("transpose %0 permutation = [1, 0]", [DENSE], [W]),
    ("slice %0 starts = [0, 0] limits = [4, 8]", [EYE], [W]),
    ("slice %0 starts = [0, 0] limits = [4, 8] strides = [2, 1]", [DENSE],
     [NESTED]),
    ("split %0 dim = 0 sizes = [2, 6]", [EYE], [W]),
    ("materialize %0", [NESTED], None),
    ("materialize %0 levels = 1", [W], [NESTED]),
    ("unpack %0", [W], [NESTED]),
]


def run(opt, text, *options):
    result = subprocess.run(
        [opt, "-", "--split-input-file", *options], input=text,
        capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit("nabla-opt %s fails:\n%s\n%s" % (
            " ".join(options), result.stderr, text))
    return result.stdout


def generic(opt, text):
    return run(opt, text, "--mlir-print-op-generic")


def round_trip(opt, text):
    printed = run(opt, text)
    assert run(opt, printed) == printed, "another text:\n" + printed
    assert generic(opt, printed) == generic(opt, text), printed
    assert run(opt, generic(opt, text)) == printed, printed
    return printed


def examples(page):
    """The blocks of the page; an operation without one is an error."""
    blocks, missing = [], []
    for section in re.split(r"^### ", page, flags=re.M)[1:]:
        found = re.findall(r"^```mlir\n(.*?)^```$", section, re.M | re.S)
        name = re.match(r"`(nabla\.\w+)`", section)
        if name and not any(name[1] + " " in b or name[1] + "(" in b
                            for b in found):
            missing.append(name[1])
        blocks += found
    assert not missing, "no example of " + ", ".join(missing)
    return blocks


def one(form, types):
    arguments = ["%%a%d: %s" % pair for pair in enumerate(types)]
    text = re.sub(r"%(\d)", r"%a\1", form)
    count = 2 if form.startswith(("split", "unpack")) else 1
    return "func.func @f(%s) {\n  %%r:%d = nabla.%s : %s\n  return\n}\n" % (
        ", ".join(arguments), count, text, ", ".join(types))


def line_of(module):
    line, = [x for x in module.split("\n") if " nabla." in x]
    return line


def check_both(opt):
    """What is printed has `->` where a result is implicit, and nowhere else;
    another type there is refused."""
    cases = [(form, types, types is packed)
             for form, dense, packed in BOTH for types in (dense, packed)
             if types]
    printed = round_trip(opt, SPLIT.join(one(f, t) for f, t, _ in cases))
    modules, wrong = printed.split("// -----"), []
    assert len(modules) == len(cases)
    for module, (_, _, implicit) in zip(modules, cases):
        line = line_of(module)
        assert (" -> " in line) == implicit, line
        if implicit:
            wrong.append(module.replace(line, line.split(" -> ")[0]
                                        + " -> tensor<1xf32>"))
    refused = subprocess.run(
        [opt, "-", "--split-input-file"], input=SPLIT.join(wrong),
        capture_output=True, text=True, check=False)
    count = refused.stderr.count("has results of other types: '")
    assert refused.returncode == 1 and count == len(wrong), refused.stderr


def main():
    opt, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        blocks = examples(file.read())
    whole = SPLIT.join(blocks)
    round_trip(opt, whole)
    # a custom call compiles in a process that has its handler
    run(opt, SPLIT.join(b for b in blocks if "@custom_call" not in b),
        "--nabla-cpu", "-o", "/dev/null")
    check_both(opt)
    print("%d examples" % len(blocks))


main()
