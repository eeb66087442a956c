"""Models, weights, products, files and saved programs, of the package that
NABLA_PYTHON_PACKAGE names, against NumPy."""
import importlib
import os
import struct
import tempfile
import threading
import unittest

import numpy as np

nr = importlib.import_module(os.environ.get("NABLA_PYTHON_PACKAGE", "nabla_runtime"))
random = np.random.default_rng(7)


def write_safetensors(path, tensors):
    """A file by the format's description, of f32 arrays."""
    rows, data = [], b""
    for name, value in tensors.items():
        begin = len(data)
        data += value.astype("<f4").tobytes()
        rows.append('"%s":{"dtype":"F32","shape":%s,"data_offsets":[%d,%d]}' % (
            name, list(value.shape), begin, len(data)))
    head = ("{" + ",".join(rows) + "}").encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head + data)


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.tensors = {"a.weight": random.standard_normal((96, 128), np.float32),
                        "b.weight": random.standard_normal((64, 256), np.float32),
                        "norm": random.standard_normal(64).astype(np.float32)}
        self.path = self.at("model.safetensors")
        write_safetensors(self.path, self.tensors)

    def at(self, name):
        return os.path.join(self.folder.name, name)

    def test_tensors(self):
        with nr.Model(self.path) as model:
            self.assertEqual(sorted(model), sorted(self.tensors))
            self.assertIn("norm", model)
            self.assertNotIn("nothing", model)
            for tensor in model.tensors():
                self.assertEqual(tensor.shape, self.tensors[tensor.name].shape)
                self.assertEqual((tensor.dtype, tensor.format), ("f32", None))
            np.testing.assert_array_equal(model["a.weight"].numpy(),
                                          self.tensors["a.weight"])
            np.testing.assert_array_equal(model["b.weight"].rows(3, 2),
                                          self.tensors["b.weight"][3:5])
        weight = model.closed and None
        self.assertIsNone(weight)

    def test_quantize_and_back(self):
        out = self.at("small.safetensors")
        moments = []
        done = nr.quantize_file(self.path, out, "nf4", skip=["^b"], threads=2,
                                progress=lambda part, name: moments.append(part))
        self.assertEqual(done.changed, 1)
        self.assertTrue(moments)
        with nr.Model(out) as model:
            packed = model["a.weight"]
            self.assertEqual((packed.format.encoding, packed.format.block), ("nf4", 64))
            self.assertIsNone(model["b.weight"].format)
            values = packed.numpy()
            parts = packed.components
        want = self.tensors["a.weight"]
        error = np.sqrt(((values - want) ** 2).sum() / (want ** 2).sum())
        self.assertTrue(.01 < error < .1, error)
        # a view of the model's memory outlives model and weight
        scales = parts["scales"]
        del packed, parts, model
        np.testing.assert_allclose(scales, abs(want.reshape(-1, 64)).max(1), rtol=1e-6)
        nr.dequantize_file(out, self.at("back.safetensors"))
        np.testing.assert_array_equal(
            nr.Model(self.at("back.safetensors"))["a.weight"].numpy(), values)
        compared = nr.compare_files(self.path, out)
        self.assertAlmostEqual(compared["a.weight"].rel_rmse, error, places=6)
        self.assertEqual(compared["norm"].max_abs, 0)
        self.assertEqual(nr.verify_file(out), [])
        rows = {row.name: row for row in nr.plan_file(
            self.path, "int8", rules=[nr.Rule("a", "nf4", 32)])}
        self.assertEqual(rows["a.weight"].format.block, 32)
        self.assertEqual(rows["b.weight"].format.encoding, "int8")

    def test_progress_stops(self):
        def stop(part, name):
            raise KeyError("enough")
        with self.assertRaises(KeyError):
            nr.quantize_file(self.path, self.at("s.safetensors"), "nf4", progress=stop)
        with self.assertRaises(nr.Cancelled):
            nr.quantize_file(self.path, self.at("s.safetensors"), "nf4",
                             progress=lambda part, name: True)
        self.assertFalse(os.path.exists(self.at("s.safetensors")))

    def test_modes(self):
        for mode in ("map", "guarded", "copy"):
            model = nr.Model(self.path, mode)
            weight = model["a.weight"]
            model.close()
            np.testing.assert_array_equal(weight.numpy(), self.tensors["a.weight"])


