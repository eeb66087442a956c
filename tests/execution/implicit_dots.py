"""Cases of contractions with implicit arrays, for implicit_ops.py: either side,
any dimensions, batches, epilogues."""
import harness
from harness import np, close, tensor_type
import arrays
from arrays import implicit, values, fused_bound, rounded

f64 = np.float64
KINDS = ("f32", "f16", "bf16")


def storage_of(rng, spec, rank=2):
    """Of any size around the block; rows want two dimensions."""
    out = [int(rng.choice([1, 2, 3, 5, 8, 16, 33])) for _ in range(rank)]
    out[-1] = int(rng.choice([1, 7, 16, 31, 64, 100, 130]))
    return tuple(out)


def product(x, w):
    """x: M x K, w: N x K, in f64, and the sum of |x||w|."""
    x, w = (harness.widen(v).astype(f64) for v in (x, w))
    return x @ w.T, np.abs(x) @ np.abs(w).T


def add_dots(make, spec, rounds):
    """Either side, transposed or not, more dimensions than two, a batch."""
    rng = make.rng
    for number in range(rounds):
        kind = KINDS[(number + len(make.functions)) % 3]
        f = make.new(spec, "dot")
        f.pairs.append((str(spec), "dot_general"))
        n, k = storage_of(rng, spec)
        q = implicit(f, rng, spec, (n, k), kind)
        for m, c in ((1, 1), (3, 1), (5, 0)):
            inner, outer = (k, n) if c else (n, k)
            a = values(rng, (m, inner), kind)
            x, x_type = f.argument(a, [0] if m == 3 else [])
            y = f.op("nabla.dot_general %s, %s contracting = [1] x [%d] : %s, %s"
                     % (x, q.value, c, x_type, q.type()))
            w = q.dense if c else q.dense.T
            give_product(f, y, x_type, a, w, kind, c == 1)
            y = f.op("nabla.dot_general %s, %s contracting = [%d] x [1] : %s, %s"
                     % (q.value, x, c, q.type(), x_type))
            give_product(f, y, x_type, a, w, kind, c == 1, swap=True)
        add_more_dimensions(f, rng, q, kind)


def give_product(f, y, x_type, a, w, kind, by_rows, swap=False):
    want, total = product(a, w)
    bound = fused_bound(a.shape[1], a.shape[0], total, by_rows)
    bound = rounded(want, bound, kind)
    m = None if "?" in x_type else a.shape[0]
    dims = [w.shape[0], m] if swap else [m, w.shape[0]]
    if swap:
        want, bound = want.T, bound.T
    f.give(y, tensor_type(dims, kind), close(want, bound, kind))


def add_more_dimensions(f, rng, q, kind):
    n, k = q.dense.shape
    a = values(rng, (2, 3, k), kind)
    x, x_type = f.argument(a, [0, 1])
    y = f.op("nabla.dot_general %s, %s contracting = [2] x [1] : %s, %s" % (
        x, q.value, x_type, q.type()))
    want, total = product(a.reshape(6, k), q.dense)
    bound = rounded(want, fused_bound(k, 6, total), kind)
    f.give(y, tensor_type((None, None, n), kind), close(
        want.reshape(2, 3, n), bound.reshape(2, 3, n), kind))
    a = values(rng, (n, k), kind)
    x, x_type = f.argument(a)
    y = f.op("nabla.dot_general %s, %s batching = [0] x [0] contracting = [1] x "
             "[1] : %s, %s" % (x, q.value, x_type, q.type()))
    wide = [harness.widen(v).astype(f64) for v in (a, q.dense)]
    want = (wide[0] * wide[1]).sum(axis=1)
    total = np.abs(wide[0] * wide[1]).sum(axis=1)
    bound = rounded(want, (k + 16) * 2.0 ** -24 * total, kind)
    f.give(y, tensor_type((n,), kind), close(want, bound, kind))


