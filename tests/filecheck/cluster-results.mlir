// A cluster has at most 8 results: with more it is cut, and each operation is
// in a kernel nevertheless.
// RUN: nabla-opt "%s" --nabla-cluster --remarks-filter='nabla.*' -o "%t" 2>&1 | FileCheck "%s" --check-prefix=REMARK
// RUN: nabla-opt "%s" --nabla-cluster | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-cluster=no-fusion=on | FileCheck "%s" --check-prefix=OFF

!t = tensor<64x256xf32>

// As many as there may be stay together.
// REMARK-DAG: computes add, exp, tanh, neg, relu, abs, sqrt, silu, sigmoid by one kernel: 1 pass over all elements, 2 inputs, 8 results
// CHECK-LABEL: func.func @eight
// CHECK-NOT: nabla.
// CHECK: call @nabla_cluster_call_{{[0-9]+}}_sigmoid
// CHECK-NEXT: return
// OFF-LABEL: func.func @eight
// OFF-COUNT-9: nabla.
func.func @eight(%a: !t, %b: !t) -> (!t, !t, !t, !t, !t, !t, !t, !t) {
  %x = nabla.add %a, %b : !t, !t
  %0 = nabla.exp %x : !t
  %1 = nabla.tanh %x : !t
  %2 = nabla.neg %x : !t
  %3 = nabla.relu %x : !t
  %4 = nabla.abs %x : !t
  %5 = nabla.sqrt %x : !t
  %6 = nabla.silu %x : !t
  %7 = nabla.sigmoid %x : !t
  return %0, %1, %2, %3, %4, %5, %6, %7 : !t, !t, !t, !t, !t, !t, !t, !t
}

// The sum is a result too where kernels behind it read it.
// REMARK-DAG: computes sub, exp, tanh, neg, relu, abs, sqrt, silu by one kernel: 1 pass over all elements, 2 inputs, 8 results
// REMARK-DAG: computes sigmoid by one kernel: 1 pass over all elements, 1 inputs, 1 results
// REMARK-DAG: computes log by one kernel: 1 pass over all elements, 1 inputs, 1 results
// CHECK-LABEL: func.func @nine
// CHECK-NOT: nabla.
// CHECK: %[[C:.*]]:8 = call @nabla_cluster_call_{{[0-9]+}}_silu
// CHECK-NEXT: call @nabla_cluster_call_{{[0-9]+}}_sigmoid(%[[C]]#0)
// CHECK-NEXT: call @nabla_cluster_call_{{[0-9]+}}_log(%[[C]]#0)
// CHECK-NEXT: return
func.func @nine(%a: !t, %b: !t) -> (!t, !t, !t, !t, !t, !t, !t, !t, !t) {
  %x = nabla.sub %a, %b : !t, !t
  %0 = nabla.exp %x : !t
  %1 = nabla.tanh %x : !t
  %2 = nabla.neg %x : !t
  %3 = nabla.relu %x : !t
  %4 = nabla.abs %x : !t
  %5 = nabla.sqrt %x : !t
  %6 = nabla.silu %x : !t
  %7 = nabla.sigmoid %x : !t
  %8 = nabla.log %x : !t
  return %0, %1, %2, %3, %4, %5, %6, %7, %8 : !t, !t, !t, !t, !t, !t, !t, !t, !t
}

// A chain each of whose steps is a result.
// REMARK-DAG: computes exp, tanh, exp, tanh, exp, tanh, exp, tanh by one kernel: 1 pass over all elements, 1 inputs, 8 results
// REMARK-DAG: computes neg, relu by one kernel: 1 pass over all elements, 1 inputs, 2 results
// CHECK-LABEL: func.func @chain
// CHECK-NOT: nabla.
// CHECK: return
func.func @chain(%x: !t) -> (!t, !t, !t, !t, !t, !t, !t, !t, !t, !t) {
  %0 = nabla.exp %x : !t
  %1 = nabla.tanh %0 : !t
  %2 = nabla.exp %1 : !t
  %3 = nabla.tanh %2 : !t
  %4 = nabla.exp %3 : !t
  %5 = nabla.tanh %4 : !t
  %6 = nabla.exp %5 : !t
  %7 = nabla.tanh %6 : !t
  %8 = nabla.neg %7 : !t
  %9 = nabla.relu %8 : !t
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9 : !t, !t, !t, !t, !t, !t, !t, !t, !t, !t
}

// Many values of which few leave the kernel are no reason to cut.
// REMARK-DAG: computes add, exp, tanh, neg, relu, abs, sqrt, silu, sigmoid, log, add, add, add, add, add, add, add, add by one kernel: 1 pass over all elements, 2 inputs, 1 results
func.func @inside(%a: !t, %b: !t) -> !t {
  %x = nabla.add %a, %b : !t, !t
  %0 = nabla.exp %x : !t
  %1 = nabla.tanh %x : !t
  %2 = nabla.neg %x : !t
  %3 = nabla.relu %x : !t
  %4 = nabla.abs %x : !t
  %5 = nabla.sqrt %x : !t
  %6 = nabla.silu %x : !t
  %7 = nabla.sigmoid %x : !t
  %8 = nabla.log %x : !t
  %9 = nabla.add %0, %1 : !t, !t
  %10 = nabla.add %9, %2 : !t, !t
  %11 = nabla.add %10, %3 : !t, !t
  %12 = nabla.add %11, %4 : !t, !t
  %13 = nabla.add %12, %5 : !t, !t
  %14 = nabla.add %13, %6 : !t, !t
  %15 = nabla.add %14, %7 : !t, !t
  %16 = nabla.add %15, %8 : !t, !t
  return %16 : !t
}
