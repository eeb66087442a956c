"""What upstream would compute into, or accumulate into again. What reads its
outs, or might: products of no dimension, reductions of none, linalg with and
without loops that reduce; each result is read once for every step of larger
loops and must be the same each time. And results of a switch, whose buffer is
not another value's.

usage: accumulation.py NABLA_RUN"""
import sys

import harness
from harness import np, Function, exact, tensor_type

KINDS = {"sum": ("f64", "f32", "f16", "bf16", "i64", "i32", "i8", "ui8"),
         "prod": ("f32", "bf16", "i32", "ui8"), "mean": ("f64", "f32", "f16"),
         "max": ("f32", "i8"), "min": ("f32", "ui8"), "any": ("i1",),
         "all": ("i1",)}


def small(rng, shape, kind):
    """Products and sums of a few of them are exact in every type."""
    if kind == "i1":
        return rng.integers(0, 2, shape).astype(bool)
    whole = rng.integers(1, 4, shape)
    return harness.narrow(whole.astype(np.float64), kind)


# What reads the value under test, alone: a value with several uses is not fused.
# A case is a function of its name and of what it reads.
READERS = ("repeated", "multiplied", "given")
EACH = 8  # cases of a function


def read(f, reader, value, type_text, want):
    kind = harness.NAMES[want.dtype]
    more, dims = (3,) + want.shape, list(range(1, want.ndim + 1))
    shape = [None if type_text.startswith("tensor<?") else len(want), 2] if (
        want.ndim) else ()
    if reader == "given" or "?" in type_text and reader == "repeated":
        f.give(value, type_text, exact(want))
    elif reader == "repeated" or want.ndim < 2 or kind not in harness.FLOATS:
        wide = tensor_type(more, kind)
        y = f.op("nabla.broadcast_in_dim %s dims = %s : %s -> %s" % (
            value, dims, type_text, wide))
        f.give(y, wide, exact(harness.plain(np.broadcast_to(want, more))))
    else:
        w = small(np.random.default_rng(1), (want.shape[1], 2), kind)
        a, a_type = f.argument(w)
        y = f.op("nabla.dot_general %s, %s contracting = [1] x [0] : %s, %s" % (
            value, a, type_text, a_type))
        dense = harness.widen(want) @ harness.widen(w)
        f.give(y, tensor_type(shape, kind),
               exact(harness.narrow(dense, kind)))


def product(kind, hide):
    def build(f, rng):
        a, b = small(rng, (3,), kind), small(rng, (4,), kind)
        x, x_type = f.argument(a, hide)
        y, y_type = f.argument(b)
        value = f.op("nabla.dot_general %s, %s contracting = [] x [] : %s, %s" % (
            x, y, x_type, y_type))
        wide = np.multiply.outer(harness.widen(a), harness.widen(b))
        return (value, tensor_type([None if hide else 3, 4], kind),
                harness.narrow(wide, kind))
    return build


def batched(f, rng):
    a, b = small(rng, (2, 4), "f32"), small(rng, (2, 4), "f32")
    x, x_type = f.argument(a)
    y, y_type = f.argument(b)
    value = f.op("nabla.dot_general %s, %s batching = [0, 1] x [0, 1] "
                 "contracting = [] x [] : %s, %s" % (x, y, x_type, y_type))
    return value, x_type, a * b


def reduction(kind, element, shape):
    def build(f, rng):
        data = small(rng, shape, element)
        x, x_type = f.argument(data)
        return f.op("nabla.reduce %s %s dims = [] : %s" % (
            kind, x, x_type)), x_type, data
    return build


def pool(f, rng):
    data = small(rng, (), "f32")
    x, x_type = f.argument(data)
    return f.op("nabla.pool sum %s window = [] : %s" % (x, x_type)), x_type, data


def generic(f, maps, loops, ins, outs, body):
    """A linalg.generic over operands (value, type)."""
    names = ", ".join("%%e%d: %s" % (i, t[:-1].split("x")[-1].split("<")[-1])
                      for i, (_, t) in enumerate(ins + outs))
    types = ", ".join(t for _, t in outs)
    f.count += 1
    f.lines.append(
        "%%v%d%s = linalg.generic {indexing_maps = [%s], iterator_types = [%s]}"
        "%s outs(%s : %s) {\n  ^bb0(%s):\n%s\n  } -> %s" % (
            f.count, ":%d" % len(outs) if len(outs) > 1 else "",
            ", ".join("affine_map<%s>" % m for m in maps),
            ", ".join(['"parallel"'] * loops),
            " ins(%s : %s)" % (", ".join(v for v, _ in ins),
                               ", ".join(t for _, t in ins)) if ins else "",
            ", ".join(v for v, _ in outs), types, names, body,
            types if len(outs) == 1 else "(%s)" % types))
    return "%%v%d" % f.count


