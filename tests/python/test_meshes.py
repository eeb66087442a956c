"""Arrays on meshes of threads: partitions, pieces, functions, shard_map."""
import os
import tempfile
import unittest

import numpy as np

import nabla as nb

random = np.random.default_rng(7)


def small(*shape):
    """Small integers, whose sums are exact in any order."""
    return random.integers(-5, 6, shape).astype(np.float32)


class Partitions(unittest.TestCase):
    def test_shapes_and_texts(self):
        mesh = nb.Mesh("x=2,y=4,data=3")
        spec = nb.PartitionSpec(mesh, "data", None, ("x", "y"))
        self.assertEqual(mesh.size, 24)
        same = nb.Mesh({"x": 2, "y": np.int64(4), "data": 3})
        self.assertEqual((same.size, same.axes), (24, mesh.axes))
        self.assertEqual(nb.PartitionSpec(same, "x,y").text(),
                         nb.PartitionSpec(mesh, ["x", "y"]).text())
        self.assertEqual(spec.text(), '#nabla.sharding<@mesh.x.2.y.4.data.3, '
                         '[{"data"}, {}, {"x", "y"}]>')
        self.assertEqual(spec.shards, 24)
        self.assertEqual(spec.local_shape((7, 5, 16)), (3, 5, 2))
        self.assertEqual(spec.global_shape((3, 5, 2)), (9, 5, 16))
        self.assertFalse(spec.needs_reshard(nb.PartitionSpec(mesh, "data", None, "x,y")))
        self.assertTrue(spec.needs_reshard(nb.PartitionSpec(mesh, None, "data", "x,y")))
        self.assertEqual(nb.PartitionSpec(mesh).local_shape(()), ())

    def test_refused(self):
        for axes in "", "x", "x=0", "x=2,x=2":
            with self.assertRaises(nb.InvalidArgument):
                nb.Mesh(axes)
        with self.assertRaises(nb.TooLarge):
            nb.Mesh("x=65")
        mesh = nb.Mesh("x=2")
        with self.assertRaisesRegex(nb.InvalidArgument, 'no axis "z"'):
            nb.PartitionSpec(mesh, "z")
        with self.assertRaisesRegex(nb.InvalidArgument, "used twice"):
            nb.PartitionSpec(mesh, "x", "x")
        with self.assertRaisesRegex(nb.InvalidArgument, "2 sizes"):
            nb.PartitionSpec(mesh, "x").local_shape((1, 2))
        with self.assertRaisesRegex(nb.InvalidArgument, "partition of 1 dimensions, the array has 2"):
            nb.shard(small(2, 2), nb.PartitionSpec(mesh, "x"))
        with self.assertRaisesRegex(nb.InvalidArgument, "in a callback of"):
            nb.all_reduce(small(2), "sum", "x")
        with self.assertRaisesRegex(nb.InvalidArgument, "a kind is one of"):
            nb.all_reduce(small(2), "mean", "x")
        with self.assertRaisesRegex(nb.InvalidArgument, "no device 2"):
            nb.read_local(nb.shard(nb.exp(small(4)), nb.PartitionSpec(mesh, "x")), 2)


