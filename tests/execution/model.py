"""A weight of stories260K, packed by nabla-quant, mapped and bound: one
compiled function with tensor<?x...> gives y = x W^T and x W, with bias and
silu, for several M, within the bound; one-hot x gives what `nabla-quant
dequantize` gives, exactly; the bytes are the same for 1, 2 and 7 threads.

usage: model.py NABLA_RUN NABLA_QUANT quick|medium SOURCE_FOLDER
The model is looked for in $NABLA_MODELS, or in ../shared/models beside the
source folder. Exits 77, which ctest shows as skipped, without it.
"""
import subprocess
import sys

import harness
from harness import np, Function, exact, close, tensor_type
import formats
from arrays import fused_bound, after_silu

f32, f64 = np.float32, np.float64
FILE = "stories260K/stories260K-f32.safetensors"
TENSORS = ("model.layers.0.mlp.gate_proj.weight",
           "model.layers.0.mlp.down_proj.weight")
BLOCKS = [16 << i for i in range(9)]


def packings(blocks):
    """(spec, layout): all that nabla-quant can write."""
    out = []
    for name, rows in formats.encodings():
        for block in blocks:
            out.append((formats.Spec(name, block), "nabla"))
            if name != "int8" and block >= 32:
                out.append((formats.Spec(name, block), "bitsandbytes"))
        if rows:  # of a matrix, these go to the one layout alone
            out.append((formats.Spec(name, 0), "bitsandbytes"))
    return out


def pack(s, model, spec, layout, tensor):
    """Two files: packed, and what the tool decodes of it."""
    paths = s.path(".safetensors"), s.path(".safetensors")
    block = ["--block", str(spec.block)] if spec.block else []
    only = "^%s$" % tensor.replace(".", "[.]")
    tool = [sys.argv[2]]
    for command in (
            ["quantize", model, "-o", paths[0], "-e", spec.name, *block,
             "--layout", layout, "--only", only],
            ["dequantize", paths[0], "-o", paths[1], "--dtype", "f32"]):
        done = subprocess.run(tool + command + ["--quiet"], capture_output=True)
        if done.returncode:
            raise SystemExit("FAILED: %s: %s" % (command, done.stderr.decode()))
    return paths[0], harness.read_safetensors(paths[1])[tensor]


def layer(spec, w, path, tensor):
    """All products with one weight, in one function of which M is unknown."""
    n, k = w.shape
    f = Function("layer")
    q_type = "!nabla.implicit<%dx%dxf32, %s>" % (n, k, spec.attribute())
    q = f.bound(q_type, path, tensor)
    x, x_type = f.argument(np.zeros((0, k), f32), [0])
    z, z_type = f.argument(np.zeros((0, n), f32), [0])
    b, b_type = f.argument(np.zeros(n, f32))
    y_type = tensor_type((None, n), "f32")
    text = "nabla.dot_general %s, %s contracting = [1] x [%d] : %s, %s"
    zero = f.op("arith.constant 0 : index")
    m = f.op("tensor.dim %s, %s : %s" % (x, zero, x_type))
    plain = f.op(text % (x, q, 1, x_type, q_type))
    back = f.op(text % (z, q, 0, z_type, q_type))
    y = f.op(text % (x, q, 1, x_type, q_type))
    wide = f.op("nabla.broadcast_in_dim %s dims = [1] sizes(%s) : %s -> %s" % (
        b, m, b_type, y_type))
    y = f.op("nabla.add %s, %s : %s, %s" % (y, wide, y_type, y_type))
    y = f.op("nabla.silu %s : %s" % (y, y_type))
    for value, kind in ((plain, y_type), (back, x_type), (y, y_type)):
        f.give(value, kind, None)
    f.names = [name[1:] for name in (x, z, b)]
    return f


def check_bounds(s, f, w, program, label, rng):
    n, k = w.shape
    wide = w.astype(f64)
    for m in (1, 3, 17, 64):
        x, z, b = (rng.standard_normal(size).astype(f32)
                   for size in ((m, k), (m, n), (n,)))
        f.inputs = dict(zip(f.names, (x, z, b)))
        y = x.astype(f64) @ wide.T
        bound = fused_bound(k, m, np.abs(x) @ np.abs(wide).T)
        sums = y + b
        f.checks = [close(y, bound, "f32"), close(
            z.astype(f64) @ wide, fused_bound(
                n, m, np.abs(z) @ np.abs(wide), False), "f32")]
        more = bound + harness.ulp("f32", np.abs(sums) + bound)
        f.checks.append(close(*after_silu(sums, more), "f32"))
        before = s.failed
        s.check(program, f)
        if s.failed > before:
            print("  above: " + label + ", M = %d" % m)
    return f.inputs


def check_one_hot(s, f, w, program, label):
    n, k = w.shape
    f.inputs = dict(zip(f.names, (np.eye(k, dtype=f32), np.eye(n, dtype=f32),
                                  np.zeros(n, f32))))
    # the third result needs as many rows as x has, which it does
    f.checks = [exact(harness.plain(w.T), signs=False), exact(w, signs=False),
                lambda got: None]
    before = s.failed
    s.check(program, f)
    if s.failed > before:
        print("  above: %s, one-hot" % label)


def check_threads(s, f, inputs, program, label):
    f.inputs = inputs
    given = [[r.tobytes() for r in s.call(program, f, ["--threads", threads])]
             for threads in ("1", "2", "7")]
    s.expect(given[0] == given[1] == given[2],
             label + ": bytes depend on the number of threads")


def check_dense(s, model, tensor, rng):
    """A weight that is not packed is bound just so."""
    w = harness.read_safetensors(model)[tensor]
    f = Function("dense")
    w_type = tensor_type(w.shape, "f32")
    q = f.bound(w_type, model, tensor)
    a = rng.standard_normal((5, w.shape[1])).astype(f32)
    x, x_type = f.argument(a, [0])
    y = f.op("nabla.dot_general %s, %s contracting = [1] x [1] : %s, %s" % (
        x, q, x_type, w_type))
    total = np.abs(a).astype(f64) @ np.abs(w).astype(f64).T
    f.give(y, tensor_type((None, w.shape[0]), "f32"), close(
        a.astype(f64) @ w.astype(f64).T,
        (w.shape[1] + 16) * 2.0 ** -24 * total, "f32"))
    f.give(q, w_type, exact(w))
    s.check(s.write(f.text()), f)


def test(s):
    medium = sys.argv[3] == "medium"
    model = harness.find_model(sys.argv[4], FILE)
    rng = np.random.default_rng(harness.seed())
    count = 0
    for spec, layout in packings(BLOCKS if medium else [16, 64, 1024, 4096]):
        for tensor in TENSORS if medium else TENSORS[count % 2:][:1]:
            label = "%s, %s, %s" % (spec, layout, tensor)
            path, w = pack(s, model, spec, layout, tensor)
            f = layer(spec, w, path, tensor)
            program = s.write(f.text())
            inputs = check_bounds(s, f, w, program, label, rng)
            check_one_hot(s, f, w, program, label)
            check_threads(s, f, inputs, program, label)
            count += 1
    for tensor in TENSORS:
        check_dense(s, model, tensor, rng)
    print("%d packed weights" % count)


harness.session(sys.argv[1], test)
