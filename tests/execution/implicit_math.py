"""Cases of the operations that have no rule for implicit operands: they are
materialized, so that each gives what it gives of the dense array."""
import harness
from harness import np, exact, tensor_type
import arrays
from arrays import implicit
from implicit_ops import Maker
from implicit_dots import storage_of
import create_ops
import math_ops

f32, f64 = np.float32, np.float64


def add_unary(make, spec):
    f = make.new(spec, "math")
    q = implicit(f, make.rng, spec, storage_of(make.rng, spec), "f32")
    functions = dict(math_ops.FUNCTIONS, gelu=(math_ops.gelu, 8, None))
    for op, (function, ulps, _) in functions.items():
        f.pairs.append((str(spec), op))
        y = f.op("nabla.%s %s : %s" % (op, q.value, q.type()))
        wide = np.abs(q.dense.astype(f64))
        off = wide * wide * 2.0 ** -50 + 1e-320 if op == "gelu" else 0
        f.give(y, q.tensor(), math_ops.check_function(function, ulps, q.dense,
                                                      "f32", off))
    exact_ones = dict(math_ops.EXACT, abs=np.abs, sign=math_ops.sign)
    for op, function in exact_ones.items():
        f.pairs.append((str(spec), op))
        y = f.op("nabla.%s %s : %s" % (op, q.value, q.type()))
        f.give(y, q.tensor(), exact(function(q.dense)))
    bools = tensor_type(q.dense.shape, "i1")
    for op, function in (("is_nan", np.isnan), ("is_inf", np.isinf)):
        f.pairs.append((str(spec), op))
        y = f.op("nabla.%s %s : %s" % (op, q.value, q.type()))
        f.give(y, bools, exact(function(q.dense)))
    y = f.op("nabla.convert %s : %s -> %s" % (
        q.value, q.type(), tensor_type(q.dense.shape, "i8")))
    f.pairs.append((str(spec), "convert"))
    f.give(y, tensor_type(q.dense.shape, "i8"),
           exact(math_ops.converted(q.dense, "i8")))


def add_pairs(make, spec):
    rng = make.rng
    f = make.new(spec, "math_pairs")
    q = implicit(f, rng, spec, storage_of(rng, spec), "f32")
    a = arrays.values(rng, q.dense.shape, "f32")
    x, x_type = f.argument(a, arrays.hidden(rng, a.ndim))
    for op in ("sub", "div", "mod", "pow", "maximum", "minimum"):
        function = math_ops.PAIRS[op][1]
        f.pairs.append((str(spec), op))
        y = f.op("nabla.%s %s, %s : %s, %s" % (op, q.value, x, q.type(),
                                               x_type))
        f.give(y, q.tensor(),
               math_ops.check_pair(op, function, q.dense, a, "f32"))
    bools = tensor_type(q.dense.shape, "i1")
    y = f.op("nabla.compare lt %s, %s : %s, %s" % (x, q.value, x_type,
                                                   q.type()))
    f.give(y, bools, exact(a < q.dense))
    z = f.op("nabla.select %s, %s, %s : %s, %s, %s" % (
        y, x, q.value, bools, x_type, q.type()))
    f.give(z, q.tensor(), exact(np.where(a < q.dense, a, q.dense)))
    f.pairs += [(str(spec), op) for op in ("compare", "select")]


def add_along(make, spec):
    rng = make.rng
    f = make.new(spec, "math_along")
    q = implicit(f, rng, spec, storage_of(rng, spec), "f32")
    create_ops.along(make, f, q.dense, q.value, q.type(), [], "f32",
                     q.tensor())
    f.pairs += [(str(spec), op) for op in (
        "cumsum", "argmax", "argmin", "softmax", "log_softmax", "logsumexp")]


def cases(rng, rounds):
    make = Maker(rng)
    specs = arrays.specs()
    for number in range(rounds):
        spec = specs[(number * 7) % len(specs)]
        for add in (add_unary, add_pairs, add_along):
            add(make, spec)
            add(make, arrays.Splat(0.375))
    return make.functions
