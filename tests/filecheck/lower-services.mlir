// Runtime services come through the table: functions take it, calls pass it,
// failures leave early, and only entry points and the manifest are seen.
// RUN: nabla-opt "%s" --nabla-lower-services | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-lower-services --mlir-print-op-generic | FileCheck "%s" --check-prefix=GENERIC
// RUN: nabla-opt "%s" --nabla-lower-services -o "%t.once"
// RUN: nabla-opt "%t.once" --nabla-lower-services -o "%t.twice"
// RUN: diff "%t.once" "%t.twice"
// RUN: nabla-opt "%s" --nabla-lower-services | mlir-translate --mlir-to-llvmir | FileCheck "%s" --check-prefix=LLVM

// LLVM: @nabla_manifest = constant [3 x i8] c"{}\00"
// LLVM: define internal ptr @make
// LLVM: define void @nabla_entry_one

// CHECK: module attributes {nabla.lowered, nabla.manifest = "{}"}
module attributes {nabla.manifest = "{}"} {
  // An empty list is read beyond its end by the translation to LLVM IR.
  // GENERIC-NOT: res_attrs = []
  // GENERIC: sym_name = "empty_list"
  // GENERIC-NOT: res_attrs = []
  llvm.func private @empty_list() attributes {res_attrs = []} {
    llvm.return
  }

  // CHECK-NOT: @malloc
  // CHECK-NOT: @free
  // CHECK-NOT: llvm.func{{.*}}@nabla_parallel
  llvm.func @malloc(i64) -> !llvm.ptr
  llvm.func @free(!llvm.ptr)
  llvm.func @nabla_parallel(!llvm.ptr, !llvm.ptr, i64, i64)
  llvm.func @nabla_require_equal(i64, i64, !llvm.ptr)
  llvm.func @unused(i64)

  // A kernel takes no table.
  // CHECK: llvm.func internal @kernel(%{{[a-z0-9]+}}: !llvm.ptr, %{{[a-z0-9]+}}: i64, %{{[a-z0-9]+}}: i64) attributes {nabla.kernel}
  llvm.func @kernel(%words: !llvm.ptr, %begin: i64, %end: i64) attributes {nabla.kernel} {
    llvm.return
  }

  // CHECK-LABEL: llvm.func internal @make
  // CHECK-SAME: (%[[S:.*]]: !llvm.ptr, %[[N:.*]]: i64) -> !llvm.ptr
  // CHECK: %[[P:.*]] = llvm.call @nabla.allocate(%[[S]], %[[N]])
  // CHECK: %[[F:.*]] = llvm.call @nabla.failed(%[[S]])
  // CHECK: llvm.cond_br %[[F]] weights([1, 1048575]), ^[[FAIL:.*]], ^[[REST:.*]]
  // CHECK: ^[[REST]]:
  // CHECK: llvm.return %[[P]]
  // CHECK: ^[[FAIL]]:
  // CHECK: %[[Z:.*]] = llvm.mlir.zero : !llvm.ptr
  // CHECK: llvm.return %[[Z]]
  llvm.func @make(%size: i64) -> !llvm.ptr {
    %p = llvm.call @malloc(%size) : (i64) -> !llvm.ptr
    llvm.return %p : !llvm.ptr
  }

  // Products of dimensions cannot wrap.
  // CHECK-LABEL: llvm.func internal @grid
  // CHECK: %[[A:.*]] = llvm.call @nabla.multiply(%[[X:.*]], %[[Y:.*]]) :
  // CHECK: %[[B:.*]] = llvm.call @nabla.multiply(%[[A]], %[[FOUR:.*]]) :
  // CHECK: %[[C:.*]] = llvm.call @nabla.add(%[[B]], %[[ROOM:.*]]) :
  // CHECK: llvm.call @nabla.allocate(%{{.*}}, %[[C]])
  llvm.func @grid(%x: i64, %y: i64) {
    %room = llvm.mlir.constant(64 : i64) : i64
    %n = llvm.mul %x, %y : i64
    %null = llvm.mlir.zero : !llvm.ptr
    %end = llvm.getelementptr %null[%n] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    %bytes = llvm.ptrtoint %end : !llvm.ptr to i64
    %size = llvm.add %bytes, %room : i64
    %p = llvm.call @malloc(%size) : (i64) -> !llvm.ptr
    llvm.call @free(%p) : (!llvm.ptr) -> ()
    llvm.return
  }

  // Nor can what is constant: 2^61 + 1 elements of 8 bytes.
  // CHECK-LABEL: llvm.func internal @vast
  // CHECK: %[[B:.*]] = llvm.call @nabla.multiply(
  // CHECK: llvm.call @nabla.allocate(%{{.*}}, %[[B]])
  llvm.func @vast() {
    %n = llvm.mlir.constant(2305843009213693953 : index) : i64
    %null = llvm.mlir.zero : !llvm.ptr
    %end = llvm.getelementptr %null[%n] : (!llvm.ptr, i64) -> !llvm.ptr, f64
    %bytes = llvm.ptrtoint %end : !llvm.ptr to i64
    %p = llvm.call @malloc(%bytes) : (i64) -> !llvm.ptr
    llvm.call @free(%p) : (!llvm.ptr) -> ()
    llvm.return
  }

