"""What a product costs when it is called from Python: the packages' MatmulPlan beside
the same call of C through ctypes with arguments that are ready, in turns.

usage: PYTHONPATH=build/release/python python3 bench/python_plan.py"""
import ctypes
import statistics
import time

import numpy as np

import nabla_runtime as nr
from nabla_runtime import _views
from nabla_runtime._library import LIB

TURNS, CALLS = 41, 2000


class C:
    """The call of C alone: a function of C that ctypes calls has no other cost."""

    def __init__(self, plan, x, y):
        size = LIB.nabla_matmul_plan_workspace_size(plan._handle.value, len(x))
        self.space = _views.aligned((size + 64,), np.uint8)
        run = LIB.nabla_matmul_plan_run
        arguments = (ctypes.c_void_p(plan._handle.value),
                     ctypes.c_void_p(_views.address(x)), ctypes.c_uint64(len(x)),
                     ctypes.c_void_p(_views.address(y)),
                     ctypes.c_void_p(_views.address(self.space)), None)
        self.call = lambda: run(*arguments)


def seconds(call):
    start = time.thread_time()
    for _ in range(CALLS):
        call()
    return (time.thread_time() - start) / CALLS


def measure(n, k, m):
    weight = nr.quantize_array(
        np.random.default_rng(1).standard_normal((n, k)).astype(np.float32), "nf4")
    plan = nr.MatmulPlan(weight)
    x, y = np.ones((m, k), np.float32), np.empty((m, n), np.float32)
    direct = C(plan, x, y).call
    nothing = LIB.nabla_status_name
    zero = ctypes.c_int(0)
    rows = {"plan(x, out=y)": lambda: plan(x, y), "plan(x)": lambda: plan(x),
            "C through ctypes": direct, "an empty call": lambda: nothing(zero)}
    times = {name: [] for name in rows}
    for _ in range(TURNS):
        for name, call in rows.items():
            times[name].append(seconds(call))
    return {name: 1e6 * statistics.median(t) for name, t in times.items()}


for shape in ((64, 64, 1), (64, 128, 1), (256, 256, 1), (256, 256, 8)):
    got = measure(*shape)
    # of the direct call an empty call is Python's
    c = got["C through ctypes"] - got["an empty call"]
    print("%4d x %4d, M = %d: C %.2f us; adds %.2f us with out=, %.2f us without" % (
        shape + (c, got["plan(x, out=y)"] - c, got["plan(x)"] - c)))
