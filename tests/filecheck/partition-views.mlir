// Views of packed arrays that are permutations of their storage are divided as
// it is: nothing is gathered.
// RUN: nabla-opt "%s" --nabla-propagate-sharding --nabla-manifest --nabla-partition --split-input-file --verify-diagnostics | FileCheck "%s"

// Rows of the weight are columns of its transpose: forward.
// CHECK-LABEL: @rows
// CHECK-NEXT: %[[T:.*]] = nabla.transpose %arg1 permutation = [1, 0] : !nabla.implicit<128x128xf32, #nabla.nf4<block = 64>> -> !nabla.implicit<128x128xf32, #nabla.nf4<block = 64>, view<128x128, strides = [1, 128], offset = 0>>
// CHECK-NEXT: %[[Y:.*]] = nabla.dot_general %arg0, %[[T]] contracting = [1] x [0]
// CHECK-NEXT: nabla.all_gather %[[Y]] dim = 1 axes = ["model"] : tensor<4x128xf32> -> tensor<4x256xf32>
// CHECK-NEXT: return
nabla.mesh @m <["model"=2]>
!w = !nabla.implicit<256x128xf32, #nabla.nf4<block = 64>>
!v = !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>, view<256x128, strides = [1, 128], offset = 0>>
func.func @rows(%x: tensor<4x128xf32>, %w: !w {nabla.sharding = #nabla.sharding<@m, [{"model"}, {}]>}) -> tensor<4x256xf32> {
  %t = nabla.transpose %w permutation = [1, 0] : !w
  %y = nabla.dot_general %x, %t contracting = [1] x [0] : tensor<4x128xf32>, !v
  return %y : tensor<4x256xf32>
}

// -----
// The contraction is divided; backward, from the other operand.
// CHECK-LABEL: @contraction
// CHECK-NEXT: %[[T:.*]] = nabla.transpose %arg1 permutation = [1, 0] : !nabla.implicit<256x64xf32, #nabla.nf4<block = 64>> -> !nabla.implicit<64x256xf32, #nabla.nf4<block = 64>, view<256x64, strides = [1, 64], offset = 0>>
// CHECK-NEXT: %[[Y:.*]] = nabla.dot_general %arg0, %[[T]] contracting = [1] x [0]
// CHECK-NEXT: nabla.all_reduce sum %[[Y]] axes = ["model"] : tensor<4x256xf32>
// CHECK-NEXT: return
nabla.mesh @m <["model"=2]>
!w = !nabla.implicit<256x128xf32, #nabla.nf4<block = 64>>
!v = !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>, view<256x128, strides = [1, 128], offset = 0>>
func.func @contraction(%x: tensor<4x128xf32> {nabla.sharding = #nabla.sharding<@m, [{}, {"model"}]>}, %w: !w) -> tensor<4x256xf32> {
  %t = nabla.transpose %w permutation = [1, 0] : !w
  %y = nabla.dot_general %x, %t contracting = [1] x [0] : tensor<4x128xf32>, !v
  return %y : tensor<4x256xf32>
}

// -----
// A transpose that two products read follows what it is of.
// CHECK-LABEL: @two_products
// CHECK-NOT: nabla.pack
// CHECK: nabla.dot_general %arg1, %{{.*}} contracting = [1] x [1] : tensor<4x128xf32>, !nabla.implicit<128x128xf32
// CHECK-NOT: nabla.pack
// CHECK: return
nabla.mesh @m <["model"=2]>
!w = !nabla.implicit<256x128xf32, #nabla.nf4<block = 64>>
!v = !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>, view<256x128, strides = [1, 128], offset = 0>>
func.func @two_products(%x: tensor<4x128xf32>, %z: tensor<4x256xf32>, %w: !w {nabla.sharding = #nabla.sharding<@m, [{"model"}, {}]>}) -> (tensor<4x256xf32>, tensor<4x128xf32>) {
  %t = nabla.transpose %w permutation = [1, 0] : !w
  %y = nabla.dot_general %x, %t contracting = [1] x [0] : tensor<4x128xf32>, !v
  %q = nabla.dot_general %z, %t contracting = [1] x [1] : tensor<4x256xf32>, !v
  return %y, %q : tensor<4x256xf32>, tensor<4x128xf32>
}

// -----
// An argument that is a view: the cut is one of its storage, which a rank has.
// CHECK: \22name\22:\22arg0\22,\22dtype\22:\22F32\22,\22shape\22:[256,128]
// CHECK-SAME: \22cut\22:[0,1,2]
// CHECK-LABEL: @argument
// CHECK-SAME: %arg0: !nabla.implicit<128x1x128xf32, #nabla.nf4<block = 64>, view<128x128, strides = [1, 0, 128], offset = 0>>
// CHECK-NEXT: nabla.materialize %arg0
nabla.mesh @m <["model"=2]>
!v = !nabla.implicit<128x1x256xf32, #nabla.nf4<block = 64>, view<256x128, strides = [1, 0, 128], offset = 0>>
func.func @argument(%w: !v {nabla.sharding = #nabla.sharding<@m, [{}, {}, {"model"}]>}) -> tensor<128x1x256xf32> {
  %r = nabla.materialize %w : !v
  return %r : tensor<128x1x256xf32>
}

// -----
// A view that is needed whole: components are gathered, and packed as it.
// CHECK-LABEL: @needed_whole
// CHECK-COUNT-2: nabla.all_gather
// CHECK: %[[W:.*]] = nabla.pack {{.*}} -> !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>, view<256x128, strides = [1, 128], offset = 0>>
// CHECK-NEXT: nabla.flip %[[W]]
nabla.mesh @m <["model"=2]>
!w = !nabla.implicit<256x128xf32, #nabla.nf4<block = 64>>
!v = !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>, view<256x128, strides = [1, 128], offset = 0>>
func.func @needed_whole(%w: !w {nabla.sharding = #nabla.sharding<@m, [{"model"}, {}]>}) -> tensor<128x256xf32> {
  %t = nabla.transpose %w permutation = [1, 0] : !w
  %r = nabla.flip %t dims = [0, 1] : !v
  return %r : tensor<128x256xf32>
}

// -----
// Blocks of GGUF files, and an array of three dimensions.
// CHECK-LABEL: @blocks
// CHECK-NEXT: nabla.transpose %arg0 permutation = [2, 0, 1] : !nabla.implicit<4x2x64xf32, #nabla.ggml<q8_0>> -> !nabla.implicit<64x4x2xf32, #nabla.ggml<q8_0>, view<4x2x64, strides = [1, 128, 64], offset = 0>>
// CHECK-NEXT: nabla.materialize
nabla.mesh @m <["model"=2]>
!w = !nabla.implicit<4x4x64xf32, #nabla.ggml<q8_0>>
!v = !nabla.implicit<64x4x4xf32, #nabla.ggml<q8_0>, view<4x4x64, strides = [1, 256, 64], offset = 0>>
func.func @blocks(%w: !w {nabla.sharding = #nabla.sharding<@m, [{}, {"model"}, {}]>}) -> tensor<64x4x4xf32> {
  %t = nabla.transpose %w permutation = [2, 0, 1] : !w
  %r = nabla.materialize %t : !v
  return %r : tensor<64x4x4xf32>
}

// -----
// Slices of a stack that is transposed.
// CHECK-LABEL: @slices
// CHECK: ^bb0(%{{.*}}: tensor<4x32xf32>, %[[S:.*]]: !nabla.implicit<64x32xf32, #nabla.nf4<block = 64>, view<32x64, strides = [1, 64], offset = 0>>):
// CHECK: nabla.dot_general %{{.*}}, %[[S]] contracting = [1] x [0]
nabla.mesh @m <["model"=2]>
!ws = !nabla.implicit<3x64x64xf32, #nabla.nf4<block = 64>>
!ts = !nabla.implicit<3x64x64xf32, #nabla.nf4<block = 64>, view<3x64x64, strides = [4096, 1, 64], offset = 0>>
!t = !nabla.implicit<64x64xf32, #nabla.nf4<block = 64>, view<64x64, strides = [1, 64], offset = 0>>
func.func @slices(%x: tensor<4x64xf32>, %w: !ws {nabla.sharding = #nabla.sharding<@m, [{}, {"model"}, {}]>}) -> tensor<4x64xf32> {
  %t = nabla.transpose %w permutation = [0, 2, 1] : !ws
  %y = nabla.scan init(%x : tensor<4x64xf32>) over(%t : !ts) -> tensor<4x64xf32> {
  ^bb0(%a: tensor<4x64xf32>, %b: !t):
    %p = nabla.dot_general %a, %b contracting = [1] x [0] : tensor<4x64xf32>, !t
    nabla.yield %p : tensor<4x64xf32>
  }
  return %y : tensor<4x64xf32>
}

// -----
// Other views stay whole: a part, and packed scales.
// CHECK-LABEL: @part
// CHECK-SAME: %arg0: !nabla.implicit<128x128xf32, #nabla.nf4<block = 64>, view<256x128, strides = [128, 1], offset = 0>>
// CHECK-SAME: %arg1: !nabla.implicit<128x256xf32, #nabla.nf4<block = 64, scale = #nabla.dynamic8<block = 256>>, view<256x128, strides = [1, 128], offset = 0>>
nabla.mesh @m <["model"=2]>
!p = !nabla.implicit<128x128xf32, #nabla.nf4<block = 64>, view<256x128, strides = [128, 1], offset = 0>>
!s = !nabla.implicit<128x256xf32, #nabla.nf4<block = 64, scale = #nabla.dynamic8<block = 256>>, view<256x128, strides = [1, 128], offset = 0>>
func.func @part(%w: !p {nabla.sharding = #nabla.sharding<@m, [{"model"}, {}]>}, %s: !s {nabla.sharding = #nabla.sharding<@m, [{}, {"model"}]>}) -> (tensor<128x128xf32>, tensor<128x256xf32>) {
  %r = nabla.materialize %w : !p
  %q = nabla.materialize %s : !s
  return %r, %q : tensor<128x128xf32>, tensor<128x256xf32>
}

// -----
// Asked for by a constraint, they are an error; so are pieces of the storage
// that are no whole blocks.
nabla.mesh @m <["model"=2]>
!p = !nabla.implicit<128x128xf32, #nabla.nf4<block = 64>, view<256x128, strides = [128, 1], offset = 0>>
func.func @part_constraint(%w: !p) -> tensor<128x128xf32> {
  // expected-error @+1 {{sharding: a view that is no permutation of its storage is not divided}}
  %c = nabla.sharding_constraint %w : !p sharding = #nabla.sharding<@m, [{"model"}, {}]>
  %r = nabla.materialize %c : !p
  return %r : tensor<128x128xf32>
}

// -----
nabla.mesh @m <["model"=4]>
!v = !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>, view<256x128, strides = [1, 128], offset = 0>>
func.func @no_blocks(%w: !v) -> tensor<128x256xf32> {
  // expected-error @+1 {{sharding: pieces of rows of 128 are no whole blocks of 64}}
  %c = nabla.sharding_constraint %w : !v sharding = #nabla.sharding<@m, [{"model"}, {}]>
  %r = nabla.materialize %c : !v
  return %r : tensor<128x256xf32>
}

// -----
nabla.mesh @m <["model"=2]>
!s = !nabla.implicit<128x256xf32, #nabla.nf4<block = 64, scale = #nabla.dynamic8<block = 256>>, view<256x128, strides = [1, 128], offset = 0>>
func.func @scales(%w: !s) -> tensor<128x256xf32> {
  // expected-error @+1 {{sharding: a view of an array with packed scales is not divided}}
  %c = nabla.sharding_constraint %w : !s sharding = #nabla.sharding<@m, [{}, {"model"}]>
  %r = nabla.materialize %c : !s
  return %r : tensor<128x256xf32>
}
