"""The promises of an implicit array, as properties of random programs:
1. a view of it, decoded, is the view of it decoded, exactly, for every chain;
2. a fused product lies within its bound of a product in f64; where nothing is
   rounded it is exact; the bytes do not depend on the number of threads;
3. what is materialized is counted and shown, and refused if that is asked for.

usage: promises.py NABLA_RUN quick|medium
"""
import sys

import harness
from harness import np, Function, exact, close, tensor_type
import arrays
from arrays import implicit, fused_bound
from dense_ops import factored
from shape_ops import several, slice_text

f32, f64 = np.float32, np.float64


def new(functions, what):
    f = Function("p%d_%s" % (len(functions), what))
    functions.append(f)
    return f


# ---- 1: views ----------------------------------------------------------------


def random_cut(rng, q, dense, known, split):
    """A strided slice, or a piece, seldom empty."""
    f, dense_type = q.function, tensor_type(known, q.kind)
    if split and known:
        dim = int(rng.integers(len(known)))
        first = int(rng.integers(known[dim] + 1))
        sizes, which = [first, known[dim] - first], int(rng.integers(2))
        view = q.split(dim, sizes)[which]
        text = "nabla.split %s dim = %d sizes = %s : %s" % (
            dense, dim, sizes, dense_type)
        return view, several(f, text, 2)[which]
    starts = [int(rng.integers(max(d, 1))) for d in known]
    limits = [int(rng.integers(min(s + 1, d), d + 1))
              for s, d in zip(starts, known)]
    strides = [int(rng.integers(1, 4)) for _ in known]
    view = q.slice(starts, limits, strides)
    return view, f.op(slice_text(dense, dense_type, starts, limits, strides))


