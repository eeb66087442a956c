// Each row of transforms/simplify/identities.def fires, for an element type each; and what
// looks like one and is none, for some value of x, stays.
// RUN: nabla-opt "%s" --nabla-simplify --canonicalize | FileCheck "%s"
// CHECK-LABEL: func.func @add_minus_zero
// CHECK-NEXT: return %arg0
func.func @add_minus_zero(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = nabla.constant dense<-0.0> : tensor<4xf32>
  %0 = nabla.add %x, %c : tensor<4xf32>, tensor<4xf32>
  return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @add_zero
// CHECK-NEXT: return %arg0
func.func @add_zero(%x: tensor<4xi32>) -> tensor<4xi32> {
  %c = nabla.constant dense<0> : tensor<4xi32>
  %0 = nabla.add %c, %x : tensor<4xi32>, tensor<4xi32>
  return %0 : tensor<4xi32>
}
// CHECK-LABEL: func.func @sub_zero
// CHECK-NEXT: return %arg0
func.func @sub_zero(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = nabla.constant dense<0.0> : tensor<4xf32>
  %0 = nabla.sub %x, %c : tensor<4xf32>, tensor<4xf32>
  return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @mul_one
// CHECK-NEXT: return %arg0
func.func @mul_one(%x: tensor<4xf16>) -> tensor<4xf16> {
  %c = nabla.constant dense<1.0> : tensor<4xf16>
  %0 = nabla.mul %x, %c : tensor<4xf16>, tensor<4xf16>
  return %0 : tensor<4xf16>
}
// CHECK-LABEL: func.func @mul_zero
// CHECK-NEXT: %[[C:.*]] = nabla.constant dense<0> : tensor<4xi8>
// CHECK-NEXT: return %[[C]]
func.func @mul_zero(%x: tensor<4xi8>) -> tensor<4xi8> {
  %c = nabla.constant dense<0> : tensor<4xi8>
  %0 = nabla.mul %c, %x : tensor<4xi8>, tensor<4xi8>
  return %0 : tensor<4xi8>
}
// CHECK-LABEL: func.func @div_one
// CHECK-NEXT: return %arg0
func.func @div_one(%x: tensor<4xf64>) -> tensor<4xf64> {
  %c = nabla.constant dense<1.0> : tensor<4xf64>
  %0 = nabla.div %x, %c : tensor<4xf64>, tensor<4xf64>
  return %0 : tensor<4xf64>
}
// CHECK-LABEL: func.func @mod_one
// CHECK-NEXT: %[[C:.*]] = nabla.constant dense<0> : tensor<4xi64>
// CHECK-NEXT: return %[[C]]
func.func @mod_one(%x: tensor<4xi64>) -> tensor<4xi64> {
  %c = nabla.constant dense<1> : tensor<4xi64>
  %0 = nabla.mod %x, %c : tensor<4xi64>, tensor<4xi64>
  return %0 : tensor<4xi64>
}
// CHECK-LABEL: func.func @pow_one
// CHECK-NEXT: return %arg0
func.func @pow_one(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = nabla.constant dense<1.0> : tensor<4xf32>
  %0 = nabla.pow %x, %c : tensor<4xf32>, tensor<4xf32>
  return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @pow_zero
// CHECK-NEXT: %[[C:.*]] = nabla.constant dense<1.000000e+00> : tensor<4xf32>
// CHECK-NEXT: return %[[C]]
func.func @pow_zero(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = nabla.constant dense<0.0> : tensor<4xf32>
  %0 = nabla.pow %x, %c : tensor<4xf32>, tensor<4xf32>
  return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @pow_minus_zero
// CHECK-NEXT: %[[C:.*]] = nabla.constant dense<1.000000e+00> : tensor<4xbf16>
// CHECK-NEXT: return %[[C]]
func.func @pow_minus_zero(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  %c = nabla.constant dense<-0.0> : tensor<4xbf16>
  %0 = nabla.pow %x, %c : tensor<4xbf16>, tensor<4xbf16>
  return %0 : tensor<4xbf16>
}
// CHECK-LABEL: func.func @one_pow
// CHECK-NEXT: %[[C:.*]] = nabla.constant dense<1.000000e+00> : tensor<4xf32>
// CHECK-NEXT: return %[[C]]
func.func @one_pow(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = nabla.constant dense<1.0> : tensor<4xf32>
  %0 = nabla.pow %c, %x : tensor<4xf32>, tensor<4xf32>
  return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @max_least
// CHECK-NEXT: return %arg0
func.func @max_least(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = nabla.constant dense<0xFF800000> : tensor<4xf32>
  %0 = nabla.maximum %x, %c : tensor<4xf32>, tensor<4xf32>
  return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @max_greatest
// CHECK-NEXT: %[[C:.*]] = nabla.constant dense<127> : tensor<4xi8>
// CHECK-NEXT: return %[[C]]
func.func @max_greatest(%x: tensor<4xi8>) -> tensor<4xi8> {
  %c = nabla.constant dense<127> : tensor<4xi8>
  %0 = nabla.maximum %c, %x : tensor<4xi8>, tensor<4xi8>
  return %0 : tensor<4xi8>
}
// CHECK-LABEL: func.func @min_greatest
// CHECK-NEXT: return %arg0
func.func @min_greatest(%x: tensor<4xf64>) -> tensor<4xf64> {
  %c = nabla.constant dense<0x7FF0000000000000> : tensor<4xf64>
  %0 = nabla.minimum %x, %c : tensor<4xf64>, tensor<4xf64>
  return %0 : tensor<4xf64>
}
// CHECK-LABEL: func.func @min_least
// CHECK-NEXT: %[[C:.*]] = nabla.constant dense<-2147483648> : tensor<4xi32>
// CHECK-NEXT: return %[[C]]
func.func @min_least(%x: tensor<4xi32>) -> tensor<4xi32> {
  %c = nabla.constant dense<-2147483648> : tensor<4xi32>
  %0 = nabla.minimum %x, %c : tensor<4xi32>, tensor<4xi32>
  return %0 : tensor<4xi32>
}
// CHECK-LABEL: func.func @and_ones
// CHECK-NEXT: return %arg0
func.func @and_ones(%x: tensor<4xi32>) -> tensor<4xi32> {
  %c = nabla.constant dense<-1> : tensor<4xi32>
  %0 = nabla.and %x, %c : tensor<4xi32>, tensor<4xi32>
  return %0 : tensor<4xi32>
}
// CHECK-LABEL: func.func @and_zero
// CHECK-NEXT: %[[C:.*]] = nabla.constant dense<false> : tensor<4xi1>
// CHECK-NEXT: return %[[C]]
func.func @and_zero(%x: tensor<4xi1>) -> tensor<4xi1> {
  %c = nabla.constant dense<false> : tensor<4xi1>
  %0 = nabla.and %c, %x : tensor<4xi1>, tensor<4xi1>
  return %0 : tensor<4xi1>
}
// CHECK-LABEL: func.func @or_zero
// CHECK-NEXT: return %arg0
func.func @or_zero(%x: tensor<4xi8>) -> tensor<4xi8> {
  %c = nabla.constant dense<0> : tensor<4xi8>
  %0 = nabla.or %c, %x : tensor<4xi8>, tensor<4xi8>
  return %0 : tensor<4xi8>
}
// CHECK-LABEL: func.func @or_ones
// CHECK-NEXT: %[[C:.*]] = nabla.constant dense<true> : tensor<4xi1>
// CHECK-NEXT: return %[[C]]
func.func @or_ones(%x: tensor<4xi1>) -> tensor<4xi1> {
  %c = nabla.constant dense<true> : tensor<4xi1>
  %0 = nabla.or %x, %c : tensor<4xi1>, tensor<4xi1>
  return %0 : tensor<4xi1>
}
// CHECK-LABEL: func.func @xor_zero
// CHECK-NEXT: return %arg0
func.func @xor_zero(%x: tensor<4xi64>) -> tensor<4xi64> {
  %c = nabla.constant dense<0> : tensor<4xi64>
  %0 = nabla.xor %x, %c : tensor<4xi64>, tensor<4xi64>
  return %0 : tensor<4xi64>
}
// CHECK-LABEL: func.func @select_true
// CHECK-NEXT: return %arg0
func.func @select_true(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %c = nabla.full true -> tensor<4xi1>
  %0 = nabla.select %c, %x, %y : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
  return %0 : tensor<4xf32>
}
// CHECK-LABEL: func.func @select_false
// CHECK-NEXT: return %arg1
func.func @select_false(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %c = nabla.constant dense<false> : tensor<4xi1>
  %0 = nabla.select %c, %x, %y : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
  return %0 : tensor<4xf32>
}
// ui8 has its own least and greatest.
// CHECK-LABEL: func.func @of_unsigned
// CHECK-NEXT: %[[C:.*]] = nabla.constant dense<255> : tensor<4xui8>
// CHECK-NEXT: return %arg0, %[[C]]
func.func @of_unsigned(%x: tensor<4xui8>) -> (tensor<4xui8>, tensor<4xui8>) {
  %zero = nabla.constant dense<0> : tensor<4xui8>
  %most = nabla.constant dense<255> : tensor<4xui8>
  %0 = nabla.maximum %x, %zero : tensor<4xui8>, tensor<4xui8>
  %1 = nabla.or %x, %most : tensor<4xui8>, tensor<4xui8>
  return %0, %1 : tensor<4xui8>, tensor<4xui8>
}

// Must not fire, by the value of x for which it would be wrong: x + 0 of -0;
// x - -0 of -0; 0 x of NaN, infinities and negative ones; x * -1; -1 as all bits
// of a float; 0 - x, 1 / x; x^2; the greatest and least of NaN; x mod 1 of
// floats, -0; a value that not all elements have.
// CHECK-LABEL: func.func @kept
// CHECK-COUNT-14: nabla.{{add|sub|mul|div|pow|maximum|minimum|mod|and}} {{.*}}tensor<4x
// CHECK-NOT: nabla
// CHECK: return
func.func @kept(%x: tensor<4xf32>, %i: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xf32>) {
  %zero = nabla.constant dense<0.0> : tensor<4xf32>
  %minus_zero = nabla.constant dense<-0.0> : tensor<4xf32>
  %one = nabla.constant dense<1.0> : tensor<4xf32>
  %minus = nabla.constant dense<-1.0> : tensor<4xf32>
  %two = nabla.constant dense<2.0> : tensor<4xf32>
  %inf = nabla.constant dense<0x7F800000> : tensor<4xf32>
  %minus_inf = nabla.constant dense<0xFF800000> : tensor<4xf32>
  %some = nabla.constant dense<[1.0, 1.0, 1.0, 2.0]> : tensor<4xf32>
  %k = nabla.constant dense<2> : tensor<4xi32>
  %1 = nabla.add %x, %zero : tensor<4xf32>, tensor<4xf32>
  %2 = nabla.sub %x, %minus_zero : tensor<4xf32>, tensor<4xf32>
  %3 = nabla.mul %x, %zero : tensor<4xf32>, tensor<4xf32>
  %4 = nabla.mul %x, %minus : tensor<4xf32>, tensor<4xf32>
  %5 = nabla.sub %zero, %x : tensor<4xf32>, tensor<4xf32>
  %6 = nabla.div %one, %x : tensor<4xf32>, tensor<4xf32>
  %7 = nabla.pow %x, %two : tensor<4xf32>, tensor<4xf32>
  %8 = nabla.maximum %x, %inf : tensor<4xf32>, tensor<4xf32>
  %9 = nabla.minimum %x, %minus_inf : tensor<4xf32>, tensor<4xf32>
  %10 = nabla.mod %x, %one : tensor<4xf32>, tensor<4xf32>
  %11 = nabla.mul %x, %some : tensor<4xf32>, tensor<4xf32>
  %12 = nabla.and %i, %k : tensor<4xi32>, tensor<4xi32>
  %13 = nabla.mod %i, %k : tensor<4xi32>, tensor<4xi32>
  %14 = nabla.maximum %x, %zero : tensor<4xf32>, tensor<4xf32>
  return %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xf32>
}

// Zeros times what is not finite are NaN, in a contraction, too.
// CHECK-LABEL: func.func @dot_with_zeros
// CHECK: nabla.dot_general
func.func @dot_with_zeros(%x: tensor<3x4xf32>) -> tensor<3x2xf32> {
  %zero = nabla.constant dense<0.0> : tensor<4x2xf32>
  %0 = nabla.dot_general %x, %zero contracting = [1] x [0] : tensor<3x4xf32>, tensor<4x2xf32>
  return %0 : tensor<3x2xf32>
}

// A size that is compared at run time stays compared.
// CHECK-LABEL: func.func @compared
// CHECK: nabla.add
// CHECK: nabla.mul
// CHECK: nabla.select
func.func @compared(%x: tensor<?xf32>, %i: tensor<?xi32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi32>, tensor<4xf32>) {
  %zero = nabla.constant dense<-0.0> : tensor<4xf32>
  %none = nabla.constant dense<0> : tensor<4xi32>
  %yes = nabla.constant dense<true> : tensor<4xi1>
  %0 = nabla.add %x, %zero : tensor<?xf32>, tensor<4xf32>
  %1 = nabla.mul %i, %none : tensor<?xi32>, tensor<4xi32>
  %2 = nabla.select %yes, %y, %x : tensor<4xi1>, tensor<4xf32>, tensor<?xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xi32>, tensor<4xf32>
}
