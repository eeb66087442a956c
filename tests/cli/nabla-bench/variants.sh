# Every variant that the help lists is legal.
need_compiler
for variant in $(nb gemm --help | tr -d '\n' | tr -s ' ' | sed 's/.*One of best, \([a-z0-9_, ]*\)\..*gemv_codeline.*/\1/; s/.*One of best, \(gemv_codeline[a-z0-9_, ]*\)\..*/\1/' | tr -d ','); do
  nb gemm --variant "$variant" -n 16777216 -k 16777216 2>&1 | grep 'unknown value'
  echo "$variant"
done | grep -c gem
