nb codec --size 1 --turns 2 -e int8 --block 32 | sed -E 's/[0-9]+\.[0-9]+/N/g; s/ +/ /g' |
  sed -E 's/(avx512|avx2|scalar)/ISA/' | grep -E '^(encoding|int8/32 (en|de)code)'
nb codec --size 1 --turns 2 -e nf4 --json | check_json codec buffer_bytes turns rows.0.operation rows.0.encoding
