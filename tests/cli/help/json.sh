# With --json help and version are one JSON text, with every option of the verb
# that the text has.
q --help --json | check_json help verb help.verbs.0.name help.exits.0.code
for verb in quantize plan inspect dequantize verify diff; do
  q $verb --json --help | check_json help verb help.operands
  q help $verb --json | check_json help verb
  q $verb --help | grep -c '^  -.* --\|^      --' >text
  q $verb --help --json |
    python3 -c 'import json, sys
print(len(json.load(sys.stdin)["help"]["options"]))' | cmp - text
done
q help --json | check_json help verb
q --version --json | check_json version version
q verify --version --json | check_json version verb
