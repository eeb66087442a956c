"""Networks by scan, with packed weights that nothing materializes: an LSTM both
ways over a sequence, a stack of layers whose weights are one packed array; and
the memory that loops over packed arrays take; and every case of control_ops
again, behind the passes of upstream that see through regions.

usage: flow.py NABLA_RUN networks
       flow.py NABLA_RUN upstream NABLA_OPT quick|medium
       flow.py NABLA_RUN peak
"""
import subprocess
import sys

import harness
from harness import np, close, tensor_type
import arrays
import control_ops
from arrays import implicit, packed
from control_ops import Flow
from memory import peak

f32, f64 = np.float32, np.float64


# ---- an LSTM -----------------------------------------------------------------------
# Gates are piecewise linear: sigmoid is relu(x + 1/2) - relu(x - 1/2), and tanh
# the same, twice as steep, from -1 to 1.


def step(x, shift):
    return np.maximum(x + shift, 0) - np.maximum(x - shift, 0)


def lstm(xs, weights, size, order):
    """Hidden states, in f64, and the last cell."""
    batch = xs.shape[1]
    h, c = np.zeros((batch, size)), np.zeros((batch, size))
    out = np.zeros((len(xs), batch, size))
    for t in order:
        i, f, o, g = (xs[t] @ a.T + h @ b.T for a, b in weights)
        i, f, o = (step(v, 0.5) for v in (i, f, o))
        c = f * c + i * (step(g, 1) - 1)
        h = o * (step(c, 1) - 1)
        out[t] = h
    return out, c


def gate(lines, name, x, shift, h_type, minus):
    """Lines that make %name of the value `x`; shift and -shift are values."""
    both = "%s, %s" % (h_type, h_type)
    lines += ["%%%sa = nabla.add %s, %%%s : %s" % (name, x, shift, both),
              "%%%sb = nabla.add %s, %%%sn : %s" % (name, x, shift, both),
              "%%%sc = nabla.relu %%%sa : %s" % (name, name, h_type),
              "%%%sd = nabla.relu %%%sb : %s" % (name, name, h_type),
              "%%%se = nabla.mul %%%sd, %%minus : %s" % (name, name, both),
              "%%%s%s = nabla.add %%%sc, %%%se : %s" % (
                  name, "f" if minus else "", name, name, both)]
    if minus:
        lines.append("%%%s = nabla.add %%%sf, %%minus : %s" % (name, name, both))


def add_lstm(s, rng, spec, number):
    size, inner = 24, int(rng.choice([7, 32]))
    batch, steps = int(rng.integers(1, 4)), int(rng.integers(0, 6))
    f = Flow("lstm%d_%s" % (number, spec))
    weights = [[implicit(f, rng, spec, (size, k)) for k in (inner, size)]
               for _ in range(4)]
    for pair in weights:
        for q in pair:
            q.dense *= f32(0.2)  # for the reference; scaled below as well
    xs = rng.standard_normal((steps, batch, inner)).astype(f32)
    x, x_type = f.argument(xs, [0])
    h_type = tensor_type((batch, size), "f32")
    lines = ["%%%s = nabla.constant dense<%s> : %s" % (name, value, h_type)
             for name, value in (("half", 0.5), ("halfn", -0.5), ("one", 1.0),
                                 ("onen", -1.0), ("minus", -1.0),
                                 ("fifth", 0.2))]
    row = tensor_type((batch, inner), "f32")
    for name, (a, b) in zip("ifog", weights):
        lines += [
            "%%%sx = nabla.dot_general %%x, %s contracting = [1] x [1] : %s, %s"
            % (name, a.value, row, a.type()),
            "%%%sh = nabla.dot_general %%h, %s contracting = [1] x [1] : %s, %s"
            % (name, b.value, h_type, b.type()),
            "%%%ss = nabla.add %%%sx, %%%sh : %s, %s" % (name, name, name, h_type,
                                                         h_type),
            "%%%sv = nabla.mul %%%ss, %%fifth : %s, %s" % (name, name, h_type,
                                                           h_type)]
        gate(lines, name, "%%%sv" % name, "one" if name == "g" else "half",
             h_type, name == "g")
    both = "%s, %s" % (h_type, h_type)
    lines += ["%%k = nabla.mul %%f, %%c : %s" % both,
              "%%n = nabla.mul %%i, %%g : %s" % both,
              "%%c2 = nabla.add %%k, %%n : %s" % both]
    gate(lines, "t", "%c2", "one", h_type, True)
    lines.append("%%h2 = nabla.mul %%o, %%t : %s" % both)
    zero = f.op("nabla.constant dense<0.0> : " + h_type)
    out = tensor_type((None, batch, size), "f32")
    wide = [[q.dense.astype(f64) for q in pair] for pair in weights]
    for back in (False, True):
        _, c, hs = f.region(3, (
            "nabla.scan init(%s, %s : %s) over(%s : %s) %s -> %s, %s {\n"
            "^bb0(%%h: %s, %%c: %s, %%x: %s):\n%s\n"
            "  nabla.yield %%h2, %%c2, %%h2 : %s, %s\n}") % (
                zero, zero, both, x, x_type, "reverse" if back else "", both,
                out, h_type, h_type, row,
                "\n".join("  " + line for line in lines), both, h_type))
        order = range(steps)[::-1] if back else range(steps)
        want, cell = lstm(xs.astype(f64), wide, size, order)
        # each gate is off by what its products are, and steps add up
        f.give(hs, out, close(want, np.full(want.shape, 1e-4), "f32"))
        f.give(c, h_type, close(cell, np.full(cell.shape, 1e-4), "f32"))
    return f


