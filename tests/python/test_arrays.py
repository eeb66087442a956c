"""Lazy arrays against NumPy."""
import gc
import os
import tempfile
import threading
import unittest

import numpy as np

import nabla as nb

random = np.random.default_rng(3)


def f32(*shape):
    return random.standard_normal(shape).astype(np.float32)


class Operations(unittest.TestCase):
    def close(self, got, want, **how):
        got = got.numpy() if isinstance(got, nb.Array) else got
        self.assertEqual(got.shape, np.shape(want))
        np.testing.assert_allclose(got, want, **{"rtol": 1e-5, "atol": 1e-5, **how})

    def test_operators(self):
        a, b = f32(3, 4), f32(4)
        x, y = nb.array(a), nb.array(b)
        self.close(x + y, a + b)
        self.close(2 - x * 3, 2 - a * 3)
        self.close(a / (1 + abs(y)), a / (1 + abs(b)))  # NumPy's operator gives way
        self.close((x @ x.T) ** 2, (a @ a.T) ** 2)
        self.assertEqual((x > y).dtype, "bool")
        self.close((x > 0) & (x < 1), (a > 0) & (a < 1))
        self.close(~(x == x), a != a)
        i = np.array([-7, 7, 5, -4], np.int32)
        self.close(nb.array(i) // 2, i // 2)
        self.close(7 // nb.array(np.array([2., -2.], np.float32)), [3, -4])

    def test_reductions_and_shapes(self):
        a = f32(2, 3, 4)
        x = nb.array(a)
        self.close(x.sum(), a.sum())
        self.close(nb.mean(x, [0, -1], keep_dims=True), a.mean((0, 2), keepdims=True))
        self.close(x.max(1), a.max(1))
        self.assertEqual(x.argmax(-1).tolist(), a.argmax(-1).tolist())
        self.close(x.reshape([6, -1]).transpose(), a.reshape(6, 4).T)
        self.close(nb.concatenate([x, x], 1), np.concatenate([a, a], 1))
        self.close(nb.stack([x, 2 * x]), np.stack([a, 2 * a]))
        parts = nb.split(x, [1, 2], dim=1)
        self.close(parts[1], a[:, 1:])
        self.close(nb.unbind(x)[1], a[1])
        low, high = nb.minmax(x, 0)
        self.close(high - low, a.max(0) - a.min(0))
        self.close(nb.pad(x, 0.0, [0, 1, 0], [0, 0, 2]),
                   np.pad(a, [(0, 0), (1, 0), (0, 2)]))
        self.close(nb.moveaxis(x, 0, 2), np.moveaxis(a, 0, 2))
        self.close(nb.where(x > 0, x, 0.0), np.maximum(a, 0))
        self.close(nb.arange(2, 8, 2, dtype="i32"), np.arange(2, 8, 2))
        self.close(nb.eye(3), np.eye(3))

    def test_structures_of_options(self):
        a, k = f32(1, 2, 5, 5), f32(3, 2, 3, 3)
        want = np.zeros((1, 3, 3, 3), np.float32)
        for i in range(3):
            for j in range(3):
                want[0, :, i, j] = (a[0, :, i:i + 3, j:j + 3] * k).sum((1, 2, 3))
        self.close(nb.conv_general(a, k, input_dims=[0, 1, 2, 3],
                                   kernel_dims=[0, 1, 2, 3],
                                   output_dims=[0, 1, 2, 3]), want, rtol=1e-4,
                   atol=1e-4)
        self.close(nb.dot_general(a, a, x_batching=[1], y_batching=[1],
                                  x_contracting=[0, 2, 3], y_contracting=[0, 2, 3]),
                   (a * a).sum((0, 2, 3)), rtol=1e-4)
        self.close(nb.max_pool(a, [2, 2]), a[:, :, :4, :4].reshape(
            1, 2, 2, 2, 2, 2).max((3, 5)))
        self.close(nb.reduce_window(a, "sum", sizes=[1, 1, 5, 5]),
                   a.sum((2, 3), keepdims=True), rtol=1e-4)
        self.close(nb.array(a).at(3, [0, -1], 7.0, "set")[0, 0, 0],
                   [7] + list(a[0, 0, 0, 1:4]) + [7])

    def test_indices(self):
        a = f32(4, 5, 6)
        x = nb.array(a)
        for key in (1, -1, (slice(None), 2), (slice(1, -1), slice(None, None, 2)),
                    (Ellipsis, -1), (None, 0, Ellipsis, None), slice(None, None, -1),
                    (slice(3, 0, -2), 1), np.array([2, 0, -1]), (0, np.array([1, 1])),
                    (slice(1, 3), np.array([[0, 1], [2, 3]])), slice(2, 2)):
            self.close(x[key], a[key])
        self.assertEqual(len(x), 4)
        self.close(list(x)[3], a[3])

    def test_dtypes(self):
        for dtype in ("bool", "uint8", "int8", "int32", "int64", "float16", "float32",
                      "float64"):
            a = (np.arange(6).reshape(2, 3) % 2 if dtype == "bool" else
                 np.arange(6).reshape(2, 3)).astype(dtype)
            x = nb.array(a)
            self.assertEqual(x.numpy().dtype, a.dtype)
            np.testing.assert_array_equal(x.transpose().numpy(), a.T)
        self.assertEqual((nb.array(np.float16(1)) + 1.5).dtype, "f16")
        self.assertEqual((nb.array(np.int8(1)) + 1).dtype, "i8")
        self.assertEqual((nb.array(np.int8(1)) + 0.5).dtype, "f32")
        self.assertEqual(nb.array([1.0, 2.0]).dtype, "f32")
        self.assertEqual(nb.array([1, 2]).dtype, "i32")
        self.assertEqual(nb.array(3, np.float64).dtype, "f64")
        self.assertEqual(nb.array(a).astype("bf16").astype("f32").tolist(), a.tolist())
        self.assertIs(nb.array(True).item(), True)
        self.assertEqual(nb.zeros(()).shape, ())
        self.assertEqual(nb.zeros([0, 3]).sum().item(), 0)

    def test_a_number_compiles_nothing(self):
        x = nb.array(f32(7, 3))
        (x * 0.1).realize()
        before = nb.statistics().misses
        for rate in (0.2, 0.3, 4.5):
            self.close(x * rate, x.numpy() * np.float32(rate))
        self.assertEqual(nb.statistics().misses, before)

    def test_held_arrays_are_realized_together(self):
        x = nb.array(f32(5, 3))
        y = x * 2
        z = (y + 1).realize()
        self.assertNotIn("pending", repr(y))
        del y, z

    @unittest.skipUnless(os.path.exists("/proc/self/statm"), "no /proc")
    def test_constant_memory(self):
        x = nb.array(f32(256, 256))
        w = nb.array(f32(256, 256))

        def resident():
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * 4096
        for step in range(400):
            w = w - 0.001 * (x @ w)
            w.realize()
            if step == 100:
                before = resident()
        self.assertLess(resident() - before, 8 << 20)

    def test_operands_that_come_back(self):
        x = nb.array(f32(3, 4)).realize()
        want = x.numpy().copy()
        for same in (lambda: x.convert("f32"), lambda: x.reshape([3, 4]),
                     lambda: x.materialize(), lambda: nb.broadcast_to(x, [3, 4]),
                     lambda: nb.split(x, [3])[0], lambda: nb.squeeze(x),
                     lambda: nb.transpose(x, [0, 1]), lambda: +x):
            for _ in range(3):
                y = same()
                np.testing.assert_array_equal(y.numpy(), want)
                del y
        np.testing.assert_array_equal((x + 0.0).numpy(), want)

    @unittest.skipUnless(os.path.exists("/proc/self/statm"), "no /proc")
    def test_what_is_dropped_is_freed(self):
        x = nb.array(f32(64, 64)).realize()
        for attempt in (lambda: x + 1.0, lambda: nb.cond(x.sum() > 0, lambda: x + 1.0,
                                                         lambda: x * 2.0),
                        lambda: nb.arange(0, 9), lambda: nb.scan(
                            lambda c, r: (c + r.sum(), None), 0.0, x)):
            sizes = []
            for _ in range(2):
                for _ in range(800):
                    attempt()
                with open("/proc/self/statm", encoding="ascii") as file:
                    sizes.append(int(file.read().split()[1]) * 4096)
            self.assertLess(sizes[1] - sizes[0], 250000)

    def test_eager(self):
        x = nb.array(f32(3))
        nb.eager()
        try:
            y = x + 1
            self.assertNotIn("pending", repr(y))
        finally:
            nb.eager(False)
        self.assertIn("pending", repr(x + 2))


class Packed(unittest.TestCase):
    def test_quantize(self):
        a = f32(64, 128)
        packed = nb.quantize(a, "nf4")
        self.assertTrue(packed.is_packed)
        self.assertEqual((packed.shape, packed.dtype), ((64, 128), "f32"))
        self.assertEqual(packed.format.encoding, "nf4")
        want = nb.quantize_array(a, "nf4")
        np.testing.assert_array_equal(packed.materialize().numpy(), want.numpy())
        for name, part in packed.weight().components.items():
            np.testing.assert_array_equal(part.view(np.uint8).ravel(),
                                          want.components[name].view(np.uint8).ravel())
        x = f32(3, 128)
        np.testing.assert_allclose(nb.linear(x, packed).numpy(), x @ want.numpy().T,
                                   rtol=1e-4, atol=1e-4)
        codes, scales = nb.unpack(packed, 2)
        again = nb.pack([codes, scales], "nf4", shape=[64, 128])
        np.testing.assert_array_equal(again.materialize().numpy(), want.numpy())
        self.assertEqual(nb.implicit_depth(packed).item(), 1)

    def test_quantize_names_the_same_as_quantize_array(self):
        a, x = f32(64, 128), f32(3, 128)
        for name in ("nf4", "mxfp4", "mxfp8", "int8", "ternary"):
            packed, want = nb.quantize(a, name), nb.quantize_array(a, name)
            self.assertEqual(packed.format, want.format)
            for part, values in packed.weight().components.items():
                np.testing.assert_array_equal(values, want.components[part])
            np.testing.assert_allclose(nb.linear(x, packed).numpy(), x @ want.numpy().T,
                                       rtol=1e-4, atol=1e-3)
        blocks = nb.quantize_array(a, "ggml<mxfp4>")
        np.testing.assert_allclose(nb.linear(x, blocks).numpy(), x @ blocks.numpy().T,
                                   rtol=1e-4, atol=1e-3)
        for name in ("q4_0", "ggml<mxfp4>"):
            with self.assertRaisesRegex(nb.InvalidArgument, "in Python quantize_array"):
                nb.quantize(a, name)

    def test_weights_live_as_long_as_needed(self):
        x = f32(2, 128)
        weight = nb.quantize_array(f32(64, 128), "nf4")
        want = x @ weight.numpy().T
        pending = nb.linear(x, nb.array(weight)) + 0.0
        del weight
        gc.collect()
        junk = [np.full(5000, 255, np.uint8) for _ in range(200)]
        np.testing.assert_allclose(pending.numpy(), want, rtol=1e-4, atol=1e-4)
        del junk

    def test_files(self):
        tree = {"layers": [{"w": nb.quantize(f32(64, 64), "nf4"), "b": nb.zeros(64)}],
                "scale": nb.array(f32(3))}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tree.safetensors")
            nb.save(tree, path)
            self.assertEqual(sorted(nb.Model(path)),
                             ["layers.0.b", "layers.0.w", "scale"])
            with self.assertRaises(nb.Exists):
                nb.save(tree, path)
            back = nb.load(path, tree)
            for old, new in zip(nb.leaves_of(tree), nb.leaves_of(back)):
                np.testing.assert_array_equal(old.numpy(), new.numpy())
            self.assertTrue(back["layers"][0]["w"].is_packed)
            flat = nb.load_dict(path)
        y = nb.linear(np.ones((1, 64), np.float32), flat["layers.0.w"]).numpy()
        np.testing.assert_allclose(
            y[0], tree["layers"][0]["w"].numpy().sum(1), rtol=1e-4, atol=1e-4)


class Threads(unittest.TestCase):
    def test_each_thread_has_a_scope(self):
        wrong, kept = [], []
        shared = nb.array(f32(8, 8)).realize()
        want = shared.numpy() @ shared.numpy()

        def run(seed):
            for _ in range(20):
                y = (shared @ shared) + float(seed)
                if abs(y.numpy() - want - seed).max() > 1e-3:
                    wrong.append(seed)
                kept.append(y)
        threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertEqual(len({a.numpy()[0, 0].tobytes() for a in kept}), 4)
        kept.clear()

    def test_arrays_that_other_threads_drop(self):
        boxes = [[nb.array(f32(64)) * 2] for _ in range(100)]

        def drop():
            for box in boxes:
                box.clear()
        thread = threading.Thread(target=drop)
        thread.start()
        thread.join()
        self.assertEqual((nb.array([1.0]) + 1).item(), 2)

    def test_a_pending_array_of_another_thread(self):
        box = []
        thread = threading.Thread(target=lambda: box.append(nb.zeros(3) + 1))
        thread.start()
        thread.join()
        with self.assertRaises(nb.Error):
            (box[0] + 1).numpy()
        self.assertEqual((nb.zeros(2) + 1).sum().item(), 2)


if __name__ == "__main__":
    unittest.main()