  // What cannot fail does not look, and stack stays in the first block.
  // CHECK-LABEL: llvm.func internal @start
  // CHECK: llvm.alloca
  // CHECK: llvm.call @nabla.require_equal
  // CHECK: llvm.call @nabla.failed
  // CHECK: llvm.call @nabla.parallel
  // CHECK-NOT: llvm.call @nabla.failed
  // CHECK: llvm.return
  llvm.func @start(%a: i64, %b: i64) {
    %null = llvm.mlir.zero : !llvm.ptr
    llvm.call @nabla_require_equal(%a, %b, %null) : (i64, i64, !llvm.ptr) -> ()
    %one = llvm.mlir.constant(1 : i64) : i64
    %words = llvm.alloca %one x i64 : (i64) -> !llvm.ptr
    %kernel = llvm.mlir.addressof @kernel : !llvm.ptr
    llvm.call @nabla_parallel(%kernel, %words, %a, %one) : (!llvm.ptr, !llvm.ptr, i64, i64) -> ()
    llvm.return
  }

  // Stack of one size, which stands before all of it.
  // CHECK-LABEL: llvm.func internal @stacks
  // CHECK: %[[SIZE:.*]] = llvm.mlir.constant(16 : i64)
  // CHECK-NEXT: llvm.alloca %[[SIZE]] x i64
  // CHECK-NEXT: llvm.alloca %[[SIZE]] x i64
  // CHECK: llvm.call @nabla.require_equal
  llvm.func @stacks(%a: i64, %b: i64) {
    %size = llvm.mlir.constant(16 : i64) : i64
    %first = llvm.alloca %size x i64 : (i64) -> !llvm.ptr
    %second = llvm.alloca %size x i64 : (i64) -> !llvm.ptr
    %null = llvm.mlir.zero : !llvm.ptr
    llvm.call @nabla_require_equal(%a, %b, %null) : (i64, i64, !llvm.ptr) -> ()
    llvm.return
  }

  // The return after a failure has a block that LLVM does not fold: else each
  // result would have an incoming edge for each call that may fail.
  // CHECK-LABEL: llvm.func internal @gives
  // CHECK: llvm.call_intrinsic "llvm.sideeffect"() : () -> ()
  // CHECK-NEXT: %[[NONE:.*]] = llvm.mlir.zero : i64
  // CHECK-NEXT: llvm.return %[[NONE]] : i64
  llvm.func @gives(%a: i64, %b: i64) -> i64 {
    %null = llvm.mlir.zero : !llvm.ptr
    llvm.call @nabla_require_equal(%a, %b, %null) : (i64, i64, !llvm.ptr) -> ()
    llvm.return %a : i64
  }

  // A call of what may fail may fail; one of what cannot, cannot.
  // CHECK-LABEL: llvm.func internal @caller
  // CHECK: llvm.call @quiet(%[[T:[a-z0-9]+]]) : (!llvm.ptr) -> ()
  // CHECK-NEXT: llvm.call @start(%[[T]], %{{.*}}, %{{.*}}) :
  // CHECK-NEXT: llvm.call @nabla.failed(%[[T]])
  llvm.func @caller(%a: i64) {
    llvm.call @quiet() : () -> ()
    llvm.call @start(%a, %a) : (i64, i64) -> ()
    llvm.return
  }
  llvm.func @quiet() {
    llvm.return
  }

  // One result is written where the caller wants it, several are copied there.
  // CHECK-LABEL: llvm.func @nabla_entry_one
  // CHECK-SAME: attributes {nabla.entry}
  // CHECK: %[[ARG:.*]] = llvm.load
  // CHECK: %[[RES:.*]] = llvm.load
  // CHECK: llvm.call @_mlir_ciface_one(%{{.*}}, %[[RES]], %[[ARG]])
  // CHECK-LABEL: llvm.func @nabla_entry_two
  // CHECK: %[[BOTH:.*]] = llvm.alloca
  // CHECK: llvm.call @_mlir_ciface_two(%{{.*}}, %[[BOTH]])
  // CHECK-COUNT-2: llvm.store
  llvm.func @one(%x: !llvm.ptr) -> !llvm.struct<(ptr, ptr, i64)> attributes {llvm.emit_c_interface} {
    %r = llvm.mlir.zero : !llvm.struct<(ptr, ptr, i64)>
    llvm.return %r : !llvm.struct<(ptr, ptr, i64)>
  }
  llvm.func @_mlir_ciface_one(%r: !llvm.ptr, %x: !llvm.ptr) attributes {llvm.emit_c_interface} {
    llvm.return
  }
  llvm.func @two() -> !llvm.struct<(struct<(ptr, ptr, i64)>, struct<(ptr, ptr, i64)>)> attributes {llvm.emit_c_interface} {
    %r = llvm.mlir.zero : !llvm.struct<(struct<(ptr, ptr, i64)>, struct<(ptr, ptr, i64)>)>
    llvm.return %r : !llvm.struct<(struct<(ptr, ptr, i64)>, struct<(ptr, ptr, i64)>)>
  }
  llvm.func @_mlir_ciface_two(%r: !llvm.ptr) attributes {llvm.emit_c_interface} {
    llvm.return
  }
  // CHECK: llvm.mlir.global external constant @nabla_manifest("{}\00")
}
