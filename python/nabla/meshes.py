"""Arrays that are divided over a mesh of devices: docs/SHARDING.md."""
import ctypes
import operator
from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple, Union

from . import _c, _views
from ._errors import InvalidArgument
from ._library import LIB, Handle, byref, call, create
from ._recording import Recording
from ._scopes import attempt, current
from .arrays import Array, ArrayLike, asarray
from .functions import _FIRST, _attempt, _collect, _taken, _Trace
from .trees import NONE, CTree, flatten, opened, unflatten

Axes = Union[None, str, Sequence[str]]
_JOINS = {"sum": _c.SHARD_SUM, "max": _c.SHARD_MAX, "prod": _c.SHARD_PROD,
          "min": _c.SHARD_MIN, "any": _c.SHARD_ANY, "all": _c.SHARD_ALL}


def _axes(axes: Axes) -> Optional[bytes]:
    if axes is None:
        return None
    if not isinstance(axes, str) and not (
            isinstance(axes, Sequence) and all(isinstance(axis, str) for axis in axes)):
        raise TypeError("axes are \"x\", \"x,y\", (\"x\", \"y\") or None, not %r" % (axes,))
    return (axes if isinstance(axes, str) else ",".join(axes)).encode()


class Mesh:
    """A grid of devices with named axes, "data=2,model=4" or {"data": 2, "model": 4}:
    threads of this process, or the processes of configure(processes=True). The last axis
    varies fastest."""

    def __init__(self, axes: Union[str, Mapping[str, int]]):
        if isinstance(axes, Mapping):
            axes = ",".join("%s=%d" % (name, operator.index(size))
                            for name, size in axes.items())
        elif not isinstance(axes, str):
            raise TypeError("the axes of a mesh are \"data=2,model=4\" or {\"data\": 2, "
                            "\"model\": 4}, not %r" % (axes,))
        self._handle = Handle(create(LIB.nabla_mesh_create, axes.encode(), None),
                              LIB.nabla_mesh_destroy)
        self.axes = axes  #: the text that it was made of

    @property
    def size(self) -> int:
        """The number of devices."""
        return int(LIB.nabla_mesh_size(self._handle.value))

    def __repr__(self) -> str:
        return "nabla.Mesh(%r)" % self.axes


class PartitionSpec:
    """How an array is divided over a mesh: for each dimension the axes that divide it,
    "x", "x,y" or ("x", "y"), of which the first makes the largest pieces, or None."""

    def __init__(self, mesh: Mesh, *dims: Axes):
        if not isinstance(mesh, Mesh):
            raise TypeError("a PartitionSpec begins with its Mesh: PartitionSpec(mesh, %s)" %
                            ", ".join(map(repr, (mesh,) + dims)))
        texts = [_axes(dim) for dim in dims]
        table = (ctypes.c_char_p * max(len(texts), 1))(*texts)
        self._c = LIB.nabla_partition_of(mesh._handle.value, len(texts),
                                         ctypes.addressof(table))
        self._texts = texts
        self.mesh = mesh
        self.dims = dims
        self.text()  # axes that the mesh has, none of them twice

    def text(self) -> str:
        """As programs have it: '#nabla.sharding<@mesh.data.2, [{"data"}, {}]>'."""
        out = ctypes.create_string_buffer(4096)
        call(LIB.nabla_partition_text, byref(self._c), ctypes.addressof(out), len(out))
        return out.value.decode()

    @property
    def shards(self) -> int:
        """The number of different pieces."""
        out = ctypes.c_uint32()
        call(LIB.nabla_partition_shards, byref(self._c), byref(out))
        return out.value

    def _shape(self, function: Any, shape: Sequence[int]) -> Tuple[int, ...]:
        if len(shape) != len(self.dims):
            raise InvalidArgument("a shape of %d sizes, a partition of %d dimensions" %
                                  (len(shape), len(self.dims)))
        sizes = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        call(function, byref(self._c), ctypes.addressof(sizes), ctypes.addressof(sizes))
        return tuple(sizes[:len(shape)])

    def local_shape(self, shape: Sequence[int]) -> Tuple[int, ...]:
        """The shape of a piece of an array of this shape."""
        return self._shape(LIB.nabla_local_shape, shape)

    def global_shape(self, shape: Sequence[int]) -> Tuple[int, ...]:
        """The shape of the array whose pieces have this shape."""
        return self._shape(LIB.nabla_global_shape, shape)

    def needs_reshard(self, other: "PartitionSpec") -> bool:
        """Whether an array that is divided so has to be exchanged to be divided as
        `other` says."""
        out = ctypes.c_int()
        call(LIB.nabla_needs_reshard, byref(self._c), byref(_c_of(other)), byref(out))
        return bool(out.value)

    def __repr__(self) -> str:
        return "nabla.PartitionSpec(%s)" % ", ".join(
            [repr(self.mesh)] + [repr(dim) for dim in self.dims])


# ---- arrays ----


def _c_of(spec: Any) -> Any:
    if not isinstance(spec, PartitionSpec):
        raise TypeError("an array is divided as a PartitionSpec says, not %r" % (spec,))
    return spec._c


def shard(x: ArrayLike, spec: PartitionSpec) -> Array:
    """x, divided so where it is computed and used: the same as sharding_constraint(),
    for arrays that enter a program."""
    r = Recording()
    return r.one(LIB.nabla_shard, r.array(x), _c_of(spec))


def sharding_constraint(x: ArrayLike, spec: PartitionSpec) -> Array:
    """x, divided so where it is computed and used; what it is computed from, and what is
    computed from it, is divided accordingly."""
    r = Recording()
    return r.one(LIB.nabla_sharding_constraint, r.array(x), _c_of(spec))


