// Functions of f32 in kernels of clusters: in f32 but where math.def says f64;
// numbers of a table are looked up by what the target has.
// RUN: nabla-opt "%s" --nabla-cluster="features=avx512f,avx2,fma" | FileCheck "%s" --check-prefixes=ANY,AVX512
// RUN: nabla-opt "%s" --nabla-cluster="features=avx2,fma" | FileCheck "%s" --check-prefixes=ANY,AVX2
// RUN: nabla-opt "%s" --nabla-cluster=features= | FileCheck "%s" --check-prefixes=ANY,NONE

!t = tensor<64x256xf32>

// Kernels stand in the reverse order of the functions.

// f64 is left to loops.
// ANY-NOT: llvm.func internal @nabla_cluster_{{[0-9]+}}_cos

// Quarters of a turn in f64, the parts in f32. Large elements one by one, by a
// loop that has no turn where a vector has none.
// ANY-LABEL: llvm.func internal @nabla_cluster_{{[0-9]+}}_sin
// ANY: llvm.fpext {{.*}} : vector<16xf32> to vector<16xf64>
// ANY: llvm.fptrunc {{.*}} : vector<16xf64> to vector<16xf32>
// ANY: %[[ANY:.*]] = "llvm.intr.vector.reduce.or"({{.*}}) : (vector<16xi1>) -> i1
// ANY: %[[TURNS:.*]] = llvm.select %[[ANY]], %{{.*}}, %{{.*}} : i1, i64
// ANY: scf.for %{{.*}} = %{{.*}} to %[[TURNS]] step
// ANY-NOT: vector<16xf64>
// ANY: llvm.mul {{.*}} : i128
// ANY: llvm.insertelement
// ANY: llvm.return

// ANY-LABEL: llvm.func internal @nabla_cluster_{{[0-9]+}}_gelu
// ANY-NOT: f64
// AVX512: llvm.x86.avx512.permvar.sf.512
// AVX512: "llvm.ldexp"
// AVX2: llvm.x86.avx2.permps
// AVX2-NOT: llvm.ldexp
// NONE-NOT: llvm.x86
// NONE-NOT: llvm.ldexp
// ANY: llvm.return

// ANY-LABEL: llvm.func internal @nabla_cluster_{{[0-9]+}}_tanh
// ANY: llvm.fpext {{.*}} : vector<16xf32> to vector<16xf64>
// ANY: llvm.return

func.func @tanh(%x: !t) -> !t {
  %0 = nabla.tanh %x : !t
  return %0 : !t
}

func.func @gelu(%x: !t) -> !t {
  %0 = nabla.gelu %x : !t
  return %0 : !t
}

func.func @sin(%x: !t) -> !t {
  %0 = nabla.sin %x : !t
  return %0 : !t
}

// ANY-LABEL: func.func @of_f64
// ANY-NEXT: nabla.cos
func.func @of_f64(%x: tensor<64x256xf64>) -> tensor<64x256xf64> {
  %0 = nabla.cos %x : tensor<64x256xf64>
  return %0 : tensor<64x256xf64>
}