def add_batches(make, spec):
    """Several weights and a matrix for each, batches anywhere in x; those of the
    weight one behind the other, as whole blocks where that can be."""
    rng = make.rng
    block = min(spec.block or 16, 64)
    for kind, weight_first, order in (("f32", False, (0, 1, 2)),
                                      ("f16", True, (1, 0, 2)),
                                      ("bf16", False, (1, 2, 0))):
        f = make.new(spec, "batches")
        f.pairs.append((str(spec), "dot_general"))
        e, m, n, k = 3, 4, int(rng.choice([2, 5])), block
        q = implicit(f, rng, spec, (e, n, k), kind)
        a = values(rng, (e, m, k), kind)
        x, x_type = f.argument(a.transpose(order),
                               [i for i in range(3) if order[i] == 1])
        at = list(order).index
        sides = [(x, x_type, at(0), at(2)), (q.value, q.type(), 0, 2)]
        sides = sides[::-1] if weight_first else sides
        y = f.op("nabla.dot_general %s, %s batching = [%d] x [%d] contracting = "
                 "[%d] x [%d] : %s, %s" % tuple(
                     side[i] for i in (0, 2, 3, 1) for side in sides))
        wide = [harness.widen(v).astype(f64) for v in (a, q.dense)]
        want = wide[0] @ wide[1].transpose(0, 2, 1)
        total = np.abs(wide[0]) @ np.abs(wide[1]).transpose(0, 2, 1)
        bound = rounded(want, fused_bound(k, m, total, False), kind)
        dims = (e, None, n)
        if weight_first:
            want, bound = want.transpose(0, 2, 1), bound.transpose(0, 2, 1)
            dims = (e, n, None)
        f.give(y, tensor_type(dims, kind), close(want, bound, kind))
    # which sizes of the dense side are not known
    for hidden in [1], [0, 2], [0, 1, 2]:
        add_two_batches(make, spec, block, hidden)


def add_two_batches(make, spec, block, hidden):
    rng = make.rng
    f = make.new(spec, "batches2_" + "".join(map(str, hidden)))
    q = implicit(f, rng, spec, (2, 3, block, 5), "f32")
    a = values(rng, (3, 4, 2, block), "f32")
    x, x_type = f.argument(a, hidden)
    y = f.op("nabla.dot_general %s, %s batching = [2, 0] x [0, 1] contracting = "
             "[3] x [2] : %s, %s" % (x, q.value, x_type, q.type()))
    left, right = a.astype(f64).transpose(2, 0, 1, 3), q.dense.astype(f64)
    want, total = left @ right, np.abs(left) @ np.abs(right)
    bound = fused_bound(block, 4, total, False)
    rows = None if 1 in hidden else 4
    f.give(y, tensor_type((2, 3, rows, 5), "f32"), close(want, bound, "f32"))


def add_small(make, spec):
    """Results that are denormals of bf16, moved to another shape, which must
    neither lose them nor need functions that no object may call."""
    rng = make.rng
    f = make.new(spec, "small")
    codes, scales = arrays.components(rng, spec, (1, 16))
    q = implicit(f, rng, spec, (1, 16), "bf16",
                 given=(codes, harness.widen(harness.narrow(
                     np.full(scales.shape, 1e-39, np.float32), spec.scale))))
    a = values(rng, (2, 3, 16), "bf16")
    x, x_type = f.argument(a, [0, 1])
    y = f.op("nabla.dot_general %s, %s contracting = [2] x [1] : %s, %s" % (
        x, q.value, x_type, q.type()))
    want, total = product(a.reshape(6, 16), q.dense)
    # denormals of f32 are rounded in each of the products and sums
    bound = rounded(want, fused_bound(16, 6, total) + 33 * 2.0 ** -149, "bf16")
    f.give(y, tensor_type((None, None, 1), "bf16"), close(
        want.reshape(2, 3, 1), bound.reshape(2, 3, 1), "bf16"))


def add_layers(make, spec):
    """What nabla-fuse takes into an epilogue, in two and three dimensions."""
    rng = make.rng
    f = make.new(spec, "layer")
    n, k = storage_of(rng, spec)
    q = implicit(f, rng, spec, (n, k))
    b = values(rng, (n,), "f32")
    bias, b_type = f.argument(b)
    for steps, lead in ((("bias", "silu"), (4,)), (("bias", "relu"), (2, 3)),
                        (("add", "silu"), (3,)), (("silu", "add"), (1,)),
                        (("bias", "silu", "add"), (2, 2)), (("add",), (5,))):
        layer(f, rng, q, b, (bias, b_type), steps, lead)


def layer(f, rng, q, b, bias, steps, lead):
    """`lead`: the dimensions of x before K; none is known to the program."""
    n, k = q.dense.shape
    a = values(rng, (*lead, k), "f32")
    x, x_type = f.argument(a, range(len(lead)))
    y_type = tensor_type((*[None] * len(lead), n), "f32")
    y = f.op("nabla.dot_general %s, %s contracting = [%d] x [1] : %s, %s" % (
        x, q.value, len(lead), x_type, q.type()))
    want, total = product(a.reshape(-1, k), q.dense)
    bound = fused_bound(k, int(np.prod(lead)), total)
    given = []
    for step in steps:
        if step == "bias":
            places = [f.op("arith.constant %d : index" % i)
                      for i in range(len(lead))]
            sizes = [f.op("tensor.dim %s, %s : %s" % (x, at, x_type))
                     for at in places]
            other = f.op("nabla.broadcast_in_dim %s dims = [%d] sizes(%s) : %s "
                         "-> %s" % (bias[0], len(lead), ", ".join(sizes),
                                    bias[1], y_type))
            given.append(b)
        elif step == "add":
            given.append(values(rng, want.shape, "f32"))
            other, _ = f.argument(given[-1].reshape(*lead, n), range(len(lead)))
        if step in ("bias", "add"):
            y = f.op("nabla.add %s, %s : %s, %s" % (other, y, y_type, y_type))
        else:
            y = f.op("nabla.%s %s : %s" % (step, y, y_type))
    want, bound = arrays.epilogue(want, bound, steps, given)
    f.give(y, y_type, close(want.reshape(*lead, n), bound.reshape(*lead, n),
                            "f32"))


