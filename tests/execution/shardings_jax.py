"""Shardings of arguments and results that nabla-propagate-sharding derives, against
those of jax's partitioner (Shardy) for the same program, on eight simulated devices;
skipped where jax is not installed.

  shardings_jax.py NABLA_RUN NABLA_OPT

Two shardings are equal if each device has the same indices of the array. Programs
whose shardings differ on purpose say why in DIFFERENT: the test fails if they agree."""
import os
import re
import subprocess
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"
try:
    import jax
    from jax import lax
    from jax import numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
except ImportError:
    print("skipped: jax is not installed")
    raise SystemExit(77)
import numpy as np

AXES = {"a": 2, "b": 4}
F = "tensor<%sxf32>"


def t(*shape):
    return F % "x".join(str(n) for n in shape) if shape else "tensor<f32>"


def attention(q, k, v):
    scores = jnp.einsum("hqd,hkd->hqk", q, k) / q.shape[-1] ** .5
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores, -1), v)


def rms(x, g):
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g


def steps(x, w):
    return lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, length=3)[0]


X, W, V = (8, 16), (32, 16), (16, 32)
LINEAR = "%h = nabla.linear %0, %1 : " + t(*X) + ", " + t(*W)

# name, arguments (shape, axes of each dimension or None), lines, function
PROGRAMS = [
    ("elementwise", [(X, ["a", None])], ["%r = nabla.exp %0 : " + t(*X)], jnp.exp),
    ("two_operands", [(X, ["a", None]), (X, None)],
     ["%r = nabla.add %0, %1 : " + t(*X) + ", " + t(*X)], jnp.add),
    ("both_axes", [(X, ["a", "b"]), (X, None)],
     ["%r = nabla.mul %0, %1 : " + t(*X) + ", " + t(*X)], jnp.multiply),
    ("two_axes_of_one", [(X, [("a", "b"), None])], ["%r = nabla.neg %0 : " + t(*X)],
     jnp.negative),
    ("columns", [(X, None), (W, ["b", None])],
     [LINEAR.replace("%h", "%r")], lambda x, w: x @ w.T),
    ("contraction", [(X, [None, "b"]), (W, None)],
     [LINEAR.replace("%h", "%r")], lambda x, w: x @ w.T),
    ("batch", [(X, ["a", None]), (W, None)],
     [LINEAR.replace("%h", "%r")], lambda x, w: x @ w.T),
    ("batch_and_columns", [(X, ["a", None]), (W, ["b", None])],
     [LINEAR.replace("%h", "%r")], lambda x, w: x @ w.T),
    ("megatron", [(X, None), (W, ["b", None]), (V, None)],
     [LINEAR, "%s = nabla.silu %h : " + t(8, 32),
      "%r = nabla.linear %s, %2 : " + t(8, 32) + ", " + t(*V)],
     lambda x, w, v: jax.nn.silu(x @ w.T) @ v.T),
    ("megatron_data", [(X, ["a", None]), (W, ["b", None]), (V, None)],
     [LINEAR, "%s = nabla.silu %h : " + t(8, 32),
      "%r = nabla.linear %s, %2 : " + t(8, 32) + ", " + t(*V)],
     lambda x, w, v: jax.nn.silu(x @ w.T) @ v.T),
    ("gated", [(X, None), (W, ["b", None]), (W, None), (V, None)],
     [LINEAR, "%u = nabla.linear %0, %2 : " + t(*X) + ", " + t(*W),
      "%g = nabla.silu %h : " + t(8, 32),
      "%m = nabla.mul %g, %u : " + t(8, 32) + ", " + t(8, 32),
      "%r = nabla.linear %m, %3 : " + t(8, 32) + ", " + t(*V)],
     lambda x, w, u, v: (jax.nn.silu(x @ w.T) * (x @ u.T)) @ v.T),
    ("backward_from_down", [(X, None), (W, None), (V, [None, "b"])],
     [LINEAR, "%s = nabla.silu %h : " + t(8, 32),
      "%r = nabla.linear %s, %2 : " + t(8, 32) + ", " + t(*V)],
     lambda x, w, v: jax.nn.silu(x @ w.T) @ v.T),
    ("transpose", [(X, ["a", "b"])],
     ["%r = nabla.transpose %0 permutation = [1, 0] : " + t(*X)], jnp.transpose),
    ("sum_of_other", [(X, ["a", None])],
     ["%r = nabla.reduce sum %0 dims = [1] : " + t(*X)], lambda x: x.sum(1)),
    ("sum_of_divided", [(X, ["a", "b"])],
     ["%r = nabla.reduce sum %0 dims = [1] : " + t(*X)], lambda x: x.sum(1)),
    ("max_keep_dims", [(X, ["a", "b"])],
     ["%r = nabla.reduce max %0 dims = [1] keep_dims : " + t(*X)],
     lambda x: x.max(1, keepdims=True)),
    ("broadcast", [((16,), ["b"])],
     ["%r = nabla.broadcast_in_dim %0 dims = [1] : " + t(16) + " -> " + t(8, 16)],
     lambda x: jnp.broadcast_to(x, (8, 16))),
    ("bias", [(X, None), ((16,), ["b"])],
     ["%c = nabla.broadcast_in_dim %1 dims = [1] : " + t(16) + " -> " + t(8, 16),
      "%r = nabla.add %0, %c : " + t(*X) + ", " + t(*X)], jnp.add),
    ("split_rows", [((32, 16), ["b", None])],
     ["%r = nabla.reshape %0 : " + t(32, 16) + " -> " + t(4, 8, 16)],
     lambda x: x.reshape(4, 8, 16)),
    ("split_rows_two", [((32, 16), [("a", "b"), None])],
     ["%r = nabla.reshape %0 : " + t(32, 16) + " -> " + t(2, 16, 16)],
     lambda x: x.reshape(2, 16, 16)),
    ("merge_rows", [((4, 8, 16), ["b", None, None])],
     ["%r = nabla.reshape %0 : " + t(4, 8, 16) + " -> " + t(32, 16)],
     lambda x: x.reshape(32, 16)),
    ("batched_dot", [((4, 8, 16), ["b", None, None]), ((4, 16, 8), None)],
     ["%r = nabla.dot_general %0, %1 batching = [0] x [0] contracting = [2] x [1] : "
      + t(4, 8, 16) + ", " + t(4, 16, 8)], jnp.matmul),
    ("softmax_of_other", [(X, ["a", None])],
     ["%r = nabla.softmax %0 dim = 1 : " + t(*X)], lambda x: jax.nn.softmax(x, 1)),
    ("heads", [((4, 8, 16), ["b", None, None]), ((4, 8, 16), None),
               ((4, 8, 16), None)],
     ["%r = nabla.attention %0, %1, %2 : " + ", ".join([t(4, 8, 16)] * 3)],
     attention),
    ("norm", [(X, ["a", None]), ((16,), None)],
     ["%r = nabla.rms_norm %0, %1 eps = 1.0e-5 : " + t(*X) + ", " + t(16)], rms),
    ("table_columns", [((32, 16), [None, "b"])],
     ["%i = arith.constant dense<[1, 5, 7, 9]> : tensor<4xi64>",
      "%r = nabla.gather %0, %i offset_dims = [1] collapsed_dims = [0] index_map = [0]"
      " vector_dim = 1 sizes = [1, 16] : " + t(32, 16) + ", tensor<4xi64>"],
     lambda w: jnp.take(w, jnp.array([1, 5, 7, 9]), axis=0)),
    ("concatenate", [(X, ["a", None]), (X, None)],
     ["%r = nabla.concatenate %0, %1 dim = 1 : " + t(*X) + ", " + t(*X)],
     lambda x, y: jnp.concatenate([x, y], 1)),
    ("slice_of_other", [(X, ["a", None])],
     ["%r = nabla.slice %0 starts = [0, 2] limits = [8, 10] strides = [1, 1] : "
      + t(*X)], lambda x: x[:, 2:10]),
    ("loop", [(X, ["a", None]), ((16, 16), None)],
     ["%n = arith.constant 3 : index",
      "%r = nabla.scan init(%0 : " + t(*X) + ") length(%n) -> " + t(*X) + " {",
      "^bb0(%c: " + t(*X) + "):",
      "  %y = nabla.linear %c, %1 : " + t(*X) + ", " + t(16, 16),
      "  %z = nabla.tanh %y : " + t(*X),
      "  nabla.yield %z : " + t(*X), "}"],
     lambda x, w: steps(x, w.T)),
    ("conflict", [(X, ["b", None]), (X, [None, "b"])],
     ["%r = nabla.add %0, %1 : " + t(*X) + ", " + t(*X)], jnp.add),
    ("row_and_contraction", [(X, ["b", None]), (W, [None, "b"])],
     [LINEAR.replace("%h", "%r")], lambda x, w: x @ w.T),
    ("sub_axes", [((16, 16), ["b", None])],
     ["%r = nabla.reshape %0 : " + t(16, 16) + " -> " + t(2, 8, 16)],
     lambda x: x.reshape(2, 8, 16)),
    ("sub_axes_merged", [((2, 8, 16), ["a", "b", None])],
     ["%r = nabla.reshape %0 : " + t(2, 8, 16) + " -> " + t(16, 16)],
     lambda x: x.reshape(16, 16)),
    ("inner_factor", [((2, 8, 16), [None, "b", None])],
     ["%r = nabla.reshape %0 : " + t(2, 8, 16) + " -> " + t(16, 16)],
     lambda x: x.reshape(16, 16)),
    ("cumsum_of_divided", [(X, ["a", "b"])],
     ["%r = nabla.cumsum %0 dim = 1 : " + t(*X)], lambda x: jnp.cumsum(x, 1)),
    ("flip", [(X, ["a", "b"])], ["%r = nabla.flip %0 dims = [1] : " + t(*X)],
     lambda x: jnp.flip(x, 1)),
    ("softmax_of_divided", [(X, ["a", "b"])],
     ["%r = nabla.softmax %0 dim = 1 : " + t(*X)], lambda x: jax.nn.softmax(x, 1)),
    ("table_rows", [((32, 16), ["b", None])],
     ["%i = arith.constant dense<[1, 5, 7, 9]> : tensor<4xi64>",
      "%r = nabla.gather %0, %i offset_dims = [1] collapsed_dims = [0] index_map = [0]"
      " vector_dim = 1 sizes = [1, 16] : " + t(32, 16) + ", tensor<4xi64>"],
     lambda w: jnp.take(w, jnp.array([1, 5, 7, 9]), axis=0)),
    ("weight_gradient", [(X, ["a", None]), ((8, 32), ["a", None])],
     ["%r = nabla.dot_general %1, %0 contracting = [0] x [0] : " + t(8, 32) + ", "
      + t(*X)], lambda x, g: g.T @ x),
    ("residual", [(X, None), ((16, 16), ["b", None]), ((16, 16), None)],
     ["%h = nabla.linear %0, %1 : " + t(*X) + ", " + t(16, 16),
      "%g = nabla.tanh %h : " + t(*X),
      "%y = nabla.linear %g, %2 : " + t(*X) + ", " + t(16, 16),
      "%r = nabla.add %0, %y : " + t(*X) + ", " + t(*X)],
     lambda x, w, v: x + jnp.tanh(x @ w.T) @ v.T),
]

