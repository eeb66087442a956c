// RUN: nabla-opt "%s" --split-input-file --verify-diagnostics --nabla-plan-memory

func.func @large(%i: index) -> f32 {
  %a = memref.alloc() : memref<35184372088832xi8>
  %b = memref.alloc() : memref<35184372088833xi8>
  %c = memref.load %a[%i] : memref<35184372088832xi8>
  %d = memref.load %b[%i] : memref<35184372088833xi8>
  %e = arith.addi %c, %d : i8
  %f = arith.uitofp %e : i8 to f32
  // expected-error @+1 {{nabla-plan-memory: arrays of the function need more than 2^46 bytes at one time}}
  return %f : f32
}
