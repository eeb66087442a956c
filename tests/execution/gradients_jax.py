"""Gradients of operations against jax (PyPI), kinks and ties included: vjp of
each operation that jax has, in f64.

usage: gradients_jax.py NABLA-RUN NABLA-OPT

Skipped (exit 77) where jax is not installed.
"""
import sys

try:
    import jax
    import jax.numpy as jnp
    from jax import lax
except ImportError:
    print("skipped: no module jax")
    sys.exit(77)

import harness
from harness import np
from gradients_exact import derive, run
import gradients_exact

jax.config.update("jax_enable_x64", True)

# nabla's text of an operation of %a, %b, ...; jax's function; operands.
SPECIAL = [0., -0., 1., -1., 2., -2., .5, -.5]
POSITIVE = [.25, 1., 2., 3.5, .5, 4., 1.5, 8.]
SMALL = [.25, -.25, .5, -.5, .75, 0., -.75, .125]
ROWS = [("%s %%a" % n, f, [x]) for n, f, x in (
    ("neg", jnp.negative, SPECIAL), ("abs", jnp.abs, SPECIAL),
    ("sign", jnp.sign, SPECIAL), ("exp", jnp.exp, SPECIAL),
    ("log", jnp.log, POSITIVE), ("log1p", jnp.log1p, POSITIVE),
    ("sqrt", jnp.sqrt, [0.] + POSITIVE[1:]), ("rsqrt", lax.rsqrt, POSITIVE),
    ("sin", jnp.sin, SPECIAL), ("cos", jnp.cos, SPECIAL),
    ("tan", jnp.tan, SMALL), ("acos", jnp.arccos, SMALL),
    ("atanh", jnp.arctanh, SMALL), ("tanh", jnp.tanh, SPECIAL),
    ("erf", lax.erf, SPECIAL), ("sigmoid", jax.nn.sigmoid, SPECIAL),
    ("relu", jax.nn.relu, SPECIAL), ("silu", jax.nn.silu, SPECIAL),
    ("gelu", lambda x: jax.nn.gelu(x, approximate=False), SPECIAL),
    ("floor", jnp.floor, SPECIAL), ("ceil", jnp.ceil, SPECIAL),
    ("round", jnp.round, SPECIAL), ("trunc", jnp.trunc, SPECIAL))]
OTHER = [2., 1., 1., -1., -3., 2., .5, 1.]
ROWS += [("%s %%a, %%b" % n, f, [a, b]) for n, f, a, b in (
    ("add", jnp.add, SPECIAL, OTHER), ("sub", jnp.subtract, SPECIAL, OTHER),
    ("mul", jnp.multiply, SPECIAL, OTHER), ("div", jnp.divide, SPECIAL, OTHER),
    ("mod", jnp.mod, [5., -5., 7., 1.5, -.5, 3., 2., 9.], OTHER),
    ("pow", jnp.power, POSITIVE, OTHER),
    ("maximum", jnp.maximum, SPECIAL, OTHER),
    ("minimum", jnp.minimum, SPECIAL, OTHER))]
MATRIX = [[1., 3., 3., -2.], [0., 0., 2., 5.]]


def over(function, **how):
    return lambda x: function(x, **how)


ROWS += [(text, f, [MATRIX]) for text, f in (
    ("reduce sum %a dims = [0]", over(jnp.sum, axis=0)),
    ("reduce mean %a dims = [1] keep_dims", over(jnp.mean, axis=1,
                                                 keepdims=True)),
    ("reduce max %a dims = [1]", over(jnp.max, axis=1)),
    ("reduce min %a dims = [0, 1]", over(jnp.min)),
    ("reduce prod %a dims = [1]", over(jnp.prod, axis=1)),
    ("softmax %a dim = 1", over(jax.nn.softmax, axis=1)),
    ("log_softmax %a dim = 0", over(jax.nn.log_softmax, axis=0)),
    ("logsumexp %a dim = 1", over(jax.nn.logsumexp, axis=1)),
    ("cumsum %a dim = 1", over(jnp.cumsum, axis=1)),
    ("transpose %a permutation = [1, 0]", jnp.transpose),
    ("flip %a dims = [1]", over(jnp.flip, axis=1)),
    ("slice %a starts = [0, 1] limits = [2, 3]", lambda x: x[:, 1:3]),
)]
LHS = (np.arange(6.).reshape(2, 3) / 4 - .5).tolist()
RHS = (np.arange(12.).reshape(3, 4) / 8 - .5).tolist()
ROWS += [("dot_general %a, %b contracting = [1] x [0]", jnp.matmul, [LHS, RHS]),
         ("concatenate %a, %b dim = 1",
          lambda a, b: jnp.concatenate([a, b], axis=1), [LHS, MATRIX])]


def shape_text(shape):
    return "tensor<%s>" % "x".join([str(n) for n in shape] + ["f64"])


def main(s):
    rng = np.random.default_rng(harness.seed())
    text, cases = "", []
    for i, (op, function, operands) in enumerate(ROWS):
        arrays = [np.array(a, "f8") for a in operands]
        y, pull = jax.vjp(function, *arrays)
        u = rng.uniform(.5, 1.5, y.shape)
        types = [shape_text(a.shape) for a in arrays]
        name = "f%d_%s" % (i, op.split()[0])
        text += "func.func @%s(%s) -> %s {\n  %%r = nabla.%s : %s\n  return %%r :" \
            " %s\n}\n" % (name, ", ".join(
                "%%%s: %s" % (n, t) for n, t in zip("abc", types)),
                          shape_text(y.shape), op, ", ".join(types),
                          shape_text(y.shape))
        cases.append((name, op, arrays, u, [np.asarray(y)] + [
            np.asarray(g) for g in pull(u)]))
    program = s.write(derive(text, [
        "nabla-vjp{function=%s}" % c[0] for c in cases]))
    for name, op, arrays, u, want in cases:
        got = run(s, program, name + ".vjp", [*arrays, u], len(want))
        for i, (a, b) in enumerate(zip(got, want)):
            s.expect(np.allclose(a, b, rtol=1e-10, atol=1e-12, equal_nan=True),
                     "%s, %s: %s, jax has %s" % (
                         op, "gradient %d" % (i - 1) if i else "value", a, b))


if __name__ == "__main__":
    gradients_exact.OPT = sys.argv[2]
    harness.session(sys.argv[1], main)
