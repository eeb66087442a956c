"""nabla.attention by kernels and decomposed, against its definition in float64:
head sizes, grouped heads, caches of narrower elements, masks, keys that count,
sizes that only the run knows; the same bytes for any number of threads; nothing
read outside of arrays.

usage: attention.py NABLA_RUN NABLA_OPT quick|medium"""
import subprocess
import sys

import harness
from harness import np, Function, close, exact, tensor_type


f64 = np.float64
UNIT = 2.0 ** -24


def guarded(tensors, last):
    """The tensors between NaNs, `last` at the end of the file."""
    out = {}
    for name in [n for n in tensors if n != last] + [last]:
        out["guard%d" % len(out)] = np.full(64, np.nan, np.float32)
        out[name] = tensors[name]
    return out


def attended(case, q, k, v, mask):
    """The definition in f64, and a bound of the error of f32."""
    scale = case["scale"] or 1 / np.sqrt(q.shape[-1])
    t, s = q.shape[-2], k.shape[-2]
    n = s if case["keys"] is None else min(max(case["keys"], 0), s)
    if q.ndim > 2:
        group = q.shape[-3] // max(k.shape[-3], 1)
        k, v = np.repeat(k, group, -3), np.repeat(v, group, -3)
    seen = np.broadcast_to(np.arange(s) < n, (t, s))
    if case["causal"]:
        seen = seen & (np.arange(s)[None] - n <= np.arange(t)[:, None] - t)
    k = np.where((np.arange(s) < n)[:, None], k, 0)
    v = np.where((np.arange(s) < n)[:, None], v, 0)
    scores = q @ np.swapaxes(k, -1, -2) * scale
    off = (q.shape[-1] + 20) * UNIT * scale * (
        np.abs(q) @ np.swapaxes(np.abs(k), -1, -2))
    if mask is not None and mask.dtype == bool:
        seen = seen & mask
    elif mask is not None:
        wide = harness.widen(mask).astype(f64)
        scores = scores + wide
        off = off + 2 * UNIT * np.where(np.isfinite(wide), np.abs(wide), 0)
    scores = np.where(seen, scores, -np.inf)
    off = np.where(np.isfinite(scores), off + 4 * UNIT * np.abs(scores), 0)
    with np.errstate(all="ignore"):
        p = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
        p = p / p.sum(axis=-1, keepdims=True)
    relative = 2 * off.max(axis=-1, keepdims=True, initial=0) + 16 * UNIT
    return p @ v, (relative + (s + 16) * UNIT) * (p @ np.abs(v)) * 1.01 + 1e-37


def mask_of(rng, case, shape):
    """Some rows of it see no key."""
    kind = case["mask"]
    if kind is None:
        return None
    if kind.endswith("all"):
        shape = shape[-2:]
    if kind.startswith("i1"):
        mask = rng.random(shape) < 0.7
        mask[..., 0, :] = False
        return mask
    mask = rng.standard_normal(shape).astype(np.float32)
    mask[rng.random(shape) < 0.2] = -np.inf
    mask[..., -1, :] = -np.inf
    return harness.narrow(mask, case["kind"])


def arrays_of(rng, case):
    batch, heads, group, t, s, d, e = case["sizes"]
    shapes = [batch + h + (r, c) for h, r, c in (
        ((heads * group,) if heads else (), t, d),
        ((heads,) if heads else (), s, d), ((heads,) if heads else (), s, e))]
    wide = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    q = harness.narrow(wide[0] * 2, case["kind"])
    k, v = (harness.narrow(a, case["cache"]) for a in wide[1:])
    return q, k, v, mask_of(rng, case, shapes[0][:-1] + (s,))


def add_keys(f, rng, case):
    if case["keys"] is None:
        return ""
    dtype = (np.int64, np.int32)[int(rng.integers(2))]
    a, text = f.argument(np.array(case["keys"], dtype))
    return " keys(%s : %s)" % (a, text)


