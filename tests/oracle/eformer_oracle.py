"""Packed arrays against eformer (PyPI): each primitive that its ArrayNF4, Array8B
and Array1B register, on the same values packed by both, within the tolerances of its
own tests (tests/ops/quantization of eformer): mean |a - b| / mean |b| below .15 for nf4
and .1 for its products, .01 and .02 for int8; its ternary values are exact.

usage: eformer_oracle.py FOLDER_OF_THE_PACKAGE_NABLA

Skipped (exit 77) where eformer is not installed.
"""
import os
import sys

os.environ.setdefault("WARN_ON_MATTER", "0")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["NABLA_POLICY"] = "off"
try:
    import jax.numpy as jnp
    import numpy as np
    from jax import lax
    from eformer.jaximus import implicit
    from eformer.ops.quantization import Array1B, Array8B, ArrayNF4
except ImportError as error:
    print("skipped: %s" % error)
    sys.exit(77)

sys.path.insert(0, sys.argv[1])
import nabla as nb

random = np.random.default_rng(22)
ROWS, COLUMNS = 128, 128


def uniform(*shape):
    """Values of which logarithms and roots exist."""
    return random.uniform(.5, 2, shape).astype(np.float32)


X = uniform(ROWS, COLUMNS)
KERNEL = uniform(3, 3, 4, 64)
IMAGE = uniform(1, 8, 8, 4)
ROW, INDEX = uniform(4, ROWS), np.array([3, 0, 127, 3], np.int32)

# primitive: eformer's side of a packed w, ours, the packed operand, whether it is
# one of products
PRIMITIVES = [
    ("convert_element_type", lambda w: lax.convert_element_type(w, jnp.bfloat16),
     lambda w: nb.convert(w, "bf16"), X, 0),
    ("lt", lambda w: lax.lt(w, jnp.ones_like(X)),
     lambda w: nb.less(w, np.ones_like(X)), X, 0),
    ("integer_pow", lambda w: lax.integer_pow(w, 3), lambda w: w * w * w, X, 0),
    ("div", lambda w: lax.div(w, X), lambda w: w / X, X, 0),
    ("div, packed divisor", lambda w: lax.div(X, w), lambda w: X / w, X, 0),
    ("sqrt", lax.sqrt, nb.sqrt, X, 0),
    ("dot_general", lambda w: lax.dot(ROW, w), lambda w: nb.matmul(ROW, w), X, 1),
    ("add", lambda w: lax.add(w, X), lambda w: w + X, X, 0),
    ("reduce", lambda w: lax.reduce(w, np.float32(0), lax.add, (0,)),
     lambda w: nb.sum(w, 0), X, 0),
    ("mul", lambda w: lax.mul(w, X), lambda w: w * X, X, 0),
    ("transpose", lambda w: lax.transpose(w, (1, 0)), lambda w: w.T, X, 0),
    ("conv_general_dilated",
     lambda w: lax.conv_general_dilated(IMAGE, w, (1, 1), "VALID",
                                        dimension_numbers=("NHWC", "HWIO", "NHWC")),
     lambda w: nb.conv_general(IMAGE, w, input_dims=[0, 3, 1, 2],
                               kernel_dims=[3, 2, 0, 1], output_dims=[0, 3, 1, 2]),
     KERNEL, 1),
    ("max", lambda w: lax.max(w, jnp.ones_like(X)),
     lambda w: nb.maximum(w, np.ones_like(X)), X, 0),
    ("exp", lax.exp, nb.exp, X, 0),
    ("log", lax.log, nb.log, X, 0),
    ("reshape", lambda w: lax.reshape(w, (64, 256)),
     lambda w: nb.reshape(w, [64, 256]), X, 0),
    ("concatenate", lambda w: lax.concatenate([w, w], 0),
     lambda w: nb.concatenate([w, w], 0), X, 0),
    ("broadcast_in_dim", lambda w: lax.broadcast_in_dim(w, (2, ROWS, COLUMNS), (1, 2)),
     lambda w: nb.broadcast_to(w, [2, ROWS, COLUMNS]), X, 0),
    ("gather", lambda w: jnp.take(w, INDEX, axis=0),
     lambda w: nb.take(w, INDEX, 0), X, 0),
]

def pack_ternary(x):
    """The same codes, with the scale 1 that Array1B has."""
    codes, scales = nb.unpack(nb.quantize(x, "ternary", 64), 2)
    return nb.pack([codes, nb.ones_like(scales)], "ternary", x.shape, 64)


# packings: eformer's, ours, of which values, tolerances of values and products
FORMATS = [
    ("nf4", lambda x: ArrayNF4.quantize(x, block_size=64),
     lambda x: nb.quantize(x, "nf4", 64), lambda x: x, (.15, .1)),
    ("int8", lambda x: Array8B.quantize(x, axis=-1),
     lambda x: nb.quantize(x, "int8", int(x.shape[-1])), lambda x: x, (.01, .02)),
    ("ternary", Array1B.quantize, pack_ternary,
     lambda x: np.where(x > 1.5, 1, np.where(x < .8, -1, 0)).astype(np.float32),
     (1e-6, 1e-6)),
]
def numbers(array):
    if hasattr(array, "materialize"):
        array = array.materialize()
    return np.asarray(array).astype(np.float32)


def difference(ours, theirs):
    if ours.shape != theirs.shape:
        return np.inf
    is_number = np.isfinite(theirs)
    if not np.array_equal(ours[~is_number], theirs[~is_number], equal_nan=True):
        return np.inf
    error = np.abs(ours[is_number] - theirs[is_number]).mean()
    return error / max(np.abs(theirs[is_number]).mean(), 1e-30)


def run_theirs(primitive, their, packed):
    """Its result, and why its own rule fails, or None: rules for arguments of any
    type, of which it registers one for each packing, replace each other, and some do
    not take parameters that newer versions of jax pass. They all materialize: the
    result is then that of the primitive on the materialized array."""
    try:
        return numbers(implicit(their)(packed)), None
    except Exception as error:
        return numbers(their(packed.materialize())), "%s: %s: %s" % (
            primitive, type(error).__name__, str(error).split("\n", maxsplit=1)[0])


def main():
    wrong, rules, count = 0, 0, 0
    for name, their_pack, our_pack, values, tolerances in FORMATS:
        for primitive, their, our, operand, is_product in PRIMITIVES:
            x = values(operand)
            if name == "ternary" and operand is KERNEL:
                x = np.concatenate([x, x[:1]])  # a multiple of 4
            theirs, why = run_theirs(primitive, their, their_pack(jnp.asarray(x)))
            ours = numbers(our(our_pack(nb.array(x))).astype("f32").numpy())
            got = difference(ours, theirs)
            count += 1
            rules += not why
            if "-v" in sys.argv:
                print("%-8s %-22s %.5f %s" % (name, primitive, got, why or ""))
            if not got < tolerances[is_product]:
                wrong += 1
                print("%s %s: %g, not below %g" % (name, primitive, got,
                                                   tolerances[is_product]))
    print("figure: primitives %d\nfigure: by_rules_of_eformer %d" % (count, rules))
    return 1 if wrong or rules < 20 else 0


sys.exit(main())
