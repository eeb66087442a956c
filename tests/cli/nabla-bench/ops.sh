# Programs of one operation, beside a peer that is there and one that is not.
need_compiler
mkdir -p bin
export NABLA_PEERS="$PWD"
names_only() {
  sed -E 's/ +[0-9]+\.[0-9]+%?/ N/g; s/\([0-9.]+\)/(N)/' out
}
nb ops --ops argmax,sum1 --turns 1 --peers none >out
names_only
cat >bin/nabla-peer-torch <<'PEER'
#!/bin/sh
while read -r word first count rest; do
  case $word in
    open) [ "$first" = max0 ] && echo no such thing || echo "ready 0 a fake of $1" ;;
    run)
      i=0
      while [ $i -lt $count ]; do printf "2000 "; i=$((i + 1)); done
      echo ;;
  esac
done
PEER
chmod +x bin/nabla-peer-torch
nb ops --ops max0,sum0 --type bf16 --turns 1 --threads 2 >out
names_only
nb ops --ops sum0 --turns 1 --json |
  check_json ops type threads turns rows.0.op rows.0.shape.1 rows.0.bytes_read \
    rows.0.bytes_written rows.0.peers.0.name rows.0.peers.0.version
printf '#!/bin/sh\nexit 3\n' >bin/nabla-peer-torch
nb ops --ops sum1 --turns 1 >out
grep -c '^sum1' out
for wrong in '--ops exq' '--ops ,' '--type f16' '--peers torc' '-e nf4'; do
  code=0
  # shellcheck disable=SC2086 # several words
  nb ops $wrong >out 2>err || code=$?
  head -n 1 err
  echo "exit $code"
done
