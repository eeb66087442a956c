"""Every operation of dialect/ops.def, and every pair of an encoding with an
operation that takes implicit arrays, compiled, run and compared with numpy:
element types, `?` dimensions, rank 0, no elements, NaN, infinities, denormals.

usage: ops.py NABLA_RUN quick|medium
An op or a pair without a case here fails the test.
"""
import os
import re
import sys

import harness
from harness import np
import arrays
import call_ops
import composite_ops
import control_ops
import create_ops
import dense_ops
import gather_ops
import implicit_composites
import implicit_math
import implicit_ops
import math_ops
import scale_ops
import shape_ops
import window_ops

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                      "../../dialect")


def table():
    """Op: what becomes of its implicit operands."""
    with open(os.path.join(FOLDER, "ops.def"), encoding="utf-8") as file:
        rows = re.findall(r"^OP\((\w+),[^;]*?\bIMPLICIT\((\w+)\)",
                          file.read(), re.M)
    return dict(rows)


def ruled():
    """Ops that have a rule for implicit operands. All others materialize their
    operands before anything else, so that one encoding stands for all."""
    with open(os.path.join(FOLDER, "rules.def"), encoding="utf-8") as file:
        rows = re.sub(r"(?m)^RULE.*DENSE, *DENSE.*$", "", file.read())
    return set(re.findall(r'"nabla\.(\w+)"', rows))


# Run by several ranks: tests/compiler/sharded_test.c.
SHARDED = {"mesh", "sharding_constraint", "all_reduce", "all_gather", "all_slice",
           "reduce_scatter", "all_to_all", "permute", "broadcast", "axis_index",
           "reshard", "propagation_barrier", "sharding_group",
           "inspect_sharding", "shard_map"}
# Code differs most between these, and the turns of what is run for them; the
# results may not.
TARGETS = {"quick": [("native", 0)], "medium": [("x86-64-v3", 1), ("x86-64", 2)]}
# One function of so many is run for each target: every one for one of the three.
PARTS = 3


def can_run(s, target):
    probe = s.write("func.func @f(%x: tensor<1xf32>) -> tensor<1xf32> "
                    "{ return %x : tensor<1xf32> }")
    done = s.start(probe, "--target", target, "--entry", "none")
    if b"no public function" in done.stderr:
        return True
    print("skipped: target %s: %s" % (target, done.stderr.decode().strip()))
    return False


def check_coverage(s, functions):
    ops, rules = table(), ruled()
    s.expect(len(ops) > 10, "dialect/ops.def cannot be read")
    text = "".join(f.text() for f in functions)
    for op in set(ops) - SHARDED:
        s.expect(re.search(r"\bnabla\.%s\b" % op, text), "no case for " + op)
    names = {str(spec) for spec in arrays.specs()} | {"splat"}
    known = {(spec, op) for f in functions for spec, op in f.pairs}
    for op, takes in ops.items():
        if op in SHARDED or (takes == "none" and op not in ("quantize", "pack")):
            continue
        if takes in ("rules", "parts") and op not in rules:
            s.expect(any(op == known_op for _, known_op in known),
                     "no case for %s of an implicit array" % op)
            continue
        for name in sorted(names):
            if name == "splat" and op in implicit_ops.NOT_FOR_SPLAT:
                continue
            s.expect((name, op) in known, "no case for %s of %s" % (op, name))


def test(s):
    rounds = 1  # for more: another NABLA_TEST_SEED
    rng = np.random.default_rng(harness.seed())
    modules = (dense_ops, math_ops, create_ops, implicit_ops, implicit_math,
               control_ops, shape_ops, gather_ops, window_ops, scale_ops,
               composite_ops, implicit_composites, call_ops)
    functions = [f for m in modules for f in m.cases(rng, rounds)]
    check_coverage(s, functions)
    for target, turn in TARGETS[sys.argv[2]]:
        if can_run(s, target):
            print("target %s" % target, flush=True)
            s.run_all(functions, ["--policy", "off", "--target", target],
                      parts=PARTS, turn=turn)
    if sys.argv[2] == "quick":
        # copies of rows and runs are cut into parts: exact results for each number
        rows = [f for f in functions if "_rows_" in f.name][::7]
        s.expect(len(rows) > 2, "no case for copies of rows")
        for threads in ("1", "2", "7"):
            s.run_all(rows, ["--threads", threads])


if __name__ == "__main__":
    harness.session(sys.argv[1], test)
