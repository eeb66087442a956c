need_compiler
for wrong in '--encoding nf5' '--peers lama.cpp' '--peers ,' '--peers all,none' \
  '-n 16777216 -k 16777216'; do
  code=0
  # shellcheck disable=SC2086 # several words
  nb gemv $wrong >out 2>err || code=$?
  head -n 1 err
  echo "exit $code"
done
