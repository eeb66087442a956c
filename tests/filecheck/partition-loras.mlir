// Loras are divided with their components: across rows the base and b, along
// rows the base and a.
// RUN: nabla-opt "%s" --nabla-propagate-sharding --nabla-partition --split-input-file --verify-diagnostics | FileCheck "%s"

// CHECK-LABEL: @rows
// CHECK-SAME: %arg1: !nabla.implicit<128x128xf32, #nabla.nf4<block = 64>>, %arg2: tensor<8x128xf32>, %arg3: tensor<128x8xf32>
// CHECK-NEXT: %[[W:.*]] = nabla.pack %arg1, %arg2, %arg3 : {{.*}} -> !nabla.implicit<128x128xf32, #nabla.lora<base = #nabla.nf4<block = 64>, rank = 8>>
// CHECK-NEXT: %[[Y:.*]] = nabla.linear %arg0, %[[W]]
// CHECK-NEXT: nabla.all_gather %[[Y]] dim = 1
// CHECK-NEXT: return
nabla.mesh @m <["model"=2]>
!w = !nabla.implicit<256x128xf32, #nabla.nf4<block = 64>>
!l = !nabla.implicit<256x128xf32, #nabla.lora<base = #nabla.nf4<block = 64>, rank = 8>>
func.func @rows(%x: tensor<4x128xf32>, %w: !w {nabla.sharding = #nabla.sharding<@m, [{"model"}, {}]>}, %a: tensor<8x128xf32>, %b: tensor<256x8xf32>) -> tensor<4x256xf32> {
  %l = nabla.pack %w, %a, %b : !w, tensor<8x128xf32>, tensor<256x8xf32> -> !l
  %y = nabla.linear %x, %l : tensor<4x128xf32>, !l
  return %y : tensor<4x256xf32>
}

// -----
// Backward, along rows: terms of both parts are summed together.
// CHECK-LABEL: @along
// CHECK-SAME: %arg1: !nabla.implicit<256x64xf32, #nabla.nf4<block = 64>>, %arg2: tensor<8x64xf32>, %arg3: tensor<256x8xf32>
// CHECK-NEXT: %[[W:.*]] = nabla.pack %arg1, %arg2, %arg3 : {{.*}} -> !nabla.implicit<256x64xf32, #nabla.lora<base = #nabla.nf4<block = 64>, rank = 8>>
// CHECK-NEXT: %[[Y:.*]] = nabla.linear %arg0, %[[W]]
// CHECK-NEXT: nabla.all_reduce sum %[[Y]]
// CHECK-NEXT: return
nabla.mesh @m <["model"=2]>
!w = !nabla.implicit<256x128xf32, #nabla.nf4<block = 64>>
!l = !nabla.implicit<256x128xf32, #nabla.lora<base = #nabla.nf4<block = 64>, rank = 8>>
func.func @along(%x: tensor<4x128xf32> {nabla.sharding = #nabla.sharding<@m, [{}, {"model"}]>}, %w: !w, %a: tensor<8x128xf32>, %b: tensor<256x8xf32>) -> tensor<4x256xf32> {
  %l = nabla.pack %w, %a, %b : !w, tensor<8x128xf32>, tensor<256x8xf32> -> !l
  %y = nabla.linear %x, %l : tensor<4x128xf32>, !l
  return %y : tensor<4x256xf32>
}

// -----
// A lora that is an argument, of a lora of blocks of GGUF files: its transpose,
// its components, and all of it where it is needed whole.
// CHECK-LABEL: @argument
// CHECK-SAME: %arg0: !nabla.implicit<64x128xf32, #nabla.lora<base = #nabla.lora<base = #nabla.ggml<q8_0>, rank = 2>, rank = 4>>
// CHECK: nabla.unpack %arg0 : {{.*}} -> {{.*}}, tensor<4x128xf32>, tensor<64x4xf32>
// CHECK: nabla.pack {{.*}} -> !nabla.implicit<128x128xf32, #nabla.lora<base = #nabla.lora<base = #nabla.ggml<q8_0>, rank = 2>, rank = 4>>
// CHECK-NEXT: nabla.flip
nabla.mesh @m <["model"=2]>
!l = !nabla.implicit<128x128xf32, #nabla.lora<base = #nabla.lora<base = #nabla.ggml<q8_0>, rank = 2>, rank = 4>>
func.func @argument(%l: !l {nabla.sharding = #nabla.sharding<@m, [{"model"}, {}]>}) -> (tensor<128x4xf32>, tensor<128x128xf32>) {
  %p:3 = nabla.unpack %l : !l
  %b = nabla.exp %p#2 : tensor<128x4xf32>
  %r = nabla.flip %l dims = [0, 1] : !l
  return %b, %r : tensor<128x4xf32>, tensor<128x128xf32>
}

// -----
nabla.mesh @m <["model"=2]>
!l = !nabla.implicit<256x128xf32, #nabla.lora<base = #nabla.nf4<block = 64, scale = #nabla.dynamic8<block = 256>>, rank = 8>>
func.func @scales(%w: !l) -> tensor<256x128xf32> {
  // expected-error @+1 {{sharding: a lora of an array with packed scales is not divided}}
  %c = nabla.sharding_constraint %w : !l sharding = #nabla.sharding<@m, [{"model"}, {}]>
  %r = nabla.materialize %c : !l
  return %r : tensor<256x128xf32>
}

// -----
nabla.mesh @m <["model"=4]>
!l = !nabla.implicit<256x128xf32, #nabla.lora<base = #nabla.nf4<block = 64>, rank = 8>>
func.func @no_blocks(%w: !l) -> tensor<256x128xf32> {
  // expected-error @+1 {{sharding: pieces of rows of 128 are no whole blocks of 64}}
  %c = nabla.sharding_constraint %w : !l sharding = #nabla.sharding<@m, [{}, {"model"}]>
  %r = nabla.materialize %c : !l
  return %r : tensor<256x128xf32>
}