class Products(unittest.TestCase):
    def test_against_numpy(self):
        values = random.standard_normal((96, 128), np.float32)
        bias = random.standard_normal(96).astype(np.float32)
        for how in (("nf4",), ("int8", "row"), ("int4", 32), ("mxfp4",), ("fp8", 64),
                    ("q4_0",), ("q8_0",),
                    ("ggml<mxfp4>",)):
            weight = nr.quantize_array(values, *how)
            plan = nr.MatmulPlan(weight, bias)
            for shape in ((128,), (1, 128), (5, 128), (2, 3, 128), (0, 128)):
                x = random.standard_normal(shape).astype(np.float32)
                want = x.astype(np.float64) @ weight.numpy().T.astype(np.float64) + bias
                np.testing.assert_allclose(plan(x), want, rtol=2e-5, atol=2e-4)
            self.assertEqual(plan.info.shape, (96, 128))

    def test_options(self):
        weight = nr.quantize_array(random.standard_normal((64, 128)), "nf4")
        x = random.standard_normal((7, 128)).astype(np.float32)
        want = x @ weight.numpy().T
        with nr.Pool(2) as pool:
            plan = nr.MatmulPlan(weight, prepacked=True, threads=pool)
        np.testing.assert_allclose(plan(x), want, rtol=1e-4, atol=1e-4)
        out = np.empty((7, 64), np.float32)
        self.assertIs(plan(x, out), out)
        np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)
        half = nr.MatmulPlan(weight, dtype=np.float16, out_dtype=np.float32)
        np.testing.assert_allclose(half(x.astype(np.float16)), want, rtol=.02, atol=.05)
        rough = nr.MatmulPlan(weight, numerics="int8")
        self.assertLess(abs(rough(x) - want).max(), 1)
        dense = nr.MatmulPlan(nr.dense_weight(weight.numpy()))
        np.testing.assert_allclose(dense(x), want, rtol=1e-4, atol=1e-4)

    def test_weights_of_convolutions(self):
        weight = nr.quantize_array(random.standard_normal((16, 8, 4)), "nf4")
        x = random.standard_normal(32).astype(np.float32)
        with self.assertRaisesRegex(nr.InvalidArgument, "matrix()"):
            nr.MatmulPlan(weight)
        want = weight.numpy().reshape(16, 32) @ x
        np.testing.assert_allclose(nr.MatmulPlan(weight.matrix())(x), want, rtol=1e-4,
                                   atol=1e-4)

    def test_strided_operands(self):
        weight = nr.quantize_array(random.standard_normal((64, 128)), "nf4")
        x = random.standard_normal((128, 4)).astype(np.float32).T
        np.testing.assert_allclose(nr.MatmulPlan(weight)(x), x @ weight.numpy().T,
                                   rtol=1e-4, atol=1e-4)

    def test_threads(self):
        plan = nr.MatmulPlan(nr.quantize_array(random.standard_normal((64, 128)), "nf4"))
        x = random.standard_normal((3, 128)).astype(np.float32)
        want, wrong = plan(x), []

        def run():
            for _ in range(200):
                if not np.array_equal(plan(x), want):
                    wrong.append(1)
        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_names_that_are_an_encoding_and_a_format_of_blocks(self):
        values = random.standard_normal((8, 64), np.float32)
        ours, blocks = (nr.quantize_array(values, name) for name in
                        ("mxfp4", "ggml<mxfp4>"))
        self.assertEqual(ours.format, ("mxfp4", "block", 32, "e8m0", False))
        self.assertEqual(sorted(ours.components), ["codes", "scales"])
        self.assertEqual(blocks.format, ("ggml<mxfp4>", "block", 32, "e8m0", False))
        self.assertEqual(blocks.nbytes, 8 * 2 * 17)
        np.testing.assert_array_equal(ours.numpy(), blocks.numpy())
        for name in nr.encodings():  # each is what it is called
            try:
                made = nr.quantize_array(values, name)
            except nr.Error as error:
                self.assertRegex(str(error), "decoded only|multiple|256")
                continue
            self.assertEqual(made.format.encoding, name)
        same = nr.quantize_array(values, "ggml<q4_0>")
        self.assertEqual(same.format.encoding, "q4_0")
        for name in ("ggml<nf4>", "ggml<>", "ggml<q4_0", "q4_0>"):
            with self.assertRaisesRegex(nr.InvalidArgument, "there is no encoding"):
                nr.quantize_array(values, name)
        for more in ({"block": 32}, {"scale": "f16"}, {"zero_point": True}):
            with self.assertRaisesRegex(nr.InvalidArgument, "of its own"):
                nr.quantize_array(values, "q4_0", **more)
        with self.assertRaisesRegex(nr.InvalidArgument, "without a search"):
            nr.quantize_array(values, "q4_0", search=True)

    def test_formats(self):
        self.assertIn("nf4", nr.encodings())
        self.assertEqual(nr.encodings()["nf4"].bits, 4)
        values = random.standard_normal((32, 64), np.float32)
        for how in ({"encoding": "int8", "zero_point": True},
                    {"encoding": "int4", "scale": "f16", "search": True},
                    {"encoding": "fp8", "block": "tensor"}):
            weight = nr.quantize_array(values, **how)
            self.assertEqual(weight.format.encoding, how["encoding"])
            self.assertLess(abs(weight.numpy() - values).max(), .5)
            self.assertEqual(weight.nbytes, sum(c.nbytes for c in
                                                weight.components.values()))


