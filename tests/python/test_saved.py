"""Functions in files."""
import errno
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from collections import namedtuple

import numpy as np

import nabla as nb

Pair = namedtuple("Pair", "first second")
random = np.random.default_rng(7)


def f32(*shape):
    return random.standard_normal(shape).astype(np.float32)


W = nb.array(f32(3, 4))


def body(x, scale=2.0, *, twice=False):
    y = nb.linear(x, W) * scale
    return {"y": y * 2 if twice else y, "sums": (y.sum(), [x]), "pair": Pair(y, None),
            "text": "kept"}


def loss(params, x):
    return ((nb.linear(x, params["w"]) + params["b"]) ** 2).sum()


# another process, which has no Python function
READ = """
import sys, numpy as np, nabla as nb
f = nb.load_function(sys.argv[1])
out = f(np.ones((2, 4), np.float32))
np.save(sys.argv[2], out["y"].numpy())
assert type(out["sums"]) is tuple and type(out["sums"][1]) is list, out
"""


class Saved(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "f.nabla")

    def tearDown(self):
        self.folder.cleanup()

    def test_results_have_their_structure(self):
        f, x = nb.function(body), f32(2, 4)
        want, doubled = f(x), f(x, 3.0, twice=True)
        f.save(self.path)
        loaded = nb.load_function(self.path)
        got = loaded(x)
        np.testing.assert_array_equal(got["y"].numpy(), want["y"].numpy())
        np.testing.assert_array_equal(got["sums"][1][0].numpy(), x)
        self.assertIsInstance(got["pair"], Pair)
        self.assertEqual((got["pair"].second, got["text"]), (None, "kept"))
        np.testing.assert_array_equal(loaded(x, scale=3.0, twice=True)["y"].numpy(),
                                      doubled["y"].numpy())
        self.assertEqual(loaded.statistics.misses, 0)
        self.assertIn("loaded", repr(loaded))
        with self.assertRaisesRegex(nb.InvalidArgument, "no signature"):
            loaded(f32(3, 4))
        with self.assertRaises(nb.Exists):
            f.save(self.path)
        loaded.save(self.path, force=True)  # what was loaded is saved again
        np.testing.assert_array_equal(nb.load_function(self.path)(x)["y"].numpy(),
                                      want["y"].numpy())

    def test_another_process(self):
        f = nb.function(body)
        want = f(np.ones((2, 4), np.float32))["y"].numpy()
        f.save(self.path)
        out = os.path.join(self.folder.name, "y.npy")
        with open(os.path.join(self.folder.name, "test_saved.py"), "w") as module:
            module.write("from collections import namedtuple\n"
                         "Pair = namedtuple('Pair', 'first second')\n")
        path = os.pathsep.join([self.folder.name] + [p for p in sys.path if p])
        subprocess.run([sys.executable, "-c", READ, self.path, out], check=True,
                       env=dict(os.environ, PYTHONPATH=path))
        np.testing.assert_array_equal(np.load(out), want)

    def test_named_dimensions(self):
        f = nb.function(lambda x: (x + 1, x.sum()), dims={"x": {0: "n"}})
        f(f32(3))
        f.save(self.path)
        loaded, x = nb.load_function(self.path), f32(7)
        np.testing.assert_array_equal(loaded(x)[0].numpy(), x + 1)

    def test_functions_of_loaded_ones(self):
        params, x = {"w": f32(3, 4), "b": f32(3)}, f32(5, 4)
        f = nb.function(loss)
        value = f(params, x).item()
        want = nb.grad(f)(params, x)
        f.save(self.path)
        loaded = nb.load_function(self.path)
        got = nb.grad(loaded)(params, x)
        for name in ("w", "b"):
            np.testing.assert_allclose(got[name].numpy(), want[name].numpy(), rtol=1e-6)
        both = nb.value_and_grad(loaded, wrt="params.b")(params, x)
        self.assertAlmostEqual(both[0].item(), value, places=3)
        results, gradient = nb.vjp(loaded, wrt="params.b")(
            params, x, cotangents=np.float32(2))
        np.testing.assert_allclose(gradient.numpy(), 2 * want["b"].numpy(), rtol=1e-5)
        _, tangent = nb.jvp(loaded, wrt="params.b")(
            params, x, tangents=np.float32([1, 0, 0]))
        self.assertAlmostEqual(tangent.item(), want["b"].numpy()[0].item(), places=3)
        batched = nb.vmap(loaded, {"params": None})(params, np.stack([x, 2 * x]))
        self.assertAlmostEqual(batched.numpy()[0].item(), value, places=3)
        outer = nb.function(lambda p, x: loaded(p, x) + nb.call_function(loaded, p, x))
        self.assertAlmostEqual(outer(params, x).item(), 2 * value, places=2)

    def test_results_without_tangents(self):
        f = nb.function(lambda x: {"a": x * x, "b": nb.argmax(x, 0), "c": [x > 0, x.sum()]})
        for lengths in ((3,), (3, 5)):  # one signature, and several
            for length in lengths:
                f(f32(length))
            f.save(self.path, force=True)
            loaded = nb.load_function(self.path)
            for length in lengths:
                x = f32(length)
                values, tangents = nb.jvp(loaded)(x, tangents=x)
                self.assertEqual(values["b"].item(), x.argmax())
                self.assertIsNone(tangents["b"])
                self.assertIsNone(tangents["c"][0])
                np.testing.assert_allclose(tangents["a"].numpy(), 2 * x * x, rtol=1e-6)
        g = nb.function(lambda x: x + x)  # of integers in one signature only
        g(f32(3)), g(np.arange(3))
        g.save(self.path, force=True)
        _, tangent = nb.jvp(nb.load_function(self.path))(x[:3], tangents=x[:3])
        np.testing.assert_allclose(tangent.numpy(), 2 * x[:3], rtol=1e-6)

    def test_failed_programs_leave_nothing(self):
        f = nb.function(lambda x: nb.linear(x, W))
        f(f32(2, 4))
        program, values = self.path + ".so", self.path + ".safetensors"
        link = os.path.join(self.folder.name, "link")
        os.symlink(self.folder.name, link)
        for same in (program, os.path.join(link, os.path.basename(program))):
            with self.assertRaisesRegex(nb.InvalidArgument, "names another file"):
                f.emit(program, captured=same, force=True)
        with self.assertRaises(nb.InvalidArgument):
            f.emit(program, captured=values, target="bogus-cpu")
        self.assertEqual(os.listdir(self.folder.name), ["link"])
        f.emit(program, captured=values)
        self.assertEqual(len(os.listdir(self.folder.name)), 3)

    def test_programs_are_written_whole_or_not_at_all(self):
        from nabla.saved import _write_file
        f = nb.function(lambda x: x + 1)
        f(f32(3))
        program = self.path + ".mlir"
        f.emit(os.fsencode(program))
        with open(program, "rb") as file:
            whole = file.read()
        with self.assertRaisesRegex(nb.Exists, "f.nabla.mlir exists"):  # made meanwhile
            _write_file(program, b"other", False)
        with unittest.mock.patch("os.link", side_effect=OSError(errno.EPERM, "no links")):
            with self.assertRaisesRegex(nb.Exists, "f.nabla.mlir exists"):
                _write_file(program, b"other", False)
            os.unlink(program)
            _write_file(program, whole, False)
        with self.assertRaises(TypeError):
            _write_file(program, "no bytes", True)
        os.mkdir(self.path + ".o")
        with self.assertRaisesRegex(nb.InputOutput, "f.nabla.o: cannot be written"):
            f.emit(self.path + ".o", force=True)
        with open(program, "rb") as file:
            self.assertEqual(file.read(), whole)
        self.assertEqual(len(os.listdir(self.folder.name)), 2)

    def test_derivatives_are_saved(self):
        params, x = {"w": f32(3, 4), "b": f32(3)}, f32(5, 4)
        step = nb.value_and_grad(loss)
        value, gradients = step(params, x)
        step.save(self.path)
        got = nb.load_function(self.path)(params, x)
        self.assertEqual(got[0].item(), value.item())
        np.testing.assert_array_equal(got[1]["w"].numpy(), gradients["w"].numpy())
        pull = nb.vjp(loss)
        _, want = pull(params, x, cotangents=np.float32(2))
        pull.save(self.path, force=True)
        _, back = nb.load_function(self.path)(params, x, cotangents=np.float32(2))
        np.testing.assert_array_equal(back["b"].numpy(), want["b"].numpy())

    def test_states(self):
        f = nb.function(lambda t, x: {"t": t + x, "y": (t + x) * 2}, states={"t": "t"})
        f.session(np.float32([1]), np.float32([2]))
        f.save(self.path)
        session = nb.load_function(self.path).session(np.float32([1]), np.float32([2]))
        session.run(np.float32([2]))
        self.assertEqual(session.run(np.float32([2])).tolist(), [10])

    def test_a_file_of_c(self):
        golden = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir,
                              "golden", "function-v1.nabla")
        if not os.path.exists(golden):
            self.skipTest("no golden files beside the tests")
        x = np.float32([.3, 1.3, 2.3])
        want = np.tanh(x + np.float32(.3)) * 3
        for results in (None, 0.0, [0.0]):
            out = nb.load_function(golden, results)(x)
            out = out[0] if isinstance(results, list) else out
            np.testing.assert_allclose(out.numpy(), want, rtol=1e-6)

    def test_numbers_are_in_the_program(self):
        program, x = self.path + ".so", f32(3)
        f = nb.function(lambda x: nb.tanh(x) * 0.5 + 1)
        want = f(x).numpy()
        f.emit(program)
        np.testing.assert_array_equal(nb.Program(program).run("main", x), want)
        b = f32(3)
        g = nb.function(lambda x: nb.tanh(x) * 0.5 + b - 3)
        want = g(x).numpy()
        g.emit(program, captured=self.path + ".safetensors", force=True)
        opened = nb.Program(program)
        self.assertEqual([p.name for p in opened.functions[0].arguments],
                         ["x", "captured:0"])
        with self.assertRaisesRegex(nb.InvalidArgument, "bind_model"):
            opened.run("main", x)
        self.assertEqual(opened.bind_model(nb.Model(self.path + ".safetensors")), 1)
        np.testing.assert_array_equal(opened.run("main", x), want)
        with self.assertRaisesRegex(nb.InvalidArgument, "its numbers are constants"):
            f.emit(program, captured=self.path + ".2.safetensors", force=True)

    def test_programs(self):
        w, b = nb.quantize_array(f32(4, 64), "nf4"), f32(4)
        f = nb.function(lambda params, x: {"y": nb.linear(x, w, params["b"]) * 2},
                        dims={"x": {0: "n"}})
        params, x = {"b": b}, f32(3, 64)
        want = f(params, x)["y"].numpy()
        program, values = self.path + ".so", self.path + ".safetensors"
        f.emit(program, captured=values, target="x86-64-v3")
        code = """
import sys
import numpy as np
import %s as nb
program = nb.Program(sys.argv[1])
program.bind_model(nb.Model(sys.argv[2]))
b, x = [np.frombuffer(bytes.fromhex(text), np.float32) for text in sys.argv[3:]]
print(program.run("main", b, x.reshape(3, 64)).tobytes().hex())
"""
        for module in ("nabla", "nabla_runtime"):
            done = subprocess.run(
                [sys.executable, "-c", code % module, program, values, b.tobytes().hex(),
                 x.tobytes().hex()], stdout=subprocess.PIPE, env=dict(
                     os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
            self.assertEqual(done.returncode, 0)
            got = np.frombuffer(bytes.fromhex(done.stdout.decode()), np.float32)
            np.testing.assert_allclose(got.reshape(3, 4), want, rtol=1e-5, atol=1e-5)
        with self.assertRaises(nb.Exists):
            f.emit(program)
        with self.assertRaises(nb.Exists):
            f.emit(program, captured=values, target="x86-64-v2")
        with self.assertRaisesRegex(nb.InvalidArgument, "ends in none"):
            f.emit(self.path + ".exe")
        with self.assertRaisesRegex(nb.InvalidArgument, "no option speed"):
            f.emit(self.path + ".o", speed="high")
        self.assertEqual(sorted(os.listdir(os.path.dirname(program))),
                         sorted(map(os.path.basename, (program, values))))

    def test_signatures_of_programs(self):
        runs = []

        def body(x):
            runs.append(x.shape)
            return x, (x * x).sum()
        f = nb.function(body)
        path = self.path + ".mlir"
        with self.assertRaisesRegex(nb.InvalidArgument, "no signature yet"):
            f.emit(path)
        f.emit(path, (f32(5),))
        with open(path) as text:
            self.assertIn("llvm.func", text.read())
        f(f32(5)), f(x=f32(6))
        self.assertEqual(runs, [(5,), (6,)])
        with self.assertRaisesRegex(nb.InvalidArgument, "several signatures"):
            f.emit(path, force=True)
        f.emit(path, kwargs={"x": f32(6)}, force=True)
        g = nb.value_and_grad(lambda x: (x * x).sum())
        g.emit(self.path + ".so", (f32(3),))
        value, gradient = nb.Program(self.path + ".so").run("main", np.float32([1, 2, 3]))
        self.assertEqual(value, 14)
        self.assertEqual(gradient.tolist(), [2, 4, 6])

    def test_files_without_a_structure_give_all_results_in_order(self):
        from nabla._library import LIB, call, to_path
        from nabla.trees import flatten, unflatten

        class AsInC(nb.Function):  # arguments are a list
            def _given(self, args, kwargs):
                return flatten(list(args))

            def _number(self, structure):
                return -1

            def _run_body(self, structure, leaves):
                return self._body(*unflatten(structure, leaves))

        def save_as_c(f):  # without a note
            call(LIB.nabla_function_save, f._started().value, to_path(self.path), 1)

        f = AsInC(lambda x: {"b": x + 1, "a": [x * 2, x.sum()]})
        x = f32(3)
        f(x), f(f32(2, 2))
        save_as_c(f)
        with open(self.path, "rb") as saved:
            self.assertEqual(saved.read(12)[8:], b"\1\0\0\0")
        loaded = nb.load_function(self.path)
        for _ in range(2):
            out = loaded(x)
            self.assertIsInstance(out, tuple)
            for got, want in zip(out, (x * 2, x.sum(), x + 1)):
                np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
        (doubled, _, _), tangents = nb.jvp(loaded, "0")(x, tangents=x)
        np.testing.assert_array_equal(tangents[0].numpy(), doubled.numpy())
        renamed = nb.load_function(self.path, {"y": 0.0, "z": (0.0, 0.0)})(x)
        np.testing.assert_array_equal(renamed["z"][1].numpy(), x + 1)
        w = nb.quantize_array(f32(4, 64), "nf4")  # version 2
        g = AsInC(lambda x: (nb.linear(x, w), x))
        g(f32(2, 64))
        save_as_c(g)
        self.assertEqual(len(nb.load_function(self.path)(f32(2, 64))), 2)
        f = AsInC(lambda x: (x, x * x) if len(x.shape) > 1 else x * x)
        f(x), f(f32(2, 2))
        save_as_c(f)
        with self.assertRaisesRegex(nb.InvalidArgument, "1 and 2 results"):
            nb.load_function(self.path)
        self.assertEqual(nb.load_function(self.path, (0.0, 0.0))(f32(2, 2))[1].shape,
                         (2, 2))

    def test_what_cannot_be_saved(self):
        f = nb.function(lambda x: x + 1)
        with self.assertRaisesRegex(nb.InvalidArgument, "no signature"):
            f.save(self.path)

        class Local:
            pass

        f = nb.function(lambda x, how: x + 1, static=["how"])
        f(f32(2), Local)
        with self.assertRaisesRegex(nb.Unsupported, "cannot keep the value"):
            f.save(self.path)
        with self.assertRaises(nb.InputOutput):
            nb.load_function(self.path)


if __name__ == "__main__":
    unittest.main()
