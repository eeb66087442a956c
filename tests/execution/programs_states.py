"""States of random programs: a quarter of the programs get one or two arrays
more, which are computed anew from a value of the program, written in a row, in
a private function or in a scan, and read before or afterwards.

Such a program is written twice: as NAME it hands these arrays through, as
arguments and last results; as NAME_s they are states. programs_driver runs both
and compares all bytes, step by step.
"""
import programs_leaves as leaves
from harness import np, tensor_type


class States:
    """The arrays of a program `f` that are states in its twin."""

    def __init__(self):
        self.arguments, self.results = [], []  # numbers; (value, type)

    def argument(self, f, rng, shape, kind):
        self.arguments.append(len(f.arguments))
        return f.argument(leaves.numbers(rng, shape, kind))

    def text(self, f):
        """The twin of `f`, of which results are those before the states."""
        arguments, results = list(f.arguments), [t for _, t, _ in f.results]
        for number, at in enumerate(self.arguments):
            head, _, _ = arguments[at].partition(" {")
            state = '{nabla.state = "%s_k%d"}' % (f.name, number)
            arguments[at] = "%s %s" % (head, state)
            results.append("%s %s" % (self.results[number][1], state))
        values = [v for v, _, _ in f.results] + [v for v, _ in self.results]
        types = [t for _, t, _ in f.results] + [t for _, t in self.results]
        return "func.func @%s_s(%s) -> (%s) {\n%s\n  return %s : %s\n}\n" % (
            f.name, ", ".join(arguments), ", ".join(results),
            "\n".join("  " + line for line in f.lines), ", ".join(values),
            ", ".join(types))


def whole(f, states, rng, v):
    """All of it is computed anew; its old value is read."""
    s, text = states.argument(f, rng, v.shape, v.kind)
    new = f.op("nabla.%s %s, %s : %s, %s" % (
        "maximum" if v.kind == "i1" else "add", s, v.name, text, text))
    states.results.append((new, text))
    return f.op("nabla.%s %s, %s : %s, %s" % (
        "minimum" if v.kind == "i1" else "sub", s, v.name, text, text)), text


def update(array, part, at, zero, s_text, v_text, rank):
    """Text that writes `part` to `array` at index `at` of the first dimension."""
    return "nabla.dynamic_update_slice %s, %s at (%s : %s) : %s, %s" % (
        array, part, ", ".join([at] + [zero] * (rank - 1)),
        ", ".join(["index"] * rank), s_text, v_text)


def of_rows(f, states, rng, v, more=0):
    """(state, type, place, zero): `more` rows more than `v` has, or some."""
    shape = (v.shape[0] + int(rng.integers(more, 4)),) + v.shape[1:]
    s, text = states.argument(f, rng, shape, v.kind)
    at = f.size(int(rng.integers(0, shape[0] + 2)))
    return s, text, at, f.op("arith.constant 0 : index")


def rows(f, states, rng, v):
    """Some rows are written; so many as are known at run time alone are read."""
    s, text, at, zero = of_rows(f, states, rng, v)
    new = f.op(update(s, v.name, at, zero, text, v.type(), v.rank))
    states.results.append((new, text))
    count = f.size(int(rng.integers(0, v.shape[0] + 1)))
    view = tensor_type((None,) + v.shape[1:], v.kind)
    return f.op("nabla.dynamic_slice %s at (%s : %s) sizes(%s) : %s -> %s" % (
        new, ", ".join([zero] * v.rank), ", ".join(["index"] * v.rank), count,
        text, view)), view


def called(f, states, rng, v):
    """A private function writes the rows, and reads others: a function that
    returns a state twice is refused."""
    s, text, at, _ = of_rows(f, states, rng, v, 1)
    name = "%s_put%d" % (f.name, len(states.results))
    part = v.type()
    f.callees.append(
        "func.func private @%s(%%s: %s, %%v: %s, %%at: index) -> (%s, %s) {\n"
        "  %%zero = arith.constant 0 : index\n  %%n = %s\n"
        "  %%r = nabla.slice %%n starts = [%s] limits = [%s] : %s\n"
        "  return %%n, %%r : %s, %s\n}\n" % (
            name, text, part, text, part,
            update("%s", "%v", "%at", "%zero", text, part, v.rank),
            ", ".join(["0"] * v.rank), ", ".join(str(n) for n in v.shape),
            text, text, part))
    new, read = f.region(2, "func.call @%s(%s, %s, %s) : (%s, %s, index) -> "
                         "(%s, %s)" % (name, s, v.name, at, text, part, text,
                                       part))
    states.results.append((new, text))
    return read, part


def scanned(f, states, rng, v):
    """A scan carries it, and writes rows in each step."""
    s, text, at, _ = of_rows(f, states, rng, v)
    zero = f.op("arith.constant dense<0> : tensor<i64>")
    count = f.size(int(rng.integers(0, 4)))
    _, new = f.region(2, (
        "nabla.scan init(%s, %s : tensor<i64>, %s) length(%s) -> tensor<i64>, "
        "%s {\n^bb0(%%i: tensor<i64>, %%c: %s):\n"
        "  %%zero = arith.constant 0 : index\n"
        "  %%one = arith.constant dense<1> : tensor<i64>\n"
        "  %%e = tensor.extract %%i[] : tensor<i64>\n"
        "  %%f = arith.index_cast %%e : i64 to index\n"
        "  %%to = arith.addi %%f, %s : index\n  %%n = %s\n"
        "  %%j = nabla.add %%i, %%one : tensor<i64>, tensor<i64>\n"
        "  nabla.yield %%j, %%n : tensor<i64>, %s\n}") % (
            zero, s, text, count, text, text, at,
            update("%c", v.name, "%to", "%zero", text, v.type(), v.rank),
            text))
    states.results.append((new, text))
    return new, text


def add(b):
    """Gives the program `b` states, or none."""
    fit = [v for v in b.values if v.packed is None and None not in v.dims
           and v.rank <= 4 and np.prod(v.shape) < 10000]
    if not fit or b.rng.random() > 0.25:
        return
    b.f.states = States()
    for _ in range(int(b.rng.integers(1, 3))):
        v = fit[int(b.rng.integers(len(fit)))]
        makers = [whole, rows, called, scanned] if v.rank else [whole]
        make = makers[int(b.rng.integers(len(makers)))]
        value, text = make(b.f, b.f.states, b.rng, v)
        b.f.results.append((value, text, v.kind))
        b.f.checks.append(lambda array: None)
