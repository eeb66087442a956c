// Constants of one value, and #nabla.splat arrays, which nabla-dispatch makes
// into some: rows of transforms/simplify/splats.def. Only what is exact is folded.
// RUN: nabla-opt "%s" --nabla-dispatch=policy=error --nabla-simplify --canonicalize --cse | FileCheck "%s"

!s = !nabla.implicit<4x2xf32, #nabla.splat<3.0 : f32>>
!t = !nabla.implicit<4x2xf32, #nabla.splat<-2.5 : f32>>
!tenths = !nabla.implicit<4xf32, #nabla.splat<0.1 : f32>>
!tenth = !nabla.implicit<4xf16, #nabla.splat<0.1 : f32>>

// FLOAT1: abs neg sign relu sqrt floor ceil round trunc
// CHECK-LABEL: func.func @unary
// CHECK-DAG: %[[C0:.*]] = nabla.constant dense<2.500000e+00> : tensor<4x2xf32>
// CHECK-DAG: %[[C1:.*]] = nabla.constant dense<-1.000000e+00>
// CHECK-DAG: %[[C2:.*]] = nabla.constant dense<0.000000e+00>
// CHECK-DAG: %[[C3:.*]] = nabla.constant dense<1.73205078>
// CHECK-DAG: %[[C4:.*]] = nabla.constant dense<-3.000000e+00>
// CHECK-DAG: %[[C5:.*]] = nabla.constant dense<-2.000000e+00>
// CHECK-NOT: nabla.
// CHECK: return %[[C0]], %[[C0]], %[[C1]], %[[C2]], %[[C3]], %[[C4]], %[[C5]], %[[C5]], %[[C5]] :
func.func @unary(%s: !s, %t: !t) -> (tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>) {
  %0 = nabla.abs %t : !t
  %1 = nabla.neg %t : !t
  %2 = nabla.sign %t : !t
  %3 = nabla.relu %t : !t
  %4 = nabla.sqrt %s : !s
  %5 = nabla.floor %t : !t
  %6 = nabla.ceil %t : !t
  %7 = nabla.round %t : !t
  %8 = nabla.trunc %t : !t
  return %0, %1, %2, %3, %4, %5, %6, %7, %8 : tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>
}

// FLOAT2: add sub mul div maximum minimum
// CHECK-LABEL: func.func @binary
// CHECK-DAG: %[[C0:.*]] = nabla.constant dense<5.000000e-01> : tensor<4x2xf32>
// CHECK-DAG: %[[C1:.*]] = nabla.constant dense<5.500000e+00>
// CHECK-DAG: %[[C2:.*]] = nabla.constant dense<-7.500000e+00>
// CHECK-DAG: %[[C3:.*]] = nabla.constant dense<-0.833333313>
// CHECK-DAG: %[[C4:.*]] = nabla.constant dense<3.000000e+00>
// CHECK-DAG: %[[C5:.*]] = nabla.constant dense<-2.500000e+00>
// CHECK-NOT: nabla.
// CHECK: return %[[C0]], %[[C1]], %[[C2]], %[[C3]], %[[C4]], %[[C5]] :
func.func @binary(%s: !s, %t: !t) -> (tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>) {
  %0 = nabla.add %s, %t : !s, !t
  %1 = nabla.sub %s, %t : !s, !t
  %2 = nabla.mul %s, %t : !s, !t
  %3 = nabla.div %t, %s : !t, !s
  %4 = nabla.maximum %s, %t : !s, !t
  %5 = nabla.minimum %s, %t : !s, !t
  return %0, %1, %2, %3, %4, %5 : tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>
}

