// Composites become what they are made of; all else stays as it is.
// RUN: nabla-opt "%s" --nabla-decompose | FileCheck "%s"
// RUN: nabla-opt "%s" | FileCheck "%s" --check-prefix=KEEP
// RUN: nabla-opt "%s" --remarks-filter=nabla.* --nabla-decompose 2>&1 >/dev/null | FileCheck "%s" --check-prefix=REMARK

// REMARK: remark: {{.*}}Decomposed{{.*}}dot_general, and an addition of the bias

// The bias joins in f32, so that the result is rounded once.
// CHECK-LABEL: func.func @linear(
// CHECK-DAG: %[[X:.*]] = nabla.convert %arg0 : tensor<2x8xf16> -> tensor<2x8xf32>
// CHECK-DAG: %[[W:.*]] = nabla.convert %arg1 : tensor<4x8xf16> -> tensor<4x8xf32>
// CHECK: %[[Y:.*]] = nabla.dot_general %[[X]], %[[W]] contracting = [1] x [1] : tensor<2x8xf32>, tensor<4x8xf32>
// CHECK: %[[B:.*]] = nabla.convert %arg2 : tensor<4xf16> -> tensor<4xf32>
// CHECK: %[[R:.*]] = nabla.broadcast_in_dim %[[B]] dims = [1] : tensor<4xf32> -> tensor<2x4xf32>
// CHECK: %[[S:.*]] = nabla.add %[[Y]], %[[R]]
// CHECK: nabla.convert %[[S]] : tensor<2x4xf32> -> tensor<2x4xf16>
// KEEP-LABEL: func.func @linear(
// KEEP: nabla.linear %arg0, %arg1, %arg2 : tensor<2x8xf16>, tensor<4x8xf16>, tensor<4xf16>
func.func @linear(%x: tensor<2x8xf16>, %w: tensor<4x8xf16>, %b: tensor<4xf16>) -> tensor<2x4xf16> {
  %y = nabla.linear %x, %w, %b : tensor<2x8xf16>, tensor<4x8xf16>, tensor<4xf16>
  return %y : tensor<2x4xf16>
}

// Without a bias there is nothing to widen for.
// CHECK-LABEL: func.func @linear_alone(
// CHECK-NEXT: %[[Y:.*]] = nabla.dot_general %arg0, %arg1 contracting = [0] x [1] : tensor<8xf16>, tensor<?x8xf16>
// CHECK-NEXT: return %[[Y]]
// KEEP-LABEL: func.func @linear_alone(
// KEEP: nabla.linear %arg0, %arg1 : tensor<8xf16>, tensor<?x8xf16>
func.func @linear_alone(%x: tensor<8xf16>, %w: tensor<?x8xf16>) -> tensor<?xf16> {
  %y = nabla.linear %x, %w : tensor<8xf16>, tensor<?x8xf16>
  return %y : tensor<?xf16>
}

// CHECK-LABEL: func.func @rms(
// CHECK: %[[EPS:.*]] = nabla.full 1.562500e-02 : f32 -> tensor<2xf32>
// CHECK: %[[Q:.*]] = nabla.mul %arg0, %arg0
// CHECK: %[[M:.*]] = nabla.reduce mean %[[Q]] dims = [1]
// CHECK: %[[A:.*]] = nabla.add %[[M]], %[[EPS]]
// CHECK: %[[S:.*]] = nabla.rsqrt %[[A]]
// CHECK: %[[R:.*]] = nabla.broadcast_in_dim %[[S]] dims = [0] : tensor<2xf32> -> tensor<2x8xf32>
// CHECK: %[[Y:.*]] = nabla.mul %arg0, %[[R]]
// CHECK: %[[W:.*]] = nabla.broadcast_in_dim %arg1 dims = [1] : tensor<8xf32> -> tensor<2x8xf32>
// CHECK: nabla.mul %[[Y]], %[[W]]
// KEEP-LABEL: func.func @rms(
// KEEP: nabla.rms_norm %arg0, %arg1 eps = 1.562500e-02 : tensor<2x8xf32>, tensor<8xf32>
func.func @rms(%x: tensor<2x8xf32>, %w: tensor<8xf32>) -> tensor<2x8xf32> {
  %y = nabla.rms_norm %x, %w eps = 0.015625 : tensor<2x8xf32>, tensor<8xf32>
  return %y : tensor<2x8xf32>
}

