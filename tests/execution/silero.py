"""The silero-vad network, examples/silero_vad.mlir, on the model's weights and
the speech that comes with them: dense, the probability of each frame is that
of a forward pass in f64 written here; with weights packed by nabla-quant it is
that of the same program on what `nabla-quant dequantize` makes of them, and of
a forward pass on these, and nothing is materialized.

usage: silero.py NABLA_RUN NABLA_QUANT SOURCE_FOLDER
The model is looked for in $NABLA_MODELS, or in ../shared/models beside the
source folder. Exits 77, which ctest shows as skipped, without it.
"""
import os
import re
import subprocess
import sys
import wave

import harness
from harness import np
import formats

f32, f64 = np.float32, np.float64
FOLDER = "silero-vad"
FRAME, CONTEXT, HOP = 512, 64, 128
# The type alias of each weight that is packed. The transform is a Fourier basis,
# no trained weight: it stays as it is.
ALIASES = {"conv1.weight": "conv1", "conv2.weight": "conv2",
           "conv3.weight": "conv3", "conv4.weight": "conv4",
           "lstm_cell.weight_ih": "input", "lstm_cell.weight_hh": "hidden",
           "final_conv.weight": "final"}


def find(name):
    return harness.find_model(sys.argv[3], FOLDER + "/" + name)


def read_speech(path):
    """Frames of 512 samples from -1 to 1; silence fills the last one."""
    with wave.open(path) as file:
        assert file.getparams()[:3] == (1, 2, 16000), file.getparams()
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    samples = np.pad(samples, (0, -len(samples) % FRAME))
    return (samples / f32(32768)).astype(f32).reshape(-1, 1, FRAME)


# ---- the forward pass in f64 ---------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def convolve(x, w, stride, padding):
    """x: features by time; w: outputs, features, window."""
    x = np.pad(x, ((0, 0), (padding, padding)))
    size = w.shape[2]
    windows = np.stack([x[:, t:t + size]
                        for t in range(0, x.shape[1] - size + 1, stride)])
    return np.tensordot(w, windows, ([1, 2], [1, 2]))


def encode(w, samples):
    """What the LSTM hears of a frame with its context."""
    x = np.pad(samples, (0, CONTEXT), "reflect")
    f = convolve(x[None], w["stft_conv.weight"], HOP, 0)
    half = len(f) // 2
    x = np.sqrt(f[:half] ** 2 + f[half:] ** 2)
    for number, stride in ((1, 1), (2, 2), (3, 2), (4, 1)):
        x = convolve(x, w["conv%d.weight" % number], stride, 1)
        x = np.maximum(x + w["conv%d.bias" % number][:, None], 0)
    return x[:, 0]