def add_wide_weights(make, spec, rounds):
    """Weights of rank 3, of which any dimensions are contracted in any order:
    with strides that join them to a matrix and without."""
    rng = make.rng
    for number in range(2 * rounds):
        kind = KINDS[(number + len(make.functions)) % 3]
        f = make.new(spec, "wide")
        q = implicit(f, rng, spec, storage_of(rng, spec, 3), kind)
        if rng.random() < 0.5:
            q = q.transpose([int(i) for i in rng.permutation(3)])
        for left in (True, False):
            order = [int(i) for i in rng.permutation(3)]
            count = int(rng.integers(1, 3))
            multiply_wide(f, rng, q, order[:count], sorted(order[count:]), left,
                          kind)


def multiply_wide(f, rng, q, contracted, free, left, kind):
    """`left`: the weight is; its contracted dimensions are x's last."""
    m = int(rng.choice([1, 4]))
    sizes = [q.dense.shape[i] for i in contracted]
    a = values(rng, (m, *sizes), kind)
    x, x_type = f.argument(a, [0])
    places = list(range(1, 1 + len(contracted)))
    operands = [(q.value, q.type(), contracted), (x, x_type, places)]
    first, second = operands if left else operands[::-1]
    y = f.op("nabla.dot_general %s, %s contracting = %s x %s : %s, %s" % (
        first[0], second[0], first[2], second[2], first[1], second[1]))
    w = q.dense.transpose(free + contracted)
    rest = w.shape[:len(free)]
    k = int(np.prod(sizes, dtype=np.int64))
    want, total = product(a.reshape(m, k), harness.plain(w).reshape(-1, k))
    # which kernel takes it depends on strides: the bound of the weaker one
    bound = rounded(want, fused_bound(k, m, total, False), kind)
    dims = (*rest, None) if left else (None, *rest)
    shape = (*rest, m) if left else (m, *rest)
    if left:
        want, bound = want.T, bound.T
    f.give(y, tensor_type(dims, kind),
           close(want.reshape(shape), bound.reshape(shape), kind))


STEPS = (["bias"], ["relu"], ["silu"], ["add"], ["bias", "silu", "add"],
         ["add", "bias", "relu"], ["bias", "add", "silu", "bias", "relu"], [])


def add_fused(make, spec, rounds):
    """The op as it is written, with epilogues."""
    rng = make.rng
    for number in range(2 * rounds):
        kind = KINDS[(number + len(make.functions)) % 3]
        steps = STEPS[(number + len(make.functions)) % len(STEPS)]
        n, k = storage_of(rng, spec)
        f = make.new(spec, "fused")
        f.pairs.append((str(spec), "fused_dot"))
        q = implicit(f, rng, spec, (n, k), kind)
        for m, w in ((1, q), (4, q), (9, q.transpose([1, 0]))):
            fused(f, rng, w, m, steps, kind, w is q)


def fused(f, rng, w, m, steps, kind, by_rows):
    n, k = w.dense.shape
    a = values(rng, (m, k), kind)
    x, x_type = f.argument(a, arrays.hidden(rng, 2))
    extra = [values(rng, (n,) if s == "bias" else (m, n), kind) for s in steps
             if s in ("bias", "add")]
    named = [f.argument(e, arrays.hidden(rng, e.ndim)) for e in extra]
    text = "nabla.fused_dot %s, %s" % (x, w.value)
    if named:
        text += " (%s)" % ", ".join(name for name, _ in named)
    if steps:
        text += " epilogue = [%s]" % ", ".join('"%s"' % s for s in steps)
    y = f.op("%s : %s" % (text, ", ".join(
        [x_type, w.type()] + [t for _, t in named])))
    want, total = product(a, w.dense)
    want, bound = arrays.epilogue(want, fused_bound(k, m, total, by_rows), steps,
                                  extra)
    rows = None if x_type.startswith("tensor<?") else m
    f.give(y, tensor_type((rows, n), kind),
           close(want, rounded(want, bound, kind), kind))
