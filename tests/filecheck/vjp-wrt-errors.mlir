// What a gradient cannot be asked for.
// RUN: not nabla-opt "%s" --nabla-vjp=wrt=w 2>&1 | FileCheck "%s" --check-prefix=PACKED
// RUN: not nabla-opt "%s" --nabla-vjp=wrt=i 2>&1 | FileCheck "%s" --check-prefix=INTEGER
// RUN: not nabla-opt "%s" --nabla-vjp=wrt=l 2>&1 | FileCheck "%s" --check-prefix=LORA
// RUN: not nabla-opt "%s" --nabla-jvp=wrt=w.a 2>&1 | FileCheck "%s" --check-prefix=COMPONENT
// RUN: not nabla-opt "%s" --nabla-jvp=wrt=x,0 2>&1 | FileCheck "%s" --check-prefix=TWICE
// RUN: not nabla-opt "%s" --nabla-jvp=wrt=9 2>&1 | FileCheck "%s" --check-prefix=NOBODY
// RUN: not nabla-opt "%s" --nabla-vjp=function=nowhere 2>&1 | FileCheck "%s" --check-prefix=NAME

// NAME: there is no function @nowhere to differentiate
// PACKED: with respect to 'w': it is packed, and packed values have no derivative. Either keep a dense master and pass it through nabla.quantize, whose derivative is the identity; or add a #nabla.lora and differentiate with respect to its a and b; or decode a copy with nabla.materialize outside and pass the copy
// INTEGER: with respect to 'i': it is no array of floats
// LORA: with respect to 'l': it is a #nabla.lora, whose base has no gradient; name its components, as in wrt=w.a,w.b
// COMPONENT: with respect to 'w.a': its argument is no #nabla.lora
// TWICE: with respect to '0': it is named twice
// NOBODY: with respect to '9': no argument has this name or number
!w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
!l = !nabla.implicit<8x64xf32, #nabla.lora<base = #nabla.nf4<block = 64>, rank = 8>>
func.func @main(%x: tensor<2x64xf32> {nabla.name = "x"}, %w: !w {nabla.name = "w"}, %l: !l {nabla.name = "l"}, %i: tensor<2xi32> {nabla.name = "i"}) -> tensor<2x8xf32> {
  %0 = nabla.linear %x, %w : tensor<2x64xf32>, !w
  return %0 : tensor<2x8xf32>
}
