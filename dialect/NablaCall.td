// Calls of C functions that are registered by name.
#ifndef NABLA_CALL_TD
#define NABLA_CALL_TD

def Nabla_CallOperand : AnyTypeOf<[Nabla_Tensor, Nabla_ImplicitType, Index],
                                  "tensor, implicit array or index">;

def Nabla_CustomCallOp : Nabla_EffectOp<"custom_call",
    [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "Calls a C function that a program has registered by name";
  let description = [{
    `nabla.custom_call @target(%x, %n) {by = 2.0} : (tensor<?xf32>, index) ->
    tensor<?xf32>`. The handler of `target` (nabla/custom_call.h) gets the
    arrays, the attributes of the dictionary and buffers for the results; operands
    of type index follow the arrays and are the sizes of each `?` of the results.
    `nabla-calls` checks the number of arguments, dtypes, ranks and attributes
    against the description of the handler. If the handler accepts the components
    of an implicit operand, it gets them, and `parts` has the number of components
    of each argument; otherwise the operand is materialized, which is reported.
    `pure` permits to remove the call, or to merge it with an equal one; its
    handler must be declared pure too.

    ```mlir
    func.func @custom_call(%x: tensor<?xf32>) -> tensor<?xf32> {
      %zero = arith.constant 0 : index
      %n = tensor.dim %x, %zero : tensor<?xf32>
      %y = nabla.custom_call @scale(%x, %n) {by = 2.0} : (tensor<?xf32>, index) -> tensor<?xf32>
      return %y : tensor<?xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$target,
                       Variadic<Nabla_CallOperand>:$inputs, UnitAttr:$pure,
                       OptionalAttr<DenseI64ArrayAttr>:$parts);
  let results = (outs Variadic<Nabla_Tensor>:$results);
  let assemblyFormat = [{
    $target `(` $inputs `)` (`pure` $pure^)? (`parts` `=` $parts^)? attr-dict
    `:` functional-type($inputs, $results)
  }];
  let extraClassDefinition = verifyHook # [{
    void $cppClass::getEffects(
        ::llvm::SmallVectorImpl<::mlir::SideEffects::EffectInstance<
            ::mlir::MemoryEffects::Effect>> &effects) {
      if (getPure()) return;
      effects.emplace_back(::mlir::MemoryEffects::Read::get());
      effects.emplace_back(::mlir::MemoryEffects::Write::get());
    }
  }];
}

#endif
