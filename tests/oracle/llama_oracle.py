"""Programs of nabla_decoder_write beside transformers on torch: 200 greedy
tokens of stories260K are the same ones, and logits after prefixes of several
lengths are within 1e-4 of the largest.

usage: llama_oracle.py LLAMA NABLA_RUN SOURCE_FOLDER
The model is looked for in $NABLA_MODELS, or in ../shared/models beside the
source folder; torch and transformers come from `scripts/peers torch`. Exits 77,
which ctest shows as skipped, without one of them.
"""
import os
import subprocess
import sys
import tempfile

PYTHON = os.path.join(
    os.environ.get("NABLA_PEERS") or os.path.join(
        os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")),
        "nabla-peers"), "torch/bin/python3")
if sys.executable != PYTHON and os.path.exists(PYTHON):
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.execv(PYTHON, [PYTHON, *sys.argv])
try:
    import numpy as np
    import safetensors.torch
    import torch
    import transformers
except ImportError as problem:
    print("SKIPPED: %s: scripts/peers torch" % problem)
    sys.exit(77)

COUNT, BOUND = 200, 1e-4


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit("FAILED: %s: %s" % (command, done.stderr))
    return done.stdout


def model_folder():
    source = os.path.abspath(sys.argv[3])
    for folder in (os.environ.get("NABLA_MODELS"),
                   os.path.join(os.path.dirname(source), "shared/models")):
        path = folder and os.path.join(folder, "stories260K")
        if path and os.path.exists(os.path.join(path, "config.json")):
            return path
    print("SKIPPED: no stories260K")
    sys.exit(77)


def load(folder, weights):
    config = transformers.LlamaConfig.from_pretrained(folder)
    model = transformers.LlamaForCausalLM(config).float().eval()
    state = safetensors.torch.load_file(weights)
    rest = model.load_state_dict(state, strict=False)
    if rest.unexpected_keys or set(rest.missing_keys) - {"lm_head.weight"}:
        sys.exit("FAILED: transformers: %s" % (rest,))
    model.tie_weights()
    return model


def logits_of(folder, program, weights, ids):
    """Those after the last id, by `prefill`."""
    command = [sys.argv[2], program, "-e", "prefill", "--bind-all", weights]

    def give(name, array):
        path = os.path.join(folder, name + ".npy")
        np.save(path, array)
        command.extend(["-i", "%s=%s" % (name, path)])

    give("tokens", np.array(ids, np.int64))
    give("position", np.array(0, np.int64))
    out = os.path.join(folder, "logits.npy")
    run(*command, "-o", out)
    return np.load(out)[0]


def main():
    folder = model_folder()
    weights = os.path.join(folder, "stories260K-f32.safetensors")
    model = load(folder, weights)
    with torch.no_grad(), tempfile.TemporaryDirectory() as scratch:
        program = os.path.join(scratch, "decoder.mlir")
        got = [int(word) for word in run(
            sys.argv[1], weights, "--ids", "1", "-n", str(COUNT), "--text",
            program).split()]
        want = model.generate(torch.tensor([[1]]), max_new_tokens=COUNT,
                              do_sample=False, eos_token_id=None,
                              pad_token_id=0)[0].tolist()
        if got != want:
            sys.exit("FAILED: tokens %s, not %s" % (got, want))
        worst = 0.0
        for count in (1, 2, 17, 64, COUNT):
            ids = want[:count]
            expected = model(torch.tensor([ids])).logits[0, -1].numpy()
            found = logits_of(scratch, program, weights, ids)
            worst = max(worst, float(np.abs(found - expected).max() /
                                     np.abs(expected).max()))
    print("figure: tokens %d" % (len(want) - 1))
    print("figure: logits_off %.3g" % worst)
    if not worst < BOUND:
        sys.exit("FAILED: logits are off by %g" % worst)


main()
