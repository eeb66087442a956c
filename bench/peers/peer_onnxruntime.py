#!/usr/bin/env python3
"""onnxruntime as a peer of nabla-bench; peer.h says how they talk.

Formats: int4 and int8 (MatMulNBits, blocks of 32), nf4 and fp4 (MatMulBnb4,
blocks of 64), f32 (MatMul); a name that ends in "-int8" lets MatMulNBits
quantize x (accuracy level 4). As a peer of `nabla-bench ops`: convolutions in
f32.
"""
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper


def features():
    with open("/proc/cpuinfo", encoding="ascii") as file:
        flags = next((l for l in file if l.startswith("flags")), "").split()
    return [f for f in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16",
                        "amx_int8") if f in flags]


def describe():
    return (f"onnxruntime {onnxruntime.__version__}, chooses its kernels by the "
            f"CPU: {' '.join(features()) or 'no AVX2'}")


def initializer(name, array):
    return onnx.numpy_helper.from_array(array, name)


def node_of(form, n, k, rng):
    """The node, its initializers, and the bytes that they have."""
    kind, _, level = form.partition("-")
    if kind == "f32" and not level:
        arrays = {"w": rng.standard_normal((k, n), dtype=np.float32)}
        return "MatMul", "", {}, arrays
    if kind in ("int4", "int8") and level in ("", "int8"):
        bits, block = int(kind[3:]), 32
        if k % block:
            raise ValueError(f"K is no multiple of {block}")
        arrays = {
            "w": rng.integers(0, 256, (n, k // block, block * bits // 8), np.uint8),
            "s": np.full((n, k // block), 0.01, np.float32)}
        return "MatMulNBits", "com.microsoft", dict(
            K=k, N=n, bits=bits, block_size=block,
            accuracy_level=4 if level else 1), arrays
    if kind in ("nf4", "fp4") and not level:
        block = 64
        if k % block:
            raise ValueError(f"K is no multiple of {block}")
        arrays = {"w": rng.integers(0, 256, n * k // 2, np.uint8),
                  "s": np.full(n * k // block, 0.01, np.float32)}
        return "MatMulBnb4", "com.microsoft", dict(
            K=k, N=n, block_size=block, quant_type=int(kind == "nf4")), arrays
    raise ValueError(f"it has no {form}")


def open_session(graph, threads):
    model = helper.make_model(graph, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
        ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def session_of(form, n, k, threads, seed):
    operator, domain, attributes, arrays = node_of(
        form, n, k, np.random.default_rng(seed))
    node = helper.make_node(operator, ["x", *arrays], ["y"], domain=domain,
                            **attributes)
    graph = helper.make_graph(
        [node], "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["m", k])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m", n])],
        [initializer(name, array) for name, array in arrays.items()])
    return (open_session(graph, threads),
            sum(array.nbytes for array in arrays.values()))


def open_problem(form, n, k, m, threads, copies):
    x = onnxruntime.OrtValue.ortvalue_from_numpy(
        np.random.default_rng(0).standard_normal((m, k), dtype=np.float32))
    y = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros((m, n), np.float32))
    runs, size = [], 0
    for copy in range(copies):
        session, size = session_of(form, n, k, threads, copy)
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", x)
        binding.bind_ortvalue_output("y", y)
        session.run_with_iobinding(binding)  # the first run allocates
        runs.append((session, binding))
    return runs, size


def timed(runs, threads, first, count):
    now = time.thread_time_ns if threads == 1 else time.perf_counter_ns
    times = []
    for i in range(count):
        session, binding = runs[(first + i) % len(runs)]
        begin = now()
        session.run_with_iobinding(binding)
        times.append(now() - begin)
    return times


def serve(runs, threads):
    for line in sys.stdin:
        word, first, count = line.split()
        if word != "run":
            return 2
        print(*timed(runs, threads, int(first), int(count)), flush=True)
    return 0


def shapes_of(op, a, b, c, d):
    """Of x, w and the result, for the rows of bench/nabla-bench/ops.def."""
    if op == "conv_depthwise":
        return [b, a, c, d], [a, 1, 3, 3], [b, a, c, d]
    if op == "conv3x3_batch":
        return [d, a, c, c], [b, a, 3, 3], [d, b, c, c]
    if op == "conv3x3_by2":
        return [1, a, c, c], [b, a, 3, 3], [1, b, d, d]
    if op == "conv3x3":
        return [1, a, c, d], [b, a, 3, 3], [1, b, c, d]
    window = 256 if op == "conv_stft" else 3
    return [1, a, c], [b, a, window], [1, b, d]


def convolution(op, threads, a, b, c, d):
    """A session and its binding; the arrays stay alive with them."""
    shape, of_w, result = shapes_of(op, a, b, c, d)
    stride = 128 if op == "conv_stft" else 2 if op.endswith("_by2") else 1
    pad = [0 if op == "conv_stft" else 1] * 2 * len(of_w[2:])
    rng = np.random.default_rng(0)
    w = rng.standard_normal(of_w, dtype=np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=pad,
                            group=a if op == "conv_depthwise" else 1,
                            strides=[stride] * len(of_w[2:]))
    graph = helper.make_graph(
        [node], "convolution",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)],
        [initializer("w", w)])
    session = open_session(graph, threads)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(
        rng.standard_normal(shape, dtype=np.float32)))
    binding.bind_ortvalue_output("y", onnxruntime.OrtValue.ortvalue_from_numpy(
        np.zeros(result, np.float32)))
    session.run_with_iobinding(binding)  # the first run allocates
    return session, binding


def serve_ops():
    runs, threads = [], 1
    for line in sys.stdin:
        words = line.split()
        if words[0] == "run" and runs:
            times = timed(runs, threads, 0, int(words[2]))
            print(*times, flush=True)
            continue
        if words[0] != "open":
            return 2
        threads, runs = int(words[3]), []
        try:
            if words[2] != "f32":
                raise ValueError(f"convolutions of {words[2]} are not there")
            runs = [convolution(words[1], threads,
                                *(int(w) for w in words[4:]))]
        except Exception as error:
            print("no", " ".join(str(error).split()), flush=True)
            continue
        print("ready 0", describe(), flush=True)
    return 0


def main():
    if sys.argv[1:] == ["--version"]:
        print(describe())
        return 0
    if sys.argv[1:] == ["ops"]:
        return serve_ops()
    if len(sys.argv) != 7:
        print(f"usage: {sys.argv[0]} FORMAT N K M THREADS COPIES",
              file=sys.stderr)
        return 2
    n, k, m, threads, copies = (int(word) for word in sys.argv[2:])
    try:
        runs, size = open_problem(sys.argv[1], n, k, m, threads, copies)
    except Exception as error:  # its own classes differ from release to release
        print("no", " ".join(str(error).split()), flush=True)
        return 0
    print("ready", size, describe(), flush=True)
    return serve(runs, threads)


if __name__ == "__main__":
    sys.exit(main())