def reshard(x: ArrayLike, spec: PartitionSpec) -> Array:
    """x, divided so from here on, however it was before."""
    r = Recording()
    return r.one(LIB.nabla_reshard, r.array(x), _c_of(spec))


def read_local(x: ArrayLike, device: int) -> Tuple[Any, Tuple[int, ...]]:
    """The piece of an array that a device has, computed if need be, as a read-only NumPy
    array on its memory, and where it begins in the array; of an array that is not
    divided, the whole."""
    current()
    array = asarray(x)
    device = operator.index(device)
    if not 0 <= device < 2 ** 32:
        raise InvalidArgument("there is no device %d: devices are numbered from 0" % device)
    out = _c.nabla_dense()
    start = (ctypes.c_int64 * max(array.ndim, 1))()
    attempt(LIB.nabla_read_local, array._pointer, device, byref(out),
            ctypes.addressof(start))
    return _views.of_dense(out, array), tuple(start[:array.ndim])


# ---- programs of one device ----


def _specs(given: Any) -> Tuple[List[PartitionSpec], Any]:
    if not isinstance(given, (PartitionSpec, list, tuple)):
        raise TypeError("in_specs and out_specs are a PartitionSpec, or a list with one for "
                        "each leaf, not %r" % (given,))
    specs = [given] if isinstance(given, PartitionSpec) else list(given)
    return specs, (_c.nabla_partition * max(len(specs), 1))(*map(_c_of, specs))


def shard_map(body: Callable[..., Any], *operands: Any, in_specs: Any, out_specs: Any
              ) -> Any:
    """A computation on pieces: `body(*pieces)`, traced once, says what each device does
    with its pieces of `operands`, trees of arrays, and gives pieces of the results.

    in_specs: a PartitionSpec, or a list with one for each leaf of `operands`, whose
    axes divide dimensions evenly. out_specs: the same of the results. All are of one
    mesh. Arrays from outside that `body` uses are whole on every device. A result must
    be equal on devices that differ only in axes that do not divide it."""
    leaves, structure = flatten(operands)
    arrays = [asarray(leaf) for leaf in leaves]
    ins, c_in = _specs(in_specs)
    outs, c_out = _specs(out_specs)
    keeps: List[Any] = []
    trace = _Trace(lambda pieces: body(*unflatten(structure, pieces)), keeps,
                   opened(None))
    given, out = CTree(structure), CTree(opened(None))
    given.put([a._pointer for a in arrays])

    def run() -> Any:
        LIB.nabla_shard_map(
            ctypes.cast(_FIRST, ctypes.c_void_p), None, byref(given.root), len(ins),
            ctypes.addressof(c_in), byref(out.root), len(outs), ctypes.addressof(c_out))

    _attempt([trace], run, [out])
    return _collect(out, trace.found or NONE, _taken(keeps, *arrays))


# ---- collectives: in the body of shard_map() ----


def _named(r: Recording, axes: Axes) -> Optional[int]:
    text = _axes(axes)
    return None if text is None else r.hold(ctypes.create_string_buffer(text))


def all_reduce(x: ArrayLike, join: str = "sum", axes: Axes = None) -> Array:
    """The join of the values of the devices that differ in `axes` alone (None: all), on
    each: "sum", "max", "prod", "min", "any" or "all"."""
    r = Recording()
    return r.one(LIB.nabla_all_reduce, r.array(x), r.kind(_JOINS, join), _named(r, axes))


def all_mean(x: ArrayLike, axes: Axes = None) -> Array:
    """The mean of the values of these devices, on each."""
    r = Recording()
    return r.one(LIB.nabla_all_mean, r.array(x), _named(r, axes))


def all_gather(x: ArrayLike, dim: int, axes: Axes = None) -> Array:
    """The pieces of these devices, one behind the other along `dim`."""
    r = Recording()
    return r.one(LIB.nabla_all_gather, r.array(x), dim, _named(r, axes))


def all_slice(x: ArrayLike, dim: int, axes: Axes = None) -> Array:
    """One's own piece along `dim`: the inverse of all_gather()."""
    r = Recording()
    return r.one(LIB.nabla_all_slice, r.array(x), dim, _named(r, axes))


def reduce_scatter(x: ArrayLike, dim: int, join: str = "sum", axes: Axes = None) -> Array:
    """One's own piece along `dim` of the join."""
    r = Recording()
    return r.one(LIB.nabla_reduce_scatter, r.array(x), r.kind(_JOINS, join), dim,
                 _named(r, axes))


def all_to_all(x: ArrayLike, split: int, concat: int, axes: Axes = None) -> Array:
    """Piece j along `split` goes to device j, which joins what it gets along
    `concat`."""
    r = Recording()
    return r.one(LIB.nabla_all_to_all, r.array(x), split, concat, _named(r, axes))


def permute(x: ArrayLike, pairs: Sequence[Tuple[int, int]], axes: Axes = None) -> Array:
    """The value of another device: `pairs` are sources with their targets. Devices that
    are no target get zeros."""
    r = Recording()
    flat = [number for pair in pairs for number in pair]
    return r.one(LIB.nabla_permute, r.array(x), len(pairs), r.values(flat),
                 _named(r, axes))


def broadcast(x: ArrayLike, source: int, axes: Axes = None) -> Array:
    """The value of the device `source` among these, on each."""
    r = Recording()
    return r.one(LIB.nabla_broadcast, r.array(x), source, _named(r, axes))


def axis_index(axes: Axes = None) -> Array:
    """The number of the device among those that differ in `axes`: i64, rank 0."""
    r = Recording()
    return r.one(LIB.nabla_axis_index, _named(r, axes))