// CHECK-LABEL: func.func @layer(
// CHECK: %[[M:.*]] = nabla.reduce mean %arg0 dims = [1]
// CHECK: %[[R:.*]] = nabla.broadcast_in_dim %[[M]] dims = [0]
// CHECK: %[[C:.*]] = nabla.sub %arg0, %[[R]]
// CHECK: nabla.mul %[[C]], %[[C]]
// CHECK: nabla.rsqrt
// CHECK: nabla.mul
// CHECK: nabla.mul
// CHECK: nabla.add
// KEEP-LABEL: func.func @layer(
// KEEP: nabla.layer_norm %arg0, %arg1, %arg2 eps = 0.000000e+00 : tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>
// KEEP: nabla.layer_norm %arg0 eps = 5.000000e-01 : tensor<2x8xf32>
func.func @layer(%x: tensor<2x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>) {
  %y = nabla.layer_norm %x, %w, %b eps = 0.0 : tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>
  %z = nabla.layer_norm %x eps = 0.5 : tensor<2x8xf32>
  return %y, %z : tensor<2x8xf32>, tensor<2x8xf32>
}

// Pairs are the two places of a dimension of their own, the last one or the one
// before it.
// CHECK-LABEL: func.func @rope(
// CHECK: nabla.reshape %arg0 : tensor<3x2x8xf32> -> tensor<3x2x4x2xf32>
// CHECK: nabla.slice %{{.*}} starts = [0, 0, 0, 0] limits = [-1, -1, -1, 1]
// CHECK: nabla.slice %{{.*}} starts = [0, 0, 0, 1] limits = [-1, -1, -1, 2]
// CHECK: %[[P:.*]] = nabla.convert %arg1 : tensor<3xi64> -> tensor<3xf64>
// CHECK: nabla.broadcast_in_dim %[[P]] dims = [0] : tensor<3xf64> -> tensor<3x4xf64>
// CHECK: nabla.cos
// CHECK: nabla.broadcast_in_dim %{{.*}} dims = [0, 2] : tensor<3x4xf32> -> tensor<3x2x4x1xf32>
// CHECK: nabla.sin
// CHECK: nabla.concatenate %{{.*}} dim = 3
// CHECK: nabla.reshape %arg0 : tensor<3x2x8xf32> -> tensor<3x2x2x4xf32>
// CHECK: nabla.concatenate %{{.*}} dim = 2
// KEEP-LABEL: func.func @rope(
// KEEP: nabla.rope interleaved %arg0, %arg1 dim = 0 : tensor<3x2x8xf32>, tensor<3xi64>
// KEEP: nabla.rope halves %arg0 dim = 1 theta = 5.000000e+05 offset = 7 : tensor<3x2x8xf32>
func.func @rope(%x: tensor<3x2x8xf32>, %p: tensor<3xi64>) -> (tensor<3x2x8xf32>, tensor<3x2x8xf32>) {
  %y = nabla.rope interleaved %x, %p dim = 0 theta = 10000.0 offset = 0 : tensor<3x2x8xf32>, tensor<3xi64>
  %z = nabla.rope halves %x dim = 1 theta = 500000.0 offset = 7 : tensor<3x2x8xf32>
  return %y, %z : tensor<3x2x8xf32>, tensor<3x2x8xf32>
}

// Eight heads of q share four of k and v, two by two.
// CHECK-LABEL: func.func @grouped(
// CHECK: %[[Q:.*]] = nabla.reshape %arg0 : tensor<8x3x16xf32> -> tensor<4x2x3x16xf32>
// CHECK: %[[D:.*]] = nabla.dot_general %[[Q]], %arg1 batching = [0] x [0] contracting = [3] x [2] : tensor<4x2x3x16xf32>, tensor<4x5x16xf32>
// CHECK: %[[S:.*]] = nabla.reshape %[[D]] : tensor<4x2x3x5xf32> -> tensor<8x3x5xf32>
// CHECK: %[[C:.*]] = nabla.full 2.500000e-01 : f32 -> tensor<8x3x5xf32>
// CHECK: %[[A:.*]] = nabla.mul %[[S]], %[[C]]
// CHECK: %[[T:.*]] = nabla.tri diagonal = 2 -> tensor<3x5xi1>
// CHECK: %[[B:.*]] = nabla.broadcast_in_dim %[[T]] dims = [1, 2] : tensor<3x5xi1> -> tensor<8x3x5xi1>
// CHECK: %[[H:.*]] = nabla.select %[[B]], %[[A]], %{{.*}}
// CHECK: %[[P:.*]] = nabla.softmax %[[H]] dim = 2
// CHECK: %[[R:.*]] = nabla.reshape %[[P]] : tensor<8x3x5xf32> -> tensor<4x2x3x5xf32>
// CHECK: nabla.dot_general %[[R]], %arg2 batching = [0] x [0] contracting = [3] x [1]
// KEEP-LABEL: func.func @grouped(
// KEEP: nabla.attention %arg0, %arg1, %arg2 causal : tensor<8x3x16xf32>, tensor<4x5x16xf32>, tensor<4x5x2xf32>
func.func @grouped(%q: tensor<8x3x16xf32>, %k: tensor<4x5x16xf32>, %v: tensor<4x5x2xf32>) -> tensor<8x3x2xf32> {
  %y = nabla.attention %q, %k, %v causal : tensor<8x3x16xf32>, tensor<4x5x16xf32>, tensor<4x5x2xf32>
  return %y : tensor<8x3x2xf32>
}

