"""Convolutions that a kernel computes, against numpy: panels of windows and
rows, groups, batches of known and unknown size, strides, dilations, padding,
orders of dimensions, f32, f16 and bf16, on three targets; the same bytes for
1, 2 and 7 threads. usage: convolutions.py NABLA-RUN quick|medium
"""
import sys

import harness
import window_ops
from arrays import values
from dense_dots import check_threads
from harness import np

KINDS = ("f32", "f32", "f16", "bf16")
LEAST = 8192  # multiplications, below which nabla-cluster keeps loops


class Large(window_ops.Convolution):
    """Random attributes with sizes for which there are kernels."""

    def __init__(self, rng, number):
        spatial = (2, 1, 2, 3)[number % 4]
        super().__init__(rng, spatial)
        by_rows = number % 3 == 2
        self.groups = int(rng.choice([1, 2, 5])) if not by_rows else 7
        outputs = int(rng.integers(1, 4) if by_rows else
                      rng.choice([4, 8, 13, 30, 150]))
        features = int(rng.choice([1, 2] if by_rows else [1, 3, 16]))
        if number % 8 == 0:
            features = 70  # more products than a panel has
        width = int(rng.choice([5, 7, 14, 16, 17, 32, 41] +
                               [67, 150, 200] * by_rows))
        most = {1: 9, 2: 9, 3: 4}[spatial]
        self.x = [int(rng.integers(1, 4)), features * self.groups]
        self.x += [int(n) for n in rng.integers(3, most, spatial - 1)] + [width]
        self.k = [outputs * self.groups, features]
        self.k += [int(n) for n in rng.integers(1, 4, spatial)]
        if number % 5 == 1:
            self.k[2:] = [1] * spatial
        self.strides[-1] = int(rng.choice([1, 1, 2, 3]))
        if rng.integers(2):
            self.k_by, self.in_by = ([1] * spatial for _ in range(2))
        self.low, self.high = [], []
        for size, window, by, far in zip(self.x[2:], self.k[2:], self.in_by,
                                         self.k_by):
            low, high = (int(n) for n in rng.integers(-2, 5, 2))
            size = (size - 1) * by + 1
            short = (window - 1) * far + 1 - (size + low + high)
            self.low.append(low + max(short, 0))
            self.high.append(high)

    def products(self):
        size = int(np.prod(self.k)) * self.x[0]
        for row in zip(self.x[2:], self.in_by, self.low, self.high,
                       self.k[2:], self.strides, self.k_by):
            n, by, low, high, *rest = row
            size *= window_ops.windows_of((n - 1) * by + 1 + low + high, *rest)
        return size


def add(f, rng, number, kind):
    c = Large(rng, number)
    while c.products() < LEAST or c.products() > 1 << 19:
        c = Large(rng, number)
    a = values(rng, window_ops.placed(c.x, c.orders[0]), kind)
    k = values(rng, window_ops.placed(c.k, c.orders[1]), kind)
    hides = [[c.orders[0][0]] if number % 4 == 3 else [], []]
    x, x_type = f.argument(a, hides[0])
    name, k_type = f.argument(k)
    window_ops.convolve(f, c, a, k, x, name, (x_type, k_type), kind, hides)


def functions_of(rng, count):
    out = []
    for i in range(count):
        f = harness.Function("c%d" % i)
        add(f, rng, i, KINDS[i % 7 % len(KINDS)])
        out.append(f)
    return out


def run_functions(functions):
    """Runs them in a session: all of them, some on other CPUs, some with other
    numbers of threads."""
    def test(s):
        s.run_all(functions, most=12)
        s.run_all(functions[1::6], ["--target", "x86-64-v3"], most=12)
        s.run_all(functions[2::9], ["--target", "x86-64"], most=12)
        check_threads(s, functions[::8])
    harness.session(sys.argv[1], test)


def main():
    medium = sys.argv[2] == "medium"
    rng = np.random.default_rng(harness.seed())
    run_functions(functions_of(rng, 160 if medium else 14))


if __name__ == "__main__":
    main()
