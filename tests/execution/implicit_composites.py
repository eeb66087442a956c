"""Cases of the composites with implicit operands, for ops.py, and of layers that
are compiled as one function."""
from harness import np, close
import arrays
from arrays import hidden, implicit, values
from composite_ops import (UNIT, attention, finish, linear_of, norm, norm_of,
                           turned, wide)
from dense_ops import Maker
from implicit_dots import storage_of


def add_packed_linear(make):
    rng = make.rng
    for number, spec in enumerate(arrays.specs() + [arrays.Splat(0.5)]):
        kind = ("f32", "f16", "bf16")[number % 3]
        f = make.new("linear_%s" % spec)
        f.pairs.append((str(spec), "linear"))
        q = implicit(f, rng, spec, storage_of(rng, spec), kind)
        n, k = q.dense.shape
        for dims in ((k,), (3, k), (2, 3, k)):
            a, b = values(rng, dims, kind), values(rng, (n,), kind)
            x, x_type = f.argument(a, hidden(rng, a.ndim - 1))
            c, c_type = f.argument(b)
            linear_of(f, kind, x, x_type, a, q.value, q.type(), q.dense)
            linear_of(f, kind, x, x_type, a, q.value, q.type(), q.dense,
                      (c, c_type, b))
        t = q.transpose([1, 0])  # a view, of which w^T is w
        a = values(rng, (2, n), kind)
        x, x_type = f.argument(a)
        linear_of(f, kind, x, x_type, a, t.value, t.type(), t.dense)


# ---- implicit operands -------------------------------------------------------


def add_implicit(make, spec):
    """They are materialized where what a composite is made of needs it."""
    rng = make.rng
    f = make.new("parts_%s" % spec)
    f.pairs += [(str(spec), op) for op in ("rms_norm", "layer_norm", "rope",
                                           "attention")]
    q = implicit(f, rng, spec, (3, 64), "f32")
    p = implicit(f, rng, spec, (64,), "f32")
    a = values(rng, (3, 64), "f32")
    x, x_type = f.argument(a)
    norm(f, "rms_norm", "f32", x, x_type, a,
         [(p.value, p.type(), p.dense)], 1e-5)
    y = f.op("nabla.rms_norm %s eps = 0.1 : %s" % (q.value, q.type()))
    finish(f, y, (3, 64), *norm_of(wide(q.dense), [], 0.1, False, UNIT["f32"]),
           "f32")
    y = f.op("nabla.layer_norm %s, %s, %s eps = 0.1 : %s, %s, %s" % (
        q.value, p.value, p.value, q.type(), p.type(), p.type()))
    finish(f, y, (3, 64), *norm_of(wide(q.dense), [wide(p.dense)] * 2, 0.1,
                                   True, UNIT["f32"]), "f32")
    y = f.op("nabla.rope halves %s dim = 0 : %s" % (q.value, q.type()))
    finish(f, y, (3, 64), *turned(wide(q.dense), np.arange(3), 0, "halves", 1e4,
                                  UNIT["f32"]), "f32")
    for given in ((x, q, q), (q, x, x)):
        dense = [a if g is x else g.dense for g in given]
        names = [x if g is x else g.value for g in given]
        types = [x_type if g is x else g.type() for g in given]
        attention(f, rng, "f32", 0, *dense, names, types)


def add_layers(make):
    """Copies of the same operations, which are compiled as one function: its
    arguments are packed, and used in several places; some of what it gives is
    used much later."""
    rng = make.rng
    for spec in (arrays.specs()[0], arrays.Splat(0.25)):
        f = make.new("layers_%s" % spec)
        a, b = values(rng, (3, 64), "f32"), values(rng, (3, 64), "f32")
        x, kind = f.argument(a, [0])
        bias, _ = f.argument(b, [0])
        early, x0 = [], wide(a)
        c = f.op("nabla.constant dense<0.01> : tensor<3x64xf32>")
        c = f.op("tensor.cast %s : tensor<3x64xf32> to %s" % (c, kind))
        for _ in range(5):
            q = implicit(f, rng, spec, (64, 64), "f32")
            q.value = f.op("nabla.reshape %s : %s -> %s" % (q.value, q.type(),
                                                            q.type()))
            y = f.op("nabla.linear %s, %s : %s, %s" % (x, q.value, kind,
                                                       q.type()))
            two = ": %s, %s" % (kind, kind)
            y = f.op("nabla.mul %s, %s %s" % (y, c, two))
            y = f.op("nabla.tanh %s : %s" % (y, kind))
            z = f.op("nabla.add %s, %s %s" % (y, bias, two))
            y = f.op("nabla.neg %s : %s" % (z, kind))
            y = f.op("nabla.mul %s, %s %s" % (y, bias, two))
            y = f.op("nabla.sub %s, %s %s" % (y, x, two))
            x = f.op("nabla.tanh %s : %s" % (y, kind))
            z0 = np.tanh(x0 @ wide(q.dense).T * 0.01) + wide(b)
            x0 = np.tanh(-z0 * wide(b) - x0)
            early.append((z, z0))
        for value, want in [(x, x0), early[1], early[3]]:
            f.give(value, kind, close(want, 1e-4, "f32"))


def cases(rng, rounds):
    make = Maker(rng)
    add_layers(make)
    add_packed_linear(make)
    specs = arrays.specs()
    for spec in (specs[0], specs[len(specs) // 2], arrays.Splat(0.5)):
        add_implicit(make, spec)
    return make.functions