def forward(tensors, frames):
    """Probabilities, and the LSTM's state behind the last frame."""
    w = {name: array.astype(f64) for name, array in tensors.items()}
    samples = np.concatenate([np.zeros(CONTEXT), frames.reshape(-1)])
    h = c = np.zeros(w["lstm_cell.weight_hh"].shape[1])
    out = []
    for at in range(0, len(samples) - CONTEXT, FRAME):
        x = encode(w, samples[at:at + CONTEXT + FRAME])
        gates = (w["lstm_cell.weight_ih"] @ x + w["lstm_cell.bias_ih"]
                 + w["lstm_cell.weight_hh"] @ h + w["lstm_cell.bias_hh"])
        i, f, g, o = np.split(gates, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        y = w["final_conv.weight"][0, :, 0] @ np.maximum(h, 0)
        out.append(sigmoid(y + w["final_conv.bias"][0]))
    return np.array(out), h, c


# ---- runs ----------------------------------------------------------------------------


def program(s, packed=None):
    """The program with packed types for the weights of ALIASES."""
    with open(os.path.join(sys.argv[3], "examples/silero_vad.mlir"),
              encoding="utf-8") as file:
        text = file.read()
    for alias in ALIASES.values() if packed else ():
        text, count = re.subn(r"^(!%s = )tensor<(\S+)>$" % alias,
                              r"\1!nabla.implicit<\2, %s>" % packed, text,
                              flags=re.M)
        assert count == 1, alias
    return s.write(text)


def run(s, path, frames, weights):
    """Probabilities, hidden state, cell."""
    inputs, outputs = s.path(".npy"), [s.path(".npy") for _ in range(3)]
    np.save(inputs, frames)
    command = ["--policy", "error", "--input", "frames=" + inputs]
    for name in harness.read_safetensors(find("silero_vad_16k.safetensors")):
        command += ["--bind", "%s=%s:%s" % (name, weights, name)]
    for output in outputs:
        command += ["--output", output]
    done = s.start(path, *command)
    if not s.expect(done.returncode == 0,
                    done.stderr.decode(errors="replace")[-1000:]):
        return None
    return [np.load(output).reshape(-1) for output in outputs]


def quantize(s, model, spec):
    """Two files: packed, and decoded again."""
    paths = s.path(".safetensors"), s.path(".safetensors")
    # a rule, for names that do not end in "weight"
    rule = "^(conv[1-4]|final_conv)[.]weight$|^lstm_cell[.]weight_=%s:block=%d"
    for command in (["quantize", model, "-o", paths[0], "-e", "none",
                     "--layout", "nabla", "--rule",
                     rule % (spec.name, spec.block)],
                    ["dequantize", paths[0], "-o", paths[1], "--dtype",
                     "f32"]):
        done = subprocess.run([sys.argv[2], *command, "--quiet"],
                              capture_output=True)
        if done.returncode:
            raise SystemExit("FAILED: %s: %s" % (command, done.stderr.decode()))
    return paths


def compare(s, what, got, want, bound):
    """All results of a run within `bound`, of 1 and of their own size."""
    off = [float(np.max(np.abs(g.astype(f64) - w) / (1 + np.abs(w)), initial=0))
           for g, w in zip(got, want)]
    print("%s: off by %s" % (what, ", ".join("%.2g" % x for x in off)))
    for name, g, w, far in zip(("probabilities", "hidden", "cell"), got, want,
                               off):
        s.expect(g.shape == np.shape(w) and far <= bound,
                 "%s: %s off by %g" % (what, name, far))


def check_dense(s, model, frames):
    tensors = harness.read_safetensors(model)
    dense = program(s)
    want = forward(tensors, frames)
    got = run(s, dense, frames, model)
    if got is None:
        return
    compare(s, "speech", got, want, 1e-4)
    part = float(np.mean(got[0] >= 0.5))
    print("speech in %.1f %% of %d frames" % (100 * part, len(frames)))
    s.expect(0.66 <= part <= 0.70, "%g of the frames are speech" % part)
    rng = np.random.default_rng(harness.seed())
    noise = rng.normal(0, 0.1, (40, 1, FRAME)).astype(f32)
    got = run(s, dense, noise, model)
    compare(s, "noise", got, forward(tensors, noise), 1e-4)
    s.expect(np.all(got[0] < 0.5), "noise is taken for speech")
    got = run(s, dense, frames[:0], model)  # nothing was heard
    compare(s, "no frames", got, (np.zeros(0), np.zeros(128), np.zeros(128)), 0)


def check_packed(s, model, spec, frames):
    packed, decoded = quantize(s, model, spec)
    tensors = harness.read_safetensors(decoded)
    original = harness.read_safetensors(model)
    for name in ALIASES:
        s.expect(not np.array_equal(tensors[name], original[name]),
                 "%s is not packed" % name)
    got = run(s, program(s, spec.attribute()), frames, packed)
    same = run(s, program(s), frames, decoded)
    if got is None or same is None:
        return
    # Each product is within the bound of promise 2 of its dense twin, some 2e-5
    # of what is summed; gates are flat and the state forgets, so that steps do
    # not add up. A wrong weight is off by more than 1e-2.
    compare(s, "%s beside dense" % spec, got, same, 2e-5)
    compare(s, "%s beside f64" % spec, got, forward(tensors, frames), 1e-4)


def test(s):
    model = find("silero_vad_16k.safetensors")
    frames = read_speech(find("jfk.wav"))
    check_dense(s, model, frames)
    for name, block in (("nf4", 64), ("int8", 64), ("fp4", 16)):
        check_packed(s, model, formats.Spec(name, block), frames)


harness.session(sys.argv[1], test)
