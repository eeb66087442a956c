"""Cases of custom_call, for ops.py: the handler that is always there, of dense
arrays and of implicit ones, which are materialized for it. Handlers from C, and
those that take components: tests/compiler/outside_test.c."""
import harness
from harness import np, exact, tensor_type
import arrays
from arrays import implicit
from implicit_ops import Maker
from implicit_dots import storage_of

OP = "nabla.custom_call @nabla.check_finite"


def add_dense(make):
    for kind in ("f32", "f64"):
        for dims in ((), (0,), (1,), (3, 0, 2), (2, 3), (2, 1, 4, 3)):
            f = make.new("dense", "call_" + kind)
            array = make.rng.standard_normal(dims).astype(harness.DTYPES[kind])
            x, _ = f.argument(array)
            text = tensor_type(dims, kind)
            f.give(f.op("%s(%s) : (%s) -> %s" % (OP, x, text, text)), text,
                   exact(array))


def add_dynamic(make):
    """Sizes of the results that are known at run time only."""
    f = make.new("dense", "call_sizes")
    array = make.rng.standard_normal((3, 5)).astype(np.float32)
    x, text = f.argument(array, (0, 1))
    rows, columns = f.size(3), f.size(5)
    f.give(f.op('%s(%s, %s, %s) {label = "x"} : (%s, index, index) -> %s' % (
        OP, x, rows, columns, text, text)), text, exact(array))


def add_implicit(make, spec):
    f = make.new(spec, "call")
    q = implicit(f, make.rng, spec, storage_of(make.rng, spec), "f32")
    y = f.op("%s(%s) : (%s) -> %s" % (OP, q.value, q.type(), q.tensor()))
    f.pairs.append((str(spec), "custom_call"))
    f.give(y, q.tensor(), exact(q.dense))


def cases(rng, rounds):
    make = Maker(rng)
    add_dense(make)
    add_dynamic(make)
    for spec in arrays.specs() + [arrays.Splat(0.375)]:
        for _ in range(rounds):
            add_implicit(make, spec)
    return make.functions