@unittest.skipUnless(os.environ.get("NABLA_TEST_PROGRAM"), "no saved program")
class Programs(unittest.TestCase):
    def setUp(self):
        self.program = nr.Program(os.environ["NABLA_TEST_PROGRAM"])

    def test_run(self):
        names = [f.name for f in self.program.functions]
        self.assertEqual(names, ["product", "count"])
        self.assertEqual([p.name for p in self.program.functions[0].arguments],
                         ["x", "w"])
        self.assertEqual(self.program.functions[0].arguments[1].format.encoding, "nf4")
        weight = nr.quantize_array(random.standard_normal((64, 128)), "nf4")
        x = random.standard_normal((3, 128)).astype(np.float32)
        want = x @ weight.numpy().T
        session = nr.Program(os.environ["NABLA_TEST_PROGRAM"]).session()
        np.testing.assert_allclose(session.run("product", x, weight), want, rtol=1e-4,
                                   atol=1e-4)
        self.program.bind("w", weight)
        y = self.program.run("product", x)
        self.program.close()  # the result is the caller's
        np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4)

    def test_weights_are_bound_after_a_refused_run(self):
        weight = nr.quantize_array(random.standard_normal((64, 128)), "nf4")
        x, kept = np.ones((1, 128), np.float32), []
        for _ in range(2):
            try:
                self.program.run("product", x)
            except nr.InvalidArgument as error:
                kept.append(error)  # as an interactive Python keeps the last one
        self.assertRegex(str(kept[1]), r"takes 2 inputs \(x, w\); 1 were given; .*bind_m")
        self.program.bind("w", weight)
        self.program.run("product", x)
        with self.assertRaisesRegex(nr.InvalidArgument, "nothing can be bound"):
            self.program.bind("w", weight)
        with self.assertRaises(nr.InvalidArgument) as too_many:
            self.program.run("product", x, x)
        self.assertNotIn("bind", str(too_many.exception))

    def test_states(self):
        first, second = self.program.session(), self.program.session()
        self.program.close()
        one = np.ones(4, np.float32)
        for i in range(3):
            total = first.run("count", one)
        np.testing.assert_array_equal(total, 6 * one)
        self.assertEqual(list(first.states), ["total"])
        np.testing.assert_array_equal(first.states["total"], 3 * one)
        np.testing.assert_array_equal(second.states["total"], 0 * one)
        second.copy_from(first)
        first.states.zero()
        first.states["total"] = one * 5
        np.testing.assert_array_equal(first.run("count", one), 12 * one)
        np.testing.assert_array_equal(second.run("count", one), 8 * one)
        with self.assertRaises(nr.InvalidArgument):
            first.run("count", np.ones(5, np.float32))
        with self.assertRaises(nr.InvalidArgument):
            first.run("nothing")


if __name__ == "__main__":
    unittest.main()
