# The figures differ with the machine: their number and names.
need_compiler
nb arrays | sed -E 's/[0-9]+\.[0-9]+/N/; s/ +/ /g'
nb arrays --json | check_json arrays verb
