"""Values of random programs: numbers in f64 (integers and truth values as they
are) with a bound of the error of each element, and how operations carry it on.

An element whose error is 0 is known to the bit. inf: nothing is known of it,
say since a comparison of inexact numbers decided; it is not compared. Bounds
are those of docs/COMPILER.md and of the tests of single operations: one
rounding for each operation, functions within 8 ulps of f64 (others 0.51 ulps
of f32 more), sums of n terms n + 32 roundings of the sum of magnitudes.
"""
import harness
from harness import np
from math_ops import narrow_once

f32, f64 = np.float32, np.float64
FLOATS = harness.FLOATS
INTEGERS = ("i64", "i32", "i8", "ui8")
MOST = {"f64": np.finfo(f64).max, "f32": float(np.finfo(f32).max),
        "f16": 65504.0, "bf16": 3.3895313892515355e38}
UNIT = {"f64": 2.0 ** -53}


class Reject(Exception):
    """An operation that does not fit these operands."""


def unit(kind):
    """Of the type that sums are made in."""
    return UNIT.get(kind, 2.0 ** -24)


class Value:
    """An array in a program. `dims` has None where the type has `?`."""

    def __init__(self, name, kind, dims, data, err=None, packed=None):
        self.name, self.kind, self.dims = name, kind, tuple(dims)
        self.data = np.asarray(data)
        zero = np.zeros(self.data.shape)
        self.err = zero if err is None else np.broadcast_to(err, zero.shape)
        self.packed = packed

    shape = property(lambda self: self.data.shape)
    rank = property(lambda self: self.data.ndim)
    is_float = property(lambda self: self.kind in FLOATS)

    def is_exact(self):
        return not self.err.any()

    def type(self):
        if self.packed is not None:
            return self.packed.type()
        return harness.tensor_type(self.dims, self.kind)

    def elements(self):
        """The array of the element type nearest to the numbers."""
        if not self.is_float:
            return self.data
        return narrow_once(self.data, self.kind)

    def known(self):
        """The part of the elements that a comparison says something of."""
        if not self.data.size:
            return 1.0
        with np.errstate(all="ignore"):
            size = np.abs(self.data.astype(f64))
            typical = np.max(np.where(np.isfinite(size), size, 0), initial=0)
            good = self.err <= 0.05 * np.maximum(size, 0.1 * typical) + 1e-30
        return float(np.mean(good))


def wide(array):
    """f64 of floats, others as they are."""
    array = harness.widen(np.asarray(array))
    return array.astype(f64) if array.dtype.kind == "f" else array


def settle(kind, want, err):
    """Numbers that were computed, and the error before they are rounded to
    their type: (numbers, error). What has no error was computed exactly, or
    rounds in the type as it does in f64."""
    want, err = np.asarray(want, f64), np.asarray(err, f64)
    with np.errstate(all="ignore"):
        near = wide(narrow_once(want, kind))
        size = np.abs(want) + err
        # numbers of f64 are rounded here too
        half = 1.0001 if kind == "f64" else 0.5001
        rounded = err + half * harness.ulp(kind, size)
        off = (size >= MOST[kind] * 0.999) | ~np.isfinite(size)
        rounded = np.where(off, np.inf, rounded)
    exact = err == 0
    return np.where(exact, near, want), np.where(exact, 0, rounded)




def is_grid(*arrays):
    """Whether sums of products of these are exact in f32 whatever their order:
    small multiples of 1/16 (and so of f16 and bf16, which sum in f32)."""
    for a in arrays:
        with np.errstate(all="ignore"):
            scaled = a * 16
            if not (np.all(np.isfinite(scaled)) and np.all(
                    scaled == np.rint(scaled))):
                return False
    return True


def summed(kind, want, carried, total, terms, grid=False):
    """A sum of `terms` terms whose magnitudes add up to `total`; `carried` is
    the error of its operands. With `grid` all terms are multiples of 2^-8."""
    with np.errstate(all="ignore"):
        bound = carried + (terms + 32) * unit(kind) * (total + carried)
        small = grid & (total < 2.0 ** 15) & (carried == 0)
        fits = wide(narrow_once(np.asarray(want, f64), kind)) == want
    bound = np.where(np.isnan(bound), np.inf, bound)
    return settle(kind, want, np.where(small & fits, 0, np.maximum(
        bound, np.where(small & fits, 0, 1e-300))))


def both_ends(function, a, err):
    """A function that never falls, or never rises, at the ends of what its
    operand may be: (middle, error)."""
    with np.errstate(all="ignore"):
        middle = np.asarray(function(a), f64)
        low, high = (np.asarray(function(e), f64) for e in (a - err, a + err))
        off = np.maximum(np.abs(low - middle), np.abs(high - middle))
    same = (low == middle) & (high == middle)
    off = np.where(same, 0, off)
    return middle, np.where(np.isnan(off), np.inf, off)


def decided(function, a, err):
    """A function of steps: what it gives, and whether the error decides it."""
    with np.errstate(all="ignore"):
        middle = np.asarray(function(a))
        same = (function(a - err) == middle) & (function(a + err) == middle)
    known = (err == 0) | (same & np.isfinite(err))
    return middle, np.where(known, 0.0, np.inf)


def times(a, ea, b, eb):
    """The error of a product."""
    with np.errstate(all="ignore"):
        err = np.abs(a) * eb + np.abs(b) * ea + ea * eb
    return np.where(np.isnan(err), np.inf, err)


def check_of(value):
    """A check of a result (harness.py)."""
    want, err, kind = value.data, value.err, value.kind

    def check(got):
        if harness.NAMES.get(got.dtype) != kind or got.shape != want.shape:
            return "%s%s, not %s%s" % (got.dtype, got.shape, kind, want.shape)
        have = wide(got)
        with np.errstate(all="ignore"):
            if kind in FLOATS:
                good = np.abs(have - want) <= err
                good |= (have == want) | (np.isnan(have) & np.isnan(want))
            else:
                good = have == want
        good |= np.isinf(err)
        if good.all():
            return None
        at = np.unravel_index(int(np.argmin(good)), good.shape)
        return "%d of %d beyond the bound; at %s %r, not %r +- %.3g" % (
            good.size - good.sum(), good.size, tuple(map(int, at)),
            have[at].item(), want[at].item(), err[at])
    return check
