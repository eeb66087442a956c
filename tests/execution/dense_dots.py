"""Products of two tensors that kernels compute: either side transposed, several
dimensions joined, batches, no elements, sizes around the tiles, rows from one to many, of f32,
f16 and bf16, with epilogues; each within the bound of promise 2 of f64, and the
same bytes for any number of threads.

usage: dense_dots.py NABLA_RUN quick|medium
"""
import sys

import harness
from harness import np, Function, close, exact, tensor_type
from arrays import values, chain, rounded

f64 = np.float64
KINDS = ("f32", "f32", "bf16", "f16")
# odd, prime, tiles and their neighbours
SIZES = (1, 3, 16, 17, 33, 48, 64, 100, 257)
DEPTHS = (1, 7, 16, 48, 64, 257, 300, 1030)
ROWS = (1, 2, 3, 5, 8, 17, 40)
LEAST = 8192  # multiplications, below which nabla-dispatch keeps loops


def pick(rng, of):
    return int(of[rng.integers(len(of))])


def sizes(rng):
    """M, N and K of a product that is large enough."""
    while True:
        m, n, k = pick(rng, ROWS), pick(rng, SIZES), pick(rng, DEPTHS)
        if m * n * k >= LEAST:
            return m, n, k


def product(x, w):
    """x: ... M x K, w: ... N x K, in f64, and the sum of |x||w|."""
    x, w = (harness.widen(v).astype(f64) for v in (x, w))
    w = np.swapaxes(w, -1, -2)
    return x @ w, np.abs(x) @ np.abs(w)


