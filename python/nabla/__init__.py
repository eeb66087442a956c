"""Lazy arrays with packed weights as values, compiled with MLIR, and all of
nabla_runtime.

    import nabla as nb
    x = nb.array([[1.0, 2.0], [3.0, 4.0]])
    print((x @ x.T).numpy())

    @nb.function
    def step(w, x, y, rate):
        ...
"""
from ._errors import (Cancelled, Closed, Corrupt, Error, Exists, InputOutput,
                      InvalidArgument, NoMemory, NotFinite, TooLarge, Unsupported)
from ._library import version
from ._operations import (  # noqa: F401
    OPERATIONS)
from ._scopes import (EngineStatistics, configure, eager, rank, rank_count,
                      statistics)
from .arrays import Array, ArrayLike, array, borrow, constant, realize
from .derivatives import (grad, hessian, jacobian, jvp, lora_init, lora_merge,
                          lora_unmerge, straight_through, value_and_grad, vjp, vmap)
from .dlpack import from_dlpack
from .files import (Difference, PlanRow, Rule, WriteSummary, compare_files,
                    dequantize_file, plan_file, quantize_file, verify_file)
from .formats import Encoding, Format, encodings
from .functions import (Function, FunctionSession, FunctionStatistics, call_function,
                        cond, function, scan, while_loop)
from .meshes import (Mesh, PartitionSpec, all_gather, all_mean, all_reduce, all_slice,
                     all_to_all, axis_index, broadcast, permute, read_local,
                     reduce_scatter, reshard, shard, shard_map, sharding_constraint)
from .models import Model, Tensor, Weight, quantize_array
from .pools import Pool
from .products import MatmulPlan, PlanInfo
from .programs import Port, Program, Session, Signature, States, dense_weight
from .saved import load_function
from .trees import leaves_of, load, load_dict, names_of, save, tree_map

__version__ = version()
