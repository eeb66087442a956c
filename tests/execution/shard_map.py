"""Gradients through nabla.shard_map on four ranks of threads, against central
differences of a simulation of the devices in float64.

  shard_map.py NABLA_RUN NABLA_OPT TIER

Each case has a body in two languages: lines of MLIR for the pieces, and a Python
function of lists of pieces, one for each device of the mesh a=2, b=2. The seed is
printed; NABLA_TEST_SEED sets it."""
import itertools
import os
import random
import subprocess
import sys
import tempfile

import numpy as np

SIZES = {"a": 2, "b": 2}
DEVICES = list(itertools.product(range(2), range(2)))  # (a, b) of each rank


# Collectives on lists of pieces.
def peers(rank, axes):
    """The ranks that exchange with this one, in the order of their numbers."""
    own = dict(zip("ab", DEVICES[rank]))
    spans = [range(SIZES[x]) if x in axes else [own[x]] for x in "ab"]
    found = [DEVICES.index(place) for place in itertools.product(*spans)]
    return sorted(found, key=lambda r: [DEVICES[r]["ab".index(x)] for x in axes])


def groups(xs, axes, function):
    return [function([xs[p] for p in peers(r, axes)], peers(r, axes).index(r))
            for r in range(4)]


def psum(xs, axes):
    return groups(xs, axes, lambda all_, _: sum(all_))


def pmax(xs, axes):
    return groups(xs, axes, lambda all_, _: np.maximum.reduce(all_))


def gather(xs, dim, axes):
    return groups(xs, axes, lambda all_, _: np.concatenate(all_, dim))


def piece(xs, dim, axes):
    return groups(xs, axes, lambda all_, i: np.split(all_[i], len(all_), dim)[i])


def scatter(xs, dim, axes):
    return piece(psum(xs, axes), dim, axes)


def all_to_all(xs, split, concat, axes):
    return groups(xs, axes, lambda all_, i: np.concatenate(
        [np.split(x, len(all_), split)[i] for x in all_], concat))


def permute(xs, pairs, axes):
    source = {pairs[i + 1]: pairs[i] for i in range(0, len(pairs), 2)}
    return groups(xs, axes, lambda all_, i: all_[source[i]] if i in source
                  else np.zeros_like(all_[i]))


def broadcast(xs, source, axes):
    return groups(xs, axes, lambda all_, _: all_[source])


def each(function, *lists):
    return [function(*pieces) for pieces in zip(*lists)]


