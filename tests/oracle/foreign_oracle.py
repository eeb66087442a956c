"""The commands that the tool proposes for files of other formats, run as they are
printed: what they make holds the same values.

usage: foreign_oracle.py TOOL [torch]
With `torch` the Python is that of scripts/peers torch, and the files are
PyTorch's. Formats whose package this Python lacks are skipped by name; exits 77
where that is all of them.
"""
import importlib.util
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
PEERS = os.environ.get("NABLA_PEERS") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "nabla-peers")
PYTHON = os.path.join(PEERS, "torch", "bin", "python3")
if sys.argv[2:] == ["torch"] and os.environ.get("NABLA_ORACLE_TORCH") != "1":
    if not os.path.exists(PYTHON):
        print("skipped: needs torch and transformers (scripts/peers torch "
              "installs them)")
        sys.exit(77)
    os.environ["NABLA_ORACLE_TORCH"] = "1"
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.execv(PYTHON, [PYTHON, *sys.argv])

import numpy  # noqa: E402
import safetensors.numpy  # noqa: E402

A = numpy.random.default_rng(0).standard_normal((64, 96)).astype("f4")
B = A[0].astype("f2")
failures = 0


def check(good, text):
    global failures
    if not good:
        failures += 1
        print("FAILED: " + text, flush=True)


def command_of(path):
    """The command in the tool's message, without what installs packages."""
    said = subprocess.run([sys.argv[1], "inspect", path], capture_output=True,
                          text=True, check=False)
    found = re.search(r'\'pip install [^\']*\' and (python3 -c "[^"]*")',
                      said.stderr)
    check(said.returncode in (2, 3) and found, "%s: %s" % (path, said))
    return found.group(1) if found else "false"


def expect(path, wanted, output="model.safetensors"):
    """`wanted` after the command for `path`, which is relative as a user's."""
    environment = dict(os.environ)
    environment["PATH"] = (os.path.dirname(sys.executable) + os.pathsep +
                           environment["PATH"])
    done = subprocess.run(command_of(path), shell=True, env=environment,
                          capture_output=True, text=True, check=False)
    if done.returncode or not os.path.exists(output):
        check(False, "%s: %s" % (path, done.stderr))
        return
    got = safetensors.numpy.load_file(output)
    os.unlink(output)
    check(set(got) == set(wanted), "%s: %s" % (path, sorted(got)))
    for name in set(got) & set(wanted):
        check(got[name].dtype == wanted[name].dtype and
              numpy.array_equal(got[name], wanted[name]), "%s: %s" % (path, name))
    print("%s: %d tensors" % (path, len(got)), flush=True)


def npy():
    numpy.save("x.npy", A.T)  # columns lie together
    expect("x.npy", {"weight": A.T})


def npz():
    numpy.savez("x.npz", **{"a.weight": A, "b": B})
    numpy.savez_compressed("y.npz", **{"a.weight": A, "b": B})
    expect("x.npz", {"a.weight": A, "b": B})
    expect("y.npz", {"a.weight": A, "b": B})


def gguf_file():
    import gguf
    for kind in ("F32", "Q8_0"):
        which = gguf.GGMLQuantizationType[kind]
        codes = gguf.quantize(A, which)
        writer = gguf.GGUFWriter(kind + ".gguf", "llama")
        writer.add_tensor("a.weight", codes, raw_dtype=which)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        expect(kind + ".gguf", {"a.weight": gguf.dequantize(codes, which)})


def onnx_file():
    import onnx
    from onnx import helper, numpy_helper
    graph = helper.make_graph(
        [], "g", [], [], [numpy_helper.from_array(A, "a.weight"),
                          numpy_helper.from_array(B, "b")])
    model = helper.make_model(graph)
    onnx.save(model, "x.onnx")
    onnx.save(model, "apart.onnx", save_as_external_data=True,
              location="apart.onnx.data", size_threshold=0)
    expect("x.onnx", {"a.weight": A, "b": B})
    expect("apart.onnx", {"a.weight": A, "b": B})


def hdf5():
    import h5py
    with h5py.File("x.h5", "w") as file:
        file["layer/a.weight"], file["b"] = A, B
    expect("x.h5", {"layer/a.weight": A, "b": B})


def torch_files():
    import torch
    both = {"a.weight": torch.tensor(A.T.copy()).T, "b": torch.tensor(B)}
    wanted = {"a.weight": A, "b": B}
    tied = dict(both, tied=both["a.weight"])
    torch.save(tied, "x.pt")
    expect("x.pt", dict(wanted, tied=A))
    torch.save(both, "old.pth", _use_new_zipfile_serialization=False)
    expect("old.pth", wanted)
    torch.save({"state_dict": both, "epoch": 3}, "x.ckpt")
    expect("x.ckpt", wanted)
    torch.save({"model": both, "optimizer": {}, "epoch": 3}, "y.pt")
    expect("y.pt", wanted)


def torch_folders():
    """Of the class that config.json names, whole or in parts."""
    import json
    import torch
    import transformers
    words = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=1,
                 num_attention_heads=4, vocab_size=128)
    for name, config, more in (
            ("LlamaForCausalLM", "LlamaConfig", words),
            ("BertForSequenceClassification", "BertConfig", words),
            ("T5ForConditionalGeneration", "T5Config",
             dict(vocab_size=128, d_model=64, d_kv=16, d_ff=128, num_layers=1,
                  num_heads=4, tie_word_embeddings=False))):
        model = getattr(transformers, name)(getattr(transformers, config)(**more))
        model.config.architectures = [name]
        os.mkdir(name)
        model.config.save_pretrained(name)
        state = model.state_dict()
        keys = sorted(state)
        parts = {"pytorch_model-00001-of-00002.bin": keys[:3],
                 "pytorch_model-00002-of-00002.bin": keys[3:]}
        for file, held in parts.items():
            torch.save({key: state[key] for key in held},
                       os.path.join(name, file))
        with open(os.path.join(name, "pytorch_model.bin.index.json"), "w",
                  encoding="ascii") as file:
            json.dump({"metadata": {}, "weight_map": {
                key: part for part, held in parts.items() for key in held}}, file)
        saved = name + ".saved"
        model.save_pretrained(saved)  # tied weights once
        expect(name, safetensors.numpy.load_file(
            os.path.join(saved, "model.safetensors")),
               "converted/model.safetensors")


KINDS = {
    "numpy": (npy, npz), "gguf": (gguf_file, ), "onnx": (onnx_file, ),
    "h5py": (hdf5, )}
if sys.argv[2:] == ["torch"]:
    KINDS = {"torch": (torch_files, ), "transformers": (torch_folders, )}


def main():
    sys.argv[1] = os.path.abspath(sys.argv[1])
    ran = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for package, tests in KINDS.items():
            if not importlib.util.find_spec(package):
                print("SKIPPED %s: the Python package is not there" % package)
                continue
            ran += 1
            for test in tests:
                test()
        os.chdir("/")
    print("%d packages, %d failures" % (ran, failures))
    return failures != 0 if ran else 77


if __name__ == "__main__":
    sys.exit(main())
