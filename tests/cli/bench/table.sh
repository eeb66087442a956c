# Figures differ; rows and columns do not. Later encodings add rows.
q bench --size 1 --repeat 1 --isa scalar | sed -E 's/[0-9]+\.[0-9]+/N/g; s/ +/ /g' |
  grep -E '^(encoding |nf4/|int8/)'
