"""The decoder that is recorded with arrays and the text of lib/models are one
program after --canonicalize --cse, up to the order of operations, and give the same
bytes of logits for 64 tokens: of dense weights, and of weights packed as nf4.

usage: recorded_decoder.py RECORDED_DECODER NABLA_OPT
"""
import hashlib
import os
import re
import subprocess
import sys
import tempfile


def nabla_opt(opt, arguments, text):
    return subprocess.run([opt] + arguments, input=text, capture_output=True, text=True,
                          check=True).stdout


def canonical(opt, path, function):
    """Operations of a function as hashes of what they compute, and its results."""
    # printed, so that an attribute which has its default is the same as none
    text = nabla_opt(opt, ["--canonicalize", "--cse", path], None)
    text = nabla_opt(opt, ["--mlir-print-op-generic", "-"], text)
    names, values, operations = {}, {}, []
    found = re.search(r'"func\.func"\(\) <\{(.*?)sym_name = "%s"\}> \(\{\n'
                      r'  *\^bb0\(([^\n]*)\):\n(.*?)\n  \}\) : \(\)' % function, text, re.S)
    attributes, arguments, body = found.groups()
    for i, entry in enumerate(re.findall(r"\{(nabla\.name[^{}]*)\}", attributes)):
        names[i] = entry
    for i, argument in enumerate(re.findall(r"(%\w+): ", arguments)):
        values[argument] = names[i]
    for line in body.splitlines():
        result, operation = re.fullmatch(r'\s*(?:(%\w+) = )?"(.*)', line).groups()
        operation = re.sub(r"%[\w#]+", lambda m: values[m[0]], operation)
        key = hashlib.sha256(operation.encode()).hexdigest()
        if result:
            values[result] = key
        operations.append(key + " " + operation.split('"')[0])
    return sorted(operations), operation


def compare(program, opt, model, packing, folder):
    paths = [os.path.join(folder, name) for name in ("recorded.mlir", "written.mlir")]
    done = subprocess.run([program, model] + paths + packing, capture_output=True,
                          text=True, check=False)
    if done.returncode:
        return done.stderr.strip()
    if not done.stdout.startswith("403 407 261 378 432 383 286 261 ") and not packing:
        return "other tokens: " + done.stdout
    recorded, last = canonical(opt, paths[0], "main")
    written, returned = canonical(opt, paths[1], "decode")
    if len(written) < 80:
        return "the programs cannot be read"
    if recorded != written or last != returned:
        return "other operations: " + ", ".join(
            sorted({o.split(" ", 1)[1] for o in set(recorded) ^ set(written)}))
    print("figure: operations %d" % len(written))
    return None


def main():
    model = os.path.join(os.environ.get("NABLA_MODELS", ""), "stories260K",
                         "stories260K-f32.safetensors")
    if not os.path.exists(model):
        print("SKIPPED: no stories260K in $NABLA_MODELS")
        return 77
    wrong = 0
    for packing in ([], ["nf4"]):
        with tempfile.TemporaryDirectory() as folder:
            text = compare(sys.argv[1], sys.argv[2], model, packing, folder)
        if text:
            print("%s: %s" % (" ".join(packing) or "dense", text))
            wrong = 1
    return wrong


sys.exit(main())
