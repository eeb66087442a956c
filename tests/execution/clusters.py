"""Clusters whose forming is not obvious, against numpy: two that become one, a
vector repeated along rows and along columns, sums of rows used as columns, a
broadcast in another order of dimensions, a result used in between, more results
than a kernel has, reductions of arrays of different sizes that are not known. All
operations are exact.

usage: clusters.py NABLA_RUN"""
import sys

import harness
from harness import np, Function, exact, tensor_type

ROWS, COLUMNS = 64, 96


class Program:
    """A function of arrays, each with its value."""

    def __init__(self, name, rng):
        self.f, self.rng = Function(name), rng

    def argument(self, *shape):
        a = self.rng.integers(-99, 100, shape).astype(np.float32)
        return self.f.argument(a)[0], a

    def one(self, op, x):
        value = {"neg": np.negative, "abs": np.abs, "sign": np.sign,
                 "floor": np.floor, "ceil": np.ceil, "round": np.rint,
                 "trunc": np.trunc, "relu": lambda a: np.maximum(a, 0)}[op](x[1])
        return self.f.op("nabla.%s %s : %s" % (
            op, x[0], tensor_type(x[1].shape, "f32"))), value

    def two(self, op, x, y):
        value = {"add": np.add, "sub": np.subtract, "mul": np.multiply,
                 "maximum": np.maximum, "minimum": np.minimum}[op](x[1], y[1])
        kind = tensor_type(x[1].shape, "f32")
        return self.f.op("nabla.%s %s, %s : %s, %s" % (
            op, x[0], y[0], kind, kind)), value

    def broadcast(self, x, dims, *shape):
        order = np.argsort(dims)
        inner = [1] * len(shape)
        for i in range(len(dims)):
            inner[dims[i]] = x[1].shape[i]
        value = np.broadcast_to(x[1].transpose(order).reshape(inner), shape)
        return self.f.op("nabla.broadcast_in_dim %s dims = %s : %s -> %s" % (
            x[0], list(dims), tensor_type(x[1].shape, "f32"),
            tensor_type(shape, "f32"))), value

    def sums(self, x):
        return self.f.op("nabla.reduce sum %s dims = [1] : %s" % (
            x[0], tensor_type(x[1].shape, "f32"))), x[1].sum(1)

    def flip(self, x):
        return self.f.op("nabla.flip %s dims = [0] : %s" % (
            x[0], tensor_type(x[1].shape, "f32"))), x[1][::-1]

    def give(self, *values):
        for x in values:
            self.f.give(x[0], tensor_type(x[1].shape, "f32"),
                        exact(np.ascontiguousarray(x[1])))
        return self.f


def merged(p):
    """Two clusters become one where both have values in front."""
    x, y = p.argument(ROWS, COLUMNS), p.argument(ROWS, COLUMNS)
    a = p.two("mul", p.one("abs", x), y)
    b = p.one("neg", p.two("minimum", y, x))
    c = p.two("sub", a, b)
    return p.give(c, p.two("maximum", c, a), p.two("add", b, a))


def both_ways(p):
    v = p.argument(ROWS)
    return p.give(p.two("sub", p.broadcast(v, [0], ROWS, ROWS),
                        p.broadcast(v, [1], ROWS, ROWS)))


def sums_as_columns(p):
    a = p.one("relu", p.argument(ROWS, ROWS))
    s = p.sums(a)
    return p.give(p.two("sub", a, p.broadcast(s, [1], ROWS, ROWS)),
                  p.two("sub", a, p.broadcast(s, [0], ROWS, ROWS)))


def turned(p):
    v, x = p.argument(ROWS, COLUMNS), p.one("abs", p.argument(COLUMNS, ROWS))
    return p.give(p.two("add", x, p.broadcast(v, [1, 0], COLUMNS, ROWS)))


def between(p):
    a = p.one("abs", p.argument(ROWS, COLUMNS))
    f = p.flip(p.broadcast(a, [1, 2], 2, ROWS, COLUMNS))
    b = p.one("neg", a)
    return p.give(f, b, p.two("add", p.flip(b), a))


def many_results(p):
    x = p.two("sub", p.argument(ROWS, COLUMNS), p.argument(ROWS, COLUMNS))
    ops = ("neg", "abs", "sign", "floor", "ceil", "round", "trunc", "relu")
    out = [p.one(op, x) for op in ops] + [p.two("mul", x, x)]
    step = x
    for i in range(12):  # a chain: each step is a result
        step = p.two("sub", step, x) if i % 2 else p.one("neg", step)
        out.append(step)
    return p.give(*out)


def open_rows(p):
    """Sums of rows of different, unknown lengths, and of the same, joined."""
    f, rng = p.f, p.rng
    for shapes in (((5,), (4,)), ((ROWS, 7), (ROWS, COLUMNS)),
                   ((3, 2, COLUMNS), (3, 2, 1)), ((ROWS, 0), (ROWS, 9))):
        last = len(shapes[0]) - 1
        a, b = (rng.integers(-99, 100, shape).astype(np.float32)
                for shape in shapes)
        (x, kind), (y, _) = (f.argument(v, range(v.ndim)) for v in (a, b))
        size = f.op("nabla.abs %s : %s" % (x, kind))
        for keeps in (False, True):
            shape = [None] * last + [1] * keeps
            out = tensor_type(shape, "f32")
            s, t, u = (f.op("nabla.reduce sum %s dims = [%d]%s : %s" % (
                v, last, " keep_dims" * keeps, kind)) for v in (x, y, size))
            sums = [v.sum(-1, keepdims=keeps) for v in (a, b, np.abs(a))]
            for other, value in ((t, sums[1]), (u, sums[2])):
                f.give(f.op("nabla.sub %s, %s : %s, %s" % (s, other, out, out)),
                       out, exact(np.asarray(sums[0] - value, np.float32)))
    return f


def test(s):
    rng = np.random.default_rng(harness.seed())
    cases = (merged, both_ways, sums_as_columns, turned, between, many_results,
             open_rows)
    functions = [case(Program(case.__name__, rng)) for case in cases]
    s.run_all(functions)
    s.run_all(functions, ["--target", "x86-64"])


harness.session(sys.argv[1], test)
