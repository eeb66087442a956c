# Help comes before complaints about what is missing.
q quantize -h >short
q quantize --help | cmp - short
q quantize a b c -h | cmp - short