# name, arguments (shape, axes of each dimension), shape of the piece of the
# result, its axes, lines of MLIR, Python. Shapes stand in braces: {2x4} is a
# tensor. Arguments of the region are %a, %b; those of the function %x, %y.
CASES = [
    ("sum", [((4, 6), ["a", "b"]), ((2,), [""])], (2,), ["a"],
     "%s = nabla.sin %a : {2x3}\n%t = nabla.reduce sum %s dims = [1] : {2x3}\n"
     "%u = nabla.all_reduce sum %t axes = [\"b\"] : {2}\n"
     "%r = nabla.mul %u, %b : {2}, {2}",
     lambda a, b: each(np.multiply, psum(each(
         lambda x: np.sin(x).sum(1), a), "b"), b)),
    ("sum_of_equal", [((2,), [""])], (2,), [""],
     "%s = nabla.sin %a : {2}\n"
     "%r = nabla.all_reduce sum %s axes = [\"a\", \"b\"] : {2}",
     lambda a: psum(each(np.sin, a), "ab")),
    ("data_parallel", [((4, 3), ["a", ""]), ((2, 3), ["", ""])], (2, 2), ["a", ""],
     "%r = nabla.linear %a, %b : {2x3}, {2x3}",
     lambda a, b: each(lambda x, w: x @ w.T, a, b)),
    ("zero", [((4, 3), ["a", ""]), ((2, 3), ["a", ""])], (2, 2), ["a", ""],
     "%w = nabla.all_gather %b dim = 0 axes = [\"a\"] : {1x3} -> {2x3}\n"
     "%r = nabla.linear %a, %w : {2x3}, {2x3}",
     lambda a, b: each(lambda x, w: x @ w.T, a, gather(b, 0, "a"))),
    ("gathered_twice", [((4, 3), ["a", ""]), ((4,), ["a"])], (2, 3), ["a", ""],
     "%w = nabla.all_gather %b dim = 0 axes = [\"a\"] : {2} -> {4}\n"
     "%c = nabla.cos %w : {4}\n%n = nabla.reduce sum %c dims = [0] : {4}\n"
     "%m = nabla.broadcast_in_dim %n dims = [] : {} -> {2x3}\n"
     "%t = nabla.mul %a, %m : {2x3}, {2x3}\n%r = nabla.sin %t : {2x3}",
     lambda a, b: each(lambda x, w: np.sin(x * np.cos(w).sum()), a,
                       gather(b, 0, "a"))),
    ("megatron", [((2, 4), ["", ""]), ((4, 4), ["b", ""]), ((4, 4), ["", "b"])],
     (2, 4), ["", ""],
     "%h = nabla.linear %a, %b : {2x4}, {2x4}\n%s = nabla.sin %h : {2x2}\n"
     "%p = nabla.linear %s, %c : {2x2}, {4x2}\n"
     "%r = nabla.all_reduce sum %p axes = [\"b\"] : {2x4}",
     lambda a, b, c: psum(each(
         lambda x, u, d: np.sin(x @ u.T) @ d.T, a, b, c), "b")),
    ("slice_equal", [((4, 3), ["", ""])], (2, 3), ["b", ""],
     "%s = nabla.sin %a : {4x3}\n"
     "%r = nabla.all_slice %s dim = 0 axes = [\"b\"] : {4x3} -> {2x3}",
     lambda a: piece(each(np.sin, a), 0, "b")),
    ("slice_varying", [((8, 3), ["b", ""])], (2, 3), ["b", ""],
     "%s = nabla.sin %a : {4x3}\n"
     "%r = nabla.all_slice %s dim = 0 axes = [\"b\"] : {4x3} -> {2x3}",
     lambda a: piece(each(np.sin, a), 0, "b")),
    ("slice_both", [((8, 3), ["b", ""])], (1, 3), ["ab", ""],
     "%s = nabla.sin %a : {4x3}\n%r = nabla.all_slice %s dim = 0 axes = [\"a\", "
     "\"b\"] : {4x3} -> {1x3}",
     lambda a: piece(each(np.sin, a), 0, "ab")),
    ("scatter", [((4, 4), ["", "a"])], (2, 2), ["a", ""],
     "%s = nabla.sin %a : {4x2}\n"
     "%r = nabla.reduce_scatter sum %s dim = 0 axes = [\"a\"] : {4x2} -> {2x2}",
     lambda a: scatter(each(np.sin, a), 0, "a")),
    ("scatter_equal", [((4,), [""])], (2,), ["a"],
     "%s = nabla.sin %a : {4}\n"
     "%r = nabla.reduce_scatter sum %s dim = 0 axes = [\"a\"] : {4} -> {2}",
     lambda a: scatter(each(np.sin, a), 0, "a")),
    ("all_to_all", [((4, 4), ["a", "b"])], (1, 4), ["ab", ""],
     "%s = nabla.sin %a : {2x2}\n%r = nabla.all_to_all %s split = 0 concat = 1 "
     "axes = [\"b\"] : {2x2} -> {1x4}",
     lambda a: all_to_all(each(np.sin, a), 0, 1, "b")),
    ("permute", [((4, 2), ["ab", ""])], (1, 2), ["ab", ""],
     "%s = nabla.sin %a : {1x2}\n%r = nabla.permute %s pairs = [0, 1, 1, 2, 3, 0] "
     "axes = [\"a\", \"b\"] : {1x2}",
     lambda a: permute(each(np.sin, a), [0, 1, 1, 2, 3, 0], "ab")),
    ("permute_equal", [((3,), [""])], (3,), ["a"],
     "%s = nabla.sin %a : {3}\n"
     "%r = nabla.permute %s pairs = [0, 1] axes = [\"a\"] : {3}",
     lambda a: permute(each(np.sin, a), [0, 1], "a")),
    ("broadcast", [((4,), ["a"])], (2,), [""],
     "%s = nabla.sin %a : {2}\n"
     "%r = nabla.broadcast %s from = 1 axes = [\"a\"] : {2}",
     lambda a: broadcast(each(np.sin, a), 1, "a")),
    ("maximum", [((4, 3), ["ab", ""])], (1, 3), ["", ""],
     "%s = nabla.sin %a : {1x3}\n"
     "%m = nabla.all_reduce max %s axes = [\"a\", \"b\"] : {1x3}\n"
     "%r = nabla.cos %m : {1x3}",
     lambda a: each(np.cos, pmax(each(np.sin, a), "ab"))),
    ("equal_result_divided", [((3,), [""])], (3,), ["b"],
     "%r = nabla.sin %a : {3}", lambda a: each(np.sin, a)),
    ("two_axes", [((4, 4), ["a", "b"]), ((2,), ["a"])], (2, 2), ["a", "b"],
     "%w = nabla.broadcast_in_dim %b dims = [0] : {1} -> {2x2}\n"
     "%t = nabla.mul %a, %w : {2x2}, {2x2}\n%r = nabla.sin %t : {2x2}",
     lambda a, b: each(lambda x, w: np.sin(x * w), a, b)),
    ("equal_and_varying", [((3,), [""]), ((6,), ["b"])], (3,), ["b"],
     "%s = nabla.sin %a : {3}\n%d = nabla.mul %s, %s : {3}, {3}\n"
     "%e = nabla.mul %s, %b : {3}, {3}\n"
     "%j = nabla.all_reduce sum %e axes = [\"b\"] : {3}\n"
     "%k = nabla.mul %j, %d : {3}, {3}\n%r = nabla.mul %k, %b : {3}, {3}",
     lambda a, b: each(
         lambda s, x, j: j * (s * s) * x, each(np.sin, a), b,
         psum(each(lambda x, y: np.sin(x) * y, a, b), "b"))),
]


