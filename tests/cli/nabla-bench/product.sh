# Figures differ; rows and columns do not. The peak depends on the CPU.
need_compiler
small='-n 64 -k 256 --size 1 --turns 1 --peers none'
nb gemm $small -m 2 | sed -E 's/[0-9]+\.[0-9]+/N/g; s/[ 0-9]*N%?/ N/g' |
  grep -v -e zmm -e ymm -e '^skipped: peak' -e '^for:' -e '^nf4/64,' -e weights
nb gemv $small --json | check_json gemv n k m threads numerics layout format rows.0.name
nb gemm $small -e dense -m 3 --json | check_json gemm format m
nb gemm $small -e int8 --block row -j 2 --json | check_json gemm format threads
nb gemv $small --scale dynamic8 --json | check_json gemv format
