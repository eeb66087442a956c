// --mesh and --shard of nabla-compile: what is divided less than a user asks is
// a warning, what cannot be meant an error; both name the option and argument.
// RUN: nabla-compile "%s" --mesh model=2 --shard 'w=[{}, {"model"}]' -o "%t.so" 2>&1 | FileCheck "%s" --check-prefix=LESS
// RUN: nabla-compile "%s" --mesh model=4 --shard 'w=[{"model"}, {}]' -o "%t.so" 2>&1 | count 0
// RUN: nabla-compile "%s" --mesh model=4 --shard 'cache=[{}, {"model"}]' --emit mlir -o "%t.mlir" 2>&1 | count 0
// RUN: FileCheck "%s" --check-prefix=STATE <"%t.mlir"
// RUN: not nabla-compile "%s" --mesh model=4 --shard 'x=[{}, {"modl"}]' -o "%t.so" 2>&1 | FileCheck "%s" --check-prefix=AXIS
// RUN: not nabla-compile "%s" --mesh model=4 --shard '*=[{"model"}]' -o "%t.so" 2>&1 | FileCheck "%s" --check-prefix=RANK
// RUN: not nabla-compile "%s" --mesh model=4 --shard 'y*=[{"model"}]' -o "%t.so" 2>&1 | FileCheck "%s" --check-prefix=NAME
// RUN: not nabla-compile "%s" --mesh a=8,b=9 -o "%t.so" 2>&1 | FileCheck "%s" --check-prefix=DEVICES
// RUN: not nabla-compile "%s" --mesh a=2,a=2 -o "%t.so" 2>&1 | FileCheck "%s" --check-prefix=TWICE
// RUN: not nabla-compile "%s" --mesh model=4 --shard 'w=[{model}, {}]' -o "%t.so" 2>&1 | FileCheck "%s" --check-prefix=GRAMMAR
// RUN: nabla-compile "%s" --mesh a=8,b=8 -o "%t.so" 2>&1 | count 0

// LESS: shard-options.mlir:[[@LINE+10]]:1: warning: --shard 'w=[{}, {"model"}]': argument 'w' is divided as @mesh, [{}, {}]: pieces of rows of 192 are no whole blocks of 64; the next size that is: 256
// LESS-NOT: warning
// STATE: state\22:\22cache\22,\22cut\22:[1,2,2,1,1,2]
// AXIS: shard-options.mlir:[[@LINE+7]]:1: error: 'func.func' op --shard 'x=[{}, {"modl"}]': argument 'x': mesh @mesh has no axis "modl": it has "model"
// RANK: --shard '*=[{"model"}]': argument 'x': the sharding has 1 dimensions, the array has 2
// NAME: --shard 'y*': no argument and no state has such a name; there are 'x', 'w', 'cache'
// TWICE: --mesh 'a=2,a=2' has the axis 'a' twice
// GRAMMAR: --shard 'w=[{model}, {}]':
// DEVICES: --mesh 'a=8,b=9' has more devices than a program runs on: at most 64
!w = !nabla.implicit<64x192xf32, #nabla.nf4<block = 64>>
func.func @f(%x: tensor<2x192xf32> {nabla.name = "x"},
    %w: !w {nabla.name = "w"}, %old: tensor<2x4xf32> {nabla.state = "cache"})
    -> (tensor<2x64xf32>, tensor<2x4xf32> {nabla.state = "cache"}) {
  %y = nabla.linear %x, %w : tensor<2x192xf32>, !w
  %new = nabla.neg %old : tensor<2x4xf32>
  return %y, %new : tensor<2x64xf32>, tensor<2x4xf32>
}
