"""Models: files of weights, dense or packed."""
import ctypes
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

import numpy as np

from . import _c, _dtypes, _views
from ._errors import InvalidArgument, Unsupported
from ._library import LIB, Handle, Owner, byref, call, create, to_path
from .formats import Format, of_format, of_storage, to_storage

_MODES = {"map": _c.MODEL_MAP, "guarded": _c.MODEL_GUARDED, "copy": _c.MODEL_COPY}


class Tensor(NamedTuple):
    """A tensor of a model, as its files describe it."""

    name: str
    shape: Tuple[int, ...]
    dtype: str                    #: of its values: "f32", "bf16"
    format: Optional[Format]      #: how it is packed; None where it is dense
    nbytes: int                   #: as stored, scales included
    unsupported: Optional[str]    #: why this build cannot decode it


class Weight:
    """A weight in memory, dense or packed. It keeps what its bytes belong to."""

    def __init__(self, desc: Any, keep: Tuple[Any, ...]):
        self._desc = desc
        self._keep = keep

    @property
    def name(self) -> str:
        return (self._desc.name or b"").decode()

    @property
    def shape(self) -> Tuple[int, ...]:
        return tuple(self._desc.shape[:self._desc.rank])

    @property
    def dtype(self) -> str:
        """Of the values, before they were packed."""
        return _dtypes.name_of(self._desc.dtype)

    @property
    def format(self) -> Optional[Format]:
        """How it is packed; None where it is dense."""
        return of_storage(self._desc.layout)

    @property
    def nbytes(self) -> int:
        return sum(c.bytes for c in self._components())

    def _components(self) -> List[Any]:
        return list(self._desc.components[:self._desc.component_count])

    @property
    def components(self) -> Dict[str, Any]:
        """Its arrays as they lie in memory, read-only: "values" where it is dense,
        else "codes" with "scales" and "zero_points", or "blocks"."""
        out = {}
        for component in self._components():
            dtype = _dtypes.TO_NUMPY.get(component.dtype, np.dtype(np.uint8))
            out[component.name.decode()] = _views.view(
                component.data or 0, (component.bytes // dtype.itemsize,), dtype, self)
        return out

    @property
    def scales(self) -> Optional[Any]:
        """The scales of a packed weight, where they are one array."""
        return self.components.get("scales")

    def __len__(self) -> int:
        return self.shape[0] if self.shape else 1

    def rows(self, first: int = 0, count: Optional[int] = None) -> Any:
        """Rows as f32, decoded: indices `first` to `first + count` of the first
        dimension."""
        if count is None:
            count = len(self) - first
        if first < 0 or count < 0:
            raise InvalidArgument("rows %d, %d: below 0" % (first, count))
        if first + count > len(self):
            raise InvalidArgument("rows %d to %d of %d" % (first, first + count,
                                                           len(self)))
        out = np.empty((count,) + self.shape[1:], np.float32)
        call(LIB.nabla_weight_read, byref(self._desc), first, count,
             _views.address(out) if out.size else None)
        return out

    def matrix(self) -> "Weight":
        """The same bytes as a matrix with as many rows, for products with weights of
        convolutions."""
        desc = _c.nabla_weight_desc.from_buffer_copy(self._desc)
        rows, columns = len(self), 1
        for size in self.shape[1:]:
            columns *= size
        desc.rank = 2
        desc.shape[:2] = (rows, columns)
        return Weight(desc, (self,))

    def numpy(self) -> Any:
        """All values as f32; a dense weight that is no float in its own dtype."""
        if self.format is None and not LIB.nabla_dtype_is_float(self._desc.dtype):
            return self.components["values"].reshape(self.shape).copy()
        return self.rows().reshape(self.shape)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Any:
        out = self.numpy()
        return out if dtype is None else out.astype(dtype)

    def __repr__(self) -> str:
        how = self.format.encoding if self.format else self.dtype
        return "<Weight %s %s %s>" % (self.name or "?", list(self.shape), how)


class Model(Owner):
    """A model: a .safetensors file, an index, or a folder. It is mapped into memory,
    and nothing is read before it is used.

    mode: "map"; "guarded": a file that is truncated meanwhile is an error instead of
    the end of the process; "copy": read when first asked for."""

    _noun = "model"

    def __init__(self, path: Any, mode: str = "map"):
        if mode not in _MODES:
            raise InvalidArgument("a mode is one of %s, not %r" % (
                ", ".join(_MODES), mode))
        how = _c.nabla_model_options(struct_size=ctypes.sizeof(_c.nabla_model_options),
                                     mode=_MODES[mode])
        self._handle = Handle(create(LIB.nabla_model_open_with, to_path(path),
                                     byref(how), None), LIB.nabla_model_close)
        self.path = path

    def _checkpoint(self) -> int:
        return LIB.nabla_model_borrow_checkpoint(self._open().value)

    def tensors(self) -> List[Tensor]:
        """All tensors, in the order of the files."""
        checkpoint = self._checkpoint()
        return [_tensor(LIB.nabla_checkpoint_tensor(checkpoint, i))
                for i in range(LIB.nabla_checkpoint_count(checkpoint))]

    def __len__(self) -> int:
        return LIB.nabla_checkpoint_count(self._checkpoint())

    def keys(self) -> List[str]:
        return [tensor.name for tensor in self.tensors()]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        data = name.encode() if isinstance(name, str) else b""
        found = LIB.nabla_checkpoint_find(self._checkpoint(), data, len(data))
        return found < len(self)

    def __getitem__(self, name: str) -> Weight:
        return self.weight(name)

    def weight(self, name: str) -> Weight:
        """The weight of a name, which stays usable when the model was closed."""
        handle = self._open()
        found = _c.nabla_weight()
        data = name.encode()
        call(LIB.nabla_model_find_n, handle.value, data, len(data), byref(found))
        return Weight(found.desc, (Held(handle),))

    def check_unchanged(self) -> None:
        """Raises Corrupt if a file has changed since it was opened."""
        call(LIB.nabla_model_check_unchanged, self._open().value)

    def __repr__(self) -> str:
        return "<Model %s%s>" % (self.path, " closed" if self.closed else "")


class Held:
    """A reference to a handle that is given back with it."""

    __slots__ = ("_handle",)

    def __init__(self, handle: Handle):
        handle.hold()
        self._handle = handle

    def __del__(self) -> None:
        try:
            self._handle.drop()
        except AttributeError:
            pass


def _tensor(it: Any) -> Tensor:
    shape = (ctypes.c_uint64 * it.rank).from_address(it.shape) if it.rank else ()
    return Tensor(it.name.decode(), tuple(shape), _dtypes.name_of(it.dtype),
                  of_format(it.format), it.stored_bytes,
                  it.unsupported.decode() if it.unsupported else None)


def describe(shape: Tuple[int, ...], dtype: int, storage: Any,
             name: str = "") -> Any:
    """A nabla_weight_desc with its components, whose data are NULL."""
    if len(shape) > _c.WEIGHT_MAX_RANK:
        raise InvalidArgument("rank %d; at most %d" % (len(shape), _c.WEIGHT_MAX_RANK))
    desc = _c.nabla_weight_desc(name=name.encode() or None, rank=len(shape),
                                dtype=dtype, layout=storage)
    desc.shape[:len(shape)] = shape
    count = ctypes.c_uint32()
    call(LIB.nabla_weight_components, byref(desc),
         ctypes.addressof(desc) + _c.nabla_weight_desc.components.offset, byref(count))
    desc.component_count = count.value
    return desc


def quantize_array(values: Any, encoding: str, block: Union[int, str, None] = None, *,
             scale: Optional[str] = None, zero_point: bool = False,
             search: bool = False, name: str = "") -> Weight:
    """Packs an array of floats (f32, f16, bf16) in memory.

    encoding: a name of encodings(). block: values for each scale, 64 by default,
    "row" or "tensor". scale: "f32", "f16", "bf16", "e8m0". search: scales with the
    least squared error."""
    array = _views.contiguous(values)
    if array.dtype.kind in "iub" or array.dtype == np.float64:
        array = array.astype(np.float32)
    dtype = _dtypes.to_c(array.dtype)
    storage = to_storage(encoding, block, scale, zero_point, array.shape)
    if storage.kind == _c.STORAGE_BLOCKS and search:
        raise InvalidArgument("%s is encoded as ggml does, without a search" % encoding)
    if storage.kind == _c.STORAGE_PLANES and \
            storage.format.scale == _c.SCALE_DYNAMIC8:
        raise Unsupported("scales in 8 bits are made by quantize_file alone; use scale="
                          "\"f32\" or \"f16\"")
    desc = describe(array.shape, dtype, storage, name)
    buffers = []
    for component in desc.components[:desc.component_count]:
        buffers.append(_views.aligned((component.bytes,), np.uint8))
    for i, buffer in enumerate(buffers):
        desc.components[i].data = _views.address(buffer)
    if storage.kind == _c.STORAGE_BLOCKS:
        row = _c.nabla_ggml.from_address(storage.ggml)
        call(LIB.nabla_ggml_encode, storage.ggml, dtype, _views.address(array),
             array.size // row.elements, desc.components[0].data, None)
    else:
        _encode(array, dtype, storage, search, desc)
    return Weight(desc, tuple(buffers))


def _encode(array: Any, dtype: int, storage: Any, search: bool, desc: Any) -> None:
    how = _c.nabla_codec_options(struct_size=ctypes.sizeof(_c.nabla_codec_options),
                                 dtype=dtype, search=int(search))
    codec = _c.nabla_codec()
    call(LIB.nabla_codec_select, byref(storage.format), byref(how), byref(codec))
    places = {c.name: c.data for c in desc.components[:desc.component_count]}
    packed = _c.nabla_packed(codes=places[b"codes"], scales=places[b"scales"],
                             zero_points=places.get(b"zero_points"))
    call(LIB.nabla_encode, byref(codec), _views.address(array), None, array.size,
         byref(packed), None)
