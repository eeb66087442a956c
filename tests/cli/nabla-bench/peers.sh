# Peers that are not there, that are, and that misbehave: none stops the others.
need_compiler
mkdir -p bin
peer=bin/nabla-peer-bitsandbytes
export NABLA_PEERS="$PWD"
small='-n 64 -k 256 --size 1 --turns 1 --peers bitsandbytes'
measure() {
  nb gemv $small >out 2>err
  echo "exit $?, $(grep -c '^kernel' out) kernel"
  grep -E '^bitsandbytes nf4(:|  )|^skipped: bits' out |
    sed -E 's/ +[0-9][0-9.% ]*$/ FIGURES/'
}
# behave TEXT: a peer that is this shell script
behave() {
  printf '#!/bin/sh\n%s\n' "$1" >$peer
  chmod +x $peer
  measure
}
measure
behave 'echo ready 8192 a fake of version 1 on $*
while read -r word first count; do
  i=0
  while [ $i -lt $count ]; do printf "2000 "; i=$((i + 1)); done
  echo
done'
behave 'echo no such thing can be done'
behave 'echo hello'
behave 'exit 3'
behave 'echo ready 1 x; exit 0'
behave 'echo ready 1 x; while read -r line; do echo 1 2 x; done'
behave 'echo ready 1 x; while read -r line; do echo nan nan nan; done'
behave 'head -c 100000 /dev/zero | tr "\0" x; sleep 100'
