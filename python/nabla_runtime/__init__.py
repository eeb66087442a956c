"""Packed weights of neural networks, without a compiler: open and quantize models,
multiply by packed weights, run saved programs.

    import nabla_runtime as nr
    nr.quantize_file("model.safetensors", "small.safetensors", "nf4")
    model = nr.Model("small.safetensors")
    plan = nr.MatmulPlan(model["layers.0.w"])
    y = plan(x)
"""
from ._errors import (Cancelled, Closed, Corrupt, Error, Exists, InputOutput,
                      InvalidArgument, NoMemory, NotFinite, TooLarge, Unsupported)
from ._library import version
from .files import (Difference, PlanRow, Rule, WriteSummary, compare_files,
                    dequantize_file, plan_file, quantize_file, verify_file)
from .formats import Encoding, Format, encodings
from .models import Model, Tensor, Weight, quantize_array
from .pools import Pool
from .products import MatmulPlan, PlanInfo
from .programs import Port, Program, Session, Signature, States, dense_weight

__version__ = version()
__all__ = [
    "Cancelled", "Closed", "Corrupt", "Difference", "Encoding", "Error", "Exists",
    "Format", "InputOutput", "InvalidArgument", "MatmulPlan", "Model", "NoMemory",
    "NotFinite", "PlanInfo", "PlanRow", "Pool", "Port", "Program", "Rule", "Session",
    "Signature", "States", "Tensor", "TooLarge", "Unsupported", "Weight",
    "WriteSummary", "compare_files", "dense_weight", "dequantize_file", "encodings",
    "plan_file", "quantize_array", "quantize_file", "verify_file", "version"]
