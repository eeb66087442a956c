// What carries an implicit value and is none of functions, calls and scf is an
// error, never a guess.
// RUN: nabla-opt "%s" --split-input-file --nabla-lower-implicit --verify-diagnostics --allow-unregistered-dialect -o "%t"

!w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>

func.func @branch(%w: !w) -> !w {
  // expected-error @below {{'cf.br' op gives an implicit value to a block: make regions of branches (nabla-opt --lift-cf-to-scf), or materialize the value before (nabla.materialize)}}
  cf.br ^bb1(%w : !w)
^bb1(%v: !w):
  return %v : !w
}

// -----

!w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>

func.func @operand(%w: !w) {
  // expected-error @below {{'other.op' op carries an implicit value}}
  "other.op"(%w) : (!w) -> ()
  return
}

// -----

func.func @result() {
  // expected-error @below {{'other.op' op carries an implicit value}}
  %0 = "other.op"() : () -> !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
  return
}

// -----

func.func @block_argument() {
  // expected-error @below {{'other.op' op carries an implicit value}}
  "other.op"() ({
  ^bb0(%w: !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>):
    "other.end"() : () -> ()
  }) : () -> ()
  return
}

// -----

// expected-error @below {{'func.func' op carries an implicit value}}
func.func @never_reached() {
  return
^bb1(%w: !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>):
  return
}

// -----

!w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>

func.func private @f(!w)
func.func @indirect(%w: !w) {
  %f = constant @f : (!w) -> ()
  // expected-error @below {{'func.call_indirect' op carries an implicit value}}
  call_indirect %f(%w) : (!w) -> ()
  return
}

// -----

!w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>

func.func @early(%p: i1, %w: !w, %v: !w) -> !w {
  // expected-error @below {{'nabla.cond' op carries an implicit value: run --nabla-lower-control first}}
  %0 = nabla.cond %p : i1 -> !w {
    // expected-error @below {{'nabla.yield' op carries an implicit value: run --nabla-lower-control first}}
    nabla.yield %w : !w
  }, {
    // expected-error @below {{'nabla.yield' op carries}}
    nabla.yield %v : !w
  }
  return %0 : !w
}
