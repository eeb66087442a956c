# Every member that a verb prints stands in its section of docs/JSON.md, or in
# one that the section refers to.
q quantize $DATA/f32.safetensors -o q.safetensors --nonfinite keep --json >quantize
q quantize $DATA/hf -o out -q --json >quantize_folder
q plan $DATA/hf -o new -q --json >plan
q dequantize q.safetensors -o d.safetensors --json >dequantize
q inspect q.safetensors --json >inspect
q inspect q.safetensors --tensor model.layers.0.mlp.down_proj.weight --json >inspect_tensor
q verify out nowhere.safetensors --json >verify 2>/dev/null
q diff $DATA/f32.safetensors q.safetensors --json >diff
q plan nowhere.safetensors --json >plan_error 2>/dev/null
q help quantize --json >help_quantize
q help --json >help
python3 - "$HERE/../../docs/JSON.md" <<'P'
import json, os, re, sys

SECTIONS = {  # of the page: also the section before the first heading, ""
    "quantize": ("", "plan, quantize"),
    "plan": ("", "plan, quantize"),
    "dequantize": ("", "dequantize", "plan, quantize"),
    "inspect": ("", "inspect", "plan, quantize"),
    "verify": ("", "verify", "Errors"),
    "diff": ("", "diff"),
    "help": ("", "Help"),
}

def members(node):
    """Names of members; those of metadata come from the file."""
    if isinstance(node, list):
        return set().union(*(members(item) for item in node))
    if not isinstance(node, dict):
        return set()
    below = (members(value) for key, value in node.items() if key != "metadata")
    return set(node).union(*below)

with open(sys.argv[1], encoding="utf-8") as file:
    parts = re.split(r"^## (.*)$", "\n" + file.read(), flags=re.M)
page = dict(zip([""] + parts[1::2], parts[0::2]))
for name in sorted(os.listdir(".")):
    if not os.path.isfile(name) or "." in name:
        continue
    with open(name, encoding="utf-8") as file:
        printed = members(json.load(file))
    sections = SECTIONS[name.split("_")[0]]
    sections += ("Errors",) if "error" in printed else ()
    sections += ("Help",) if "help" in printed else ()
    text = "".join(page[section] for section in sections)
    for member in sorted(printed):
        if "`%s`" % member not in text:
            print(name, "prints", member, "which its section lacks")
    print(name, "many" if len(printed) > 8 else len(printed))
P
