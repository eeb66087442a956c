"""Folders as transformers and bitsandbytes read them. Every row of
quant/architectures.def loads packed weights and computes what the decoded model
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
                     "../../quant/architectures.def")
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
BF16_BOUND, INT8_BOUND = 1.2e-2, 2e-2
failures = 0


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


def weight_errors(model, source):
    """The squared error of each packed weight of 8 bits."""
    dense = dict(source.named_modules())
    errors = {}
    for name, module in model.named_modules():
        if is_packed(module):
            weight = module.weight
            values = weight.data.float() * weight.SCB.reshape(-1, 1) / 127
            errors[name] = (values - dense[name].weight).square().sum().item()
    return errors


def check_int8(name, folder, packed, said, ratios):
    model_class = getattr(transformers, name)
    source = load(model_class, os.path.join(folder, "dense"))
    own = load(model_class, os.path.join(folder, "dense"),
               quantization_config=transformers.BitsAndBytesConfig(
                   load_in_8bit=True,
                   llm_int8_skip_modules=said["llm_int8_skip_modules"]))
    ours = load(model_class, packed)
    theirs = weight_errors(own, source)
    for at, error in weight_errors(ours, source).items():
        check(error <= 1.01 * theirs[at], "%s: %s is farther from the source, %g, "
              "than bitsandbytes' own, %g" % (name, at, error, theirs[at]))
    exact = models.run(source)
    ratios.append(distance(models.run(ours), exact) /
                  distance(models.run(own), exact))


def check_row(name, folder, ratios):
    model_class = models.build(name, os.path.join(folder, "dense"))
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
        wanted = models.run(load(model_class, dense))
        model = load(model_class, packed)
        count = sum(map(is_packed, model.modules()))
        check(count > 0, what + ": nothing is packed")
        check("transformers loads it as bitsandbytes " + encoding in
              tool("verify", packed).stdout, what + ": verify")
        got = models.run(model)
        if encoding == "int8":
            far = distance(got, wanted)
            check(far <= INT8_BOUND, "%s: %.3g" % (what, far))
            check_int8(name, folder, packed, said, ratios)
            text.append("int8 %.2e" % far)
            continue
        check(torch.equal(got, wanted), "%s: not equal, %.3g" % (
            what, distance(got, wanted)))
        far = distance(models.run(load(model_class, packed), True), wanted)
        check(far <= BF16_BOUND, "%s, AVX512-BF16: %.3g" % (what, far))
        text.append("%s %d layers equal, bf16 %.2e" % (encoding, count, far))
    print(", ".join(text), flush=True)


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
    table, ratios = rows(), []
    for name in wanted or table:
        if name not in table:
            continue
        if not check(models.has_model(name), name + ": has a row but no model"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            check_row(name, folder, ratios)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        check(mean <= 1.02 or len(ratios) < 20,
              "int8 is farther than bitsandbytes' own by %.3f" % mean)
        print("int8: %.3f of the distance of bitsandbytes' own" % mean)
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
