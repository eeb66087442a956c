// What compiled code cannot have is refused where it stands.
// RUN: nabla-opt "%s" --split-input-file --nabla-lower-services --verify-diagnostics

llvm.func @puts(!llvm.ptr) -> i32
llvm.func @f(%p: !llvm.ptr) {
  // expected-error @+1 {{'puts' is not defined in the program: compiled code cannot call it}}
  %r = llvm.call @puts(%p) : (!llvm.ptr) -> i32
  llvm.return
}

// -----

llvm.func @f(%p: !llvm.ptr) {
  // expected-error @+1 {{'llvm.call' through a pointer cannot be compiled}}
  llvm.call %p() : !llvm.ptr, () -> ()
  llvm.return
}

// -----

llvm.mlir.global external @environ() : !llvm.ptr
llvm.func @f() {
  // expected-error @+1 {{'environ' is not defined in the program}}
  %p = llvm.mlir.addressof @environ : !llvm.ptr
  llvm.return
}

// -----

llvm.func @g() {
  llvm.return
}
llvm.func @f() {
  // expected-error @+1 {{'g' is no kernel: its address cannot be taken}}
  %p = llvm.mlir.addressof @g : !llvm.ptr
  llvm.return
}

// -----

llvm.func @g() {
  llvm.return
}
llvm.func @kernel(%words: !llvm.ptr, %begin: i64, %end: i64) attributes {nabla.kernel} {
  // expected-error @+1 {{'g' cannot be called by a kernel}}
  llvm.call @g() : () -> ()
  llvm.return
}

// -----

// expected-error @+1 {{'nabla.failed' is a name of the runtime}}
llvm.func @nabla.failed() {
  llvm.return
}

// -----

llvm.func @start() {
  llvm.return
}
// expected-error @+1 {{'llvm.mlir.global_ctors' cannot stand at the top level of compiled code}}
llvm.mlir.global_ctors ctors = [@start], priorities = [0 : i32], data = [#llvm.zero]

// -----

// expected-error @+1 {{'f' takes or gives something that is no tensor}}
llvm.func @f(%x: f32) attributes {llvm.emit_c_interface} {
  llvm.return
}
llvm.func @_mlir_ciface_f(%x: f32) attributes {llvm.emit_c_interface} {
  llvm.return
}