// One head for each: no reshape. Scores of f16 are f32. A mask of floats is
// added, after a comparison of its sizes.
// CHECK-LABEL: func.func @masked(
// CHECK-NOT: nabla.reshape
// CHECK: nabla.dot_general %{{.*}}, %{{.*}} batching = [0] x [0] contracting = [2] x [2] : tensor<2x3x8xf32>, tensor<2x?x8xf32>
// CHECK: %[[Z:.*]] = nabla.full 0.000000e+00 : f16 sizes(%{{.*}}) -> tensor<3x?xf16>
// CHECK: %[[M:.*]] = nabla.add %arg3, %[[Z]]
// CHECK: nabla.convert %[[M]] : tensor<3x?xf16> -> tensor<3x?xf32>
// CHECK: nabla.add
// CHECK-NOT: nabla.select
// CHECK: nabla.softmax %{{.*}} : tensor<2x3x?xf32>
// CHECK-NOT: nabla.reshape
// CHECK: nabla.convert %{{.*}} : tensor<2x3x8xf32> -> tensor<2x3x8xf16>
// KEEP-LABEL: func.func @masked(
// KEEP: nabla.attention %arg0, %arg1, %arg1 mask(%arg3 : tensor<3x?xf16>) scale = 5.000000e-01 : tensor<2x3x8xf16>, tensor<2x?x8xf16>, tensor<2x?x8xf16>
func.func @masked(%q: tensor<2x3x8xf16>, %k: tensor<2x?x8xf16>, %v: tensor<2x?x8xf16>, %m: tensor<3x?xf16>) -> tensor<2x3x8xf16> {
  %y = nabla.attention %q, %k, %k mask(%m : tensor<3x?xf16>) scale = 0.5 : tensor<2x3x8xf16>, tensor<2x?x8xf16>, tensor<2x?x8xf16>
  return %y : tensor<2x3x8xf16>
}

// Keys that count: the others are hidden, and 0 in v, so that what they are does
// not matter. The last query sees all that count.
// CHECK-LABEL: func.func @counted(
// CHECK: %[[A:.*]] = nabla.maximum %arg2
// CHECK: %[[N:.*]] = nabla.minimum %[[A]]
// CHECK: nabla.compare lt
// CHECK: nabla.select
// CHECK: nabla.compare le
// CHECK: nabla.select
// CHECK: nabla.softmax
// CHECK: %[[V:.*]] = nabla.select %{{.*}}, %arg1, %{{.*}} : tensor<2x9x8xi1>
// CHECK: nabla.dot_general %{{.*}}, %[[V]]
// KEEP-LABEL: func.func @counted(
// KEEP: nabla.attention %arg0, %arg1, %arg1 keys(%arg2 : tensor<i64>) causal :
func.func @counted(%q: tensor<2x3x8xf32>, %k: tensor<2x9x8xf32>, %n: tensor<i64>) -> tensor<2x3x8xf32> {
  %y = nabla.attention %q, %k, %k keys(%n : tensor<i64>) causal : tensor<2x3x8xf32>, tensor<2x9x8xf32>, tensor<2x9x8xf32>
  return %y : tensor<2x3x8xf32>
}

// CHECK-LABEL: func.func @others(
// CHECK-NEXT: nabla.softmax
// CHECK-NEXT: nabla.dot_general
// CHECK-NEXT: return
func.func @others(%x: tensor<2x8xf32>) -> tensor<2x2xf32> {
  %y = nabla.softmax %x dim = 1 : tensor<2x8xf32>
  %z = nabla.dot_general %y, %x contracting = [1] x [1] : tensor<2x8xf32>, tensor<2x8xf32>
  return %z : tensor<2x2xf32>
}