class Arrays(unittest.TestCase):
    def test_products(self):
        mesh = nb.Mesh("x=2,y=2")
        x, w = small(6, 8), small(8, 4)
        a = nb.shard(x, nb.PartitionSpec(mesh, "x", "y"))
        b = nb.shard(w, nb.PartitionSpec(mesh, "y", None))
        np.testing.assert_array_equal((a @ b).numpy(), x @ w)
        rows = nb.PartitionSpec(mesh, None, ("x", "y"))
        np.testing.assert_array_equal(nb.reshard(a @ b, rows).numpy(), x @ w)
        np.testing.assert_array_equal(
            nb.sharding_constraint(a @ b, rows).sum(0).numpy(), (x @ w).sum(0))

    def test_pieces(self):
        mesh = nb.Mesh("x=2,y=2")
        x = small(4, 6)
        y = nb.shard(nb.array(x) * 2, nb.PartitionSpec(mesh, "y", "x")).realize()
        for device in range(4):
            piece, start = nb.read_local(y, device)
            self.assertEqual(start, (2 * (device % 2), 3 * (device // 2)))
            np.testing.assert_array_equal(
                piece, 2 * x[start[0]:start[0] + 2, start[1]:start[1] + 3])
        np.testing.assert_array_equal(y.numpy(), 2 * x)
        np.testing.assert_array_equal((y + 1).numpy(), 2 * x + 1)
        whole, start = nb.read_local(nb.array(x), 0)
        self.assertEqual(start, (0, 0))
        np.testing.assert_array_equal(whole, x)

    def test_functions_and_gradients(self):
        mesh = nb.Mesh("model=4")
        columns = nb.PartitionSpec(mesh, None, "model")

        @nb.function
        def loss(x, w):
            return nb.sharding_constraint(x @ w, columns).sum()

        x, w = small(3, 8), small(8, 4)
        self.assertEqual(loss(x, w).item(), (x @ w).sum())
        np.testing.assert_array_equal(
            nb.grad(loss, "w")(x, w).numpy(), np.repeat(x.sum(0)[:, None], 4, 1))


class Diagnosed(unittest.TestCase):
    """What only the compiler finds is in the exception, with the line of the program."""

    def test_packed_rows_that_are_cut_within_blocks(self):
        mesh = nb.Mesh("data=2,model=2")
        packed = nb.quantize_array(small(64, 128), "nf4")
        y = nb.linear(small(3, 128), nb.shard(
            packed, nb.PartitionSpec(mesh, None, "data,model")))
        with self.assertRaisesRegex(
                nb.InvalidArgument, r"test_meshes.py:\d+: the program cannot be compiled: "
                "sharding: pieces of rows of 128 are no whole blocks of 64"):
            y.numpy()
        x = small(3, 128)
        y = nb.linear(x, nb.shard(packed, nb.PartitionSpec(mesh, None, "model")))
        np.testing.assert_allclose(y.numpy(), x @ packed.numpy().T, rtol=1e-4, atol=1e-3)

    def test_products_with_transposes_of_packed_weights(self):
        mesh = nb.Mesh("model=2")
        packed, x = nb.quantize_array(small(64, 128), "nf4"), small(3, 128)
        want = x @ packed.numpy().T
        for spec, piece in ((("model", None), (3, 32)), ((None, "model"), (3, 64))):
            y = x @ nb.shard(packed, nb.PartitionSpec(mesh, *spec)).T
            self.assertEqual(nb.read_local(y, 1)[0].shape, piece)
            np.testing.assert_allclose(y.numpy(), want, rtol=1e-4, atol=1e-3)

    def test_results_that_vary(self):
        mesh = nb.Mesh("x=2")
        rows, whole = nb.PartitionSpec(mesh, "x", None), nb.PartitionSpec(mesh, None, None)
        varies = r"test_meshes.py:\d+: the program .*result #0 varies along axis \"x\""
        y = nb.shard_map(lambda p: p, small(4, 2), in_specs=rows, out_specs=whole)
        with self.assertRaisesRegex(nb.InvalidArgument, varies):
            y.numpy()
        f = nb.function(lambda x: nb.shard_map(lambda p: p, x, in_specs=rows,
                                               out_specs=whole))
        with self.assertRaisesRegex(nb.InvalidArgument, varies):
            f(small(4, 2))
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(nb.InvalidArgument, "varies along axis"):
                f.emit(os.path.join(folder, "f.so"), (small(4, 2),))
        same = small(4, 2)  # and the next program compiles
        np.testing.assert_array_equal(nb.shard_map(lambda p: p, same, in_specs=rows,
                                                   out_specs=rows).numpy(), same)


class Emitted(unittest.TestCase):
    """Saved programs that are divided over devices, run by threads."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "f.so")
        self.mesh = nb.Mesh("data=2,model=2")
        self.rows = nb.PartitionSpec(self.mesh, "data", None)
        self.columns = nb.PartitionSpec(self.mesh, None, "model")

    def test_runs(self):
        w, x, b = small(8, 4), small(6, 8), small(4)
        f = nb.function(lambda x, w: nb.tanh(nb.shard(x, self.rows) @
                                             nb.shard(w, self.columns)) * 2 + b)
        want = f(x, w).numpy()
        f.emit(self.path, captured=self.path + ".safetensors")
        for threads in (1, 4, 8):
            program = nb.Program(self.path, threads=threads)
            self.assertEqual(program.ranks, 4)
            with self.assertRaisesRegex(nb.InvalidArgument, "3 inputs .* bind_model"):
                program.run("main", x, w)  # and it can be bound still
            program.bind_model(nb.Model(self.path + ".safetensors"))
            for i in range(3):
                np.testing.assert_array_equal(program.run("main", x, w), want)
                with self.assertRaisesRegex(nb.InvalidArgument, "takes F32"):
                    program.run("main", x[:4], w)
                with self.assertRaisesRegex(nb.InvalidArgument, "there is no function"):
                    program.run("other", x)
                with self.assertRaises(Exception):
                    program.run("main", x, "text")
            with self.assertRaisesRegex(nb.InvalidArgument, "nabla-run --ranks 4"):
                program.session()
            program.close()
            with self.assertRaises(nb.Closed):
                program.run("main", x, w)

    def test_packed_and_donated(self):
        packed, x = nb.quantize_array(small(64, 128), "nf4"), small(2, 128)
        f = nb.function(lambda x, w: nb.linear(x, nb.shard(w, self.rows)) - 1)
        want = f(x, packed).numpy()
        f.emit(self.path)
        np.testing.assert_array_equal(nb.Program(self.path).run("main", x, packed), want)
        program = nb.Program(self.path)
        program.bind("w", packed)
        np.testing.assert_array_equal(program.run("main", x), want)
        g = nb.function(lambda x: nb.shard(x, self.rows) + 1, donate={"x": ""})
        g.emit(self.path, (nb.array(small(4, 2)),), force=True)
        for _ in range(5):
            x = small(4, 2)
            given = x.copy()
            np.testing.assert_array_equal(nb.Program(self.path).run("main", given), x + 1)

    def test_pieces_are_refused(self):
        f = nb.function(lambda x: nb.shard(x, self.rows) * 2)
        f.emit(self.path, (small(4, 2),), results="divided")
        with self.assertRaisesRegex(nb.Unsupported, "piece of one device"):
            nb.Program(self.path).run("main", small(4, 2))

    def test_one_device(self):
        one = nb.PartitionSpec(nb.Mesh("x=1"), "x", None)
        f = nb.function(lambda x: nb.shard(x, one) * 2)
        f.emit(self.path, (small(4, 2),))
        program, x = nb.Program(self.path), small(4, 2)
        self.assertEqual(program.ranks, 1)
        np.testing.assert_array_equal(program.run("main", x), 2 * x)


class Maps(unittest.TestCase):
    def setUp(self):
        self.mesh = nb.Mesh("data=2,model=2")
        self.both = nb.PartitionSpec(self.mesh, "data", "model")
        self.none = nb.PartitionSpec(self.mesh, None, None)
        self.x = small(6, 8)

    def run_one(self, body, out):
        return nb.shard_map(body, self.x, in_specs=self.both, out_specs=out).numpy()

    def test_collectives(self):
        x = self.x
        piece = x.reshape(2, 3, 2, 4).transpose(0, 2, 1, 3)  # data, model
        same = np.testing.assert_array_equal
        same(self.run_one(lambda p: nb.all_reduce(p.sum(1), "sum", "model"),
                          nb.PartitionSpec(self.mesh, "data")), x.sum(1))
        same(self.run_one(lambda p: nb.all_reduce(p, "max"), self.none),
             piece.max((0, 1)))
        same(self.run_one(nb.all_mean, self.none), piece.mean((0, 1)))
        same(self.run_one(lambda p: nb.all_gather(nb.all_gather(p, 1, "model"), 0, "data"),
                          self.none), x)
        same(self.run_one(lambda p: nb.all_slice(nb.all_gather(p, 1, "model"), 1, "model"),
                          self.both), x)
        same(self.run_one(lambda p: nb.reduce_scatter(p, 1, "sum", ("model",)), self.both),
             (x[:, :4] + x[:, 4:]))
        same(self.run_one(lambda p: nb.all_to_all(nb.all_gather(p, 0, "data"), 0, 1,
                                                  "model"),
                          nb.PartitionSpec(self.mesh, "model", None)), x)
        same(self.run_one(lambda p: nb.permute(p, [(0, 1)], "model"), self.both),
             np.concatenate([0 * x[:, :4], x[:, :4]], 1))
        same(self.run_one(lambda p: nb.broadcast(p, 1, "data"),
                          nb.PartitionSpec(self.mesh, None, "model")), x[3:])
        same(self.run_one(lambda p: p * 0 + nb.axis_index("data,model"), self.both),
             np.repeat(np.repeat([[0, 1], [2, 3]], 3, 0), 4, 1))

    def test_trees(self):
        out = nb.shard_map(
            lambda of: {"sum": nb.all_reduce(of["a"] + of["b"], "sum", "data"),
                        "rest": [of["b"]]},
            {"a": self.x, "b": 2 * self.x}, in_specs=[self.both, self.both],
            out_specs=[self.both, nb.PartitionSpec(self.mesh, None, "model")])
        np.testing.assert_array_equal(out["sum"].numpy(), 3 * (self.x[:3] + self.x[3:]))
        np.testing.assert_array_equal(out["rest"][0].numpy(), 2 * self.x)

    def test_errors_of_the_body(self):
        def body(piece):
            raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            nb.shard_map(body, self.x, in_specs=self.both, out_specs=self.both)
        with self.assertRaisesRegex(nb.InvalidArgument, "partitions of them"):
            nb.shard_map(lambda p: (p, p), self.x, in_specs=self.both,
                         out_specs=self.both)
        np.testing.assert_array_equal(self.run_one(lambda p: p + 1, self.both), self.x + 1)


if __name__ == "__main__":
    unittest.main()
