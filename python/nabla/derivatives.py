"""Derivatives and batches of functions: functions that are made from functions."""
import ctypes
import functools
import threading
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _c
from ._errors import InvalidArgument, Unsupported
from ._library import LIB, Handle, byref, create
from ._recording import Recording
from .arrays import Array
from .functions import Function, c_options, check_options, split_word, _Trace
from .trees import (LEAF, Structure, closed, flatten, is_settled, opened,
                    structure_names, tangents_of)

Names = Union[str, Sequence[str], None]


class Derived(Function):
    """A function that C makes of another one. The Python function behind it is that of
    the first of the chain."""

    def __init__(self, of: Function, noun: str, **options: Any):
        if not isinstance(of, Function):
            of = Function(of)
        functools.update_wrapper(self, of)
        self._of = of
        self._noun = noun
        self._body, self._signature = of._body, of._signature
        self._static, self._simple = of._static, of._simple
        self._options = (options.pop("dims", None) or {},
                         options.pop("donate", None) or {}, {},
                         options.pop("max_signatures", 0), options.pop("max_traces", 0))
        check_options(*self._options[:2])
        if options:
            raise InvalidArgument("%s() has no option %s" % (noun, ", ".join(options)))
        self._handle: Optional[Handle] = None
        self._results, self._named = {}, {}
        # what was loaded has the numbers of its file
        self._structures = of._structures if of._is_loaded() else {}
        self._first = threading.RLock()
        self._trees: Dict[Structure, List[Any]] = {}
        self._keeps = of._keeps

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the results; while another function is traced, as a part of that."""
        return self._called(args, kwargs)

    def _traced(self, structure: Structure) -> _Trace:
        return self._of._traced(structure)

    def _given(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]
               ) -> Tuple[List[Any], Structure]:
        return self._of._given(args, kwargs)

    def _fits(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> bool:
        return self._of._fits(args, kwargs)

    def _is_loaded(self) -> bool:
        return self._of._is_loaded()

    def _number(self, structure: Structure) -> int:
        return self._of._number(self._numbered(structure)) if self._is_loaded() else \
            super()._number(structure)

    def _numbered(self, structure: Structure) -> Structure:
        return self._of._numbered(structure)

    def _fixed(self) -> Optional[Structure]:
        return self._of._fixed()

    def _expects(self, known: Optional[Structure]) -> Structure:
        return self._of._expects(known)

    def _dims(self) -> Any:
        return self._options[0] or self._of._dims()

    def _created(self, function: Any, how: Any) -> Handle:
        parent = self._of._started()
        return Handle(create(function, parent.value, byref(how)),
                      LIB.nabla_function_destroy, parent)

    def _function_options(self) -> Tuple[Any, Any]:
        how, keep = c_options(self._options, None)
        if not any(self._options):
            return None, None
        how.name = ("%s_%s" % (self._body.__name__, self._noun)).encode()
        return how, keep

    def __repr__(self) -> str:
        return "<nabla.Function %s of %r>" % (self._noun, self._of)


def _part(structure: Structure, name: str, whole: str) -> Structure:
    """The structure of the tree of a name such as "params.layers.0"."""
    if not name:
        return structure
    first, _, rest = name.partition(".")
    if structure[0] == "fields" and first in structure[2]:
        return _part(structure[3][structure[2].index(first)], rest, whole)
    if structure[0] == "items" and first.isdigit() and int(first) < len(structure[2]):
        return _part(structure[2][int(first)], rest, whole)
    raise InvalidArgument("no argument has the name %r" % whole)


def _named(structure: Structure, name: str) -> Structure:
    """The part of a structure of arguments that has the name."""
    try:
        return _part(structure, name, name)
    except InvalidArgument as error:
        raise InvalidArgument("%s; there are %s" % (
            error, ", ".join(structure_names(structure)) or "none")) from None


def _replaced(structure: Structure, leaf: Structure) -> Structure:
    """A structure whose leaves are trees."""
    if structure == LEAF:
        return leaf
    if structure[0] in ("fields", "items"):
        children = tuple(_replaced(child, leaf) for child in structure[-1])
        return structure[:-1] + (children,)
    return structure


def _tangents(values: Structure) -> Structure:
    """The structure of the tangents of results, which is open where theirs is."""
    if not is_settled(values):
        return opened(None)
    whole = closed(values)
    return tangents_of(values) if values == whole else opened(tangents_of(whole))


class Derivative(Derived):
    """A gradient, jacobian, or function with its derivative."""

    def __init__(self, of: Function, noun: str, wrt: Names, has_aux: bool = False,
                 mode: str = "auto", **options: Any):
        super().__init__(of, noun, **options)
        first = next(iter(self._signature.parameters), "")
        self._wrt: List[Any] = [first] if wrt is None else \
            list(wrt) if isinstance(wrt, (list, tuple)) else [wrt]
        if not all(isinstance(name, str) for name in self._wrt):
            raise TypeError("wrt is a name of an argument or leaf, \"x\" or \"params.w\", or a "
                            "list of names, not %r" % (wrt,))
        self._is_one = wrt is None or isinstance(wrt, str)
        self._has_aux = has_aux
        modes = {"auto": 0, "forward": 1, "reverse": 2}
        if mode not in modes:
            raise InvalidArgument("a mode is one of %s, not %r" % (", ".join(modes),
                                                                   mode))
        self._mode = modes[mode]
        self._word = {"vjp": "cotangents", "jvp": "tangents"}.get(noun)

    def _create(self) -> Handle:
        names = self._wrt
        texts = (ctypes.c_char_p * max(len(names), 1))(*[n.encode() for n in names])
        function, _keep = self._function_options()
        how = _c.nabla_derivative_options(
            struct_size=ctypes.sizeof(_c.nabla_derivative_options),
            wrt=ctypes.addressof(texts), wrt_count=len(names),
            has_aux=int(self._has_aux), mode=self._mode,
            function=ctypes.addressof(function) if function is not None else None)
        return self._created(_MAKERS[self._noun], how)

    def _traced(self, structure: Structure) -> _Trace:
        inner = structure[2][0] if self._word else structure
        body = self._of._traced(inner)
        if self._noun in ("grad", "value_and_grad", "hessian") and not self._has_aux:
            body.is_known = True  # one number
        return body

    def _given(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]
               ) -> Tuple[List[Any], Structure]:
        word = self._word
        if word is None:
            return self._of._given(args, kwargs)
        call = split_word(word, self._of._fits, args, kwargs)
        if call is None:
            raise TypeError(
                "%s of %s needs the %s, a tree like %s: behind all arguments, or by name, "
                "%s=" % (self._noun, self._body.__name__, word,
                         "the results" if word == "cotangents" else "what wrt names", word))
        leaves, first = self._of._given(*call[:2])
        more, second = flatten(call[2])
        return leaves + more, ("items", list, (first, second))

    def _fits(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> bool:
        if self._word is None:
            return self._of._fits(args, kwargs)
        call = split_word(self._word, self._of._fits, args, kwargs)
        return call is not None and self._of._fits(*call[:2])

    def _expects(self, known: Optional[Structure]) -> Structure:
        if self._word:
            return self._of._expects(known)
        fixed = self._fixed()
        if self._has_aux and fixed is None:
            return ("items", tuple, (LEAF, opened(known and known[2][1])))
        return known or fixed or LEAF

    def _numbered(self, structure: Structure) -> Structure:
        return self._of._numbered(structure[2][0] if self._word else structure)

    def _gradients(self, structure: Structure) -> Structure:
        parts = [_named(structure, name) for name in self._wrt]
        return parts[0] if self._is_one else ("items", tuple, tuple(parts))

    def _shown(self, structure: Structure, results: Structure) -> Structure:
        if self._noun in ("vjp", "jvp"):
            inner = structure[2][0]
            values = self._of._shown(inner, results)
            second = self._gradients(inner) if self._noun == "vjp" else \
                _tangents(values)
            return ("items", tuple, (values, second))
        values = self._of._shown(structure, results)
        gradients = self._gradients(structure)
        if self._noun == "grad":
            return ("items", tuple, (gradients, values[2][1])) if self._has_aux else \
                gradients
        if self._noun == "value_and_grad":
            return ("items", tuple, (values, gradients))
        if self._noun == "hessian":
            return _replaced(gradients, gradients)
        if values != LEAF:
            raise Unsupported("a jacobian of results that are not one array")
        return gradients


_MAKERS = {"grad": LIB.nabla_grad, "value_and_grad": LIB.nabla_value_and_grad,
           "vjp": LIB.nabla_vjp, "jvp": LIB.nabla_jvp, "jacobian": LIB.nabla_jacobian,
           "hessian": LIB.nabla_hessian}


def grad(function: Any, wrt: Names = None, *, has_aux: bool = False,
         **options: Any) -> Function:
    """A function that gives the gradients of one that gives a number. wrt: the names of
    arguments or leaves, "params.layers.0.w"; by default the first argument; of one name
    the gradients are a tree like it, of a list a tuple of these. has_aux: the function
    gives (value, other results), and the new one (gradients, other results)."""
    return Derivative(function, "grad", wrt, has_aux, **options)


def value_and_grad(function: Any, wrt: Names = None, *, has_aux: bool = False,
                   **options: Any) -> Function:
    """The same, which gives (results, gradients)."""
    return Derivative(function, "value_and_grad", wrt, has_aux, **options)


def vjp(function: Any, wrt: Names = None, **options: Any) -> Function:
    """The derivative in reverse mode: a function of the same arguments and cotangents, a
    tree like the results without what is not of floats, that gives (results, gradients).
    The cotangents come behind all arguments, vjp(f)(x, y, ct), or by name,
    vjp(f)(x, y, cotangents=ct), which functions with *args or defaults left out need."""
    return Derivative(function, "vjp", wrt, **options)


def jvp(function: Any, wrt: Names = None, **options: Any) -> Function:
    """The derivative in forward mode: a function of the same arguments and tangents, a
    tree like what `wrt` names, that gives (results, their tangents); the tangent of what
    is not of floats is None. The tangents come behind all arguments, jvp(f)(x, y, t), or
    by name, jvp(f)(x, y, tangents=t)."""
    return Derivative(function, "jvp", wrt, **options)


def jacobian(function: Any, wrt: Names = None, *, mode: str = "auto",
             **options: Any) -> Function:
    """The derivative of each element of the result, one array, by each element of what
    `wrt` names. mode: "forward", "reverse", or whichever costs less."""
    return Derivative(function, "jacobian", wrt, False, mode, **options)


def hessian(function: Any, wrt: Names = None, **options: Any) -> Function:
    """The second derivatives of a function that gives a number."""
    return Derivative(function, "hessian", wrt, **options)


class StraightThrough(Derived):
    """A function whose cotangent passes as it is."""

    def _create(self) -> Handle:
        parent = self._of._started()
        return Handle(create(LIB.nabla_straight_through, parent.value),
                      LIB.nabla_function_destroy, parent)

    def _shown(self, structure: Structure, results: Structure) -> Structure:
        return self._of._shown(structure, results)


def straight_through(function: Any) -> Function:
    """The same function, but that its cotangent passes as it is from the first result
    to the first argument, which have one shape: for what has no derivative of use, such
    as quantize() or round()."""
    return StraightThrough(function, "straight_through")


class Batched(Derived):
    """A function of several examples."""

    def __init__(self, of: Function, axes: Mapping[str, Optional[int]],
                 out_axes: Mapping[str, Optional[int]], size: int, **options: Any):
        super().__init__(of, "vmap", **options)
        for given in axes, out_axes:
            if not (isinstance(given, Mapping) and
                    all(isinstance(name, str) and (axis is None or isinstance(axis, int))
                        for name, axis in given.items())):
                raise TypeError("axes of vmap() are numbers or None by name, "
                                "{\"x\": 1, \"w\": None}, not %r" % (given,))
        self._axes, self._out_axes, self._size = dict(axes), dict(out_axes), size

    def _create(self) -> Handle:
        function, _keep = self._function_options()
        given, out = _axes(self._axes), _axes(self._out_axes)
        how = _c.nabla_vmap_options(
            struct_size=ctypes.sizeof(_c.nabla_vmap_options), size=self._size,
            in_count=len(self._axes), out_count=len(self._out_axes),
            out=ctypes.addressof(out),
            function=ctypes.addressof(function) if function is not None else None)
        setattr(how, "in", ctypes.addressof(given))  # a word of Python
        return self._created(LIB.nabla_vmap, how)

    def _shown(self, structure: Structure, results: Structure) -> Structure:
        return self._of._shown(structure, results)


def _axes(axes: Mapping[str, Optional[int]]) -> Any:
    out = (_c.nabla_axis * max(len(axes), 1))()
    for place, (name, axis) in zip(out, axes.items()):
        place.name = name.encode()
        place.axis = -2 ** 63 if axis is None else axis
    return out


def vmap(function: Any, axes: Optional[Mapping[str, Optional[int]]] = None,
         out_axes: Optional[Mapping[str, Optional[int]]] = None, size: int = 0,
         **options: Any) -> Function:
    """A function that applies another one to each of several examples: its arguments
    and results have a dimension more, the first. axes: another one by name, {"x": 1};
    None: the argument is the same for all examples."""
    return Batched(function, axes or {}, out_axes or {}, size, **options)


def lora_init(w: Any, seed: Any, rank: int) -> Tuple[Array, Array]:
    """The factors a (R x K, random) and b (N x R, zero) of an adapter beside a weight w
    (N x K), which may be packed: the weight stands for w + scale b a."""
    r = Recording()
    arguments = (r.array(w), r.array(seed), int(rank))
    out = r.out(2)
    a, b = r.all(2, LIB.nabla_lora_init, *arguments, out,
                 out + ctypes.sizeof(ctypes.c_void_p))
    return a, b


def lora_merge(w: Any, a: Any, b: Any, scale: float = 1.0) -> Array:
    """w + scale b a, dense; quantize() packs it again."""
    r = Recording()
    return r.one(LIB.nabla_lora_merge, r.array(w), r.array(a), r.array(b), float(scale))


def lora_unmerge(w: Any, a: Any, b: Any, scale: float = 1.0) -> Array:
    """w - scale b a: what was merged, but for rounding."""
    r = Recording()
    return r.one(LIB.nabla_lora_unmerge, r.array(w), r.array(a), r.array(b),
                 float(scale))
