"""Folders as transformers and bitsandbytes read them. Every row of
quant/huggingface/architectures.def loads packed weights and computes what the decoded model
does; folders of other classes, and every other encoding of 8 bits, raise.

usage: transformers_oracle.py TOOL
The Python is that of scripts/peers torch. Exits 77, which ctest shows as
skipped, where it is not there.
"""
import json
import logging
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings

sys.dont_write_bytecode = True
PEERS = os.environ.get("NABLA_PEERS") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "nabla-peers")
PYTHON = os.path.join(PEERS, "torch", "bin", "python3")
if os.environ.get("NABLA_ORACLE_TORCH") != "1":
    if not os.path.exists(PYTHON):
        print("skipped: needs torch, transformers and bitsandbytes (scripts/peers "
              "torch installs them)")
        sys.exit(77)
    os.environ["NABLA_ORACLE_TORCH"] = "1"
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.execv(PYTHON, [PYTHON, *sys.argv])

import torch  # noqa: E402
import transformers  # noqa: E402
import transformers_models as models  # noqa: E402

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                     "../../quant/huggingface/architectures.def")
# Classes without a row: transposed matrices, a linear class that is not
# replaced, convolutions.
OTHERS = ("GPT2LMHeadModel", "OpenAIGPTLMHeadModel", "FalconForCausalLM",
          "ConvNextForImageClassification")
# What has codes of 8 bits in the Nabla layout.
WIDE = [["int8", "--block", "64"], ["int8", "--search"], ["int8", "--zero-point"],
        ["int8", "--layout", "nabla"], ["int8", "--rule", "q_proj=fp8"],
        ["int8", "--block", "row", "--scale", "f16"], ["fp8"], ["fp8_e5m2"],
        ["fp8", "--block", "row"], ["fp8", "--block", "tensor"], ["mxfp8"],
        ["mxfp8_e5m2"]]
OWN_BOUND = 1.25
failures = 0


class Figures:
    """Distances of logits, of all rows."""

    def __init__(self):
        self.nf4, self.fp4 = [], []  # AVX512-BF16 path, to the decoded model
        self.int8 = []  # to the decoded model
        self.rounding = []  # the same, over that of bitsandbytes' own packing
        self.source = []  # to the source, over that of bitsandbytes' own

    def show(self):
        for name in ("nf4", "fp4", "int8"):
            if getattr(self, name):
                print("figure: worst_%s%s %.2e" % (
                    name, "" if name == "int8" else "_bf16",
                    max(getattr(self, name))))
        for name in ("rounding", "source"):
            values = getattr(self, name)
            if not values:
                continue
            mean = math.exp(sum(map(math.log, values)) / len(values))
            check(mean <= 1.02 or len(values) < 20, "int8, %s: %.3f of "
                  "bitsandbytes' own" % (name, mean))
            print("figure: int8_%s_over_own %.3f, %.3f to %.3f" % (
                name, mean, min(values), max(values)))


def check(good, text):
    global failures
    if not good:
        failures += 1
        print("FAILED: " + text, flush=True)
    return good


def rows():
    with open(TABLE, encoding="utf-8") as file:
        found = re.findall(r"^ARCHITECTURE\(\s*(\w+)\s*,", file.read(), re.M)
    if not found:
        raise SystemExit("FAILED: no rows in " + TABLE)
    return found


def tool(*words):
    done = subprocess.run([sys.argv[1], *words], capture_output=True, text=True)
    check(done.returncode == 0, "%s: %s" % (" ".join(words), done.stderr))
    return done


def quantize(folder, *words):
    out = os.path.join(folder, "packed")
    shutil.rmtree(out, ignore_errors=True)
    done = tool("quantize", os.path.join(folder, "dense"), "-o", out, "-e",
                *words)
    with open(os.path.join(out, "config.json"), encoding="utf-8") as file:
        return out, json.load(file).get("quantization_config"), done.stderr


def load(model_class, folder, **words):
    return model_class.from_pretrained(folder, dtype=torch.float32, **words)


def distance(a, b):
    return ((a - b).norm() / b.norm()).item()


def is_packed(module):
    return type(module).__name__ in ("Linear4bit", "Linear8bitLt")


def load_own(model_class, folder, said, **words):
    """What bitsandbytes packs of the same weights, with the same layers."""
    return load(model_class, folder,
                quantization_config=transformers.BitsAndBytesConfig(
                    llm_int8_skip_modules=said["llm_int8_skip_modules"], **words))


def weight_errors(model, source):
    """The squared error of each packed weight of 8 bits."""
    dense = dict(source.named_modules())
    errors = {}
    for name, module in model.named_modules():
        if is_packed(module):
            errors[name] = (decoded(module) - dense[name].weight).square().sum(
                ).item()
    return errors


def decoded(module):
    weight = module.weight
    return weight.data.float() * weight.SCB.reshape(-1, 1) / 127


@torch.no_grad()
def with_decoded(model_class, folder, packed):
    """The model of `folder` with the weights that `packed` stands for."""
    model = load(model_class, folder)
    dense = dict(model.named_modules())
    for name, module in packed.named_modules():
        if is_packed(module):
            dense[name].weight.copy_(decoded(module))
    return model


