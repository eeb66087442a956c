// Arguments with scales in 8 bits are described leaf by leaf; those that no file
// holds make a function none to enter.
// RUN: nabla-opt "%s" --nabla-manifest --verify-diagnostics | FileCheck "%s"

// CHECK: nabla.manifest = "{\22abi\22:1,\22functions\22:[{\22name\22:\22f\22,
// CHECK-SAME: \22encoding\22:\22int4\22,\22granularity\22:\22block\22,\22block\22:16,\22nested_block\22:256,\22components\22:[
// CHECK-SAME: {\22name\22:\22codes\22,\22dtype\22:\22U8\22,\22bytes\22:128},
// CHECK-SAME: {\22name\22:\22scales.codes\22,\22dtype\22:\22U8\22,\22bytes\22:16},
// CHECK-SAME: {\22name\22:\22scales.scales\22,\22dtype\22:\22F32\22,\22bytes\22:4},
// CHECK-SAME: {\22name\22:\22scales.offset\22,\22dtype\22:\22F32\22,\22bytes\22:4},
// CHECK-SAME: {\22name\22:\22scales.map\22,\22dtype\22:\22F32\22,\22bytes\22:1024},
// CHECK-SAME: {\22name\22:\22zero_points\22,\22dtype\22:\22U8\22,\22bytes\22:16}]}],
// CHECK-SAME: \22results\22:[{\22name\22:\22codes\22,\22dtype\22:\22I8\22,\22shape\22:[128],\22packed\22:{\22dtype\22:\22F32\22,\22shape\22:[4,64],\22encoding\22:\22int4\22,
// CHECK-SAME: \22nested_block\22:256,
// CHECK-SAME: {\22name\22:\22zero_points\22,\22dtype\22:\22U8\22,\22bytes\22:16}]}},
// CHECK-SAME: {\22name\22:\22scales.offset\22,\22dtype\22:\22F32\22,\22shape\22:[]},
// CHECK-SAME: {\22name\22:\22zero_points\22,\22dtype\22:\22I8\22,\22shape\22:[16]}]}]}"
!w = !nabla.implicit<4x64xf32, #nabla.int4<block = 16, scale = #nabla.dynamic8<block = 256>, zero_point = true>>
func.func @f(%w: !w) -> !w {
  return %w : !w
}
!deep = !nabla.implicit<4x64xf32, #nabla.nf4<block = 16, scale = #nabla.int8<block = 16>>>
// expected-warning @+1 {{is no entry point: no file holds #nabla.nf4<block = 16, scale = #nabla.int8<block = 16>>; take its components and nabla.pack them}}
func.func @nowhere(%w: !deep) {
  return
}
// expected-warning @+1 {{is no entry point: no file holds #nabla.lora<base = #nabla.nf4<block = 64>, rank = 2>; take its components and nabla.pack them}}
func.func @nowhere_either(%w: !nabla.implicit<4x64xf32, #nabla.lora<base = #nabla.nf4<block = 64>, rank = 2>>) {
  return
}