def bound_of(want, total, k, kind):
    bound = (max(chain(k, 2), k // 64 + 8) + 16) * 2.0 ** -24 * total
    return rounded(want, bound, kind)


def listed(name, pairs):
    left, right = ([p[i] for p in pairs] for i in (0, 1))
    return " %s = %s x %s" % (name, left, right) if pairs else ""


def dot(f, x, w, contracting, batching=()):
    return f.op("nabla.dot_general %s, %s%s%s : %s, %s" % (
        x[0], w[0], listed("batching", batching),
        listed("contracting", contracting), x[1], w[1]))


def unknown(rng, n_dim, k_dim):
    """Dimensions of a weight that the program does not know: often none."""
    return [d for d in (n_dim, k_dim) if rng.integers(3) == 0]


def add_plain(f, rng, kind):
    """Either side transposed, sizes known or not, an epilogue."""
    m, n, k = sizes(rng)
    a, b = values(rng, (m, k), kind), values(rng, (n, k), kind)
    turned = [bool(rng.integers(2)) for _ in range(2)]
    rows = None if rng.integers(2) else m
    hidden = [] if rows else [1 if turned[0] else 0]
    n_dim, k_dim = (1, 0) if turned[1] else (0, 1)
    of_w = unknown(rng, n_dim, k_dim)
    if k_dim in of_w and rng.integers(2):
        hidden.append(0 if turned[0] else 1)
    x = f.argument(harness.plain(a.T) if turned[0] else a, hidden)
    w = f.argument(harness.plain(b.T) if turned[1] else b, of_w)
    columns = None if n_dim in of_w else n
    y = dot(f, x, w, [(0 if turned[0] else 1, 0 if turned[1] else 1)])
    want, total = product(a, b)
    bound = bound_of(want, total, k, kind)
    kept = tensor_type((rows, columns), kind)
    if kind == "f32" and rng.integers(2):
        r = values(rng, (m, n), kind)
        other = f.argument(r, [d for d, size in enumerate((rows, columns))
                               if size is None])
        y = f.op("nabla.add %s, %s : %s, %s" % (y, other[0], kept, other[1]))
        y = f.op("nabla.relu %s : %s" % (y, kept))
        want = np.maximum(want + r, 0)
        bound = bound + 2.0 ** -23 * (np.abs(want) + np.abs(r) + bound)
    f.give(y, kept, close(want, bound, kind))


def add_pairs(f, rng, i):
    """Two tensors of bf16 of i + 1 rows, each layout of both, one side's sizes
    unknown or both, in batches or not; odd K and N, and tiles of 32."""
    m, n, k = i + 1, (97, 64, 321, 33)[i % 4], (255, 300, 33, 512, 1030)[i % 5]
    turned, batches = (i % 2, i // 2 % 2), 3 if i % 3 == 0 else 1
    a, b = (values(rng, (batches, r, k), "bf16") for r in (m, n))
    of_x, of_w = (v.swapaxes(1, 2) if t else v for v, t in zip((a, b), turned))
    hidden = [[], [1 + turned[0]], [0], []][i // 4 % 4]
    open_w = [[], [1, 2], [2], [1]][i // 4 % 4]
    x = f.argument(harness.plain(of_x), hidden)
    w = f.argument(harness.plain(of_w), open_w)
    y = dot(f, x, w, [(2 - turned[0], 2 - turned[1])], [(0, 0)])
    want, total = product(a, b)
    shape = (batches,
             None if 1 + turned[0] in hidden else m,
             None if 1 + turned[1] in open_w else n)
    f.give(y, tensor_type(shape, "bf16"),
           close(want, bound_of(want, total, k, "bf16"), "bf16"))


def add_joined(f, rng, kind):
    """Two dimensions of each side for one, next to each other or not."""
    m, n, k = sizes(rng)
    a = values(rng, (2, m, 3, k), kind)
    b = values(rng, (2, n, 3, k), kind)
    order = [int(i) for i in rng.permutation(4)]
    other = [int(i) for i in rng.permutation(4)]
    hidden = [order.index(1)] if rng.integers(2) else []
    x = f.argument(harness.plain(a.transpose(order)), hidden)
    w = f.argument(harness.plain(b.transpose(other)))
    pairs = [(order.index(i), other.index(i)) for i in (2, 3)]
    y = dot(f, x, w, pairs)
    free = [i for i in order if i < 2], [i for i in other if i < 2]
    rows = a.transpose(free[0] + [2, 3]).reshape(2 * m, 3 * k)
    columns = b.transpose(free[1] + [2, 3]).reshape(2 * n, 3 * k)
    want, total = product(rows, columns)
    dims = [a.shape[i] for i in free[0]], [b.shape[i] for i in free[1]]
    bound = bound_of(want, total, 3 * k, kind).reshape(dims[0] + dims[1])
    shape = [None if i == 1 and hidden else a.shape[i] for i in free[0]]
    f.give(y, tensor_type(shape + dims[1], kind),
           close(want.reshape(bound.shape), bound, kind))


def add_vector(f, rng, kind):
    """A side of rank 1, or rows and columns of one element."""
    k = pick(rng, DEPTHS)
    n = -(-LEAST // k) + pick(rng, SIZES)
    a, b = values(rng, (1, k), kind), values(rng, (n, k), kind)
    want, total = product(a, b)
    bound = bound_of(want, total, k, kind)[0]
    x, w = f.argument(a[0]), f.argument(b)
    left = bool(rng.integers(2))
    y = dot(f, x, w, [(0, 1)]) if left else dot(f, w, x, [(1, 0)])
    f.give(y, tensor_type((n,), kind), close(want[0], bound, kind))


def add_batch(f, rng, kind):
    """Batches anywhere in either side."""
    m, n, k = sizes(rng)
    batches = [2, 3][:int(rng.integers(1, 3))]
    count = len(batches)
    a, b = (values(rng, (*batches, r, k), kind) for r in (m, n))
    orders = [[int(i) for i in rng.permutation(count + 2)] for _ in range(2)]
    if rng.integers(2):  # heads between rows and features, as attention has
        orders = [[0, 2, 1, 3][:count + 2]] * 2 if count == 2 else [[1, 0, 2]] * 2
    hidden = [orders[0].index(count)] if rng.integers(2) else []
    if rng.integers(3) == 0:
        hidden.append(orders[0].index(0))
    n_dim, k_dim = (orders[1].index(count + i) for i in range(2))
    of_w = unknown(rng, n_dim, k_dim)
    if k_dim in of_w and rng.integers(2):
        hidden.append(orders[0].index(count + 1))
    x = f.argument(harness.plain(a.transpose(orders[0])), hidden)
    w = f.argument(harness.plain(b.transpose(orders[1])), of_w)
    pairs = [tuple(o.index(i) for o in orders) for i in range(count)]
    y = dot(f, x, w, [tuple(o.index(count + 1) for o in orders)], pairs)
    want, total = product(a, b)
    rows = None if orders[0].index(count) in hidden else m
    columns = None if n_dim in of_w else n
    f.give(y, tensor_type((*batches, rows, columns), kind),
           close(want, bound_of(want, total, k, kind), kind))


def add_conv(f, rng, kind):
    """Windows with strides, dilations and padding; few are rows, many columns."""
    spatial = int(rng.integers(1, 3))
    few = bool(rng.integers(2))
    strides, dilation, low, high, window = (
        [int(i) for i in rng.integers(first, end, spatial)]
        for first, end in ((1, 3), (1, 3), (0, 3), (0, 3), (1, 5)))
    counts = [int(i) for i in rng.integers(1, 4, spatial)]
    if not few:
        counts[-1] += 17
    reach = [(w - 1) * d + 1 for w, d in zip(window, dilation)]
    dims = [max((c - 1) * s + r - a - b, 1) for c, s, r, a, b in
            zip(counts, strides, reach, low, high)]
    features = pick(rng, SIZES[:6])
    a = values(rng, (1, features, *dims), kind)
    padded = np.pad(harness.widen(a).astype(f64),
                    [(0, 0)] * 2 + list(zip(low, high)))
    over = np.lib.stride_tricks.sliding_window_view(
        padded, reach, list(range(2, 2 + spatial)))
    cut = (slice(None),) * 2 + tuple(slice(None, None, s) for s in strides)
    rows = over[cut + tuple(slice(None, None, d) for d in dilation)]
    counts = rows.shape[2:2 + spatial]
    rows = np.moveaxis(rows, 1, 1 + spatial).reshape(int(np.prod(counts)), -1)
    k = rows.shape[1]
    outputs = -(-LEAST // rows.size) + pick(rng, SIZES)
    b = values(rng, (outputs, features, *window), kind)
    x, w = f.argument(a), f.argument(b)
    y = f.op("nabla.conv_general %s, %s strides = %s low = %s high = %s "
             "kernel_dilation = %s : %s, %s" % (
                 x[0], w[0], strides, low, high, dilation, x[1], w[1]))
    flat = harness.widen(b).astype(f64).reshape(outputs, k)
    shape = (1, outputs, *counts)
    want = (flat @ rows.T).reshape(shape)
    total = (np.abs(flat) @ np.abs(rows).T).reshape(shape)
    f.give(y, tensor_type(shape, kind),
           close(want, bound_of(want, total, k, kind), kind))


def add_exact(f, rng, kind):
    """Small integers, whose sums no order rounds."""
    m, n, k = sizes(rng)
    a, b = (harness.narrow(rng.integers(-2, 3, s).astype(f64), kind)
            for s in ((m, k), (k, n)))
    y = dot(f, f.argument(a), f.argument(b), [(1, 0)])
    want = harness.widen(a).astype(f64) @ harness.widen(b).astype(f64)
    f.give(y, tensor_type((m, n), kind), exact(harness.narrow(want, kind),
                                               signs=False))


def add_empty(f, rng, kind):
    """No rows, which is known or is not."""
    for hidden in [], [0]:
        x = f.argument(values(rng, (0, 128), kind), hidden)
        w = f.argument(values(rng, (128, 128), kind))
        y = dot(f, x, w, [(1, 1)])
        f.give(y, tensor_type((None if hidden else 0, 128), kind),
               exact(np.zeros((0, 128), harness.DTYPES[kind])))


def add_empty_batch(f, rng, kind, at):
    """Size `at`, a batch, rows, columns or depth, is 0: the weight's is known,
    that of x is not."""
    dims = [51, 51, 16, 16, 51]
    dims[at] = 0
    of_x, of_w = (0, 1, 2, 4), (0, 1, 3, 4)
    orders = [rng.permutation(of) for of in (of_x, of_w)]
    a, b = (values(rng, tuple(dims[i] for i in o), kind) for o in orders)
    left, right = ([int(i) for i in o] for o in orders)
    hidden = [left.index(at if at in left else 2)]
    x, w = f.argument(a, hidden), f.argument(b)
    y = dot(f, x, w, [(left.index(4), right.index(4))],
            [(left.index(i), right.index(i)) for i in (0, 1)])
    shape = [dims[i] for i in (0, 1, 2, 3)]
    rows = None if left.index(2) in hidden else dims[2]
    f.give(y, tensor_type((dims[0], dims[1], rows, dims[3]), kind),
           exact(np.zeros(shape, harness.DTYPES[kind])))


def add_no_depth(f, rng, kind):
    """No products, which the program does not know: zeros, whatever the memory
    of the result had."""
    m, n = (int(size) for size in rng.choice([1, 40, 300], 2))
    hidden = [[0, 1], [1]][int(rng.integers(2))]
    x = f.argument(values(rng, (m, 0), kind), hidden)
    w = f.argument(values(rng, (n, 0), kind), [1])
    y = dot(f, x, w, [(1, 1)])
    f.give(y, tensor_type((None if 0 in hidden else m, n), kind),
           exact(np.zeros((m, n), harness.DTYPES[kind])))


CASES = (add_plain, add_plain, add_joined, add_vector, add_batch, add_batch,
         add_exact, add_conv, add_conv)


def functions_of(rng, count):
    out = []
    for i in range(count):
        build = add_empty if i == 0 else CASES[i % len(CASES)]
        f = Function("d%d_%s" % (i, build.__name__))
        build(f, rng, KINDS[int(rng.integers(len(KINDS)))])
        out.append(f)
    for i in range(17):
        f = Function("p%d" % i)
        add_pairs(f, rng, i)
        out.append(f)
    for i in range(8):
        f = Function("n%d" % i)
        add_no_depth(f, rng, KINDS[i % len(KINDS)])
        out.append(f)
    for i in range(15):
        f = Function("e%d" % i)
        add_empty_batch(f, rng, KINDS[i % len(KINDS)], i // 2 % 5)
        out.append(f)
    return out


def check_threads(s, functions):
    """The bytes for 1, 2 and 7 threads."""
    program = s.write("".join(f.text() for f in functions))
    for f in functions:
        results = [s.call(program, f, ["-j", n]) for n in "127"]
        for other in results[1:]:
            for got, want in zip(other, results[0]):
                wrong = exact(want)(got)
                s.expect(not wrong, "%s: threads: %s" % (f.name, wrong))


def main():
    medium = sys.argv[2] == "medium"
    rng = np.random.default_rng(harness.seed())
    functions = functions_of(rng, 200 if medium else 45)

    def test(s):
        s.run_all(functions, most=12)
        s.run_all(functions[1::8], ["--target", "x86-64-v3"], most=12)
        s.run_all(functions[2::16], ["--target", "x86-64"], most=12)
        check_threads(s, functions[1:60:7])
    harness.session(sys.argv[1], test)


if __name__ == "__main__":
    main()