def check_int8(name, folder, packed, said, figures):
    """LLM.int8 rounds activations too: how far that is from the decoded model is
    bitsandbytes' own error, which its own packing has as well."""
    model_class = getattr(transformers, name)
    source_folder = os.path.join(folder, "dense")
    source = load(model_class, source_folder)
    own = load_own(model_class, source_folder, said, load_in_8bit=True)
    ours = load(model_class, packed)
    theirs = weight_errors(own, source)
    for at, error in weight_errors(ours, source).items():
        check(error <= 1.01 * theirs[at], "%s: %s is farther from the source, %g, "
              "than bitsandbytes' own, %g" % (name, at, error, theirs[at]))
    # copies first: a run changes how weights lie in memory
    own_wanted = models.run(with_decoded(model_class, source_folder, own))
    got, own_got, exact = models.run(ours), models.run(own), models.run(source)
    far = distance(got, models.run(load(model_class, os.path.join(
        folder, "decoded"))))
    own_far = distance(own_got, own_wanted)
    check(far <= OWN_BOUND * own_far, "%s int8: %.3g from the decoded model, "
          "bitsandbytes' own %.3g" % (name, far, own_far))
    figures.int8.append(far)
    figures.rounding.append(far / own_far)
    figures.source.append(distance(got, exact) / distance(own_got, exact))
    return "int8 %.2e (own %.2e)" % (far, own_far)


def check_4bit(name, folder, packed, said, figures):
    """Bit for bit what the decoded model computes. On the AVX512-BF16 path no
    farther from it than bitsandbytes' own packing, which is the same bits in nf4;
    a few fp4 codes differ (docs/FORMAT.md, B8)."""
    model_class = getattr(transformers, name)
    encoding = said["bnb_4bit_quant_type"]
    what = "%s %s" % (name, encoding)
    wanted = models.run(load(model_class, os.path.join(folder, "decoded")))
    ours, own = [], []
    for bf16 in (False, True):
        ours.append(models.run(load(model_class, packed), bf16))
        own.append(models.run(load_own(
            model_class, os.path.join(folder, "dense"), said, load_in_4bit=True,
            bnb_4bit_quant_type=encoding,
            bnb_4bit_compute_dtype=said["bnb_4bit_compute_dtype"],
            bnb_4bit_use_double_quant=said["bnb_4bit_use_double_quant"]), bf16))
        if encoding == "nf4":
            check(torch.equal(ours[-1], own[-1]), "%s%s: not what bitsandbytes' "
                  "own packing computes, %.3g" % (
                      what, ", AVX512-BF16" if bf16 else "",
                      distance(ours[-1], own[-1])))
    check(torch.equal(ours[0], wanted), "%s: not equal, %.3g" %
          (what, distance(ours[0], wanted)))
    far, own_far = distance(ours[1], wanted), distance(own[1], own[0])
    check(far <= OWN_BOUND * own_far, "%s, AVX512-BF16: %.3g, own %.3g" %
          (what, far, own_far))
    getattr(figures, encoding).append(far)
    return "%s equal, bf16 %.2e" % (encoding, far)


def check_row(name, folder, figures):
    models.build(name, os.path.join(folder, "dense"))
    dense = os.path.join(folder, "decoded")
    text = [name]
    for encoding in ("nf4", "fp4", "int8"):
        what = "%s %s" % (name, encoding)
        packed, said, notes = quantize(folder, encoding)
        if not check(said and "cannot load" not in notes, what + ": no "
                     "quantization_config: " + notes):
            continue
        shutil.rmtree(dense, ignore_errors=True)
        tool("dequantize", packed, "-o", dense, "--dtype", "f32", "-q")
        count = sum(map(is_packed, load(getattr(transformers, name),
                                        packed).modules()))
        check(count > 0, what + ": nothing is packed")
        check("transformers loads it as bitsandbytes " + encoding in
              tool("verify", packed).stdout, what + ": verify")
        checks = check_int8 if encoding == "int8" else check_4bit
        text.append(checks(name, folder, packed, said, figures))
    print("%s, %d layers: %s" % (text[0], count, ", ".join(text[1:])), flush=True)


def error_of(name, folder):
    try:
        load(getattr(transformers, name), folder)
    except Exception as error:  # pylint: disable=broad-except
        return error
    return None


def check_refused(name, folder, words):
    what = "%s %s" % (name, " ".join(words))
    packed, said, notes = quantize(folder, *words)
    check(not said, what + ": has a quantization_config")
    check("transformers cannot load the result" in notes, what + ": " + notes)
    check("transformers cannot load it" in tool("verify", packed).stdout,
          what + ": verify")
    check(error_of(name, packed), what + ": loaded without an error")


def check_misread(name, folder):
    """What is asked for is obeyed, and the note is true."""
    packed, said, notes = quantize(folder, "int8", "--layout", "bitsandbytes")
    check(not said and "without an error" in notes, "%s: %s" % (name, notes))
    check(not error_of(name, packed), name + ": the note says that it loads")
    check("takes its codes for weights" in tool("verify", packed).stdout,
          name + ": verify")


def main():
    wanted = sys.argv[2:]
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    table, figures = rows(), Figures()
    for name in wanted or table:
        if name not in table:
            continue
        if not check(models.has_model(name), name + ": has a row but no model"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            check_row(name, folder, figures)
    figures.show()
    for name in wanted or OTHERS:
        if name in table:
            continue
        with tempfile.TemporaryDirectory() as folder:
            models.build(name, os.path.join(folder, "dense"))
            for words in (["nf4"], ["fp4"], ["int8"], *WIDE):
                check_refused(name, folder, words)
            if name == OTHERS[0]:
                check_misread(name, folder)
    for name in wanted or ("LlamaForCausalLM", "MixtralForCausalLM"):
        if name not in table:
            continue
        with tempfile.TemporaryDirectory() as folder:
            models.build(name, os.path.join(folder, "dense"))
            for words in WIDE:
                check_refused(name, folder, words)
    print("%d classes, %d failures" % (len(table), failures))
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
