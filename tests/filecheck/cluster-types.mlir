// Clusters of f64, integers and truth values: one kernel each, in lanes of their
// types; tails are masked from 32 bits on.
// RUN: nabla-opt "%s" --nabla-cluster="features=avx512f,avx2,fma" | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-cluster="features=avx512f,avx2,fma" --remarks-filter='nabla.*' 2>&1 | FileCheck "%s" --check-prefix=REMARK

!d = tensor<64x256xf64>
!i = tensor<64x256xi32>
!s = tensor<64x256xui8>
!b = tensor<64x256xi1>

// Kernels stand in the reverse order of the functions.

// All values are bytes: vectors of 64. Unsigned comparison, no masked access.
// CHECK-LABEL: llvm.func internal @nabla_cluster_{{[0-9]+}}_select
// CHECK-NOT: masked
// CHECK: llvm.icmp "ult" {{.*}} : vector<64xi8>
// CHECK: llvm.select {{.*}} : vector<64xi1>, vector<64xi8>
// CHECK: llvm.return
// REMARK-DAG: computes add, compare, select by one kernel: 1 pass over all elements, 2 inputs, 1 results

// Whole numbers of columns in i64, wrapped to i32; a sum that wraps.
// CHECK-LABEL: llvm.func internal @nabla_cluster_{{[0-9]+}}_reduce
// CHECK: iter_args({{.*}}) -> (vector<16xi32>, vector<16xi32>, vector<16xi32>, vector<16xi32>)
// CHECK: llvm.icmp "slt" {{.*}} : vector<16xi32>
// CHECK: llvm.intr.masked.load {{.*}} -> vector<16xi32>
// REMARK-DAG: computes compare, select, reduce by one kernel: 1 pass over each row, 1 inputs, 1 results

// i32 and f32 are widened once; exp by its formula of f64, as loops compute it.
// CHECK-LABEL: llvm.func internal @nabla_cluster_{{[0-9]+}}_exp
// CHECK: llvm.sitofp {{.*}} : vector<16xi32> to vector<16xf64>
// CHECK: llvm.fadd {{.*}} : vector<16xf64>
// CHECK-NOT: f32
// CHECK: llvm.intr.masked.store {{.*}} {alignment = 8 : i32} : vector<16xf64>
// REMARK-DAG: computes convert, add, exp by one kernel: 1 pass over all elements, 2 inputs, 1 results

// CHECK-LABEL: func.func @chain
// CHECK-NEXT: call @nabla_cluster_call
// CHECK-NEXT: return
func.func @chain(%x: !d, %y: !i) -> !d {
  %0 = nabla.convert %y : !i -> !d
  %1 = nabla.add %0, %x : !d, !d
  %2 = nabla.exp %1 : !d
  return %2 : !d
}

// An index is computed where it is read.
// CHECK-LABEL: func.func @indices
// CHECK-NEXT: call @nabla_cluster_call
// CHECK-NEXT: return
func.func @indices(%x: !i) -> tensor<64xi32> {
  %i = nabla.iota dim = 1 -> !i
  %c = nabla.compare lt %x, %i : !i, !i
  %s = nabla.select %c, %x, %i : !b, !i, !i
  %r = nabla.reduce sum %s dims = [1] : !i
  return %r : tensor<64xi32>
}

// CHECK-LABEL: func.func @bytes
// CHECK-NEXT: call @nabla_cluster_call
// CHECK-NEXT: return
func.func @bytes(%x: !s, %y: !s) -> !s {
  %0 = nabla.add %x, %y : !s, !s
  %c = nabla.compare lt %0, %y : !s, !s
  %s = nabla.select %c, %0, %x : !b, !s, !s
  return %s : !s
}
