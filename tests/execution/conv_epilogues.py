"""Convolutions with epilogues in their kernels, against numpy: values of
features, scalars, numbers and arrays on either side, functions, chains of up to
ten operations, batches of known and unknown size, whose sizes are compared;
values that are used twice, which keep memory of their own; on three targets,
the same bytes for 1, 2 and 7 threads. usage: conv_epilogues.py NABLA-RUN
quick|medium
"""
import sys

import convolutions
import harness
import window_ops
from arrays import values
from harness import np, close

UNIT = 2.0 ** -24
PAIRS = ("add", "sub", "mul", "maximum", "minimum")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# values, and a bound of the derivative
FUNCTIONS = {
    "relu": (lambda x: np.maximum(x, 0), 1),
    "silu": (lambda x: x * sigmoid(x), 1.1),
    "sigmoid": (sigmoid, .25),
    "tanh": (np.tanh, 1),
    "neg": (np.negative, 1),
    "abs": (np.abs, 1),
    "sin": (np.sin, 1),
}


class Chain:
    """Operations behind a value, with what they give."""

    def __init__(self, f, rng, y, text, want, bound, is_open):
        self.f, self.rng, self.y, self.text = f, rng, y, text
        self.want, self.bound, self.is_open = want, bound, is_open

    def sizes(self):
        return (" sizes(%s)" % self.f.size(self.want.shape[0])
                if self.is_open else "")

    def number(self):
        value = float(np.float32(self.rng.normal()))
        if self.is_open or self.rng.integers(2):
            return value, self.f.op("nabla.full %r : f32%s -> %s" % (
                value, self.sizes(), self.text))
        return value, self.f.op("nabla.constant dense<%r> : %s" % (
            value, self.text))

    def broadcast(self):
        rank, features = self.want.ndim, self.want.shape[1]
        how = self.rng.integers(4)
        shape, dims = (([features], [1]), ([], []), ([1], [1]),
                       ([1, features] + [1] * (rank - 2), list(range(rank))),
                       )[how]
        a = values(self.rng, shape, "f32")
        name, text = self.f.argument(a)
        other = self.f.op("nabla.broadcast_in_dim %s dims = %s%s : %s -> %s" % (
            name, dims, self.sizes(), text, self.text))
        a = a.astype(np.float64)
        return (a.reshape([1, -1] + [1] * (rank - 2)) if how in (0, 3)
                else a.reshape(-1)[0]), other

    def array(self):
        a = values(self.rng, self.want.shape, "f32")
        name, _ = self.f.argument(a, [0] if self.is_open else [])
        return a.astype(np.float64), name

    def pair(self):
        op = PAIRS[self.rng.integers(len(PAIRS))]
        a, other = (self.number, self.broadcast,
                    self.array)[self.rng.integers(3)]()
        is_second = self.rng.integers(2)
        names = (other, self.y) if is_second else (self.y, other)
        self.y = self.f.op("nabla.%s %s, %s : %s, %s" % (
            op, *names, self.text, self.text))
        sides = (a, self.want) if is_second else (self.want, a)
        self.want = {"add": np.add, "sub": np.subtract, "mul": np.multiply,
                     "maximum": np.maximum, "minimum": np.minimum}[op](*sides)
        if op == "mul":
            self.bound = self.bound * np.abs(a)
        self.bound = self.bound + UNIT * np.abs(self.want)

    def function(self):
        names = list(FUNCTIONS)
        name = names[self.rng.integers(len(names))]
        compute, slope = FUNCTIONS[name]
        self.y = self.f.op("nabla.%s %s : %s" % (name, self.y, self.text))
        self.want = compute(self.want)
        self.bound = self.bound * slope + 4 * UNIT * np.abs(self.want) + 2**-140

    def give(self):
        self.f.give(self.y, self.text, close(self.want, self.bound, "f32"))


def case_of(rng, number):
    c = convolutions.Large(rng, number)
    while not convolutions.LEAST <= c.products() <= 1 << 18:
        c = convolutions.Large(rng, number)
    if number % 6:
        c.orders[2] = list(range(len(c.x)))
    return c


def add(f, rng, number):
    c = case_of(rng, number)
    a = values(rng, window_ops.placed(c.x, c.orders[0]), "f32")
    k = values(rng, window_ops.placed(c.k, c.orders[1]), "f32")
    is_open = number % 4 == 3 and number % 6 != 0
    hides = [[c.orders[0][0]] if is_open else [], []]
    x, x_type = f.argument(a, hides[0])
    name, k_type = f.argument(k)
    chain = Chain(f, rng, *window_ops.convolved(
        f, c, a, k, x, name, (x_type, k_type), "f32", hides), is_open)
    steps = int(rng.integers(1, 11 if number % 7 == 0 else 5))
    kept = int(rng.integers(steps)) if number % 5 == 4 else -1
    for i in range(steps):
        if i == kept:  # a second use
            chain.give()
        (chain.pair if rng.integers(3) else chain.function)()
    chain.give()


def main():
    medium = sys.argv[2] == "medium"
    rng = np.random.default_rng(harness.seed())
    functions = []
    for i in range(160 if medium else 20):
        f = harness.Function("e%d" % i)
        add(f, rng, i)
        functions.append(f)
    convolutions.run_functions(functions)


if __name__ == "__main__":
    main()