def random_view(rng, q, dense, known):
    """One more view of both; None if strides cannot express it."""
    f, rank = q.function, len(known)
    kind = int(rng.integers(5))
    if kind >= 3:
        return random_cut(rng, q, dense, known, kind == 4)
    if kind == 0:
        order = [int(i) for i in rng.permutation(rank)]
        text = "nabla.transpose %s permutation = %s : %s" % (
            dense, order, tensor_type(known, q.kind))
        return q.transpose(order), f.op(text)
    if kind == 1:
        shape = factored(rng, q.dense.size)
        if rank and q.dense.size and rng.random() < 0.5:  # joins or cuts neighbours: often expressible
            at = int(rng.integers(rank))
            cuts = [d for d in range(1, known[at] + 1) if known[at] % d == 0]
            cut = int(rng.choice(cuts))
            shape = (*known[:at], known[at] // cut, cut, *known[at + 1:])
        count = len(f.lines)
        view = q.reshape(shape)
        if view is None:
            assert len(f.lines) == count
            return None
        return view, f.op("nabla.reshape %s : %s -> %s" % (
            dense, tensor_type(known, q.kind), view.tensor()))
    more = int(rng.integers(2))
    places = [int(i) for i in rng.permutation(rank + more)[:rank]]
    shape = [int(rng.integers(1, 4))] * (rank + more)
    for i, at in enumerate(places):
        shape[at] = known[i] if known[i] != 1 else int(rng.integers(1, 4))
    view = q.broadcast(tuple(shape), places)
    return view, f.op("nabla.broadcast_in_dim %s dims = %s : %s -> %s" % (
        dense, places, tensor_type(known, q.kind), view.tensor()))


def add_views(functions, rng, spec, count):
    """Chains of views; each is also taken of the dense array in the program."""
    for _ in range(count):
        f = new(functions, "views_%s" % spec)
        kind = ("f32", "f16", "bf16")[len(functions) % 3]
        storage = arrays.shape(rng, int(rng.integers(2, 5)), 9)
        q = implicit(f, rng, spec, storage, kind, special=True)
        dense = q.materialize()
        for _ in range(int(rng.integers(2, 7))):
            if q.dense.size > 20000 or q.dense.ndim > 7:
                break
            step = random_view(rng, q, dense, q.dense.shape)
            q, dense = step or (q, dense)
        want = exact(harness.plain(q.dense))
        f.give(q.materialize(), q.tensor(), want)
        f.give(dense, q.tensor(), want)


# ---- 2: products -------------------------------------------------------------


def pattern(rng, shape, how):
    x = rng.standard_normal(shape).astype(f32)
    if how == "positive":
        x = np.abs(x) + f32(0.1)
    if how == "constant":
        x = np.full(shape, 0.7315, f32)
    if how == "alternating":
        x = np.abs(x) * np.where(np.arange(shape[-1]) % 2, f32(-1), f32(1))
    return x


PATTERNS = ("random", "constant", "positive", "alternating")


def add_bounds(functions, rng, spec, sizes):
    for how in PATTERNS:
        f = new(functions, "bound_%s_%s" % (spec, how))
        n, k = int(rng.integers(3, 40)), int(rng.choice(sizes))
        for storage, transposed in (((n, k), False), ((k, n), True)):
            given = spec.encode(pattern(rng, storage, how))
            q = implicit(f, rng, spec, storage, given=given)
            w = q.transpose([1, 0]) if transposed else q
            for m in (1, 2, 17):
                a = pattern(rng, (m, k), how)
                x, x_type = f.argument(a, [0])
                y = f.op("nabla.dot_general %s, %s contracting = [1] x [1] : "
                         "%s, %s" % (x, w.value, x_type, w.type()))
                wide = [v.astype(f64) for v in (a, w.dense)]
                total = np.abs(wide[0]) @ np.abs(wide[1]).T
                f.give(y, tensor_type((None, n), "f32"), close(
                    wide[0] @ wide[1].T,
                    fused_bound(k, m, total, not transposed), "f32"))


def add_exact(functions, rng, spec):
    """(a) values that neither products nor sums round."""
    f = new(functions, "exact_%s" % spec)
    n, k = int(rng.integers(20, 50)), int(rng.choice([48, 130, 200]))
    codes = spec.codec.pack(rng.choice(spec.codec.exact, n * k))
    scales = np.exp2(rng.integers(-3, 4, spec.sizes((n, k))[1])).astype(f32)
    q = implicit(f, rng, spec, (n, k), given=(codes, scales))
    for m in (1, 2, 9, 40):
        a = rng.integers(-8, 9, (m, k)).astype(f32)
        x, x_type = f.argument(a, [0])
        y = f.op("nabla.dot_general %s, %s contracting = [1] x [1] : %s, %s" % (
            x, q.value, x_type, q.type()))
        want = a.astype(f64) @ q.dense.astype(f64).T
        assert (want.astype(f32) == want).all()
        f.give(y, tensor_type((None, n), "f32"),
               exact(want.astype(f32), signs=False))


def add_one_hot(functions, rng, spec):
    """(b) x picks one k: for every k, y is the decoded column, in a product of
    many rows and in one of a single row at a time."""
    f = new(functions, "onehot_%s" % spec)
    n, k = int(rng.integers(5, 40)), int(rng.choice([33, 128, 150, 400]))
    for storage in ((n, k), (k, n)):
        q = implicit(f, rng, spec, storage)
        w = q if storage == (n, k) else q.transpose([1, 0])
        want = exact(harness.plain(w.dense.T), signs=False)
        x, x_type = f.argument(np.eye(k, dtype=f32), [0])
        y = f.op("nabla.dot_general %s, %s contracting = [1] x [1] : %s, %s" % (
            x, w.value, x_type, w.type()))
        f.give(y, tensor_type((None, n), "f32"), want)
        f.give(one_at_a_time(f, x, x_type, w), tensor_type((k, n), "f32"), want)


def one_at_a_time(f, x, x_type, w):
    """A loop over the rows of x, with one product in it."""
    n, k = w.dense.shape
    row, out = tensor_type((1, k), "f32"), tensor_type((k, n), "f32")
    zero, one, end = (f.op("arith.constant %d : index" % i) for i in (0, 1, k))
    first = f.op("tensor.empty() : " + out)
    return f.op(
        "scf.for %%i = %s to %s step %s iter_args(%%s = %s) -> (%s) {\n"
        "    %%r = tensor.extract_slice %s[%%i, 0] [1, %d] [1, 1] : %s to %s\n"
        "    %%y = nabla.dot_general %%r, %s contracting = [1] x [1] : %s, %s\n"
        "    %%n = tensor.insert_slice %%y into %%s[%%i, 0] [1, %d] [1, 1] : "
        "tensor<1x%dxf32> into %s\n    scf.yield %%n : %s\n  }" % (
            zero, end, one, first, out, x, k, x_type, row, w.value, row,
            w.type(), n, n, out, out))


def check_threads(s, rng, spec):
    """The same bytes for 1, 2 and 7 threads."""
    functions = []
    f = new(functions, "threads_%s" % spec)
    q = implicit(f, rng, spec, (700, 300))
    for w, m in ((q, 1), (q, 5), (q.transpose([1, 0]), 1),
                 (q.transpose([1, 0]), 33)):
        x, x_type = f.argument(rng.standard_normal(
            (m, w.dense.shape[1])).astype(f32), [0])
        y = f.op("nabla.dot_general %s, %s contracting = [1] x [1] : %s, %s" % (
            x, w.value, x_type, w.type()))
        y = f.op("nabla.silu %s : tensor<?x%dxf32>" % (y, w.dense.shape[0]))
        f.give(y, tensor_type((None, w.dense.shape[0]), "f32"), None)
    program = s.write(f.text())
    given = [[r.tobytes() for r in s.call(program, f, ["--threads", threads])]
             for threads in ("1", "2", "7")]
    s.expect(given[0] == given[1] == given[2],
             "%s: bytes depend on the number of threads" % spec)


# ---- 3: misses ---------------------------------------------------------------


def check_misses(s, rng, spec):
    functions = []
    f = new(functions, "miss_%s" % spec)
    q = implicit(f, rng, spec, (4, 64))
    x, x_type = f.argument(rng.standard_normal((4, 64)).astype(f32))
    for _ in range(2):
        y = f.op("nabla.mul %s, %s : %s, %s" % (x, q.value, x_type, q.type()))
    f.give(y, q.tensor(), exact(f.inputs[x[1:]] * q.dense))
    program = s.write(f.text())
    told = "'nabla.mul' op materializes 2 operands of %s" % spec.attribute()
    for again in ("first", "from the cache"):
        done = s.start(program, "--entry", "none", "--policy", "warn")
        text = done.stderr.decode()
        s.expect(text.count(told) == 1, "%s, %s: no warning with a count: %s" % (
            spec, again, text))
    s.check(program, f, ["--policy", "warn"])
    text = s.start(program, "--entry", "none", "--policy", "off").stderr
    s.expect(b"materialize" not in text, "%s: policy off warns" % spec)
    done = s.start(program, "--entry", f.name, "--policy", "error")
    s.expect(done.returncode == 1 and b"would materialize" in done.stderr,
             "%s: policy error: exit %d" % (spec, done.returncode))


def test(s):
    medium = sys.argv[2] == "medium"
    rng = np.random.default_rng(harness.seed())
    functions = []
    for spec in arrays.specs((16, 64, 128, 4096) if medium else (16, 64)):
        add_views(functions, rng, spec, 12 if medium else 4)
        add_bounds(functions, rng, spec, [7, 33, 256, 1000, 4096] if medium
                   else [33, 256, 700])
        if spec.block or spec.scale != "f32":  # LLM.int8 multiplies by 1/127
            add_exact(functions, rng, spec)
        add_one_hot(functions, rng, spec)
        check_threads(s, rng, spec)
        check_misses(s, rng, spec)
    s.run_all(functions, ["--policy", "error"])
    print("%d functions" % len(functions))


harness.session(sys.argv[1], test)