def added(kind, order, hide):
    def build(f, rng):
        a = small(rng, (3, 4), kind)
        b = small(rng, (3, 4) if order == "(i, j)" else (4, 3), kind)
        x = f.argument(a, hide)
        y = f.argument(b, (b.shape.index(3),) if hide else ())
        operation = "addf" if kind in harness.FLOATS else "addi"
        value = generic(
            f, ["(i, j) -> (i, j)", "(i, j) -> " + order], 2, [x], [y],
            "    %%s = arith.%s %%e0, %%e1 : %s\n    linalg.yield %%s : %s" % (
                operation, kind, kind))
        return value, y[1], harness.plain(b + (a if order == "(i, j)" else a.T))
    return build


def two_outs(which):
    def build(f, rng):
        a, b, c = (small(rng, (3, 4), "f32") for _ in range(3))
        x, y, z = f.argument(a), f.argument(b), f.argument(harness.plain(c.T))
        value = generic(
            f, ["(i, j) -> (i, j)"] * 2 + ["(i, j) -> (j, i)"], 2, [x], [y, z],
            "    %s = arith.addf %e0, %e1 : f32\n    %t = arith.mulf %s, %e2 : "
            "f32\n    linalg.yield %s, %t : f32, f32")
        wants = (a + b, harness.plain(((a + b) * c).T))
        return "%s#%d" % (value, which), (y, z)[which][1], wants[which]
    return build


def part(f, rng):
    data = small(rng, (3, 4), "f32")
    y = f.argument(data)
    value = generic(f, ["(i) -> (i, 1)"], 1, [], [y],
                    "    %s = arith.addf %e0, %e0 : f32\n    linalg.yield %s : "
                    "f32")
    want = data.copy()
    want[:, 1] *= 2
    return value, y[1], want


def named(text):
    """Operations of linalg that have a name: c + d of both."""
    def build(f, rng):
        c, d = small(rng, (3, 4), "f32"), small(rng, (3, 4), "f32")
        x, z = f.argument(c), f.argument(d)
        return f.op(text % {"x": x[0], "y": z[0], "t": z[1]}), z[1], c + d
    return build


def cases():
    for hide in ((), (0,)):
        for kind in harness.FLOATS:
            yield product(kind, hide)
        for kind in ("f32", "f64", "i32", "i64", "i8"):
            for order in ("(i, j)", "(j, i)"):
                yield added(kind, order, hide)
    for kind, elements in KINDS.items():
        for element in elements:
            for shape in ((), (3, 4)):
                yield reduction(kind, element, shape)
    yield from (batched, pool, two_outs(0), two_outs(1), part)
    yield named("linalg.reduce {arith.addf} ins(%(x)s : %(t)s) "
                "outs(%(y)s : %(t)s) dimensions = []")
    yield named("linalg.map {arith.addf} ins(%(x)s, %(y)s : %(t)s, %(t)s) "
                "outs(%(y)s : %(t)s)")
    yield named("linalg.add ins(%(x)s, %(y)s : %(t)s, %(t)s) "
                "outs(%(y)s : %(t)s) -> %(t)s")


def switched(number, more, rng):
    """What a switch gives stays, though its regions compute into a tensor that
    something else is computed into afterwards. Of many cases it stays a
    switch: nabla-lower-switch."""
    f = Function("switch_%d_%d" % (number, more))
    a, b = small(rng, (8,), "f32"), small(rng, (8,), "f32")
    (x, t), (y, _) = f.argument(a), f.argument(b)
    e = f.op("tensor.empty() : " + t)
    fill = ("    %%s = linalg.%s ins(%s, %s : %s, %s) outs(%s : %s) -> %s\n"
            "    scf.yield %%s : %s\n  }\n")
    others = "".join("  case %d {\n%s" % (
        10 + i, fill % ("add", x, x, t, t, e, t, t, t)) for i in range(more))
    z = f.op("scf.index_switch %s -> %s\n  case 3 {\n%s%s  default {\n%s" % (
        f.size(number), t, fill % ("add", x, y, t, t, e, t, t, t), others,
        fill % ("mul", x, y, t, t, e, t, t, t)))
    w = f.op("linalg.copy ins(%s : %s) outs(%s : %s) -> %s" % (x, t, e, t, t))
    f.give(w, t, exact(a))
    f.give(z, t, exact({3: a + b, 4: a * b}.get(number, a + a)))
    return f


def test(s):
    rng = np.random.default_rng(harness.seed())
    functions, count = [], 0
    for i, build in enumerate(cases()):
        for reader in READERS[:2] if i % 4 else READERS:
            if count % EACH == 0:
                functions.append(Function("some_%d" % (count // EACH)))
            read(functions[-1], reader, *build(functions[-1], rng))
            count += 1
    functions += [switched(number, more, rng)
                  for number, more in ((3, 0), (4, 0), (3, 40), (4, 40),
                                       (10, 40), (209, 200))]
    s.run_all(functions, most=80)


harness.session(sys.argv[1], test)