# ---- layers ------------------------------------------------------------------------


def add_stack(s, rng, spec, number):
    """x + relu(x w'), for each w of one packed array; w may be a view."""
    layers, size = int(rng.integers(1, 5)), spec.block
    f = Flow("stack%d_%s" % (number, spec))
    q = implicit(f, rng, spec, (layers, 16, size))
    a = rng.standard_normal((3, size)).astype(f32) * f32(0.1)
    x, x_type = f.argument(a, [0])
    w_type = q.type().replace("<%dx" % layers, "<", 1)
    t_type = w_type.replace("<16x%dx" % size, "<%dx16x" % size, 1)[:-1] + (
        ", view<16x%d, strides = [1, %d], offset = 0>>" % (size, size))
    y_type = tensor_type((None, 16), "f32")
    z, = f.region(1, (
        "nabla.scan init(%s : %s) over(%s : %s) -> %s {\n^bb0(%%a: %s, %%w: %s):"
        "\n  %%y = nabla.dot_general %%a, %%w contracting = [1] x [1] : %s, %s\n"
        "  %%r = nabla.relu %%y : %s\n"
        "  %%t = nabla.transpose %%w permutation = [1, 0] : %s\n"
        "  %%b = nabla.dot_general %%r, %%t contracting = [1] x [1] : %s, %s\n"
        "  %%z = nabla.add %%b, %%a : %s, %s\n  nabla.yield %%z : %s\n}") % (
            x, x_type, q.value, q.type(), x_type, x_type, w_type, x_type, w_type,
            y_type, w_type, y_type, t_type, x_type, x_type, x_type))
    want, bound = a.astype(f64), np.zeros(a.shape)
    for w in q.dense.astype(f64):
        y, off = want @ w.T, bound @ np.abs(w).T
        off += arrays.fused_bound(size, 3, np.abs(want) @ np.abs(w).T)
        r = np.maximum(y, 0)
        want, bound = want + r @ w, bound + off @ np.abs(w) + (
            arrays.fused_bound(16, 3, np.abs(r) @ np.abs(w), False))
        bound += harness.ulp("f32", np.abs(want) + bound)
    f.give(z, x_type, close(want, 2 * bound, "f32"))
    return f


def check_networks(s):
    rng = np.random.default_rng(harness.seed())
    functions = []
    for number, spec in enumerate(arrays.specs((16, 64))):
        functions.append(add_lstm(s, rng, spec, number))
        if spec.block:
            functions.append(add_stack(s, rng, spec, number))
    # whatever would be materialized is an error
    s.run_all(functions, ["--policy", "error"])


# ---- memory ------------------------------------------------------------------------


def check_peak(s):
    """Layers of 16 MiB, one after the other: neither a layer nor the whole is
    copied."""
    rng = np.random.default_rng(1)
    spec = next(x for x in arrays.specs((64,)) if str(x) == "nf4_64")
    layers, rows, size = 3, 4096, 8192
    shape = (layers, rows, size)
    codes, scales = arrays.components(rng, spec, shape)
    path = s.path(".safetensors")
    harness.write_safetensors(path, packed(spec, codes, scales, shape), 4096)
    bytes_ = codes.nbytes + scales.nbytes
    del codes, scales
    q = "!nabla.implicit<3x4096x8192xf32, #nabla.nf4<block = 64>>"
    w = "!nabla.implicit<4096x8192xf32, #nabla.nf4<block = 64>>"
    x_type, y_type = tensor_type((1, size), "f32"), tensor_type((1, rows), "f32")
    program = s.write(
        'func.func @f(%%x: %s, %%w: %s {nabla.name = "w"}) -> %s {\n'
        "  %%z = nabla.constant dense<0.0> : %s\n"
        "  %%r = nabla.scan init(%%z : %s) over(%%w : %s) -> %s {\n"
        "  ^bb0(%%a: %s, %%v: %s):\n"
        "    %%y = nabla.dot_general %%x, %%v contracting = [1] x [1] : %s, %s\n"
        "    %%b = nabla.add %%a, %%y : %s, %s\n    nabla.yield %%b : %s\n  }\n"
        "  return %%r : %s\n}\n" % (
            x_type, q, y_type, y_type, y_type, q, y_type, y_type, w, x_type, w,
            *[y_type] * 4))
    tiny = s.write("func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {\n  %y = "
                   "nabla.relu %x : tensor<?xf32>\n  return %y : tensor<?xf32>\n"
                   "}\n")
    inputs = s.path(".npy"), s.path(".npy")
    np.save(inputs[0], np.ones(16, f32))
    np.save(inputs[1], np.ones((1, size), f32))
    bare = peak([s.tool, tiny, "--cache", "off", "--input", "0=" + inputs[0]])
    full = peak([s.tool, program, "--cache", "off", "--policy", "error",
                 "--input", "0=" + inputs[1], "--bind", "w=%s:w" % path])
    print("%.1f MiB beyond a tiny program, %.1f MiB packed" % (
        (full - bare) / 2 ** 20, bytes_ / 2 ** 20))
    s.expect(full - bare < bytes_ + 8 * 2 ** 20, "a layer was copied")


