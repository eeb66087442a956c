# Figures differ; rows and columns do not. Later encodings add rows.
nb codec --size 1 --turns 1 --isa portable | sed -E 's/[0-9]+\.[0-9]+/N/g; s/ +/ /g' |
  grep -E '^(encoding |nf4/|int8/)'
