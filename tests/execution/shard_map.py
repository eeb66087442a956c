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


def scan(step, carries, slices, backward=False):
    """Runs step(carries, slices of a round), lists of pieces of all devices;
    returns the carries and the stacked outputs."""
    outputs = []
    count = slices[0][0].shape[0]
    for i in reversed(range(count)) if backward else range(count):
        carries, out = step(carries, [[x[i] for x in xs] for xs in slices])
        outputs.append(out)
    if backward:
        outputs.reverse()
    return carries, each(lambda *rounds: np.stack(rounds), *outputs)


def own(axis):
    """The number of each device along an axis."""
    return [place["ab".index(axis)] for place in DEVICES]


def scan_steps(c, a, b):
    def step(h, slices):
        h = each(lambda h, s, w: np.sin(h * w + s), h, slices[0], c)
        return h, h
    h, stacked = scan(step, b, [a])
    return each(lambda h, y: h * y.sum(0), h, stacked)


def scan_sums(a, b):
    def step(h, slices):
        t = each(lambda h, s: np.sin(h) * s, h, slices[0])
        h = psum(t, "b")
        return h, t
    return scan(step, b, [a])[0]


def scan_widens(a, b, c):
    def step(h, slices):
        h = each(lambda h, s, w: h * s + w, h, slices[0], c)
        return h, h
    return scan(step, b, [a], True)[1]


def scan_narrows(a, b, c):
    """The carry begins varying and is equal after a step."""
    def step(h, slices):
        h = psum(each(lambda h, s: np.sin(h) * s, h, slices[0]), "b")
        return h, h
    return each(np.multiply, scan(step, b, [a])[0], c)


def scan_branches(a, b):
    def step(h, slices):
        h = each(lambda h, s, w, i: h * s if i else np.sin(h * w),
                 h, slices[0], b, own("b"))
        return h, h
    return scan(step, each(np.cos, b), [a])[0]


def while_steps(a, b):
    """Devices run 3 or 2 rounds."""
    def run(h, w, i):
        for _ in range(3 - i):
            h = np.sin(h * w)
        return -h
    return each(run, a, b, own("b"))