# ---- upstream ----------------------------------------------------------------------


PASSES = ["--inline", "--sccp", "--canonicalize", "--cse",
          "--loop-invariant-code-motion", "--control-flow-sink",
          "--remove-dead-values", "--symbol-dce"]


def check_upstream(s):
    """The same results, whatever those passes move, fold or drop."""
    write, changed = s.write, []

    def optimized(text):
        path = write(text)
        out = s.path(".mlir")
        done = subprocess.run([sys.argv[3], path, *PASSES, "-o", out],
                              capture_output=True, timeout=300)
        s.expect(done.returncode == 0, "nabla-opt: " + done.stderr.decode())
        with open(out, encoding="utf-8") as file:
            changed.append("func.call" not in file.read())
        return out

    s.write = optimized
    rounds = {"quick": 1, "medium": 3}[sys.argv[4]]
    rng = np.random.default_rng(harness.seed())
    s.run_all(control_ops.cases(rng, rounds), ["--policy", "off"])
    s.write = write
    s.expect(changed and all(changed), "calls are inlined")


# Where scf.if of packed values goes: select, blocks and back.
REWRITES = [["--canonicalize"], ["--sccp", "--cse", "--control-flow-sink"],
            ["--convert-scf-to-cf"],
            ["--convert-scf-to-cf", "--lift-cf-to-scf", "--canonicalize"]]


def choice(rng, spec, kind):
    """One of two packed arrays, by an argument, decoded."""
    f = Flow("choice_%s_%s" % (spec, kind))
    a, b = (implicit(f, rng, spec, (3, 64), kind) for _ in range(2))
    taken = bool(rng.integers(2))
    p, p_type = f.argument(np.array(taken))
    i1 = f.op("tensor.extract %s[] : %s" % (p, p_type))
    w = f.op("scf.if %s -> %s {\n scf.yield %s : %s\n} else {\n"
             " scf.yield %s : %s\n}" % (i1, a.type(), a.value, a.type(),
                                       b.value, a.type()))
    dense = tensor_type((3, 64), kind)
    f.give(f.op("nabla.materialize %s : %s" % (w, a.type())), dense,
           harness.exact((a if taken else b).dense))
    return f


def check_rewrites(s):
    """A choice of packed values stays one, of every encoding; branches of
    blocks are refused with the way out."""
    write, seen = s.write, set()
    rng = np.random.default_rng(harness.seed())
    functions = [choice(rng, spec, kind) for spec in arrays.specs((16, 64))
                 for kind in ("f32", "f16")]
    for passes in REWRITES:
        def rewritten(text, passes=passes):
            out = s.path(".mlir")
            done = subprocess.run([sys.argv[3], write(text), *passes, "-o", out],
                                  capture_output=True, timeout=300)
            s.expect(done.returncode == 0, "nabla-opt: " + done.stderr.decode())
            with open(out, encoding="utf-8") as file:
                words = file.read()
            seen.update(w for w in ("arith.select", "cf.br") if w in words)
            return out
        s.write = rewritten
        if "--lift-cf-to-scf" in passes or "--convert-scf-to-cf" not in passes:
            s.run_all(functions, ["--policy", "off"], most=40)
            continue
        done = s.start(rewritten(functions[0].text()), "--policy", "off")
        s.expect(done.returncode == 1 and b"--lift-cf-to-scf" in done.stderr,
                 "branches: " + done.stderr.decode())
    s.write = write
    s.expect(len(seen) == 2, "passes made %s only" % seen)


def test(s):
    if sys.argv[2] == "peak":
        check_peak(s)
    elif sys.argv[2] == "upstream":
        check_upstream(s)
        check_rewrites(s)
    else:
        check_networks(s)


harness.session(sys.argv[1], test)