def part_of_cache(f, a):
    """The array as a part of a larger one, with NaN around it."""
    nan = np.frombuffer(b"\xff" * a.dtype.itemsize, a.dtype)[0]
    big = np.full([3] + [d + 2 for d in a.shape], nan, a.dtype)
    box = (slice(1, 2),) + tuple(slice(1, d + 1) for d in a.shape)
    big[box] = a[None]
    x, text = f.argument(big)
    part = f.op("nabla.slice %s starts = %s limits = %s : %s" % (
        x, [s.start for s in box], [s.stop for s in box], text))
    kind = harness.NAMES[a.dtype]
    own = tensor_type(a.shape, kind)
    return f.op("nabla.reshape %s : %s -> %s" % (
        part, tensor_type((1,) + a.shape, kind), own)), own


def build(name, rng, case):
    f = Function(name)
    q, k, v, mask = arrays_of(rng, case)
    known = [q.ndim - 1] if case["open"] else range(q.ndim)
    hide = [i for i in range(q.ndim) if i not in known]
    names, types = zip(*[f.argument(q, hide)] + [
        part_of_cache(f, a) if case.get("part") else f.argument(a, hide)
        for a in (k, v)])
    text = ", ".join(names)
    if mask is not None:
        m, m_type = f.argument(mask, range(mask.ndim) if case["open"] else ())
        text += " mask(%s : %s)" % (m, m_type)
    text += add_keys(f, rng, case)
    if case["scale"]:
        text += " scale = %.17e" % case["scale"]
    if case["causal"]:
        text += " causal"
    y = f.op("nabla.%s %s : %s" % (case["op"], text, ", ".join(types)))
    dims = list(q.shape[:-1]) + [v.shape[-1]]
    shape = [None if i in hide else d for i, d in enumerate(dims)]
    want, bound = attended(case, *(harness.widen(a).astype(f64)
                                   for a in (q, k, v)), mask)
    if case["kind"] != "f32":
        bound = bound + harness.ulp(case["kind"], np.abs(np.nan_to_num(want)))
    f.give(y, tensor_type(shape, case["kind"]), close(want, bound, case["kind"]))
    return f


HEADS = (1, 3, 16, 40, 64, 80, 128)
KEYS = (0, 1, 17, 95, 96, 97, 300, 1000)


