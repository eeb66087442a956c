// What public functions take and give, as JSON for the runtime; and that
// arguments, which may be mapped files, are not written.
// RUN: nabla-opt "%s" --split-input-file --nabla-manifest --verify-diagnostics | FileCheck "%s"
// RUN: nabla-opt "%s" --split-input-file --nabla-manifest --nabla-manifest 2>/dev/null | FileCheck "%s"

// CHECK: module attributes {nabla.manifest = "{\22abi\22:1,\22functions\22:[
// CHECK-SAME: {\22name\22:\22linear\22,\22arguments\22:[
// CHECK-SAME: {\22name\22:\22x\22,\22dtype\22:\22F32\22,\22shape\22:[null,256]},
// CHECK-SAME: {\22name\22:\22w\22,\22dtype\22:\22F32\22,\22shape\22:[128,256],\22encoding\22:\22nf4\22,\22granularity\22:\22block\22,\22block\22:64,\22components\22:[{\22name\22:\22codes\22,\22dtype\22:\22U8\22,\22bytes\22:16384},{\22name\22:\22scales\22,\22dtype\22:\22F32\22,\22bytes\22:2048}]},
// CHECK-SAME: {\22name\22:\22arg2\22,\22dtype\22:\22F32\22,\22shape\22:[128],\22encoding\22:\22splat\22,\22components\22:[]}],
// CHECK-SAME: \22results\22:[{\22name\22:\22\22,\22dtype\22:\22F32\22,\22shape\22:[null,128]}]}]}"}
// CHECK: func.func @linear
// CHECK-SAME: tensor<?x256xf32> {bufferization.writable = false}
// CHECK-NOT: nabla.name
// CHECK-SAME: attributes {llvm.emit_c_interface}
func.func @linear(%x: tensor<?x256xf32> {nabla.name = "x"}, %w: !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>> {nabla.name = "w"}, %c: !nabla.implicit<128xf32, #nabla.splat<1.0 : f32>>) -> tensor<?x128xf32> {
  %y = nabla.fused_dot %x, %w : tensor<?x256xf32>, !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>
  return %y : tensor<?x128xf32>
}

// -----

// A view is bound as its storage; rows; a result that is implicit is one dense
// array for each component, the first with the whole.
// CHECK: {\22name\22:\22views\22,\22arguments\22:[
// CHECK-SAME: {\22name\22:\22arg0\22,\22dtype\22:\22BF16\22,\22shape\22:[3,64],\22encoding\22:\22int8\22,\22granularity\22:\22row\22,\22block\22:64,\22components\22:[{\22name\22:\22codes\22,\22dtype\22:\22U8\22,\22bytes\22:192},{\22name\22:\22scales\22,\22dtype\22:\22F32\22,\22bytes\22:12}]}],
// CHECK-SAME: \22results\22:[
// CHECK-SAME: {\22name\22:\22codes\22,\22dtype\22:\22I8\22,\22shape\22:[192],\22packed\22:{\22dtype\22:\22BF16\22,\22shape\22:[3,64],\22encoding\22:\22int8\22,\22granularity\22:\22row\22,\22block\22:64,\22components\22:[{\22name\22:\22codes\22,\22dtype\22:\22U8\22,\22bytes\22:192},{\22name\22:\22scales\22,\22dtype\22:\22F32\22,\22bytes\22:12}]}},{\22name\22:\22scales\22,\22dtype\22:\22F32\22,\22shape\22:[3]}]}
func.func @views(%w: !nabla.implicit<64x3xbf16, #nabla.int8<block = 0, blocks = leading>, view<3x64, strides = [1, 64], offset = 0>>) -> !nabla.implicit<64x3xbf16, #nabla.int8<block = 0, blocks = leading>, view<3x64, strides = [1, 64], offset = 0>> {
  return %w : !nabla.implicit<64x3xbf16, #nabla.int8<block = 0, blocks = leading>, view<3x64, strides = [1, 64], offset = 0>>
}

// -----

// Element types, no dimensions, no arguments, names that JSON has to escape.
// CHECK: {\22name\22:\22types\22,\22arguments\22:[
// CHECK-SAME: \22dtype\22:\22F64\22,\22shape\22:[]}
// CHECK-SAME: \22dtype\22:\22F16\22,\22shape\22:[0]}
// CHECK-SAME: \22dtype\22:\22I64\22
// CHECK-SAME: \22dtype\22:\22I32\22
// CHECK-SAME: \22dtype\22:\22I8\22
// CHECK-SAME: \22dtype\22:\22U8\22
// CHECK-SAME: \22dtype\22:\22BOOL\22
// CHECK-SAME: \22results\22:[]}
// CHECK-SAME: {\22name\22:\22none\22,\22arguments\22:[],\22results\22:[]}
// CHECK-SAME: {\22name\22:\22a\\\22b\22,\22arguments\22:[{\22name\22:\22x\\u0000y\22,
func.func @types(%a: tensor<f64>, %b: tensor<0xf16>, %c: tensor<2xi64>, %d: tensor<2xi32>, %e: tensor<2xi8>, %f: tensor<2xui8>, %g: tensor<2xi1>) {
  return
}
func.func @none() {
  return
}
func.func public @"a\22b"(%x: tensor<2xf32> {nabla.name = "x\00y"}) {
  return
}

// -----

// Private functions and declarations are no entry points, but do not write
// their arguments either; those of nested modules are not this module's.
// CHECK: module attributes {nabla.manifest = "{\22abi\22:1,\22functions\22:[]}"}
// CHECK: func.func private @inside(%{{.*}}: tensor<4xf32> {bufferization.writable = false}) {
// CHECK: func.func private @outside(tensor<4xf32>)
// CHECK: module @nested
// CHECK-NOT: llvm.emit_c_interface
func.func private @inside(%x: tensor<4xf32>) {
  return
}
func.func private @outside(tensor<4xf32>)
module @nested {
  func.func @f(%x: tensor<4xf32>) {
    return
  }
}

// -----

// What cannot be an entry point is said, and left out.
// CHECK: {\22abi\22:1,\22functions\22:[]}
// CHECK: func.func @number(
// CHECK-NOT: llvm.emit_c_interface

// expected-warning @below {{is no entry point: it takes or gives what is neither a tensor nor an implicit array}}
func.func @number(%x: f32) {
  return
}
// expected-warning @below {{is no entry point}}
func.func @unranked(%x: tensor<*xf32>) {
  return
}
// expected-warning @below {{is no entry point}}
func.func @element() -> tensor<2xi16> {
  %0 = tensor.empty() : tensor<2xi16>
  return %0 : tensor<2xi16>
}
// expected-warning @below {{is no entry point}}
func.func @too_many(%x: tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>) {
  return
}

// -----

// A result that no file could hold tells of no whole.
// CHECK: {\22name\22:\22nested\22,
// CHECK-NOT: packed
!n = !nabla.implicit<4x16xf32, #nabla.nf4<block = 16, scale = #nabla.int8<block = 16>>>
func.func @nested(%x: tensor<4x16xf32>) -> !n {
  %n = nabla.quantize %x : tensor<4x16xf32> -> !n
  return %n : !n
}