def whole_shape(shape, axes):
    return tuple(n * int(np.prod([SIZES[x] for x in ax]))
                 for n, ax in zip(shape, axes))


def cut(x, axes):
    """The piece of each device."""
    out = []
    for place in DEVICES:
        own, part = dict(zip("ab", place)), x
        for dim, names in enumerate(axes):
            for name in names:
                part = np.split(part, SIZES[name], dim)[own[name]]
        out.append(part)
    return out


def paste(pieces, axes):
    """The whole, and that devices agree where they do not divide it."""
    first = pieces[0]
    out = np.full(whole_shape(first.shape, axes), np.nan)
    for place, part in zip(DEVICES, pieces):
        own, index = dict(zip("ab", place)), []
        for dim, names in enumerate(axes):
            number = 0
            for name in names:
                number = number * SIZES[name] + own[name]
            size = first.shape[dim]
            index.append(slice(number * size, (number + 1) * size))
        have = out[tuple(index)]
        assert np.all(np.isnan(have) | np.isclose(have, part))
        out[tuple(index)] = part
    return out


def forward(case, arguments):
    _, shapes, _, axes, _, function = case
    return paste(function(*[cut(x, ax) for x, (_, ax) in zip(arguments, shapes)]),
                 axes)


def gradients(case, arguments, cotangent):
    """Central differences."""
    out, step = [], 1e-6
    for i, x in enumerate(arguments):
        gradient = np.zeros_like(x)
        for index in np.ndindex(x.shape):
            values = []
            for sign in (1, -1):
                moved = [a.copy() for a in arguments]
                moved[i][index] += sign * step
                values.append((forward(case, moved) * cotangent).sum())
            gradient[index] = (values[0] - values[1]) / (2 * step)
        out.append(gradient)
    return out


def tensor(shape):
    return "tensor<%sf32>" % "".join("%dx" % n for n in shape)


def sharding(axes):
    dims = ["{%s}" % ", ".join("\"%s\"" % x for x in ax) for ax in axes]
    return "#nabla.sharding<@m, [%s]>" % ", ".join(dims)


def local(shape, axes):
    return tuple(n // int(np.prod([SIZES[x] for x in ax]))
                 for n, ax in zip(shape, axes))


def lines(text):
    for braces in range(text.count("{")):
        del braces
        start, end = text.index("{"), text.index("}")
        inner = text[start + 1:end]
        text = text[:start] + "tensor<%sf32>" % (
            inner + "x" if inner else "") + text[end + 1:]
    return text


def program(case):
    _, shapes, piece_shape, axes, body, _ = case
    outside = ["%%x%d: %s" % (i, tensor(s)) for i, (s, _) in enumerate(shapes)]
    inside = ["%%%s: %s" % ("abc"[i], tensor(local(s, ax)))
              for i, (s, ax) in enumerate(shapes)]
    result = tensor(whole_shape(piece_shape, axes))
    return """nabla.mesh @m <["a"=2, "b"=2]>
func.func @f(%s) -> %s {
  %%y = nabla.shard_map(%s : %s) in = [%s] out = [%s] -> %s {
  ^bb0(%s):
    %s
    nabla.yield %%r : %s
  }
  return %%y : %s
}
""" % (", ".join(outside), result,
       ", ".join("%%x%d" % i for i in range(len(shapes))),
       ", ".join(tensor(s) for s, _ in shapes),
       ", ".join(sharding(ax) for _, ax in shapes), sharding(axes), result,
       ", ".join(inside), lines(body), tensor(piece_shape), result)


