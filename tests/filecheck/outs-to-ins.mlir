// RUN: nabla-opt "%s" --nabla-outs-to-ins --split-input-file --verify-diagnostics | FileCheck "%s"
// RUN: not nabla-opt "%s" --split-input-file --nabla-outs-to-ins=all=true 2>&1 | FileCheck "%s" --check-prefix=OPTION

#same = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>

// CHECK-LABEL: func.func @reads_outs
// CHECK-SAME: %[[X:.*]]: tensor<3x4xf32>, %[[Y:.*]]: tensor<3x4xf32>
// CHECK: %[[E:.*]] = tensor.empty() : tensor<3x4xf32>
// CHECK: linalg.generic {indexing_maps = [#[[M:.*]], #[[M]], #[[M]]]
// CHECK-SAME: ins(%[[X]], %[[Y]] : {{.*}}) outs(%[[E]] : {{.*}})
// CHECK-SAME: attrs = {mine = 1 : i64}
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: arith.addf %[[A]], %[[B]]
func.func @reads_outs(%x: tensor<3x4xf32>, %y: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<3x4xf32>) outs(%y : tensor<3x4xf32>) attrs = {mine = 1 : i64} {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// Of several outs those that are read; sizes that are not known.
// CHECK-LABEL: func.func @several
// CHECK-SAME: %[[X:.*]]: tensor<?x4xf32>, %[[Y:.*]]: tensor<4x?xi32>, %[[Z:.*]]: tensor<?x4xf32>
// CHECK: %[[D:.*]] = tensor.dim %[[Y]], %{{.*}} : tensor<4x?xi32>
// CHECK: %[[E:.*]] = tensor.empty(%[[D]]) : tensor<4x?xi32>
// CHECK: linalg.generic {indexing_maps = [#[[M:.*]], #[[T:.*]], #[[T]], #[[M]]]
// CHECK-SAME: ins(%[[X]], %[[Y]] : {{.*}}) outs(%[[E]], %[[Z]] : {{.*}})
// CHECK: arith.addi %{{.*}}, %[[OLD:.*]] : i32
func.func @several(%x: tensor<?x4xf32>, %y: tensor<4x?xi32>, %z: tensor<?x4xf32>) -> (tensor<4x?xi32>, tensor<?x4xf32>) {
  %0:2 = linalg.generic {indexing_maps = [#same, #turned, #same], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x4xf32>) outs(%y, %z : tensor<4x?xi32>, tensor<?x4xf32>) {
  ^bb0(%a: f32, %b: i32, %c: f32):
    %n = arith.fptosi %a : f32 to i32
    %s = arith.addi %n, %b : i32
    linalg.yield %s, %a : i32, f32
  } -> (tensor<4x?xi32>, tensor<?x4xf32>)
  return %0#0, %0#1 : tensor<4x?xi32>, tensor<?x4xf32>
}

// CHECK-LABEL: func.func @no_loops
// CHECK: tensor.empty() : tensor<f32>
func.func @no_loops(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %0 = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []} ins(%x : tensor<f32>) outs(%y : tensor<f32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.mulf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  return %0 : tensor<f32>
}

// A dimension of 1 that no loop runs over.
// CHECK-LABEL: func.func @kept
// CHECK: tensor.empty() : tensor<3x1xf32>
func.func @kept(%y: tensor<3x1xf32>) -> tensor<3x1xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i, 0)>], iterator_types = ["parallel"]} outs(%y : tensor<3x1xf32>) {
  ^bb0(%b: f32):
    %s = arith.addf %b, %b : f32
    linalg.yield %s : f32
  } -> tensor<3x1xf32>
  return %0 : tensor<3x1xf32>
}

// Must not fire where a part is read and written (it is never fused into other
// loops), on reductions, where outs is not read, or is a buffer.
// CHECK-LABEL: func.func @others
// CHECK-NOT: tensor.empty
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<3x4xf32>)
// CHECK: outs(%{{.*}} : tensor<3xf32>)
// CHECK: ins(%{{[a-z0-9]+}} : tensor<3x4xf32>) outs(%{{.*}} : tensor<3x4xf32>)
// CHECK: ins(%{{[a-z0-9]+}} : memref<3x4xf32>) outs(%{{.*}} : memref<3x4xf32>)
func.func @others(%x: tensor<3x4xf32>, %y: tensor<3xf32>, %m: memref<3x4xf32>, %n: memref<3x4xf32>) -> (tensor<3x4xf32>, tensor<3xf32>, tensor<3x4xf32>) {
  %part = linalg.generic {indexing_maps = [affine_map<(i) -> (i, 1)>], iterator_types = ["parallel"]} outs(%x : tensor<3x4xf32>) {
  ^bb0(%b: f32):
    %s = arith.addf %b, %b : f32
    linalg.yield %s : f32
  } -> tensor<3x4xf32>
  %0 = linalg.generic {indexing_maps = [#same, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<3x4xf32>) outs(%y : tensor<3xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<3xf32>
  %1 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<3x4xf32>) outs(%x : tensor<3x4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.negf %a : f32
    linalg.yield %s : f32
  } -> tensor<3x4xf32>
  linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%m : memref<3x4xf32>) outs(%n : memref<3x4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  }
  return %part, %0, %1 : tensor<3x4xf32>, tensor<3xf32>, tensor<3x4xf32>
}

// -----

// A sum that calls its loop parallel.
func.func @contradicts(%x: tensor<3x4xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error @+1 {{'linalg.generic' op reads and writes one element of outs in several steps of parallel loops: an iterator that its map does not have as an index must be a "reduction"}}
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<3x4xf32>) outs(%y : tensor<3xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// Upstream takes outs that are not read for written as a whole.
func.func @writes_a_part(%x: tensor<3xf32>, %y: tensor<3x4xf32>) -> tensor<3x4xf32> {
  // expected-error @+1 {{'linalg.generic' op writes a part of outs: make a slice of it (tensor.extract_slice) outs, and put the result in its place (tensor.insert_slice)}}
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i, 1)>], iterator_types = ["parallel"]} ins(%x : tensor<3xf32>) outs(%y : tensor<3x4xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

func.func @reads_a_part_beside_others(%x: tensor<3xf32>, %y: tensor<3x3xf32>) -> (tensor<3xf32>, tensor<3x3xf32>) {
  // expected-error @+1 {{'linalg.generic' op writes a part of outs}}
  %0:2 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i, i)>], iterator_types = ["parallel"]} outs(%x, %y : tensor<3xf32>, tensor<3x3xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %b, %a : f32, f32
  } -> (tensor<3xf32>, tensor<3x3xf32>)
  return %0#0, %0#1 : tensor<3xf32>, tensor<3x3xf32>
}

// OPTION: no such option all
