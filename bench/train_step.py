#!/usr/bin/env python3
"""A step of training beside torch: bench/train_step.c.

  train_step.py PROGRAM [--threads N]

Two layers without biases, gelu, mean square, AdamW; f32; the same numbers in
both. Turns of several steps alternate, each prints the CPU's milliseconds of a
step; the least of all turns counts. Needs torch, on PyPI (scripts/peers torch).
"""

import argparse
import subprocess
import time

import torch

SHAPES = ((64, 256, 64, 64, 200), (256, 1024, 256, 64, 30),
          (1024, 1024, 1024, 128, 10))
TURNS = 9


def waves(rows, columns, phase, scale):
    i = torch.arange(rows * columns, dtype=torch.float64)
    return (torch.sin(i + phase) * scale).reshape(rows, columns).float()


class Model:
    def __init__(self, sizes, batch):
        self.w = [waves(sizes[i + 1], sizes[i], i, sizes[i] ** -.5)
                  .requires_grad_() for i in range(2)]
        self.x = waves(batch, sizes[0], 3, 1)
        self.y = waves(batch, sizes[2], 4, 1)
        self.steps = torch.optim.AdamW(self.w, lr=.001, weight_decay=.01,
                                       fused=True)

    def step(self):
        self.steps.zero_grad()
        h = torch.nn.functional.gelu(self.x @ self.w[0].T)
        loss = torch.nn.functional.mse_loss(h @ self.w[1].T, self.y)
        loss.backward()
        self.steps.step()
        return loss.item()

    def turn(self, count):
        start = time.process_time()
        for _ in range(count):
            loss = self.step()
        return 1e3 * (time.process_time() - start) / count, loss


def compare(program, shape):
    *sizes, batch, count = shape
    ours = subprocess.Popen([program, *map(str, sizes), str(batch)], text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    model = Model(sizes, batch)
    least = [float("inf")] * 2
    for turn in range(TURNS + 1):
        steps = count if turn else 5  # the first compiles, and is compared
        ours.stdin.write(f"{steps}\n")
        ours.stdin.flush()
        _, cpu, loss = map(float, ours.stdout.readline().split())
        theirs, expected = model.turn(steps)
        if turn:
            least = [min(least[0], cpu), min(least[1], theirs)]
        elif abs(loss - expected) > 1e-3 * expected:
            raise SystemExit(f"losses differ: {loss}, torch {expected}")
    ours.stdin.close()
    ours.wait()
    print(f"{sizes[0]:5} {sizes[1]:5} {sizes[2]:5}, batch {batch:4}: "
          f"{least[0]:8.3f} ms, torch {least[1]:8.3f} ms, "
          f"{least[1] / least[0]:.2f} of torch's speed")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"torch {torch.__version__}, {options.threads} thread(s)")
    for shape in SHAPES:
        compare(options.program, shape)


if __name__ == "__main__":
    main()
