#!/usr/bin/env python3
"""PyTorch on the CPU as a peer of `nabla-bench ops`; peer.h says how they talk.

Results go to memory that exists (out=) wherever PyTorch has that; allocations
of the others are reused by the allocator, which nabla-bench sees to.
"""
import sys
import time

import torch
import torch.nn.functional as F


def random(shape, dtype, seed=[0]):
    seed[0] += 1
    generator = torch.Generator().manual_seed(seed[0])
    return torch.randn(shape, generator=generator).to(dtype)


def elements(op, a, b, t):
    """Functions of one or two arrays, each into an array that exists."""
    x, y = random((a, b), t), random((a, b), t)
    r = torch.empty_like(x)
    if op == "add":
        return lambda: torch.add(x, y, out=r)
    if op == "exp":
        return lambda: torch.exp(x, out=r)
    if op in ("sin", "cos"):
        return lambda: getattr(torch, op)(x, out=r)
    if op == "gelu":
        return lambda: torch.ops.aten.gelu.out(x, out=r)
    if op == "silu":
        return lambda: torch.ops.aten.silu.out(x, out=r)

    def chain5():
        torch.mul(x, y, out=r)
        torch.add(r, x, out=r)
        torch.maximum(r, y, out=r)
        torch.sub(r, x, out=r)
        torch.mul(r, y, out=r)

    return chain5


def rows(op, a, b, t):
    x, w, v = random((a, b), t), random((b,), t), random((b,), t)
    r = torch.empty_like(x)
    if op == "softmax":
        return lambda: torch.ops.aten._softmax.out(x, 1, False, out=r)
    if op == "rms_norm":
        return lambda: F.rms_norm(x, (b,), w, 1e-5)
    if op == "layer_norm":
        return lambda: F.layer_norm(x, (b,), w, v, 1e-5)
    if op == "cumsum":
        return lambda: torch.cumsum(x, 1, out=r)
    if op == "argmax":
        index = torch.empty(a, dtype=torch.int64)
        return lambda: torch.argmax(x, 1, out=index)
    dim = int(op[-1])
    s = torch.empty(a if dim else b, dtype=t)
    if op.startswith("sum"):
        return lambda: torch.sum(x, dim, out=s)
    return lambda: torch.amax(x, dim, out=s)


def moves(op, a, b, c, t):
    x = random((a, b), t)
    if op == "transpose":
        r = torch.empty((b, a), dtype=t)
        return lambda: r.copy_(x.t())
    if op == "gather":
        i = torch.randint(0, 1024, (c,), dtype=torch.int32)
        r = torch.empty((c, b), dtype=t)
        return lambda: torch.index_select(x, 0, i, out=r)
    r = torch.empty((a, c), dtype=t)
    if op == "concatenate":
        y = random((a, b), t)
        return lambda: torch.cat((x, y), 1, out=r)
    if op == "slice":
        return lambda: r.copy_(x[:, 1:])
    return lambda: torch.ops.aten.constant_pad_nd.out(x, (1, 2), 0.0, out=r)


def product(op, a, b, c, d, t):
    if op == "dot_batched":
        x, w = random((d, a, c), t), random((d, b, c), t)
        r = torch.empty((d, a, b), dtype=t)
        return lambda: torch.bmm(x, w.transpose(1, 2), out=r)
    x = random((a, c), t) if op[4] == "n" else random((c, a), t).t()
    w = random((c, b), t) if op[5] == "n" else random((b, c), t).t()
    r = torch.empty((a, b), dtype=t)
    return lambda: torch.mm(x, w, out=r)


def attention(op, a, b, c, d, t):
    queries = 1 if op == "attention_step" else c
    q = random((1, a, queries, d), t)
    k, v = random((1, b, c, d), t), random((1, b, c, d), t)
    causal = op == "attention_causal"
    return lambda: F.scaled_dot_product_attention(
        q, k, v, is_causal=causal, enable_gqa=a != b)


def convolution(op, a, b, c, d, t):
    if op == "conv3x3":
        x, w = random((1, a, c, d), t), random((b, a, 3, 3), t)
        return lambda: F.conv2d(x, w, padding=1)
    if op == "conv3x3_batch":
        x, w = random((d, a, c, c), t), random((b, a, 3, 3), t)
        return lambda: F.conv2d(x, w, padding=1)
    if op == "conv3x3_by2":
        x, w = random((1, a, c, c), t), random((b, a, 3, 3), t)
        return lambda: F.conv2d(x, w, padding=1, stride=2)
    if op == "conv_depthwise":
        x, w = random((b, a, c, d), t), random((a, 1, 3, 3), t)
        return lambda: F.conv2d(x, w, padding=1, groups=a)
    if op == "conv_stft":
        x, w = random((1, a, c), t), random((b, a, 256), t)
        return lambda: F.conv1d(x, w, stride=128)
    x, w = random((1, a, c), t), random((b, a, 3), t)
    return lambda: F.conv1d(x, w, stride=2 if op == "conv1d_by2" else 1,
                            padding=1)


def open_op(op, dtype, a, b, c, d):
    t = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
    if op in ("add", "chain5", "exp", "gelu", "silu", "sin", "cos"):
        return elements(op, a, b, t)
    if op in ("transpose", "gather", "concatenate", "slice", "pad"):
        return moves(op, a, b, c, t)
    if op.startswith("dot_"):
        return product(op, a, b, c, d, t)
    if op.startswith("attention_"):
        return attention(op, a, b, c, d, t)
    if op.startswith("conv"):
        return convolution(op, a, b, c, d, t)
    if op in ("softmax", "rms_norm", "layer_norm", "cumsum", "argmax", "sum0",
              "sum1", "max0", "max1"):
        return rows(op, a, b, t)
    raise ValueError(f"it has no {op}")


def describe():
    return (f"torch {torch.__version__}, "
            f"{torch.backends.cpu.get_cpu_capability()}")


def answer_open(words):
    """The function to time, or None; says which."""
    try:
        torch.set_num_threads(int(words[2]))
        function = open_op(words[0], words[1], *(int(w) for w in words[3:]))
        function()
    except Exception as error:  # of its own classes, and of Python's
        print("no", " ".join(str(error).split())[:200], flush=True)
        return None
    print("ready 0", describe(), flush=True)
    return function


def serve():
    function, now = None, time.perf_counter_ns
    for line in sys.stdin:
        words = line.split()
        if words[0] == "open":
            function = None  # frees the arrays of the one before
            function = answer_open(words[1:])
            now = (time.thread_time_ns if words[3] == "1"
                   else time.perf_counter_ns)
        elif words[0] == "run" and function:
            times = []
            for _ in range(int(words[2])):
                begin = now()
                function()
                times.append(max(now() - begin, 1))
            print(*times, flush=True)
        else:
            return 2
    return 0


def main():
    if sys.argv[1:] == ["--version"]:
        print(describe())
        return 0
    if sys.argv[1:] != ["ops"]:
        print("no it is a peer of `nabla-bench ops` alone", flush=True)
        return 0
    with torch.inference_mode():
        return serve()


if __name__ == "__main__":
    sys.exit(main())