# Control flow: values that are equal meet varying ones in regions. << and >> are
# the braces of regions.
CONTROL = [
    ("scan", [((3, 4), ["", "b"]), ((4,), ["b"]), ((2,), [""])], (2,), ["b"],
     "%l:2 = nabla.scan init(%b : {2}) over(%a : {3x2}) -> {2}, {3x2} <<\n"
     "^bb1(%h: {2}, %s: {2}):\n%t = nabla.mul %h, %c : {2}, {2}\n"
     "%u = nabla.add %t, %s : {2}, {2}\n%v = nabla.sin %u : {2}\n"
     "nabla.yield %v, %v : {2}, {2}\n>>\n"
     "%m = nabla.reduce sum %l#1 dims = [0] : {3x2}\n"
     "%r = nabla.mul %l#0, %m : {2}, {2}",
     lambda a, b, c: scan_steps(c, a, b)),
    ("scan_again", [((4, 4), ["", "b"]), ((4,), ["b"]), ((2,), [""])], (2,), ["b"],
     "%r = nabla.scan init(%b : {2}) over(%a : {4x2}) remat = 2 -> {2} <<\n"
     "^bb1(%h: {2}, %s: {2}):\n%t = nabla.mul %h, %c : {2}, {2}\n"
     "%u = nabla.add %t, %s : {2}, {2}\n%v = nabla.sin %u : {2}\n"
     "nabla.yield %v : {2}\n>>",
     lambda a, b, c: scan(lambda h, s: (each(
         lambda h, s, w: np.sin(h * w + s), h, s[0], c),) * 2, b, [a])[0]),
    ("while", [((4,), ["b"]), ((2,), [""])], (2,), ["b"],
     "%i = nabla.axis_index axes = [\"b\"] : tensor<i64>\n"
     "%o = nabla.full 1 : i64 -> tensor<i64>\n"
     "%n = nabla.full 3 : i64 -> tensor<i64>\n"
     "%l:2 = nabla.while(%i, %a) : tensor<i64>, {2} max_steps = 4 cond <<\n"
     "^bb1(%k: tensor<i64>, %h: {2}):\n"
     "%p = nabla.compare lt %k, %n : tensor<i64>, tensor<i64>\n"
     "nabla.condition %p, %k, %h : tensor<i1>, tensor<i64>, {2}\n>> do <<\n"
     "^bb1(%k: tensor<i64>, %h: {2}):\n"
     "%m = nabla.add %k, %o : tensor<i64>, tensor<i64>\n"
     "%t = nabla.mul %h, %b : {2}, {2}\n%v = nabla.sin %t : {2}\n"
     "nabla.yield %m, %v : tensor<i64>, {2}\n>>\n%r = nabla.neg %l#1 : {2}",
     while_steps),
    ("scan_sums", [((3, 4), ["", "b"]), ((2,), [""])], (2,), [""],
     "%r = nabla.scan init(%b : {2}) over(%a : {3x2}) -> {2} <<\n"
     "^bb1(%h: {2}, %s: {2}):\n%t = nabla.sin %h : {2}\n"
     "%u = nabla.mul %t, %s : {2}, {2}\n"
     "%v = nabla.all_reduce sum %u axes = [\"b\"] : {2}\n"
     "nabla.yield %v : {2}\n>>",
     scan_sums),
    ("scan_widens", [((3, 4), ["", "b"]), ((2,), [""]), ((4,), ["a"])], (3, 2),
     ["", "ab"],
     "%l:2 = nabla.scan init(%b : {2}) over(%a : {3x2}) reverse -> {2}, {3x2} <<\n"
     "^bb1(%h: {2}, %s: {2}):\n%t = nabla.mul %h, %s : {2}, {2}\n"
     "%v = nabla.add %t, %c : {2}, {2}\n"
     "nabla.yield %v, %v : {2}, {2}\n>>\n"
     "%z = nabla.neg %l#1 : {3x2}\n%r = nabla.neg %z : {3x2}",
     scan_widens),
    ("scan_narrows", [((3, 4), ["", "b"]), ((4,), ["b"]), ((4,), ["b"])], (2,),
     ["b"],
     "%l = nabla.scan init(%b : {2}) over(%a : {3x2}) -> {2} <<\n"
     "^bb1(%h: {2}, %s: {2}):\n%t = nabla.sin %h : {2}\n"
     "%u = nabla.mul %t, %s : {2}, {2}\n"
     "%v = nabla.all_reduce sum %u axes = [\"b\"] : {2}\n"
     "nabla.yield %v : {2}\n>>\n%r = nabla.mul %l, %c : {2}, {2}",
     scan_narrows),
    ("scan_branches", [((3, 4), ["", "a"]), ((2,), [""])], (2,), ["ab"],
     "%i = nabla.axis_index axes = [\"b\"] : tensor<i64>\n"
     "%o = nabla.full 1 : i64 -> tensor<i64>\n"
     "%p = nabla.compare eq %i, %o : tensor<i64>, tensor<i64>\n"
     "%e = nabla.cos %b : {2}\n"
     "%r = nabla.scan init(%e : {2}) over(%a : {3x2}) -> {2} <<\n"
     "^bb1(%h: {2}, %s: {2}):\n%v = nabla.cond %p : tensor<i1> -> {2} <<\n"
     "%t = nabla.mul %h, %s : {2}, {2}\nnabla.yield %t : {2}\n>>, <<\n"
     "%t = nabla.mul %h, %b : {2}, {2}\n%u = nabla.sin %t : {2}\n"
     "nabla.yield %u : {2}\n>>\nnabla.yield %v : {2}\n>>",
     scan_branches),
    ("branch_equal", [((4,), ["b"]), ((2,), [""])], (2,), ["b"],
     "%s = nabla.reduce sum %b dims = [0] : {2}\n%z = nabla.full 0.0 : f32 -> {}\n"
     "%p = nabla.compare gt %s, %z : {}, {}\n"
     "%r = nabla.cond %p : tensor<i1> -> {2} <<\n"
     "%t = nabla.sin %b : {2}\nnabla.yield %t : {2}\n>>, <<\n"
     "%t = nabla.mul %a, %b : {2}, {2}\n"
     "%u = nabla.all_reduce sum %t axes = [\"b\"] : {2}\n"
     "%v = nabla.mul %u, %a : {2}, {2}\nnabla.yield %v : {2}\n>>",
     lambda a, b: each(lambda x, w, j: np.sin(w) if w.sum() > 0 else j * x, a, b,
                       psum(each(np.multiply, a, b), "b"))),
    ("branch_varying", [((4,), ["a"]), ((2,), [""])], (2,), ["ab"],
     "%i = nabla.axis_index axes = [\"b\"] : tensor<i64>\n"
     "%o = nabla.full 1 : i64 -> tensor<i64>\n"
     "%p = nabla.compare eq %i, %o : tensor<i64>, tensor<i64>\n"
     "%e = nabla.sin %b : {2}\n"
     "%r = nabla.cond %p : tensor<i1> -> {2} <<\n"
     "%t = nabla.cos %e : {2}\nnabla.yield %t : {2}\n>>, <<\n"
     "%t = nabla.mul %a, %e : {2}, {2}\n"
     "%u = nabla.all_reduce sum %t axes = [\"a\"] : {2}\n"
     "nabla.yield %u : {2}\n>>",
     lambda a, b: each(lambda j, w, i: np.cos(np.sin(w)) if i else j,
                       psum(each(lambda x, w: x * np.sin(w), a, b), "a"), b,
                       own("b"))),
    ("again", [((4, 3), ["a", ""]), ((2, 3), ["", ""]), ((4,), ["b"])], (2, 2),
     ["a", "b"],
     "%r = nabla.remat -> {2x2} <<\n%h = nabla.linear %a, %b : {2x3}, {2x3}\n"
     "%s = nabla.sin %h : {2x2}\n"
     "%d = nabla.broadcast_in_dim %c dims = [1] : {2} -> {2x2}\n"
     "%t = nabla.mul %s, %d : {2x2}, {2x2}\nnabla.yield %t : {2x2}\n>>",
     lambda a, b, c: each(lambda x, w, d: np.sin(x @ w.T) * d, a, b, c)),
    ("again_equal", [((2,), [""]), ((4,), ["b"])], (2,), ["b"],
     "%l:2 = nabla.remat -> {2}, {2} <<\n%s = nabla.sin %a : {2}\n"
     "%t = nabla.cos %b : {2}\nnabla.yield %s, %t : {2}, {2}\n>>\n"
     "%r = nabla.mul %l#0, %l#1 : {2}, {2}",
     lambda a, b: each(lambda x, y: np.sin(x) * np.cos(y), a, b)),
]


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
] + CONTROL


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
    return text.replace("<<", "{").replace(">>", "}")


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