def draw(rng, number):
    """A case; the first ones go through head sizes and numbers of keys."""
    d = HEADS[number % len(HEADS)]
    s = KEYS[number // 3 % len(KEYS)]
    t = int(rng.choice([1, 1, 1, 2, 3, 5, 9, 33, 70]))
    heads = int(rng.choice([0, 1, 2, 3]))
    cache, kind = (("f32", "f32"), ("f16", "f32"), ("bf16", "f32"),
                   ("bf16", "bf16"), ("f16", "f16"), ("bf16", "f16"))[
                       int(rng.choice(6, p=(.4, .15, .15, .1, .1, .1)))]
    return {"sizes": ((2,) if heads and rng.random() < .3 else (), heads,
                      int(rng.choice([1, 1, 2, 4, 7])) if heads else 1, t, s, d,
                      d if rng.random() < .7 else int(rng.choice(HEADS))),
            "kind": kind, "cache": cache,
            "mask": (None, None, "i1", "i1_all", "float", "float_all")[
                int(rng.integers(6))],
            "causal": bool(rng.random() < .4),
            "scale": .3 if rng.random() < .3 else None,
            "keys": int(rng.integers(-3, s + 4)) if rng.random() < .4 else None,
            "open": bool(rng.random() < .3), "op": "attention"}


def check_kernels(s, rng, count, targets):
    functions = []
    for number in range(count):
        case = draw(rng, number)
        case["op"] = ("attention", "fused_attention")[number % 2]
        case["part"] = number % 3 == 1 and not case["open"] and case[
            "sizes"][4] > 0
        functions.append(build("k%d" % number, rng, case))
    for i, target in enumerate(targets):
        s.run_all(functions[i::len(targets)], ["--target", target])


def check_decomposition(s, rng, count, opt):
    """The decomposition obeys the same definition."""
    for number in range(count):
        case = draw(rng, number)
        case["sizes"] = case["sizes"][:4] + (min(case["sizes"][4], 97),) + (
            case["sizes"][5:])
        f = build("d%d" % number, rng, case)
        done = subprocess.run([opt, s.write(f.text()), "--nabla-decompose"],
                              capture_output=True, check=False)
        if s.expect(done.returncode == 0, done.stderr.decode()[:600]):
            s.check(s.write(done.stdout.decode()), f)


def check_threads(s, rng):
    """The same bytes for 1, 2 and 7 threads."""
    for sizes in (((), 1, 1, 1, 3000, 64, 64), ((), 2, 4, 1, 1500, 80, 80),
                  ((2,), 3, 2, 70, 200, 16, 16), ((), 1, 1, 200, 500, 64, 48)):
        f = build("t", rng, {"sizes": sizes, "kind": "f32", "cache": "f32",
                             "mask": None, "causal": True, "scale": None,
                             "keys": None, "open": False, "op": "attention"})
        program = s.write(f.text())
        s.check(program, f)
        one = s.call(program, f, ["--threads", "1"])[0]
        for threads in ("2", "7"):
            wrong = exact(one)(s.call(program, f, ["--threads", threads])[0])
            s.expect(not wrong, "%s threads, %r: %s" % (threads, sizes, wrong))


def check_guards(s, rng):
    """q, k, v and a mask lie between NaNs, one at the end of a page."""
    names = ("q", "k", "v", "mask")
    for number in range(8):
        case = draw(rng, number)
        case.update(kind="f32", cache=("f32", "f16")[number % 2], keys=None,
                    mask=("float", "i1")[number // 2 % 2], open=False)
        t, keys = int(rng.choice([1, 3, 11])), int(rng.choice([1, 18, 101]))
        case["sizes"] = ((), 1, 2, t, keys, HEADS[number % 7],
                         HEADS[(number + 3) % 7])
        given = arrays_of(rng, case)
        path = s.path(".safetensors")
        harness.write_safetensors(
            path, guarded(dict(zip(names, given)), names[number % 4]), 4096)
        f = Function("g%d" % number)
        types = [tensor_type(a.shape, harness.NAMES[a.dtype]) for a in given]
        q, k, v, m = (f.bound(text, path, name)
                      for text, name in zip(types, names))
        causal = " causal" if case["causal"] else ""
        y = f.op("nabla.attention %s, %s, %s mask(%s : %s) scale = 0.3%s : %s" % (
            q, k, v, m, types[3], causal, ", ".join(types[:3])))
        case["scale"] = .3
        want, bound = attended(case, *(harness.widen(a).astype(f64)
                                       for a in given[:3]), given[3])
        f.give(y, tensor_type(want.shape, "f32"), close(want, bound, "f32"))
        s.check(s.write(f.text()), f)


def check_hidden(s):
    """What does not count is not read: infinity and NaN behind the keys."""
    rng = np.random.default_rng(3)
    for t in (1, 20):
        case = {"sizes": ((), 2, 1, t, 200, 16, 16), "kind": "f32",
                "cache": "f32", "mask": None, "causal": False, "scale": None,
                "keys": 101, "open": False, "op": "attention"}
        q, k, v, _ = arrays_of(rng, case)
        want, bound = attended(case, q, k, v, None)
        k[:, 101:], v[:, 101:] = np.nan, np.inf
        f = Function("h%d" % t)
        names, types = zip(*(f.argument(a) for a in (q, k, v)))
        n, n_type = f.argument(np.array(101, np.int32))
        y = f.op("nabla.attention %s keys(%s : %s) : %s" % (
            ", ".join(names), n, n_type, ", ".join(types)))
        f.give(y, types[0], close(want, bound, "f32"))
        s.check(s.write(f.text()), f)


def test(s):
    rng = np.random.default_rng(harness.seed())
    medium = sys.argv[3] == "medium"
    check_kernels(s, rng, 96 if medium else 24,
                  ("x86-64-v3", "x86-64", "native") if medium else ("native",))
    check_decomposition(s, rng, 12 if medium else 4, sys.argv[2])
    check_hidden(s)
    check_guards(s, rng)
    check_threads(s, rng)


harness.session(sys.argv[1], test)
