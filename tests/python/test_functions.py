"""Traced functions and control flow."""
import dataclasses
import os
import tempfile
import threading
import time
import unittest
from collections import namedtuple

import numpy as np

import nabla as nb

random = np.random.default_rng(5)


def f32(*shape):
    return random.standard_normal(shape).astype(np.float32)


@dataclasses.dataclass
class Layer:
    w: object
    b: object
    activation: str = "tanh"

    def __call__(self, x):
        y = nb.linear(x, self.w, self.b)
        return nb.tanh(y) if self.activation == "tanh" else y


Pair = namedtuple("Pair", "first second")


class Functions(unittest.TestCase):
    def test_traced_once_for_each_signature(self):
        traced = []

        @nb.function
        def f(x, rate):
            """Doc."""
            traced.append(x.shape)
            return nb.exp(x) * rate

        a = f32(3, 4)
        for rate in (0.5, 0.25, 3.0):
            np.testing.assert_allclose(f(a, rate).numpy(), np.exp(a) * np.float32(rate),
                                       rtol=1e-5)
        self.assertEqual(traced, [(3, 4)])
        f(a, 2)  # an integer is of another signature
        f(f32(5), 0.5)
        self.assertEqual(len(traced), 3)
        self.assertEqual(f.__doc__, "Doc.")
        self.assertEqual(f.statistics.signatures, 3)
        self.assertIn("nabla.exp", f.text())

    def test_trees(self):
        traced = []

        @nb.function
        def model(layers, x, *, twice=False):
            traced.append(twice)
            for layer in layers:
                x = layer(x)
            return {"y": x * 2 if twice else x, "norms": Pair(x.sum(), (x.max(),)),
                    "none": None, "text": "kept"}

        layers = [Layer(f32(4, 3), f32(4)), Layer(f32(2, 4), f32(2), "none")]
        x = f32(5, 3)
        want = np.tanh(x @ layers[0].w.T + layers[0].b) @ layers[1].w.T + layers[1].b
        for _ in range(3):
            out = model(layers, x)
            np.testing.assert_allclose(out["y"].numpy(), want, rtol=1e-4, atol=1e-5)
            self.assertIsInstance(out["norms"], Pair)
            self.assertAlmostEqual(out["norms"].second[0].item(), want.max(), places=4)
            self.assertIsNone(out["none"])
            self.assertEqual(out["text"], "kept")
        self.assertEqual(traced, [False])
        np.testing.assert_allclose(model(layers, x, twice=True)["y"].numpy(), 2 * want,
                                   rtol=1e-4, atol=1e-5)
        self.assertEqual(nb.names_of(layers), ["0.w", "0.b", "1.w", "1.b"])

    def test_bodies_run_once_for_each_signature(self):
        runs = []

        def many(x):
            runs.append(x.shape)
            return {"sum": x.sum(), "both": (x + x, [x * x])} if x.shape[0] != 9 else x

        f, x = nb.function(many), f32(3)
        for made, shape in ((f, (3,)), (f, (4,)), (f, (9,)), (nb.vmap(f), (5, 3)),
                            (nb.function(many, dims={"x": {0: "n"}}), (3,)),
                            (nb.function(many, donate={"x": "both.1.0"}), (3,))):
            runs.clear()
            for _ in range(3):
                out = made(f32(*shape))
            self.assertEqual(len(runs), 1, made)
        self.assertEqual(list(out), ["both", "sum"])
        self.assertIsInstance(out["both"], tuple)
        f = nb.function(many, dims={"x": {0: "n"}})
        runs.clear()
        for size in (3, 4, 5):
            np.testing.assert_allclose(f(f32(size) * 0 + 1)["sum"].item(), size)
        self.assertEqual(len(runs), 1)
        runs.clear()
        values, gradients = nb.vjp(many)(x, cotangents=many(x))
        nb.grad(lambda x: (x.sum(), many(x)), has_aux=True)(x)
        self.assertEqual(len(runs), 3)  # one of them eager
        runs.clear()
        one = nb.function(lambda x: nb.cond(x.sum() < 0, many, many, x))
        _, rows = nb.scan(lambda c, x: (c, many(x)), 0.0, f32(2, 3))
        self.assertEqual(rows["both"][1][0].shape, (2, 3))
        one(x), one(x)
        self.assertEqual(len(runs), 3)  # both parts, and the step

    def test_threads_wait_for_the_structure(self):
        ready, outs, runs = threading.Barrier(4), [], []

        @nb.function
        def f(x):
            runs.append(1)
            time.sleep(0.1)
            return x + 1, {"y": x}

        def call():
            ready.wait()
            outs.append(f(np.float32([1, 2]))[1]["y"].numpy().tolist())

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((outs, len(runs)), ([[1, 2]] * 4, 1))

    def test_named_dimensions(self):
        traced = []

        @nb.function(dims={"x": {0: "batch"}, "y": {0: "batch"}})
        def f(x, y):
            traced.append(x.shape)
            return (x * y).sum(1), x.reshape([-1, 6])

        for n in (2, 5, 7):
            a, b = f32(n, 3, 2), f32(n, 3, 2)
            s, r = f(a, b)
            np.testing.assert_allclose(s.numpy(), (a * b).sum(1), rtol=1e-5, atol=1e-5)
            self.assertEqual(r.shape, (n, 6))
        self.assertEqual(set(traced), {(None, 3, 2)})
        self.assertLessEqual(len(traced), 2)
        with self.assertRaisesRegex(nb.InvalidArgument, "batch"):
            f(f32(2, 3, 2), f32(3, 3, 2))

    def test_products_of_no_depth(self):
        """Sums of no products are zeros, whatever the memory had."""
        for dtype in ("f32", "f16", "bf16"):
            f = nb.function(lambda x, w: (x.astype(dtype) @ w.astype(dtype)).astype("f32"),
                            dims={"x": {0: "m", 1: "k"}, "w": {0: "k", 1: "n"}})
            for k in (64, 0, 64, 0):
                y = f(f32(40, k), f32(k, 50)).numpy()
                self.assertEqual(np.any(y), k > 0)

    def test_static(self):
        @nb.function(static=["n"])
        def repeat(x, n):
            return nb.concatenate([x] * n)
        self.assertEqual(repeat(f32(3), 4).shape, (12,))
        self.assertEqual(repeat(f32(3), n=2).shape, (6,))

    def test_captured_arrays(self):
        w = nb.array(f32(4, 4))
        pending = w * 2
        weight = nb.quantize_array(f32(64, 64), "nf4")
        data = weight.numpy()

        @nb.function
        def f(x):
            return x @ pending + 1.0, nb.linear(np.ones((1, 64), np.float32), weight)
        a = f32(2, 4)
        for _ in range(2):
            y, z = f(a)
            np.testing.assert_allclose(y.numpy(), a @ (w.numpy() * 2) + 1, rtol=1e-4,
                                       atol=1e-5)
            np.testing.assert_allclose(z.numpy()[0], data.sum(1), rtol=1e-3, atol=1e-3)
            weight = None
        self.assertIn("nabla.captured", f.text())

    def test_functions_in_functions(self):
        @nb.function
        def inner(x):
            return nb.sin(x), x

        @nb.function
        def outer(x):
            a, b = inner(x)
            c, d = nb.call_function(inner, a)
            e, _ = nb.call_function(inner, c)
            return a + b + c + d + e
        x = f32(4)
        s = np.sin
        np.testing.assert_allclose(outer(x).numpy(),
                                   s(x) + x + s(s(x)) + s(x) + s(s(s(x))), rtol=1e-5)
        self.assertEqual(outer.text().count("call @inner"), 2)
        self.assertEqual(outer.text().count("func.func private"), 1)

    def test_donated(self):
        @nb.function(donate={"w": "0"})
        def step(w, g):
            return w - 0.1 * g, g.sum()
        w = nb.array(f32(64, 64)).realize()
        place, g = w.numpy().__array_interface__["data"][0], f32(64, 64)
        want = w.numpy() - np.float32(0.1) * g
        new, _ = step(w, g)
        np.testing.assert_allclose(new.numpy(), want, rtol=1e-5, atol=1e-6)
        self.assertEqual(new.numpy().__array_interface__["data"][0], place)
        with self.assertRaises(nb.Error):
            (w + 1).numpy()

    def test_one_result_is_donated(self):
        f = nb.function(lambda x: x + 1, donate={"x": ""})
        x = nb.array(f32(64)).realize()
        place, want = x.numpy().__array_interface__["data"][0], x.numpy() + 1
        y = f(x)
        np.testing.assert_array_equal(y.numpy(), want)
        self.assertEqual(y.numpy().__array_interface__["data"][0], place)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "f.nabla")
            f.save(path)
            np.testing.assert_array_equal(nb.load_function(path)(y).numpy(), want + 1)
        for of, names in ((lambda x: x + 1, "the results are one array, whose name is ''"),
                          (lambda x: {"a": x + 1, "b": [x]},
                           "the results have the leaves a, b.0")):
            with self.assertRaisesRegex(nb.InvalidArgument, "the result '0'.*" + names):
                nb.function(of, donate={"x": "0"})(f32(3))
        with self.assertRaisesRegex(nb.InvalidArgument,
                                    "'y', which is no argument; .* leaves x"):
            nb.function(lambda x: x + 1, donate={"y": ""})(f32(3))

    def test_session(self):
        @nb.function(states={"total": "total"})
        def count(total, x):
            total = total + x
            return {"total": total, "mean": total.mean()}
        first = count.session(np.zeros(4, np.float32), np.zeros(4, np.float32))
        for i in range(3):
            mean = first.run(np.full(4, i, np.float32))
        self.assertEqual(float(mean), 3)
        np.testing.assert_array_equal(first.states["total"], np.full(4, 3))
        with self.assertRaises(nb.InvalidArgument):
            count(np.zeros(4, np.float32), np.zeros(4, np.float32))

    def test_methods_and_defaults(self):
        class Model:
            scale = 3.0

            @nb.function
            def f(self, x, shift=1.0):
                return x * self.scale + shift
        np.testing.assert_allclose(Model().f(np.ones(2, np.float32)).numpy(), 4)


