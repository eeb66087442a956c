#!/usr/bin/env python3
"""Times operations in two builds, in turns: no operation may take more than 1.1
of its time in the build before, or 1.25 where that is below 10 us.

usage: before.py OLD_NABLA_RUN NEW_NABLA_RUN [--turns N] [--sizes N,...]
                 [--ops NAME,...] [--threads N]

Both are programs nabla-run; each has a folder of compiled objects of its own. A
turn runs the old and the new one, in alternating order; a run gives the median
of its repetitions. A row has the medians over all turns and their ratio, which
the limit is for, and the ratio of the fastest turns, which other work on the
machine disturbs less. Exit 1 if the medians of a row are beyond the limit.
"""
import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile

ELEMENTS = (1, 10, 100, 1000, 10**4, 10**5, 10**6, 10**7)


def matrix(n):
    """Rows and columns of about n elements."""
    columns = min(n, 1024) if n >= 1000 else n
    return max(n // columns, 1), columns


def of_types(a, b):
    """The rows of f64 and of integers."""
    out = {}
    for kind in ("f64", "i64", "i32", "i8"):
        x = "tensor<%dx%dx%s>" % (a, b, kind)
        out["add_" + kind] = ([x, x], x, "nabla.add %%0, %%1 : %s, %s" % (x, x))
        out["compare_" + kind] = ([x, x], "tensor<%dx%dxi1>" % (a, b),
                                  "nabla.compare lt %%0, %%1 : %s, %s" % (x, x))
        out["sum1_" + kind] = ([x], "tensor<%dx%s>" % (a, kind),
                               "nabla.reduce sum %%0 dims = [1] : %s" % x)
        out["sum0_" + kind] = ([x], "tensor<%dx%s>" % (b, kind),
                               "nabla.reduce sum %%0 dims = [0] : %s" % x)
        out["argmax_" + kind] = ([x], "tensor<%dxi64>" % a,
                                 "nabla.argmax %%0 dim = 1 : %s" % x)
        out["argmax0_" + kind] = ([x], "tensor<%dxi64>" % b,
                                  "nabla.argmax %%0 dim = 0 : %s" % x)
        out["cumsum_" + kind] = ([x], x, "nabla.cumsum %%0 dim = 1 : %s" % x)
        out["cumsum0_" + kind] = ([x], x, "nabla.cumsum %%0 dim = 0 : %s" % x)
    for name in ("softmax %0 dim = 1", "exp %0"):
        x = "tensor<%dx%dxf64>" % (a, b)
        out[name.split()[0] + "_f64"] = ([x], x, "nabla.%s : %s" % (name, x))
    for kind, to in (("i8", "f32"), ("f32", "i8"), ("f64", "f32")):
        x, y = ("tensor<%dx%dx%s>" % (a, b, k) for k in (kind, to))
        out["%s_to_%s" % (kind, to)] = (
            [x], y, "nabla.convert %%0 : %s -> %s" % (x, y))
    return out


def programs(n):
    """Name: the types of the arguments, of the result, and the operation."""
    a, b = matrix(n)
    x = "tensor<%dx%dxf32>" % (a, b)
    out = {}
    for op in ("exp", "tanh", "gelu", "silu", "neg", "sqrt", "sin", "cos"):
        out[op] = ([x], x, "nabla.%s %%0 : %s" % (op, x))
    for op in ("add", "mul", "maximum", "div"):
        out[op] = ([x, x], x, "nabla.%s %%0, %%1 : %s, %s" % (op, x, x))
    out["softmax"] = ([x], x, "nabla.softmax %%0 dim = 1 : %s" % x)
    out["cumsum"] = ([x], x, "nabla.cumsum %%0 dim = 1 : %s" % x)
    for dim, size in ((0, b), (1, a)):
        for how in ("sum", "max"):
            out["%s%d" % (how, dim)] = (
                [x], "tensor<%dxf32>" % size,
                "nabla.reduce %s %%0 dims = [%d] : %s" % (how, dim, x))
    out["argmax"] = ([x], "tensor<%dxi64>" % a,
                     "nabla.argmax %%0 dim = 1 : %s" % x)
    out["transpose"] = ([x], "tensor<%dx%dxf32>" % (b, a),
                        "nabla.transpose %%0 permutation = [1, 0] : %s" % x)
    out["concatenate"] = ([x, x], "tensor<%dx%dxf32>" % (a, 2 * b),
                          "nabla.concatenate %%0, %%1 dim = 1 : %s, %s" % (x, x))
    out["stack"] = ([x, x], "tensor<%dx2x%dxf32>" % (a, b),
                    "nabla.stack %%0, %%1 dim = 1 : %s, %s" % (x, x))
    out["pad"] = ([x, "tensor<f32>"], "tensor<%dx%dxf32>" % (a, b + 3),
                  "nabla.pad %%0, %%1 low = [0, 1] high = [0, 2] : %s, "
                  "tensor<f32>" % x)
    if b > 1:
        out["slice"] = ([x], "tensor<%dx%dxf32>" % (a, b - 1),
                        "nabla.slice %%0 starts = [0, 1] limits = [%d, %d] : %s"
                        % (a, b, x))
    m = min(b, 64)
    w = "tensor<%dx%dxf32>" % (m, b)
    out["dot"] = ([x, w], "tensor<%dx%dxf32>" % (a, m),
                  "nabla.dot_general %%0, %%1 contracting = [1] x [1] : %s, %s"
                  % (x, w))
    out.update(of_types(a, b))
    return out


def write(path, types, result, text):
    arguments = ", ".join("%%%d: %s" % (i, t) for i, t in enumerate(types))
    names = ["%%x%d" % i for i in range(len(types))]
    for i, name in enumerate(names):
        arguments = arguments.replace("%%%d:" % i, name + ":")
        text = text.replace("%%%d" % i, name)
    with open(path, "w") as file:
        file.write("func.func @f(%s) -> %s {\n  %%y = %s\n  return %%y : %s\n}\n"
                   % (arguments, result, text, result))


KINDS = {"i64": ("<i8", 8), "i32": ("<i4", 4), "i8": ("|i1", 1)}


def array(path, dims, kind):
    """A file of random integers, which nabla-run does not generate."""
    name, width = KINDS[kind]
    head = "{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }" % (
        name, ", ".join(dims))
    head = head.ljust(-(len(head) + 11) % 64 + len(head)) + "\n"
    if not os.path.exists(path):
        with open(path, "wb") as file:
            file.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little"))
            file.write(head.encode())
            file.write(random.Random(1).randbytes(
                width * math.prod(map(int, dims))))
    return path


def time_of(tool, path, types, n, threads):
    """The median time of one process, in us."""
    repeat = 301 if n <= 10**4 else 31 if n <= 10**6 else 7
    words = [tool, path, "--time", "--json", "--threads", str(threads),
             "--repeat", str(repeat), "--cache", path + "." +
             ("old" if tool == sys.argv[1] else "new")]
    for i, t in enumerate(types):
        *dims, kind = t[len("tensor<"):-1].split("x")
        words += ["--input", "%d=%s" % (
            i, array("%s.%d.npy" % (path, i), dims, kind) if kind in KINDS
            else "random:" + "x".join(dims))]
    for folder in (words[words.index("--cache") + 1],):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["run_ms"] * 1000


def main():
    parse = argparse.ArgumentParser(usage=__doc__)
    parse.add_argument("tools", nargs=2)
    parse.add_argument("--turns", type=int, default=9)
    parse.add_argument("--threads", type=int, default=1)
    parse.add_argument("--sizes", default=",".join(map(str, ELEMENTS)))
    parse.add_argument("--ops", default="")
    given = parse.parse_args()
    wanted, beyond = set(filter(None, given.ops.split(","))), 0
    print("%-12s %9s %10s %10s %7s %7s" % ("operation", "elements", "before us",
                                           "now us", "median", "fastest"))
    with tempfile.TemporaryDirectory() as folder:
        for n in map(int, given.sizes.split(",")):
            for name, (types, result, text) in programs(n).items():
                if wanted and name not in wanted:
                    continue
                path = os.path.join(folder, "%s_%d.mlir" % (name, n))
                write(path, types, result, text)
                times = ([], [])
                for turn in range(given.turns):
                    for k in ((0, 1), (1, 0))[turn % 2]:
                        times[k].append(time_of(given.tools[k], path, types, n,
                                                given.threads))
                old, new = map(statistics.median, times)
                fastest = min(times[1]) / min(times[0])
                limit = 1.25 if old < 10 else 1.1
                bad = new / old > limit
                beyond += bad
                print("%-12s %9d %10.2f %10.2f %7.2f %7.2f%s" % (
                    name, n, old, new, new / old, fastest,
                    "  BEYOND" if bad else ""), flush=True)
    print("%d rows beyond the limit" % beyond)
    return 1 if beyond else 0


sys.exit(main())
