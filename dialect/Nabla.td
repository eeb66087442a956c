// The nabla dialect. Verifiers and type inference are C (verify.c, infer.c),
// reached through one hook each; an op costs a few lines here and a row in
// ops.def.
#ifndef NABLA_DIALECT_TD
#define NABLA_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Nabla_Dialect : Dialect {
  let name = "nabla";
  let cppNamespace = "::nabla";
  let summary = "Computation on implicit arrays: values whose bytes are "
                "something else, packed codes and scales above all";
  let description = [{
    An implicit array has a logical shape and element type; what is stored is
    its encoding's. Operations take implicit arrays where they take tensors.
    `nabla-dispatch` says what becomes of each: a fused operation that decodes
    where it computes, a view, or, counted and reported, `nabla.materialize`.
  }];
  let useDefaultTypePrinterParser = 1;
  let extraClassDeclaration = [{
    ::mlir::Attribute parseAttribute(::mlir::DialectAsmParser &parser,
                                     ::mlir::Type type) const override;
    void printAttribute(::mlir::Attribute attribute,
                        ::mlir::DialectAsmPrinter &printer) const override;
  }];
}

def Nabla_EncodingAttr : AttrDef<Nabla_Dialect, "Encoding"> {
  let attrName = "nabla.encoding";
  let summary = "an encoding with its parameters: #nabla.nf4<block = 64>";
  let description = [{
    `#nabla.NAME<PARAMETER, ...>`, where NAME is a row of quant/encodings.def,
    or `splat`. Parameters that have their default are not printed.
    * `block`: elements per scale, a power of two from 16 to 4096
    * `blocks = flat | leading`: blocks of the flattened storage, or one for
      each index of the first dimension (`block = 0`; LLM.int8's rows)
    * `#nabla.splat<0.5 : f32>`: a constant, nothing is stored
  }];
  let parameters = (ins StringRefParameter<>:$encoding,
                        "::mlir::DictionaryAttr":$parameters);
}

def Nabla_ImplicitType : TypeDef<Nabla_Dialect, "Implicit"> {
  let mnemonic = "implicit";
  let summary = "implicit array";
  let description = [{
    `!nabla.implicit<SHAPE x ELEMENT, ENCODING [, view<STORAGE, strides = [..],
    offset = N>]>`. A view names the shape under which its components are
    stored; the element of a logical index lies at the flat storage index
    offset + sum(index * stride). The identity is not printed.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape,
                        "::mlir::Type":$elementType,
                        "::mlir::Attribute":$encoding,
                        OptionalArrayRefParameter<"int64_t">:$view);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Nabla_ReduceKind : I32EnumAttr<"ReduceKind", "what a reduction computes", [
  I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"max", 1>,
  I32EnumAttrCase<"prod", 2>, I32EnumAttrCase<"min", 3>,
  I32EnumAttrCase<"mean", 4>, I32EnumAttrCase<"any", 5>,
  I32EnumAttrCase<"all", 6>]> {
  let cppNamespace = "::nabla";
}

class Nabla_EffectOp<string mnemonic, list<Trait> traits = []>
    : Op<Nabla_Dialect, mnemonic, traits> {
  let hasVerifier = 1;
  code verifyHook = [{
    ::llvm::LogicalResult $cppClass::verify() {
      return ::unwrap(nablaVerifyOp(::wrap(getOperation())));
    }
  }];
  code inferHook = [{
    ::llvm::LogicalResult $cppClass::inferReturnTypes(
        ::mlir::MLIRContext *context, ::std::optional<::mlir::Location> location,
        ::mlir::ValueRange operands, ::mlir::DictionaryAttr attributes,
        ::mlir::OpaqueProperties properties, ::mlir::RegionRange,
        ::llvm::SmallVectorImpl<::mlir::Type> &types) {
      return ::nabla::inferInC<$cppClass>(context, location, operands,
                                          attributes, properties, types);
    }
  }];
  let extraClassDefinition = verifyHook;
}

class Nabla_Op<string mnemonic, list<Trait> traits = []>
    : Nabla_EffectOp<mnemonic, !listconcat([Pure], traits)>;

// An op whose result types follow from its operands.
class Nabla_InferOp<string mnemonic, list<Trait> traits = []>
    : Nabla_Op<mnemonic,
               !listconcat([DeclareOpInterfaceMethods<InferTypeOpInterface>],
                           traits)> {
  let extraClassDefinition = verifyHook # inferHook;
}

def Nabla_Float : AnyTypeOf<[F64, F32, F16, BF16]>;
def Nabla_Tensor : RankedTensorOf<[F64, F32, F16, BF16, I64, I32, I8, UI8, I1],
                                  [], "tensor">;
def Nabla_FloatTensor : RankedTensorOf<[F64, F32, F16, BF16], [],
                                       "tensor of floats">;
def Nabla_Array : AnyTypeOf<[Nabla_Tensor, Nabla_ImplicitType],
                            "tensor or implicit array">;
def Nabla_FloatArray : AnyTypeOf<[Nabla_FloatTensor, Nabla_ImplicitType],
                                 "tensor of floats or implicit array">;
def Nabla_Component : 1DTensorOf<[I8, F32, F16, BF16]>;

def Nabla_QuantizeOp : Nabla_Op<"quantize"> {
  let summary = "Encodes a dense array";
  let description = [{
    The rules are those of `quant/` (docs/FORMAT.md), byte for byte. Its
    gradient is the straight-through estimator. A value that is NaN or infinite
    gives a block that nobody should use.
  }];
  let arguments = (ins Nabla_FloatTensor:$input);
  let results = (outs Nabla_ImplicitType:$output);
  let assemblyFormat =
      "$input attr-dict `:` type($input) `->` qualified(type($output))";
}

def Nabla_MaterializeOp : Nabla_InferOp<"materialize"> {
  let summary = "Decodes an implicit array into a dense one";
  let arguments = (ins Nabla_ImplicitType:$input);
  let results = (outs Nabla_FloatTensor:$output);
  let assemblyFormat = "$input attr-dict `:` qualified(type($input))";
}

def Nabla_PackOp : Nabla_Op<"pack"> {
  let summary = "Makes an implicit array of its components";
  let description = [{
    Components are of rank 1, in the order in which `unpack` gives them; for a
    view they are the whole storage's.
  }];
  let arguments = (ins Variadic<Nabla_Component>:$components);
  let results = (outs Nabla_ImplicitType:$output);
  let assemblyFormat = "($components^ `:` type($components))? attr-dict `->` "
                       "qualified(type($output))";
}

def Nabla_UnpackOp : Nabla_InferOp<"unpack"> {
  let summary = "Gives the components of an implicit array";
  let arguments = (ins Nabla_ImplicitType:$input);
  let results = (outs Variadic<Nabla_Component>:$components);
  let assemblyFormat = "$input attr-dict `:` qualified(type($input))";
}

def Nabla_DotGeneralOp : Nabla_InferOp<"dot_general"> {
  let summary = "Contracts dimensions of two arrays";
  let description = [{
    StableHLO's dot_general: result dimensions are batching, then the others of
    lhs, then those of rhs. f16 and bf16 accumulate in f32 and round once.
  }];
  let arguments = (ins Nabla_FloatArray:$lhs, Nabla_FloatArray:$rhs,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$lhs_batching,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$rhs_batching,
      DenseI64ArrayAttr:$lhs_contracting, DenseI64ArrayAttr:$rhs_contracting);
  let results = (outs Nabla_FloatTensor:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs (`batching` `=` $lhs_batching^ `x` $rhs_batching)?
    `contracting` `=` $lhs_contracting `x` $rhs_contracting attr-dict
    `:` qualified(type($lhs)) `,` qualified(type($rhs))
  }];
}

def Nabla_FusedDotOp : Nabla_Op<"fused_dot", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "Multiplies by a packed weight, which is decoded on the fly";
  let description = [{
    y[m, n] = sum over k of x[m, k] * w[n, k], then the steps of `epilogue` in
    order, in f32: "bias" adds its operand b[n], "add" its operand r[m, n],
    "relu", "silu". Made by `nabla-dispatch` and `nabla-fuse`.
  }];
  let arguments = (ins Nabla_FloatTensor:$x, Nabla_ImplicitType:$w,
      Variadic<Nabla_FloatTensor>:$extra,
      DefaultValuedOptionalAttr<StrArrayAttr, "{}">:$epilogue);
  let results = (outs Nabla_FloatTensor:$result);
  let assemblyFormat = [{
    $x `,` $w (`(` $extra^ `)`)? (`epilogue` `=` $epilogue^)? attr-dict
    `:` type($x) `,` qualified(type($w)) (`,` type($extra)^)?
  }];
  let extraClassDefinition = verifyHook # inferHook;
}

def Nabla_TransposeOp : Nabla_InferOp<"transpose"> {
  let summary = "Permutes dimensions; of an implicit array: a view";
  let arguments = (ins Nabla_Array:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs Nabla_Array:$result);
  let assemblyFormat = "$input `permutation` `=` $permutation attr-dict `:` "
                       "qualified(type($input))";
}

def Nabla_ReshapeOp : Nabla_Op<"reshape"> {
  let summary = "Gives the elements, in order, another shape";
  let description = [{
    Of an implicit array: a view, when strides express it; with a tensor as
    result type it is materialized. A result with one `?` takes what is left;
    with more of them `sizes` gives each.
  }];
  let arguments = (ins Nabla_Array:$input, Variadic<Index>:$sizes);
  let results = (outs Nabla_Array:$result);
  let assemblyFormat = "$input (`sizes` `(` $sizes^ `)`)? attr-dict `:` "
                       "qualified(type($input)) `->` qualified(type($result))";
}

def Nabla_BroadcastInDimOp : Nabla_Op<"broadcast_in_dim"> {
  let summary = "Repeats an array along new dimensions, or those of size 1";
  let description = [{
    Dimension i of the operand becomes dimension dims[i] of the result. Of an
    implicit array: a view. `sizes` gives each `?` of the result.
  }];
  let arguments = (ins Nabla_Array:$input, DenseI64ArrayAttr:$dims,
                       Variadic<Index>:$sizes);
  let results = (outs Nabla_Array:$result);
  let assemblyFormat = "$input `dims` `=` $dims (`sizes` `(` $sizes^ `)`)? "
      "attr-dict `:` qualified(type($input)) `->` qualified(type($result))";
}

class Nabla_UnaryOp<string mnemonic> : Nabla_InferOp<mnemonic> {
  let arguments = (ins Nabla_FloatArray:$input);
  let results = (outs Nabla_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` qualified(type($input))";
}
def Nabla_ReluOp : Nabla_UnaryOp<"relu"> {
  let summary = "max(x, 0); NaN stays NaN";
}
def Nabla_SiluOp : Nabla_UnaryOp<"silu"> {
  let summary = "x / (1 + exp(-x))";
}

class Nabla_BinaryOp<string mnemonic> : Nabla_InferOp<mnemonic, [Commutative]> {
  let arguments = (ins Nabla_Array:$lhs, Nabla_Array:$rhs);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` qualified(type($lhs)) `,` "
                       "qualified(type($rhs))";
}
def Nabla_AddOp : Nabla_BinaryOp<"add"> {
  let summary = "Adds element by element; integers wrap";
}
def Nabla_MulOp : Nabla_BinaryOp<"mul"> {
  let summary = "Multiplies element by element; integers wrap";
}

def Nabla_ReduceOp : Nabla_InferOp<"reduce"> {
  let summary = "Sums, or takes the largest, along dimensions";
  let description = [{
    Over no elements `sum` is 0, `prod` 1, `max` the lowest value of the type
    (-inf), `min` the highest, `mean` NaN, `any` false and `all` true. `max` and
    `min` of a NaN are NaN. f16 and bf16 are summed, or multiplied, in f32 and
    rounded once; integers wrap. `mean` is of floats, `any` and `all` are of i1.
  }];
  let arguments = (ins Nabla_Array:$input, Nabla_ReduceKind:$kind,
                       DenseI64ArrayAttr:$dims, UnitAttr:$keep_dims);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$kind $input `dims` `=` $dims (`keep_dims` "
      "$keep_dims^)? attr-dict `:` qualified(type($input))";
}

def Nabla_ConstantOp : Nabla_InferOp<"constant"> {
  let summary = "A dense constant";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$value attr-dict";
}

include "NablaMath.td"

#endif
