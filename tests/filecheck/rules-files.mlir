// Rules of files: asked before the table and those from C, the highest benefit
// first, then as they stand; what they build is dispatched in turn; what they
// decline goes on to the table.
// RUN: split-file "%s" "%t"
// RUN: nabla-opt "%t/program.mlir" --nabla-dispatch='rules="%t/one.rules"' 2>&1 | FileCheck "%s"
// RUN: nabla-opt "%t/program.mlir" --nabla-dispatch --rules "%t/one.rules" 2>&1 | FileCheck "%s"
// RUN: nabla-opt "%t/program.mlir" --nabla-dispatch --rules="%t/two.rules" --rules "%t/one.rules" 2>&1 | FileCheck "%s" --check-prefix=BENEFIT
// RUN: nabla-opt "%t/program.mlir" --nabla-dispatch='rules="%t/two.rules;%t/one.rules"' 2>&1 | FileCheck "%s" --check-prefix=BENEFIT
// RUN: nabla-opt "%t/program.mlir" --nabla-dispatch --rules="%t/one.rules" --remarks-filter='nabla.*' -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=REMARK
// RUN: not nabla-opt "%t/program.mlir" --nabla-dispatch --rules 2>&1 | FileCheck "%s" --check-prefix=NONE
// RUN: nabla-compile "%t/program.mlir" --rules "%t/one.rules" --emit mlir -o "%t/compiled.mlir" 2>&1 | FileCheck "%s" --check-prefix=WARNS --allow-empty

// CHECK-LABEL: func.func @before_the_table
// CHECK: %[[D:.*]] = nabla.materialize
// CHECK: nabla.dot_general %arg0, %[[D]]
// CHECK-NOT: fused_dot
// CHECK-LABEL: func.func @in_turn
// CHECK: nabla.fused_dot
// CHECK-LABEL: func.func @declined
// CHECK: nabla.materialize
// CHECK: nabla.silu

// The rule with the higher benefit is asked first, wherever it stands.
// BENEFIT-LABEL: func.func @before_the_table
// BENEFIT: nabla.quantize %{{.*}} -> !nabla.implicit<4x16xf32, #nabla.int8<block = 16>>
// BENEFIT: nabla.fused_dot

// REMARK: remark: [Passed] dense_nf4 | Category:nabla-dispatch
// REMARK: remark: [Passed] add_is_dot | Category:nabla-dispatch
// REMARK: remark: [Passed] dot_packed_rhs | Category:nabla-dispatch
// NONE: nabla-opt: option '--rules' needs an argument: FILE
// WARNS: materializes 1 operand of #nabla.nf4<block = 16>, 64 elements: no rule takes it
// WARNS-NOT: warning

//--- one.rules
// dot_general of nf4 with a whole array: decoded first.
pdl.pattern @dense_nf4 : benefit(1) {
  %tw = pdl.type
  %name = pdl.attribute = "nf4"
  pdl.apply_native_constraint "nabla.has_encoding"(%tw, %name : !pdl.type, !pdl.attribute)
  pdl.apply_native_constraint "nabla.is_whole"(%tw : !pdl.type)
  %x = pdl.operand
  %w = pdl.operand : %tw
  %a = pdl.attribute
  %b = pdl.attribute
  %ty = pdl.type
  %root = pdl.operation "nabla.dot_general"(%x, %w : !pdl.value, !pdl.value) {"lhs_contracting" = %a, "rhs_contracting" = %b} -> (%ty : !pdl.type)
  pdl.rewrite %root {
    %m = pdl.operation "nabla.materialize"(%w : !pdl.value)
    %d = pdl.result 0 of %m
    %y = pdl.operation "nabla.dot_general"(%x, %d : !pdl.value, !pdl.value) {"lhs_contracting" = %a, "rhs_contracting" = %b} -> (%ty : !pdl.type)
    pdl.replace %root with %y
  }
}
// nonsense, but it builds what another rule takes
pdl.pattern @add_is_dot : benefit(1) {
  %x = pdl.operand
  %tw = pdl.type
  %name = pdl.attribute = "int8"
  %ty = pdl.type : tensor<4x4xf32>
  %q = pdl.operand : %tw
  pdl.apply_native_constraint "nabla.has_encoding"(%tw, %name : !pdl.type, !pdl.attribute)
  %root = pdl.operation "nabla.sub"(%x, %q : !pdl.value, !pdl.value) -> (%ty : !pdl.type)
  pdl.rewrite %root {
    %one = pdl.attribute = array<i64: 1>
    %none = pdl.attribute = array<i64>
    %y = pdl.operation "nabla.dot_general"(%x, %q : !pdl.value, !pdl.value) {"lhs_contracting" = %one, "rhs_contracting" = %one, "lhs_batching" = %none, "rhs_batching" = %none} -> (%ty : !pdl.type)
    pdl.replace %root with %y
  }
}
//--- two.rules
pdl.pattern @again : benefit(9) {
  %tw = pdl.type
  %name = pdl.attribute = "nf4"
  pdl.apply_native_constraint "nabla.has_encoding"(%tw, %name : !pdl.type, !pdl.attribute)
  %x = pdl.operand
  %w = pdl.operand : %tw
  %a = pdl.attribute
  %b = pdl.attribute
  %ty = pdl.type
  %root = pdl.operation "nabla.dot_general"(%x, %w : !pdl.value, !pdl.value) {"lhs_contracting" = %a, "rhs_contracting" = %b} -> (%ty : !pdl.type)
  pdl.rewrite %root {
    %t8 = pdl.type : !nabla.implicit<4x16xf32, #nabla.int8<block = 16>>
    %m = pdl.operation "nabla.materialize"(%w : !pdl.value)
    %d = pdl.result 0 of %m
    %q = pdl.operation "nabla.quantize"(%d : !pdl.value) -> (%t8 : !pdl.type)
    %qv = pdl.result 0 of %q
    %y = pdl.operation "nabla.dot_general"(%x, %qv : !pdl.value, !pdl.value) {"lhs_contracting" = %a, "rhs_contracting" = %b} -> (%ty : !pdl.type)
    pdl.replace %root with %y
  }
}
//--- program.mlir
!w = !nabla.implicit<4x16xf32, #nabla.nf4<block = 16>>
!q = !nabla.implicit<4x4xf32, #nabla.int8<block = 16>>
func.func @before_the_table(%x: tensor<2x16xf32>, %w: !w) -> tensor<2x4xf32> {
  %y = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<2x16xf32>, !w
  return %y : tensor<2x4xf32>
}
func.func @in_turn(%x: tensor<4x4xf32>, %q: !q) -> tensor<4x4xf32> {
  %y = nabla.sub %x, %q : tensor<4x4xf32>, !q
  return %y : tensor<4x4xf32>
}
func.func @declined(%w: !w) -> tensor<4x16xf32> {
  %y = nabla.silu %w : !w
  return %y : tensor<4x16xf32>
}