// 0.1 is rounded to f16 first, sums are rounded to f32, then to f16; 0 is the
// larger of zeros, -0 the smaller one.
// CHECK-LABEL: func.func @rounded
// CHECK-DAG: %[[C0:.*]] = nabla.constant dense<1.999510e-01> : tensor<4xf16>
// CHECK-DAG: %[[C1:.*]] = nabla.constant dense<0.000000e+00> : tensor<4xf32>
// CHECK-DAG: %[[C2:.*]] = nabla.constant dense<-0.000000e+00> : tensor<4xf32>
// CHECK-NOT: nabla.
// CHECK: return %[[C0]], %[[C1]], %[[C2]], %[[C1]] :
func.func @rounded(%s: !tenth) -> (tensor<4xf16>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = nabla.constant dense<0.0> : tensor<4xf32>
  %minus = nabla.constant dense<-0.0> : tensor<4xf32>
  %0 = nabla.add %s, %s : !tenth, !tenth
  %1 = nabla.maximum %minus, %zero : tensor<4xf32>, tensor<4xf32>
  %2 = nabla.minimum %zero, %minus : tensor<4xf32>, tensor<4xf32>
  %3 = nabla.relu %minus : tensor<4xf32>
  return %0, %1, %2, %3 : tensor<4xf16>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// INTEGER1: abs neg sign not; INTEGER2: add sub mul maximum minimum and or xor
// CHECK-LABEL: func.func @integers
// CHECK-DAG: %[[A:.*]] = nabla.constant dense<-128> : tensor<3xi8>
// CHECK-DAG: %[[B:.*]] = nabla.constant dense<-1> : tensor<3xi8>
// CHECK-DAG: %[[C:.*]] = nabla.constant dense<127> : tensor<3xi8>
// CHECK-DAG: %[[D:.*]] = nabla.constant dense<-126> : tensor<3xi8>
// CHECK-DAG: %[[E:.*]] = nabla.constant dense<126> : tensor<3xi8>
// CHECK-DAG: %[[F:.*]] = nabla.constant dense<0> : tensor<3xi8>
// CHECK-DAG: %[[G:.*]] = nabla.constant dense<2> : tensor<3xi8>
// CHECK-DAG: %[[U:.*]] = nabla.constant dense<200> : tensor<3xui8>
// CHECK-NOT: nabla.
// CHECK: return %[[A]], %[[A]], %[[B]], %[[C]], %[[D]], %[[E]], %[[F]], %[[G]], %[[A]], %[[F]], %[[D]], %[[D]], %[[U]] :
func.func @integers() -> (tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xui8>) {
  %a = nabla.constant dense<-128> : tensor<3xi8>
  %b = nabla.constant dense<2> : tensor<3xi8>
  %u = nabla.constant dense<200> : tensor<3xui8>
  %v = nabla.constant dense<100> : tensor<3xui8>
  %0 = nabla.abs %a : tensor<3xi8>
  %1 = nabla.neg %a : tensor<3xi8>
  %2 = nabla.sign %a : tensor<3xi8>
  %3 = nabla.not %a : tensor<3xi8>
  %4 = nabla.add %a, %b : tensor<3xi8>, tensor<3xi8>
  %5 = nabla.sub %a, %b : tensor<3xi8>, tensor<3xi8>
  %6 = nabla.mul %a, %b : tensor<3xi8>, tensor<3xi8>
  %7 = nabla.maximum %a, %b : tensor<3xi8>, tensor<3xi8>
  %8 = nabla.minimum %a, %b : tensor<3xi8>, tensor<3xi8>
  %9 = nabla.and %a, %b : tensor<3xi8>, tensor<3xi8>
  %10 = nabla.or %a, %b : tensor<3xi8>, tensor<3xi8>
  %11 = nabla.xor %a, %b : tensor<3xi8>, tensor<3xi8>
  %12 = nabla.maximum %u, %v : tensor<3xui8>, tensor<3xui8>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12 : tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xi8>, tensor<3xui8>
}

// SPLAT: is_nan is_inf compare select convert
// CHECK-LABEL: func.func @others
// CHECK-DAG: %[[YES:.*]] = nabla.constant dense<true> : tensor<4x2xi1>
// CHECK-DAG: %[[NO:.*]] = nabla.constant dense<false> : tensor<4x2xi1>
// CHECK-DAG: %[[S:.*]] = nabla.constant dense<-2.500000e+00> : tensor<4x2xf32>
// CHECK-DAG: %[[I:.*]] = nabla.constant dense<-2> : tensor<4x2xi8>
// CHECK-DAG: %[[H:.*]] = nabla.constant dense<-2.500000e+00> : tensor<4x2xbf16>
// CHECK-NOT: nabla.
// CHECK: return %[[NO]], %[[NO]], %[[YES]], %[[S]], %[[I]], %[[H]] :
func.func @others(%s: !s, %t: !t) -> (tensor<4x2xi1>, tensor<4x2xi1>, tensor<4x2xi1>, tensor<4x2xf32>, tensor<4x2xi8>, tensor<4x2xbf16>) {
  %0 = nabla.is_nan %t : !t
  %1 = nabla.is_inf %t : !t
  %2 = nabla.compare gt %s, %t : !s, !t
  %3 = nabla.select %0, %s, %t : tensor<4x2xi1>, !s, !t
  %4 = nabla.convert %t : !t -> tensor<4x2xi8>
  %5 = nabla.convert %t : !t -> tensor<4x2xbf16>
  return %0, %1, %2, %3, %4, %5 : tensor<4x2xi1>, tensor<4x2xi1>, tensor<4x2xi1>, tensor<4x2xf32>, tensor<4x2xi8>, tensor<4x2xbf16>
}

// SPLAT: reduce
// CHECK-LABEL: func.func @reduced
// CHECK-DAG: %[[C0:.*]] = nabla.constant dense<-1.000000e+01> : tensor<2xf32>
// CHECK-DAG: %[[C1:.*]] = nabla.constant dense<-2.500000e+00> : tensor<f32>
// CHECK-DAG: %[[C2:.*]] = nabla.constant dense<-2.500000e+00> : tensor<4x1xf32>
// CHECK-DAG: %[[C3:.*]] = nabla.constant dense<16> : tensor<i8>
// CHECK-DAG: %[[C4:.*]] = nabla.constant dense<8> : tensor<i8>
// CHECK-NOT: nabla.
// CHECK: return %[[C0]], %[[C1]], %[[C2]], %[[C3]], %[[C4]] :
func.func @reduced(%t: !t) -> (tensor<2xf32>, tensor<f32>, tensor<4x1xf32>, tensor<i8>, tensor<i8>) {
  %two = nabla.constant dense<2> : tensor<4xi8>
  %0 = nabla.reduce sum %t dims = [0] : !t
  %1 = nabla.reduce mean %t dims = [0, 1] : !t
  %2 = nabla.reduce max %t dims = [1] keep_dims : !t
  %3 = nabla.reduce prod %two dims = [0] : tensor<4xi8>
  %4 = nabla.reduce sum %two dims = [0] : tensor<4xi8>
  return %0, %1, %2, %3, %4 : tensor<2xf32>, tensor<f32>, tensor<4x1xf32>, tensor<i8>, tensor<i8>
}

// SPLAT: transpose reshape broadcast_in_dim slice dynamic_slice gather flip
// concatenate stack pad
// CHECK-LABEL: func.func @shapes
// CHECK-NOT: nabla.{{[a-z_]+}} %
// CHECK: return
func.func @shapes(%i: index, %p: tensor<1xi32>, %s: !s) -> (tensor<2x4xf32>, tensor<8xf32>, tensor<3x4x2xf32>, tensor<2x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>, tensor<4x2xf32>, tensor<8x2xf32>, tensor<2x4x2xf32>, tensor<6x2xf32>) {
  %c = nabla.constant dense<3.0> : tensor<4x2xf32>
  %v = nabla.constant dense<3.0> : tensor<f32>
  %0 = nabla.transpose %c permutation = [1, 0] : tensor<4x2xf32>
  %1 = nabla.reshape %s : !s -> tensor<8xf32>
  %2 = nabla.broadcast_in_dim %c dims = [1, 2] : tensor<4x2xf32> -> tensor<3x4x2xf32>
  %3 = nabla.slice %c starts = [1, 0] limits = [3, 2] : tensor<4x2xf32>
  %4 = nabla.dynamic_slice %s at(%i, %i : index, index) : !s -> tensor<1x2xf32>
  %5 = nabla.gather %s, %p offset_dims = [0, 1] index_map = [0] vector_dim = 0 sizes = [1, 2] : !s, tensor<1xi32>
  %6 = nabla.flip %s dims = [0] : !s
  %7 = nabla.concatenate %c, %s dim = 0 : tensor<4x2xf32>, !s
  %8 = nabla.stack %c, %c dim = 0 : tensor<4x2xf32>, tensor<4x2xf32>
  %9 = nabla.pad %s, %v low = [1, 0] high = [1, 0] : !s, tensor<f32>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9 : tensor<2x4xf32>, tensor<8xf32>, tensor<3x4x2xf32>, tensor<2x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>, tensor<4x2xf32>, tensor<8x2xf32>, tensor<2x4x2xf32>, tensor<6x2xf32>
}

// Must not fire: sums that round in an order of their own; what libm and the
// program may compute differently; integer division, which may fail; 2^24 + 1
// times 1; a conversion that does not fit; padding with another value; what has
// no elements; sizes that are not known.
// CHECK-LABEL: func.func @kept
// CHECK-DAG: nabla.reduce sum %{{.*}} : tensor<4xf32>
// CHECK-DAG: nabla.reduce sum %{{.*}} : tensor<16777217xf32>
// CHECK-DAG: nabla.reduce max %{{.*}} : tensor<0xf32>
// CHECK-DAG: nabla.exp
// CHECK-DAG: nabla.div
// CHECK-DAG: nabla.convert
// CHECK-DAG: nabla.pad
// CHECK-DAG: nabla.abs %{{.*}} : tensor<?xf32>
func.func @kept(%n: index, %t: !tenths) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<4x2xf32>, tensor<4xi32>, tensor<4x2xi8>, tensor<6x2xf32>, tensor<?xf32>) {
  %many = nabla.constant dense<1.0> : tensor<16777217xf32>
  %none = nabla.constant dense<1.0> : tensor<0xf32>
  %c = nabla.constant dense<300.0> : tensor<4x2xf32>
  %zero = nabla.constant dense<0> : tensor<4xi32>
  %v = nabla.constant dense<-300.0> : tensor<f32>
  %d = nabla.full 2.0 : f32 sizes(%n) -> tensor<?xf32>
  %0 = nabla.reduce sum %t dims = [0] : !tenths
  %1 = nabla.reduce sum %many dims = [0] : tensor<16777217xf32>
  %2 = nabla.reduce max %none dims = [0] : tensor<0xf32>
  %3 = nabla.exp %c : tensor<4x2xf32>
  %4 = nabla.div %zero, %zero : tensor<4xi32>, tensor<4xi32>
  %5 = nabla.convert %c : tensor<4x2xf32> -> tensor<4x2xi8>
  %6 = nabla.pad %c, %v low = [1, 0] high = [1, 0] : tensor<4x2xf32>, tensor<f32>
  %7 = nabla.abs %d : tensor<?xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<4x2xf32>, tensor<4xi32>, tensor<4x2xi8>, tensor<6x2xf32>, tensor<?xf32>
}
