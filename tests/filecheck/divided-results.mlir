// Results of public functions that stay divided.
// RUN: nabla-opt "%s" --nabla-propagate-sharding=results=divided --nabla-manifest --nabla-partition=results=divided --split-input-file | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-propagate-sharding --nabla-manifest --nabla-partition --split-input-file | FileCheck "%s" --check-prefix=WHOLE

// The manifest describes the piece of a result; arguments as ever.
// CHECK: \22arguments\22:[{\22name\22:\22x\22,\22dtype\22:\22F32\22,\22shape\22:[8,6],\22cut\22:[0,1,2]}]
// CHECK-SAME: \22results\22:[{\22name\22:\22\22,\22dtype\22:\22F32\22,\22shape\22:[4,6],\22cut\22:[0,1,2]},{\22name\22:\22\22,\22dtype\22:\22F32\22,\22shape\22:[]}]
// CHECK-LABEL: @rows
// CHECK-SAME: -> (tensor<4x6xf32>, tensor<f32>)
// CHECK: %[[Y:.*]] = nabla.exp %arg0 : tensor<4x6xf32>
// CHECK-NOT: nabla.all_gather
// CHECK: %[[S:.*]] = nabla.all_reduce sum
// CHECK: return %[[Y]], %[[S]]
// WHOLE: \22results\22:[{\22name\22:\22\22,\22dtype\22:\22F32\22,\22shape\22:[8,6]},
// WHOLE-LABEL: @rows
// WHOLE-SAME: -> (tensor<8x6xf32>, tensor<f32>)
// WHOLE: nabla.all_gather
nabla.mesh @m <["a"=2]>
func.func @rows(%x: tensor<8x6xf32> {nabla.name = "x", nabla.sharding = #nabla.sharding<@m, [{"a"}, {}]>}) -> (tensor<8x6xf32>, tensor<f32>) {
  %y = nabla.exp %x : tensor<8x6xf32>
  %s = nabla.reduce sum %y dims = [0, 1] : tensor<8x6xf32>
  return %y, %s : tensor<8x6xf32>, tensor<f32>
}

// -----
// What is padded, of unknown size, or packed, is whole.
// CHECK: \22results\22:[{\22name\22:\22\22,\22dtype\22:\22F32\22,\22shape\22:[7]},{\22name\22:\22\22,\22dtype\22:\22F32\22,\22shape\22:[null]}]
// CHECK-LABEL: @uneven
// CHECK-SAME: -> (tensor<7xf32>, tensor<?xf32>)
nabla.mesh @m <["a"=2]>
func.func @uneven(%x: tensor<7xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}]>}, %n: tensor<?xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}]>}) -> (tensor<7xf32>, tensor<?xf32>) {
  %y = nabla.exp %x : tensor<7xf32>
  %z = nabla.exp %n : tensor<?xf32>
  return %y, %z : tensor<7xf32>, tensor<?xf32>
}
