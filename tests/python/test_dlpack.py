"""DLPack both ways with NumPy, and with those of torch and jax that are there, without
a copy. NABLA_PYTHON_PEERS names those that must be there."""
import gc
import importlib
import os
import unittest

import numpy as np

import nabla as nb


def peer(name):
    if name in os.environ.get("NABLA_PYTHON_PEERS", "").split():
        return importlib.import_module(name)
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


torch = peer("torch") if os.environ.get("NABLA_PYTHON_PEERS") else None
jax = peer("jax") if os.environ.get("NABLA_PYTHON_PEERS") else None
NUMBERS = np.arange(6, dtype=np.float32).reshape(2, 3)


def place(array):
    return array.__array_interface__["data"][0]


class Legacy:
    """What libraries before DLPack 1.0 give: no version."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return 1, 0


class NumPy(unittest.TestCase):
    def test_in(self):
        for wrap in (lambda a: a, Legacy):
            a = NUMBERS.copy()
            x = nb.from_dlpack(wrap(a))
            self.assertEqual(place(x.numpy()), place(a))
            y = x * 2  # pending
            del x, a
            gc.collect()
            junk = [np.full(6, 9, np.float32) for _ in range(100)]
            np.testing.assert_array_equal(y.numpy(), NUMBERS * 2)
            del junk

    def test_out(self):
        x = nb.array(NUMBERS) + 1
        for _ in range(2):
            a = np.from_dlpack(x)
            self.assertEqual(place(a), place(x.numpy()))
            self.assertFalse(a.flags.writeable)
        self.assertEqual(place(np.asarray(x)), place(a))
        del x
        gc.collect()
        np.testing.assert_array_equal(a, NUMBERS + 1)
        b = np.array(nb.array(NUMBERS))
        b[0] = 3  # a copy of the caller's

    def test_capsules_that_nobody_takes(self):
        x = nb.array(NUMBERS).realize()
        for _ in range(50):
            x.__dlpack__()
            x.__dlpack__(max_version=(1, 0))
        self.assertEqual(x.__dlpack_device__(), (1, 0))
        for how in ({"stream": 5}, {"copy": True}, {"dl_device": (2, 0)}):
            with self.assertRaises(BufferError):
                x.__dlpack__(**how)

    def test_dtypes(self):
        for dtype in ("bool", "uint8", "int8", "int32", "int64", "float16", "float32",
                      "float64"):
            a = np.ones((3,), dtype)
            np.testing.assert_array_equal(np.from_dlpack(nb.from_dlpack(a)), a)
        with self.assertRaises(nb.Unsupported):
            nb.from_dlpack(np.ones(3, np.uint32))
        with self.assertRaises(nb.Unsupported):
            nb.from_dlpack(Legacy(np.ones(3, np.uint32)))

    def test_rank_0_and_size_0(self):
        for shape in ((), (0,), (2, 0, 3)):
            a = np.ones(shape, np.float32)
            self.assertEqual(nb.from_dlpack(a).shape, shape)
            self.assertEqual(np.from_dlpack(nb.array(a) + 1).shape, shape)


@unittest.skipUnless(torch, "no torch")
class Torch(unittest.TestCase):
    def test_both_ways(self):
        t = torch.arange(6, dtype=torch.float32).reshape(2, 3)
        x = nb.from_dlpack(t)
        self.assertEqual(place(x.numpy()), t.data_ptr())
        y = (x * 2).realize()
        out = torch.from_dlpack(y)
        self.assertEqual(out.data_ptr(), place(y.numpy()))
        del y, x
        gc.collect()
        self.assertTrue(torch.equal(out, t * 2))

    def test_bfloat16(self):
        t = torch.arange(6, dtype=torch.bfloat16)
        out = torch.from_dlpack(nb.from_dlpack(t) + 1.0)
        self.assertEqual(out.dtype, torch.bfloat16)
        self.assertTrue(torch.equal(out, t + 1))

    def test_operand(self):
        t = torch.ones(3)
        self.assertEqual((nb.array([1.0, 2.0, 3.0]) + t).tolist(), [2, 3, 4])


@unittest.skipUnless(jax, "no jax")
class Jax(unittest.TestCase):
    def test_both_ways(self):
        j = jax.numpy.arange(6, dtype=jax.numpy.float32).reshape(2, 3)
        x = nb.from_dlpack(j)
        self.assertEqual(place(x.numpy()), j.unsafe_buffer_pointer())
        y = (x * 2).realize()
        out = jax.numpy.from_dlpack(y)
        self.assertEqual(out.unsafe_buffer_pointer(), place(y.numpy()))
        del y, x
        gc.collect()
        self.assertTrue((out == j * 2).all())

    def test_dtypes(self):
        x = jax.numpy.ones(4, jax.numpy.bfloat16)
        out = jax.numpy.from_dlpack(nb.from_dlpack(x) + 1.0)
        self.assertEqual(out.dtype, jax.numpy.bfloat16)


if __name__ == "__main__":
    unittest.main()
