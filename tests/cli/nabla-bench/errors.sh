# What is wrong with a command line: the sentence, and the exit code.
says() {
  code=0
  nb "$@" >out 2>err || code=$?
  echo "$*"
  head -n 1 err | sed 's/^/  /'
  echo "  $code, $(wc -l <out) lines on standard output"
}
says
says gemw
says gemv x
says --hlp
says gemv -m 3
says gemm --assembly --json
says pool --encoding nf4
says report --json
says report --rows chart
says gemv --numerics fp8
says gemv --isa sse
says gemv --layout packed
says gemv --scale f8
says gemv -n 0
says gemv -n 1e3
says gemm -m 16777217
says gemv --turns 1002
says gemv --size
says gemv --block 48
says gemv --block 8192
says codec --block row
says codec --encoding nf5
says pool --threads 257
says pool --json=1