class ControlFlow(unittest.TestCase):
    def test_cond(self):
        x = nb.array(f32(3))
        for sign in (1.0, -1.0):
            out = nb.cond(nb.array(sign) > 0, lambda a: {"r": (a + 1, a)},
                          lambda a: {"r": (a - 1, a * 0)}, x)
            want = x.numpy() + np.float32(sign)
            np.testing.assert_allclose(out["r"][0].numpy(), want)

    def test_while(self):
        out = nb.while_loop(lambda v: v["i"] < 10,
                            lambda v: {"i": v["i"] + 1, "p": v["p"] * v["base"],
                                       "base": v["base"]},
                            {"i": 0, "p": nb.array(np.float32(1)),
                             "base": nb.array(np.float32(2))})
        self.assertEqual(out["p"].item(), 1024)

    def test_scan(self):
        x = f32(6, 3)
        last, outs = nb.scan(lambda c, row: (c + row, {"sum": c.sum(), "row": row * 2}),
                             np.zeros(3, np.float32), x)
        np.testing.assert_allclose(last.numpy(), x.sum(0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(outs["row"].numpy(), 2 * x)
        sums = np.concatenate([[0], np.cumsum(x, 0).sum(1)[:-1]])
        np.testing.assert_allclose(outs["sum"].numpy(), sums, rtol=1e-4, atol=1e-5)
        last, none = nb.scan(lambda c, row: (c * 0.5 + row.sum(), None), 0.0, x,
                             reverse=True)
        want = 0.0
        for row in x[::-1]:
            want = want * .5 + row.sum()
        self.assertAlmostEqual(last.item(), want, places=4)
        self.assertIsNone(none)

    def test_in_a_function(self):
        @nb.function(dims={"x": {0: "n"}})
        def f(x, limit):
            total, _ = nb.scan(lambda c, row: (nb.cond(
                row.sum() > limit, lambda: c, lambda: c + row.sum()), None), 0.0, x)
            return total
        for n in (3, 8):
            x = f32(n, 2)
            want = sum(float(r.sum()) for r in x if not r.sum() > 0.5)
            self.assertAlmostEqual(f(x, 0.5).item(), want, places=4)


class Exceptions(unittest.TestCase):
    def test_out_of_callbacks(self):
        class Mine(Exception):
            pass

        def raises(*_):
            raise Mine("here")
        f = nb.function(raises)
        x = nb.array(f32(3))
        kept = x + 1
        for attempt in (lambda: f(x), lambda: nb.cond(x.sum() > 0, raises, raises),
                        lambda: nb.while_loop(raises, raises, x),
                        lambda: nb.while_loop(lambda v: v.sum() > 0, raises, x),
                        lambda: nb.scan(raises, 0.0, x),
                        lambda: nb.function(lambda y: nb.cond(
                            y.sum() > 0, raises, raises))(x),
                        lambda: nb.function(lambda y: nb.call_function(f, y))(x)):
            with self.assertRaisesRegex(Mine, "here"):
                attempt()
            np.testing.assert_allclose((x * 2).numpy(), x.numpy() * 2)
        np.testing.assert_allclose(kept.numpy(), x.numpy() + 1)

    def test_an_error_that_is_caught_inside(self):
        @nb.function
        def f(x):
            try:
                return x @ x
            except nb.InvalidArgument:
                return x * 2
        np.testing.assert_allclose(f(np.ones((2, 3), np.float32)).numpy(), 2)

    def test_works_again_after_an_error(self):
        fails = [True]

        @nb.function
        def f(x):
            if fails[0]:
                return x @ x
            return x + 1
        a = np.ones((2, 3), np.float32)
        with self.assertRaisesRegex(nb.InvalidArgument, "test_functions.py"):
            f(a)
        fails[0] = False
        np.testing.assert_allclose(f(a).numpy(), 2)

    def test_reading_in_a_trace(self):
        @nb.function
        def f(x):
            return x + x.sum().item()
        with self.assertRaisesRegex(nb.Error, "trace"):
            f(f32(3))

    def test_escaped_arrays(self):
        box = []

        @nb.function
        def f(x):
            box.append(x)
            box.append(x * 2)
            return x + 1
        f(f32(3))
        for array in box:
            with self.assertRaises(nb.Error):
                array.numpy()
        box.clear()
        self.assertEqual(f(np.zeros(3, np.float32)).sum().item(), 3)


if __name__ == "__main__":
    unittest.main()
