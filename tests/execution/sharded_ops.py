"""Every operation of dialect/ops.def on several devices: the functions of ops.py,
dense and packed, with generated shardings of arguments, results and constraints
(sub-axes, sizes that are not divided evenly) on meshes of 2, 4, 8, 2 x 2 and 2 x 4
ranks of threads. Each gives what it gives on one.

usage: sharded_ops.py NABLA_RUN CASES
NABLA_TEST_SEED, which is printed, draws other cases. An op without a case here, and
without a reason in NO_CASE, fails the test.
"""
import os
import re
import sys

import harness
from harness import np
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
from ops import table, SHARDED

MODULES = (dense_ops, math_ops, create_ops, implicit_ops, implicit_math,
           control_ops, shape_ops, gather_ops, window_ops, scale_ops,
           composite_ops, implicit_composites, call_ops)
MESHES = [[("a", 2)], [("a", 4)], [("a", 8)], [("a", 2), ("b", 2)],
          [("a", 2), ("b", 4)]]
# What is in the text of each case.
CREATED = " nabla.sharding_constraint nabla.mesh"
# Names of functions, to repeat some of a seed.
ONLY = os.environ.get("NABLA_TEST_ONLY", "").split()
NO_CASE = {
    **dict.fromkeys(("fused_dot", "fused_gather", "fused_attention"),
                    "is made after programs are divided"),
    **dict.fromkeys(SHARDED - {"sharding_constraint", "mesh"},
                    "stands in code for one device"),
}


def draw_axes(rng, mesh, rank):
    """A list of axes for each dimension: each at most once, some as sub-axes."""
    dims = [[] for _ in range(rank)]
    for name, size in mesh:
        parts = [(name, 0, size)]
        if size in (4, 8) and rng.random() < .4:
            parts = [(name, 1, 2), (name, 2, size // 2)]
        for part in parts:
            if rank and rng.random() < .75:
                dim = dims[int(rng.integers(rank))]
                if not (dim and part[1] > 1 and dim[-1][0] == name):
                    dim.append(part)
    return dims


def pieces(axes):
    return int(np.prod([size for _, _, size in axes], dtype=np.int64))


def sharding(rng, dims):
    text = []
    for axes in dims:
        words = ['"%s"%s' % (name, ":(%d)%d" % (before, size) if before else "")
                 for name, before, size in axes]
        text.append("{%s}" % ", ".join(words + ["?"] * (rng.random() < .5)))
    return "#nabla.sharding<@m, [%s]>" % ", ".join(text)


def shape_of(kind):
    """Sizes of a type, None for `?`; None of what is no array."""
    if "<" not in kind:
        return None
    sizes = re.match(r"[^<]*<((?:[0-9?]+x)*)", kind).group(1)
    return [None if d == "?" else int(d) for d in sizes.split("x")[:-1]]


def fit(dims, shape, sizes):
    """Axes that divide a `?` evenly: sizes of `?` are in `sizes`, None: any."""
    for i, axes in enumerate(dims):
        if shape[i] is None and (sizes is None or sizes[i] % pieces(axes)):
            del axes[:]
    return dims


class Divided:
    """A function with shardings, in place of harness.Function."""

    def __init__(self, f, rng, mesh):
        self.f, self.name = f, f.name
        self.inputs, self.binds, self.checks = f.inputs, f.binds, f.checks
        self.results, self.bound_arguments = f.results, f.bound_arguments
        given = {**f.inputs, **f.binds}
        text = f.text()
        for line in f.arguments:
            name = line[1:line.index(":")]
            kind = line[line.index(":") + 2:].split(" {nabla.name")[0]
            shape = shape_of(kind)
            if shape is None or rng.random() < .2:
                continue
            sizes = given[name].shape if name in given else None
            dims = fit(draw_axes(rng, mesh, len(shape)), shape, sizes)
            text = text.replace(line, "%s, nabla.sharding = %s}" % (
                line[:-1], sharding(rng, dims)))
        lines = []
        values = []
        for i, (value, kind, _) in enumerate(f.results):
            shape = shape_of(kind)
            if None in shape or rng.random() < .4:
                values.append(value)
                continue
            dims = draw_axes(rng, mesh, len(shape))
            lines.append("  %%own%d = nabla.sharding_constraint %s : %s sharding ="
                         " %s\n" % (i, value, kind, sharding(rng, dims)))
            values.append("%%own%d" % i)
        at = text.rindex("  return ")
        self.body = text[:at] + "".join(lines) + "  return %s : %s\n}\n" % (
            ", ".join(values), ", ".join(t for _, t, _ in f.results))

    def text(self):
        return self.body


def is_known(f):
    """Only tests use linalg inside of functions that are otherwise divided."""
    return "nabla.fused_" not in f.text() and f.results


def run_module(s, functions, mesh):
    head = "nabla.mesh @m <[%s]>\n" % ", ".join('"%s"=%d' % a for a in mesh)
    ranks = str(int(np.prod([size for _, size in mesh])))
    options = ["--policy", "off", "--ranks", ranks, "--threads", "1"]
    if ONLY and not any(f.name in ONLY for f in functions):
        return
    program = s.write(head + "".join(f.text() for f in functions))
    done = s.start(program, "--entry", "none", *options)
    together = b"no public function" in done.stderr
    for f in functions:
        if ONLY and f.name not in ONLY:
            continue
        if not together:
            program = s.write(head + f.text())
        s.check(program, f, options)


def choose(functions, rng, count):
    """So many, those of rare operations first."""
    order, seen, late = [], set(), []
    for i in rng.permutation(len(functions)):
        f = functions[i]
        ops = set(re.findall(r"\bnabla\.([a-z_0-9]+)", f.text()))
        (order if ops - seen else late).append(f)
        seen |= ops
    return (order + late)[:count]


def test(s):
    seed = harness.seed(int(np.random.SeedSequence().entropy % (1 << 31)))
    print("seed %d" % seed, flush=True)
    rng = np.random.default_rng(seed)
    # Each device rounds its part of a sum to 16 bits.
    harness.SLACK = {"f16": 4e-3, "bf16": 3e-2}
    functions = [f for m in MODULES for f in m.cases(rng, 1) if is_known(f)]
    text = "".join(f.text() for f in functions) + CREATED
    for op in table():
        s.expect(op in NO_CASE or re.search(r"\bnabla\.%s\b" % op, text),
                 "no case for " + op)
    most = int(sys.argv[2])
    while s.checked < most and not s.failed:
        groups = {}
        for f in choose(functions, rng, 40):
            mesh = MESHES[int(rng.integers(len(MESHES)))]
            groups.setdefault(str(mesh), (mesh, []))[1].append(
                Divided(f, rng, mesh))
        for mesh, some in groups.values():
            for i in range(0, len(some), 12):
                run_module(s, some[i:i + 12], mesh)


if __name__ == "__main__":
    harness.session(sys.argv[1], test)
