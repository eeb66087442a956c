"""Derivatives and batches of traced functions against formulas and differences."""
import os
import tempfile
import unittest

import numpy as np

import nabla as nb

random = np.random.default_rng(9)


def f32(*shape):
    return random.standard_normal(shape).astype(np.float32)


@nb.function
def loss(params, x, y):
    h = nb.tanh(nb.linear(x, params["w"], params["b"]))
    return nb.mse(h.sum(1), y)


PARAMS = {"w": f32(4, 3), "b": f32(4)}
X, Y = f32(5, 3), f32(5)


def value(w, b):
    h = np.tanh(X.astype(np.float64) @ w.T + b).sum(1)
    return ((h - Y) ** 2).mean()


def difference(of, at, step=1e-5):
    out = np.zeros_like(at, np.float64)
    for i in np.ndindex(at.shape):
        up, down = at.astype(np.float64), at.astype(np.float64)
        up[i] += step
        down[i] -= step
        out[i] = (of(up) - of(down)) / (2 * step)
    return out


WANT = {"w": difference(lambda w: value(w, PARAMS["b"]), PARAMS["w"]),
        "b": difference(lambda b: value(PARAMS["w"], b), PARAMS["b"])}


class Derivatives(unittest.TestCase):
    def close(self, got, want, tol=1e-4):
        np.testing.assert_allclose(got.numpy(), want, rtol=tol, atol=tol)

    def test_grad(self):
        gradients = nb.grad(loss)
        for _ in range(2):
            got = gradients(PARAMS, X, Y)
            self.assertEqual(sorted(got), ["b", "w"])
            self.close(got["w"], WANT["w"])
            self.close(got["b"], WANT["b"])
        self.close(nb.grad(loss, "params.w")(PARAMS, X, Y), WANT["w"])
        b, w = nb.grad(loss, ["params.b", "params.w"])(PARAMS, X, Y)
        self.close(b, WANT["b"])
        self.close(w, WANT["w"])

    def test_value_and_grad(self):
        both = nb.value_and_grad(loss)
        v, g = both(PARAMS, x=X, y=Y)
        self.assertAlmostEqual(v.item(), value(PARAMS["w"], PARAMS["b"]), places=4)
        self.close(g["w"], WANT["w"])

        @nb.function
        def with_more(params, x, y):
            return loss(params, x, y), {"mean": x.mean()}
        (v, more), g = nb.value_and_grad(with_more, has_aux=True)(PARAMS, X, Y)
        self.assertAlmostEqual(more["mean"].item(), X.mean(), places=5)
        self.close(g["b"], WANT["b"])

    def test_training(self):
        step = nb.value_and_grad(loss)
        params = PARAMS
        losses = []
        for _ in range(30):
            v, g = step(params, X, Y)
            params = nb.tree_map(lambda p, d: p - 0.05 * d, params, g)
            losses.append(v.item())
        self.assertLess(losses[-1], .7 * losses[0])
        self.assertLessEqual(step.statistics.signatures, 2)

    def test_vjp_and_jvp(self):
        @nb.function
        def f(x, y):
            return nb.sin(x) * y, x.sum()
        x, y, ct = f32(3), f32(3), f32(3)
        (a, b), g = nb.vjp(f, ["x", "y"])(x, y, cotangents=(ct, np.float32(2)))
        self.close(a, np.sin(x) * y)
        self.close(g[0], ct * np.cos(x) * y + 2)
        self.close(g[1], ct * np.sin(x))
        (a, b), t = nb.jvp(f, "x")(x, y, tangents=ct)
        self.close(t[0], ct * np.cos(x) * y)
        self.close(t[1], ct.sum())

    def test_directions_behind_the_arguments(self):
        def f(x, y):
            return nb.sin(x) * y, x.sum()
        x, y, ct = f32(3), f32(3), (f32(3), np.float32(2))
        want = nb.vjp(f, ["x", "y"])(x, y, cotangents=ct)
        moved = nb.jvp(f, "x")(x, y, tangents=ct[0])
        same = np.testing.assert_array_equal
        values, gradients = nb.vjp(f, ["x", "y"])(x, y, ct)
        same(gradients[0].numpy(), want[1][0].numpy())
        same(gradients[1].numpy(), want[1][1].numpy())
        same(nb.vjp(f, ["x", "y"])(x, ct, y=y)[1][0].numpy(), want[1][0].numpy())
        same(nb.jvp(f, "x")(x, y, ct[0])[1][0].numpy(), moved[1][0].numpy())
        each = nb.vmap(nb.jvp(f, "x"))(x[None], y[None], ct[0][None])
        self.close(each[1][0], moved[1][0].numpy()[None])
        with tempfile.TemporaryDirectory() as folder:
            made, path = nb.vjp(f, ["x", "y"]), os.path.join(folder, "f.nabla")
            made(x, y, ct)
            made.save(path)
            loaded = nb.load_function(path)
            same(loaded(x, y, ct)[1][0].numpy(), want[1][0].numpy())
            same(loaded(x, y, cotangents=ct)[1][0].numpy(), want[1][0].numpy())
            with self.assertRaisesRegex(TypeError, "needs the cotangents"):
                loaded(x, y)
        # where the last one may be an argument, it is
        with_default = nb.vjp(lambda x, scale=2.0: x * scale, "x")
        with self.assertRaisesRegex(TypeError, "needs the cotangents, a tree like the res"):
            with_default(x, ct[0])
        self.close(with_default(x, cotangents=ct[0])[1], 2 * ct[0])
        self.close(with_default(x, 3.0, ct[0])[1], 3 * ct[0])
        with self.assertRaisesRegex(TypeError, "needs the tangents, a tree like what wrt"):
            nb.jvp(lambda *x: x[0])(x, ct[0])
        with self.assertRaisesRegex(TypeError, "needs the cotangents"):
            nb.vjp(f)(x, y)

    def test_jvp_runs_the_body_once(self):
        runs = []

        def many(x, n):
            runs.append(x.shape)
            return {"n": n + 1, "both": (nb.sin(x), [x * x, n]), "sum": x.sum()}
        x, t, n = f32(3), f32(3), np.int32(4)
        for made in (nb.jvp(many, "x"), nb.jvp(nb.function(many, dims={"x": {0: "n"}}), "x")):
            runs.clear()
            for _ in range(3):
                values, tangents = made(x, n, tangents=t)
                self.close(tangents["both"][0], t * np.cos(x))
                self.close(tangents["both"][1][0], 2 * t * x)
                self.close(tangents["sum"], t.sum())
                self.assertEqual(values["both"][1][1].item(), 4)
                self.assertIsNone(tangents["n"])
                self.assertIsNone(tangents["both"][1][1])
            self.assertEqual(len(runs), 1)
        made(f32(5), n, tangents=f32(5))
        self.assertEqual(len(runs), 2)  # of the function that jvp names the size in
        # of others, and in others
        runs.clear()
        rows, moved = f32(4, 3), f32(4, 3)
        each = nb.vmap(nb.jvp(many, "x"), {"0.n": None})
        for _ in range(2):
            values, tangents = each(rows, n, tangents=moved)
            self.close(tangents["both"][0], moved * np.cos(rows))
            self.assertIsNone(tangents["n"])
        inner = nb.jvp(nb.function(many), "x")
        twice = nb.jvp(lambda x, t, n: inner(x, n, tangents=t), "x")
        for _ in range(2):
            (_, first), (_, second) = twice(x, t, n, tangents=t)
            self.close(first["both"][0], t * np.cos(x))
            self.close(second["both"][0], -t * t * np.sin(x))
            self.assertIsNone(second["n"])
        self.assertEqual(len(runs), 2)  # of the batch, and of the second derivative
        runs.clear()
        more = nb.jvp(nb.value_and_grad(lambda x, n: ((x * x).sum(), many(x, n)), "x",
                                        has_aux=True), "x")
        for _ in range(2):
            (_, gradients), ((_, aux), moved) = more(x, n, tangents=t)
            self.close(moved, 2 * t)
            self.close(aux["both"][0], t * np.cos(x))
            self.assertIsNone(aux["n"])
        self.assertEqual(len(runs), 1)

    def test_jacobian_and_hessian(self):
        a = f32(2, 3)
        f = nb.function(lambda x: nb.linear(x * x, a))
        x = f32(3)
        for mode in ("auto", "forward", "reverse"):
            self.close(nb.jacobian(f, mode=mode)(x), a * (2 * x))
        h = nb.hessian(nb.function(lambda x: (x ** 3.0).sum()))(np.abs(x))
        self.close(h, np.diag(6 * np.abs(x)), 1e-3)

    def test_vmap(self):
        f = nb.function(lambda w, x: nb.tanh(w @ x).sum())
        w, x = f32(4, 3), f32(6, 3)
        self.close(nb.vmap(f, {"w": None})(w, x), np.tanh(x @ w.T).sum(1))
        self.close(nb.vmap(f, {"w": None, "x": 1})(w, x.T), np.tanh(x @ w.T).sum(1))
        each = nb.vmap(nb.grad(f, "w"), {"w": None})(w, x)
        want = (1 - np.tanh(x @ w.T) ** 2)[:, :, None] * x[:, None, :]
        self.close(each, want)

    def test_in_a_function(self):
        @nb.function(donate={"w": "0"})
        def step(w, x, y, rate):
            g = nb.grad(loss)({"w": w, "b": PARAMS["b"]}, x, y)
            return w - rate * g["w"], 0.0
        w, _ = step(nb.array(PARAMS["w"]).realize(), X, Y, 0.5)
        self.close(w, PARAMS["w"] - .5 * WANT["w"])

    def test_lora(self):
        w = nb.quantize_array(f32(64, 64), "nf4")
        a, b = nb.lora_init(nb.array(w), 3, 4)
        self.assertEqual((a.shape, b.shape), ((4, 64), (64, 4)))
        x = f32(2, 64)

        @nb.function
        def f(b, a, w, x):
            return (nb.linear(x, w) + 2.0 * nb.linear(nb.linear(x, a), b)).sum()
        g = nb.grad(f, "b")(b, a, w, x)
        want = 2 * np.broadcast_to((x @ a.numpy().T).sum(0), (64, 4))
        self.close(g, want, 1e-3)
        merged = nb.lora_merge(nb.array(w), a, b + 1.0, 2.0)
        self.close(merged, w.numpy() + 2 * np.ones((64, 4)) @ a.numpy(), 1e-3)

    def test_straight_through(self):
        rounded = nb.straight_through(nb.function(lambda w: nb.quantize(w, "nf4")))
        w, x = f32(64, 64), f32(3, 64)

        @nb.function
        def f(w, x):
            return nb.linear(x, rounded(w)).sum()
        v, g = nb.value_and_grad(f)(w, x)
        self.close(g, np.broadcast_to(x.sum(0), (64, 64)), 1e-3)
        want = (x @ nb.quantize_array(w, "nf4").numpy().T).sum()
        np.testing.assert_allclose(v.item(), want, rtol=1e-3)
        self.assertTrue(rounded(w).is_packed)

    def test_errors(self):
        for attempt, kind in (
                (lambda: nb.grad(loss, "nothing")(PARAMS, X, Y), nb.InvalidArgument),
                (lambda: nb.grad(nb.function(lambda x: x))(X), nb.InvalidArgument),
                (lambda: nb.grad(nb.function(lambda x: (x.sum(), 1.0)))(X), nb.Error),
                (lambda: nb.vjp(loss)(PARAMS, X, Y), TypeError),
                (lambda: nb.jacobian(loss, mode="sideways"), nb.InvalidArgument),
                (lambda: nb.grad(loss, other=1), nb.InvalidArgument),
                (lambda: nb.vmap(nb.function(lambda x: x))(1.0), nb.Error)):
            with self.assertRaises(kind):
                attempt()

        one = nb.function(lambda x, y: {"sum": x + y})
        for attempt, text in (
                (lambda: nb.vjp(one, "v")(X, X, {"sum": X}), "'v'; there are x, y"),
                (lambda: nb.grad(loss, "params.v")(PARAMS, X, Y),
                 "'params.v'; there are params.b, params.w, x, y"),
                (lambda: nb.vjp(one)(X, X, {"sum": X[:2]}),
                 r"the cotangent of 'sum' is F32\[2, 3\], the result is F32\[5, 3\]"),
                (lambda: nb.jvp(one)(X, X, X[:, :2]),
                 r"the tangent is F32\[5, 2\], the argument is F32\[5, 3\]"),
                (lambda: nb.vmap(one, {"zz": 1})(X, X), "'zz', which is no argument; "
                 "the arguments have the leaves x, y"),
                (lambda: nb.vmap(one, {"x.w": 1})(X, X), "'x.w', which is no argument"),
                (lambda: nb.vmap(one, out_axes={"0": 1})(X, X), "'0', which is no result; "
                 "the results have the leaves sum")):
            with self.assertRaisesRegex(nb.InvalidArgument, text):
                attempt()
        # names of what has no leaves are names
        kept = nb.vmap(lambda x, how, more: x * 2, {"how": None, "more": None})
        self.close(kept(X, "fast", None), 2 * X)

        class Mine(Exception):
            pass

        def raises(x):
            raise Mine()
        with self.assertRaises(Mine):
            nb.grad(nb.function(raises))(X)
        self.close(nb.grad(nb.function(lambda x: (x * x).sum()))(X), 2 * X)


if __name__ == "__main__":
    unittest.main()
