# Every member of the schema stands in docs/JSON.md, between backticks.
docs=$HERE/../../docs
python3 - "$docs/schema/nabla-quant-1.json" "$docs/JSON.md" <<'P'
import json, sys

def members(node):
    if isinstance(node, list):
        return set().union(*map(members, node))
    if not isinstance(node, dict):
        return set()
    own = node.get("properties")
    return set(own if isinstance(own, dict) else ()).union(
        *map(members, node.values()))

with open(sys.argv[1], encoding="utf-8") as file:
    names = members(json.load(file))
with open(sys.argv[2], encoding="utf-8") as file:
    page = file.read()
for name in sorted(names):
    if "`%s`" % name not in page:
        print("not in JSON.md:", name)
print("many" if len(names) > 100 else len(names), "members")
P
