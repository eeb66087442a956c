# The options of a verb, by groups; the same table as JSON.
nb codec --help
nb help codec --json | python3 -c '
import json, sys
help = json.load(sys.stdin)
print(help["tool"], help["summary"])
for option in help["options"]:
    print(option["name"], option["group"], option["argument"])
'
nb codec --version --json