MOVED = "what moves along a dimension is gathered before, and stays whole"
DIFFERENT = {
    "row_and_contraction": "an axis that two factors want goes to the contraction;"
                           " Shardy gives it to the rows",
    "sub_axes": "jax's partition specs have no sub-axes: it leaves the result whole",
    "cumsum_of_divided": MOVED,
    "flip": MOVED,
    "softmax_of_divided": MOVED,
}


def parts(dims, shape):
    """The indices of each device, of axes for each dimension: ("b", 2, 2) is the
    part of size 2 of "b" behind a part of size 2."""
    found = []
    for device in range(8):
        place = {"a": device // 4, "b": device % 4}
        spans = []
        for axes, size in zip(dims, shape):
            begin, length = 0, size
            for name, before, part in axes:
                length = -(-length // part)
                after = AXES[name] // (before * part)
                begin += place[name] // after % part * length
            spans.append((begin, min(begin + length, size)))
        found.append(tuple(spans))
    return found


def written(text):
    """Axes of each dimension of a sharding's text."""
    dims = []
    for dim in re.findall(r"\{([^}]*)\}", text):
        dims.append([(name, int(before or 1), int(part or AXES[name]))
                     for name, before, part in
                     re.findall(r'"(\w+)"(?::\((\d+)\)(\d+))?', dim)])
    return dims


def text_of(program):
    name, arguments, lines, _ = program
    heads = []
    for i, (shape, axes) in enumerate(arguments):
        head = "%%%d: %s" % (i, t(*shape))
        if axes:
            dims = ", ".join("{%s}" % ", ".join('"%s"' % x for x in (
                ax if isinstance(ax, tuple) else [ax] if ax else [])) for ax in axes)
            head += " {nabla.sharding = #nabla.sharding<@m, [%s]>}" % dims
        heads.append(head.replace("%%%d" % i, "%%p%d" % i, 1))
    body = [re.sub(r"%(\d)", r"%p\1", line) for line in lines]
    shape = result_shape(program)
    return '\n'.join(
        ['nabla.mesh @m <["a"=2, "b"=4]>',
         "func.func @%s(%s) -> %s {" % (name, ", ".join(heads), t(*shape))]
        + body + ["return %%r : %s" % t(*shape), "}", ""])


def result_shape(program):
    return jax.eval_shape(program[3], *[jax.ShapeDtypeStruct(s, np.float32)
                                        for s, _ in program[1]]).shape


def ours(opt, program):
    run = subprocess.run(
        [opt, "-", "--nabla-propagate-sharding", "--nabla-inspect-sharding", "-o",
         os.devnull], input=text_of(program), capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(text_of(program) + run.stderr)
    found = []
    for i in range(len(program[1])):
        found.append(written(re.search(
            r"argument #%d[^\n]*?: @m, (\[.*?\]) tensor" % i, run.stderr).group(1)))
    name = re.search(r"%r = (nabla\.\w+)", text_of(program)).group(1)
    lines = re.findall(r"^ *" + re.escape(name) + r"[^\n]*?: @m, (\[.*?\]) tensor",
                       run.stderr, re.M)
    return found + [written(lines[-1])]


def theirs(mesh, program):
    arguments = []
    for shape, axes in program[1]:
        sharding = axes and NamedSharding(mesh, PartitionSpec(*axes))
        arguments.append(jax.ShapeDtypeStruct(shape, np.float32, sharding=sharding))
    made = jax.jit(program[3]).lower(*arguments).compile()
    return list(made.input_shardings[0]) + [made.output_shardings]


def indices(sharding, shape):
    found = []
    for where in sharding.devices_indices_map(shape).values():
        found.append(tuple(s.indices(n)[:2] for s, n in zip(where, shape)))
    return found


def main():
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("a", "b"))
    failed = 0
    for program in PROGRAMS:
        shapes = [s for s, _ in program[1]] + [result_shape(program)]
        own = ours(sys.argv[2], program)
        other = theirs(mesh, program)
        differ = [(i, a, b) for i, (a, b, s) in enumerate(zip(own, other, shapes))
                  if parts(a, s) != indices(b, s)]
        if bool(differ) != (program[0] in DIFFERENT):
            failed += 1
            print("FAILED", program[0], "differs" if differ else "is equal now")
            for i, a, b in differ:
                print("  value %d: ours %s, jax %s" % (i, a, b))
    print("%d programs, %d differ on purpose, jax %s" % (
        len(PROGRAMS), len(DIFFERENT), jax.__version__))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