def call(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit("%s\n%s" % (" ".join(command), done.stdout + done.stderr))


def run_program(tools, folder, path, entry, inputs, count):
    command = [tools[0], path, "-e", entry, "--ranks", "4"]
    for i, x in enumerate(inputs):
        name = os.path.join(folder, "in%d.npy" % i)
        np.save(name, x.astype(np.float32))
        command += ["-i", "%d=%s" % (i, name)]
    names = [os.path.join(folder, "out%d.npy" % i) for i in range(count)]
    for name in names:
        command += ["-o", name]
    call(*command)
    return [np.load(name) for name in names]


def compare(case, what, got, want):
    bound = 2e-5 * (1 + np.abs(want).max())
    if not np.allclose(got, want, rtol=0, atol=bound):
        raise SystemExit("%s: %s is\n%s\nnot\n%s" % (case[0], what, got, want))


def check(tools, folder, case, rng):
    path = os.path.join(folder, "p.mlir")
    with open(path, "w", encoding="utf-8") as file:
        file.write(program(case))
    derived = [os.path.join(folder, name) for name in ("v.mlir", "j.mlir")]
    call(tools[1], path, "--nabla-vjp=function=f", "-o", derived[0])
    call(tools[1], path, "--nabla-jvp=function=f", "-o", derived[1])
    arguments = [rng.uniform(-1, 1, s).astype(np.float32).astype(np.float64)
                 for s, _ in case[1]]
    y = forward(case, arguments)
    cotangent = rng.uniform(-1, 1, y.shape).astype(np.float32)
    want = gradients(case, arguments, cotangent)
    got = run_program(tools, folder, derived[0], "f.vjp",
                      arguments + [cotangent], 1 + len(arguments))
    compare(case, "the result", got[0], y)
    for i, gradient in enumerate(want):
        compare(case, "gradient %d" % i, got[1 + i], gradient)
    tangents = [rng.uniform(-1, 1, s).astype(np.float32) for s, _ in case[1]]
    pushed = run_program(tools, folder, derived[1], "f.jvp",
                         arguments + tangents, 2)[1]
    compare(case, "<tangent, cotangent>", np.array((pushed * cotangent).sum()),
            np.array(sum((g * t).sum() for g, t in zip(want, tangents))))


# Broadcasts of a batch whose dimensions in front are divided: the function with
# and without its mesh, batched, and the gradients of that.
BROADCASTS = """%sfunc.func @f(%%x: tensor<4xf32>%s, %%w: tensor<1x4xf32>) -> tensor<3x4xf32> {
  %%b = nabla.broadcast_in_dim %%x dims = [1] : tensor<4xf32> -> tensor<3x4xf32>
  %%d = nabla.broadcast_in_dim %%w dims = [0, 1] : tensor<1x4xf32> -> tensor<3x4xf32>
  %%y = nabla.mul %%b, %%d : tensor<3x4xf32>, tensor<3x4xf32>
  return %%y : tensor<3x4xf32>
}
"""
BATCHED = "--nabla-vmap=function=f axis-size=4 in-axes=0,none"


def check_broadcasts(tools, folder, rng):
    path, derived = (os.path.join(folder, n) for n in ("b.mlir", "d.mlir"))
    note = "{nabla.sharding = #nabla.sharding<@m, [{\"a\"}]>}"
    x, w, cotangent = (rng.uniform(-1, 1, s) for s in ((4, 4), (1, 4), (4, 3, 4)))
    want = [x[:, None, :] * w, (cotangent * w).sum(1),
            (cotangent * x[:, None, :]).sum((0, 1))[None, :]]
    with open(path, "w", encoding="utf-8") as file:
        file.write(BROADCASTS % (
            "nabla.mesh @m <[\"a\"=2, \"b\"=2]>\n", " " + note))
    call(tools[1], path, BATCHED + " spmd-axis=b",
         "--nabla-vjp=function=f.vmap", "-o", derived)
    got = run_program(tools, folder, derived, "f.vmap.vjp", [x, w, cotangent], 3)
    for i, expected in enumerate(want):
        compare(["broadcasts", [], (), [], "", None], "output %d" % i, got[i],
                expected)


def main():
    tier = sys.argv[3]
    seed = int(os.environ.get("NABLA_TEST_SEED") or random.randrange(1 << 31))
    print("seed %d" % seed, flush=True)
    rng = np.random.default_rng(seed)
    wanted = os.environ.get("NABLA_TEST_CASE")
    cases = [c for c in CASES if not wanted or c[0] == wanted]
    if tier != "long" and not wanted:  # each case in one of three runs
        cases = cases[seed % 3::3]
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            check(sys.argv[1:3], folder, case, rng)
        check_broadcasts(sys.argv[1:3], folder, rng)
    print("%d regions: results, gradients, tangents" % len(cases))


if __name__ == "__main__":
    main()
