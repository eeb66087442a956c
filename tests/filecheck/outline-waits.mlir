// Groups of operations that become one function leave out waits for exchanges: a wait
// names the memory that was given to its start, and a function would take a copy.
// RUN: nabla-opt "%s" --nabla-propagate-sharding --nabla-partition --nabla-lower-collectives --nabla-outline | FileCheck "%s" --implicit-check-not nabla.wait
nabla.mesh @m <["a"=2, "b"=2]>
// CHECK-LABEL: func.func @f(
// CHECK-COUNT-3: nabla.custom_call @nabla.wait
// CHECK: return
func.func @f(%x: tensor<?x?x3xi32> {nabla.name = "x", nabla.sharding = #nabla.sharding<@m, [{}, {"b"}, {"a", ?}]>}) -> (tensor<?x?x3xi32>, tensor<?x?x3xi32>, tensor<?x?x3xi32>) {
  %0 = nabla.abs %x : tensor<?x?x3xi32>
  %1 = nabla.neg %x : tensor<?x?x3xi32>
  %2 = nabla.sign %x : tensor<?x?x3xi32>
  return %0, %1, %2 : tensor<?x?x3xi32>, tensor<?x?x3xi32>, tensor<?x?x3xi32>
}
