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
  let summary = "Computation on implicit arrays: values that are stored in "
                "another form, such as packed codes and scales";
  let description = [{
    An implicit array has a logical shape and element type; its encoding defines
    the stored components. Operations accept implicit arrays in place of tensors.
    `nabla-dispatch` replaces such an operation by a fused one that decodes
    while it computes, or by a view, or decodes the operand with
    `nabla.materialize`, which is counted and reported.

    Types of results that are tensors and follow from operands and attributes
    are not written. Implicit results are printed as `-> TYPE` after the types
    of the operands; a program may omit them if they follow. Every operation
    below has an example that can be compiled.

    ### Sizes that are not known

    A dimension of a tensor may be `?`: its size is known when the program runs.
    Dimensions of implicit arrays are always known. The result of an operation
    has the sizes that its operands know:

    * Where dimensions of several operands have to agree, the size is that of
      the first one that is known: `add` and all others that work element by
      element, `select`, `stack`, `concatenate` but for `dim`, batching
      dimensions of `dot_general`; in `linear` the columns of `w` and the bias;
      in `rms_norm` and `layer_norm` the last dimension, the weight and the
      bias; in `rope` the dimension `dim` and the positions; in `attention` the
      queries and the mask, and what stands before the heads of q, k, v and the
      mask.
    * Two known sizes that differ are an error of the text. A known one and a
      `?`, or two `?`, are compared when the program runs; an error names the
      operation.
    * Dimensions of one operand alone keep what they are: `transpose`,
      `reduce`, `dot_general`'s others, `pad`, `softmax`.
    * `concatenate` gives `?` along `dim` if one operand has it. `slice` of `?`
      gives a known size between two limits, and `?` up to the limit -1.
    * Where the result type is written, its sizes count: `reshape` computes one
      `?`; `broadcast_in_dim`, `full`, `iota`, `tri`, `uniform`, `normal`,
      `dynamic_slice`, `scan` and `reshape` with several take each `?` from
      `sizes(...)`, values of type index, in order.
    * `tensor.dim` gives a size as a value, `tensor.cast` changes what a type
      says of it; a cast from `?` to a size fails in the run where sizes differ.

    ```mlir
    func.func @sizes(%x: tensor<?x3xf32>, %y: tensor<2x?xf32>) -> tensor<2x3xf32> {
      %z = nabla.add %x, %y : tensor<?x3xf32>, tensor<2x?xf32>
      return %z : tensor<2x3xf32>
    }
    ```
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
    `#nabla.NAME<PARAMETER, ...>`, where NAME is a row of quant/codec/encodings.def or
    one of those below. Parameters that have their default are not printed.
    * `block`: elements per scale, a power of two from 16 to 4096
    * `blocks = flat | leading`: blocks of the flattened storage, or one for
      each index of the first dimension (`block = 0`; LLM.int8's rows)
    * `scale`: what scales are stored as: f32 (the default), f16, bf16, or an
      encoding, which makes them an implicit array: `#nabla.nf4<block = 64,
      scale = #nabla.dynamic8<block = 256>>`. Encodings stand in each other to
      a depth of 8; scales have no rows (`blocks = leading`)
    * `zero_point = true`: each block has a zero point (int4, int8)
    * `#nabla.dynamic8<block = 256>`: bitsandbytes' codes of scales, value
      map[code] * scales[i / block] + offset; `scale` as above, but for f16 and
      bf16
    * `#nabla.lora<base = ENCODING, rank = 8>`: a weight of rank 2 in `base`
      with an update of low rank: base + b . a. `dot_general` multiplies by
      base, a and b, and by nothing of the size of the weight.
      *Merge* is `quantize(materialize(w))` into the encoding of the base (it
      rounds), *unmerge* is the base that `unpack` gives, which was never
      changed; `quantize` into a lora gives a and b of zeros
    * `#nabla.ggml<q4_0>`: blocks as GGUF files have them (docs/FORMAT.md, G);
      the storage is a whole number of them. Programs decode them only
    * `#nabla.splat<0.5 : f32>`: a constant, nothing is stored
    * `#nabla.identity`: 1 where row and column of a matrix agree, else 0.
      `dot_general` with a square one gives the other operand back: elements are
      not multiplied by its zeros, so that a NaN or an infinity spoils no other
      element, and -0 stays
    * `#nabla.custom<"name", {parameters}>`: from outside, docs/EXTENDING.md
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

def Nabla_ReduceKind : I32EnumAttr<"ReduceKind", "operation of a reduction", [
  I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"max", 1>,
  I32EnumAttrCase<"prod", 2>, I32EnumAttrCase<"min", 3>,
  I32EnumAttrCase<"mean", 4>, I32EnumAttrCase<"any", 5>,
  I32EnumAttrCase<"all", 6>]> {
  let cppNamespace = "::nabla";
}

def Nabla_ScatterKind : I32EnumAttr<"ScatterKind",
    "combination of an element and its update in a scatter", [
  I32EnumAttrCase<"set", 0>, I32EnumAttrCase<"add", 1>,
  I32EnumAttrCase<"mul", 2>, I32EnumAttrCase<"min", 3>,
  I32EnumAttrCase<"max", 4>]> {
  let cppNamespace = "::nabla";
}

def Nabla_PoolKind : I32EnumAttr<"PoolKind", "reduction of a window", [
  I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"max", 1>,
  I32EnumAttrCase<"min", 2>, I32EnumAttrCase<"avg", 3>]> {
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

// An op whose results may be implicit: operands, keys with a number or a list
// of numbers, types. Implicit results are printed, `-> TYPE`, and may be left
// out, since they are inferred. `form` is a nabla::Form of Dialect.cpp.
class Nabla_ArrayOp<string mnemonic, string form, list<Trait> traits = []>
    : Nabla_InferOp<mnemonic, traits> {
  let hasCustomAssemblyFormat = 1;
  let extraClassDefinition = verifyHook # inferHook # [{
    ::mlir::ParseResult $cppClass::parse(::mlir::OpAsmParser &parser,
                                         ::mlir::OperationState &result) {
      return ::nabla::parseArrays<$cppClass>(parser, result, }] # form # [{);
    }
    void $cppClass::print(::mlir::OpAsmPrinter &printer) {
      ::nabla::printArrays(printer, getOperation(), }] # form # [{);
    }
  }];
}

// The description of an op of one line: an example, as docs/DIALECT.md has one
// of each.
class Nabla_Example<string name, string arguments, string line, string gives> {
  string text = "```mlir\nfunc.func @" # name # "(" # arguments # ") -> " #
      gives # " {\n  %r = nabla." # name # " " # line # "\n  return %r : " #
      gives # "\n}\n```\n";
}

def Nabla_Float : AnyTypeOf<[F64, F32, F16, BF16]>;
def Nabla_Tensor : AnyTypeOf<
    [RankedTensorOf<[F64, F32, F16, BF16, I64, I32, I8, UI8, I1]>],
    "tensor of f64 f32 f16 bf16 i64 i32 i8 ui8 or i1",
    "::mlir::RankedTensorType">;
def Nabla_FloatTensor : RankedTensorOf<[F64, F32, F16, BF16], [],
                                       "tensor of floats">;
def Nabla_Array : AnyTypeOf<[Nabla_Tensor, Nabla_ImplicitType],
                            "tensor of f64 f32 f16 bf16 i64 i32 i8 ui8 or i1, "
                            "or implicit array">;
def Nabla_FloatArray : AnyTypeOf<[Nabla_FloatTensor, Nabla_ImplicitType],
                                 "tensor of floats or implicit array">;
def Nabla_Component
    : AnyTypeOf<[RankedTensorOf<[I8, F32, F16, BF16, F64, I32, I64]>,
                 Nabla_ImplicitType],
                "component of an implicit array">;

def Nabla_QuantizeOp : Nabla_Op<"quantize"> {
  let summary = "Encodes a dense array";
  let description = [{
    The rules are those of `quant/` (docs/FORMAT.md), byte for byte. Its
    gradient is the straight-through estimator. A value that is NaN or infinite
    gives a block of undefined values.

    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    func.func @quantize(%x: tensor<8x64xf32>) -> !w {
      %w = nabla.quantize %x : tensor<8x64xf32> -> !w
      return %w : !w
    }
    ```
  }];
  let arguments = (ins Nabla_FloatTensor:$input);
  let results = (outs Nabla_ImplicitType:$output);
  let assemblyFormat =
      "$input attr-dict `:` type($input) `->` qualified(type($output))";
}

def Nabla_MaterializeOp
    : Nabla_ArrayOp<"materialize", "{{{\"levels\", false, true}}, 1}"> {
  let summary = "Decodes an implicit array into a dense one";
  let description = [{
    All levels (`levels = all`, which is not printed), or as many of the
    innermost ones as `levels` says: of an array
    whose scales are packed, levels = 1 gives the same codes with scales that
    are packed one level less. All levels one by one, or at once, give the same
    bits; the last gives the tensor. See `implicit_depth`.

    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    func.func @materialize(%w: !w) -> tensor<8x64xf32> {
      %x = nabla.materialize %w : !w
      return %x : tensor<8x64xf32>
    }
    !nested = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64, scale = #nabla.dynamic8<block = 256>>>
    func.func @levels(%w: !nested) -> !w {
      %x = nabla.materialize %w levels = 1 : !nested -> !w
      return %x : !w
    }
    ```
  }];
  let arguments = (ins Nabla_ImplicitType:$input,
                       OptionalAttr<I64Attr>:$levels);
  let results = (outs Nabla_FloatArray:$output);
}

def Nabla_ImplicitDepthOp : Nabla_InferOp<"implicit_depth"> {
  let summary = "Number of levels of an implicit array";
  let description = [{
    0 of a tensor, 1 of a packed array, and one more for each encoding that its
    scales are in: so many times `materialize levels = 1` gives the tensor. A
    lora has the levels of its base. A constant: nothing is read.

    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    func.func @implicit_depth(%w: !w) -> tensor<i64> {
      %n = nabla.implicit_depth %w : !w
      return %n : tensor<i64>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input);
  let results = (outs 0DTensorOf<[I64]>:$depth);
  let assemblyFormat = "$input attr-dict `:` qualified(type($input))";
}

def Nabla_PackOp : Nabla_Op<"pack"> {
  let summary = "Combines components to an implicit array";
  let description = [{
    Components are those that `unpack` gives, in its order; for a view they are
    the whole storage's. Codes and zero points are i8 lists, scales a list of
    f32, f16, bf16 or, packed themselves, an implicit array of f32; those of
    mx encodings i8.

    | encoding | components |
    |---|---|
    | all but these | codes, scales, zero_points if it has them |
    | `dynamic8` | codes, scales, offset (f32, rank 0), map (256 f32) |
    | `lora` | base (implicit), a (rank x columns), b (rows x rank) |
    | `splat` | none |

    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    func.func @pack(%codes: tensor<256xi8>, %scales: tensor<8xf32>) -> !w {
      %w = nabla.pack %codes, %scales : tensor<256xi8>, tensor<8xf32> -> !w
      return %w : !w
    }
    ```
  }];
  let arguments = (ins Variadic<Nabla_Component>:$components);
  let results = (outs Nabla_ImplicitType:$output);
  let assemblyFormat = "($components^ `:` type($components))? attr-dict `->` "
                       "qualified(type($output))";
}

def Nabla_UnpackOp : Nabla_ArrayOp<"unpack", "{{}, 1}"> {
  let summary = "Returns the components of an implicit array";
  let description = [{
    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    func.func @unpack(%w: !w) -> (tensor<256xi8>, tensor<8xf32>) {
      %codes, %scales = nabla.unpack %w : !w
      return %codes, %scales : tensor<256xi8>, tensor<8xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_ImplicitType:$input);
  let results = (outs Variadic<Nabla_Component>:$components);
}

def Nabla_DotGeneralOp : Nabla_InferOp<"dot_general"> {
  let summary = "Contracts dimensions of two arrays";
  let description = [{
    StableHLO's dot_general: result dimensions are batching, then the others of
    lhs, then those of rhs. f16 and bf16 accumulate in f32 and round once.

    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    func.func @dot_general(%x: tensor<?x64xf32>, %w: !w) -> tensor<?x8xf32> {
      %y = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<?x64xf32>, !w
      return %y : tensor<?x8xf32>
    }
    func.func @batches(%a: tensor<8x4x16xf32>, %b: tensor<8x16x32xf32>) -> tensor<8x4x32xf32> {
      %y = nabla.dot_general %a, %b batching = [0] x [0] contracting = [2] x [1]
          : tensor<8x4x16xf32>, tensor<8x16x32xf32>
      return %y : tensor<8x4x32xf32>
    }
    ```
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
  let summary = "Multiplies by a weight with a kernel; a packed one is decoded on the fly";
  let description = [{
    y[m, n] = sum over k of x[m, k] * w[n, k], then the steps of `epilogue` in
    order, in f32: "bias" adds its operand b[n], "add" its operand r[m, n],
    "relu", "silu". Made by `nabla-dispatch` and `nabla-fuse`.

    `w` is packed, or a tensor. Of a tensor `batching` and `contracting` say, as
    those of `dot_general`, which dimension of either side is contracted (the
    second, where they say nothing) and which are batches; one dimension of each
    side is free. Then "add" has an operand of the shape of the result.

    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    func.func @fused_dot(%x: tensor<?x64xf32>, %w: !w, %b: tensor<8xf32>) -> tensor<?x8xf32> {
      %y = nabla.fused_dot %x, %w(%b) epilogue = ["bias", "relu"]
          : tensor<?x64xf32>, !w, tensor<8xf32>
      return %y : tensor<?x8xf32>
    }
    func.func @fused_dot_dense(%x: tensor<?x64xf32>, %w: tensor<64x8xf32>) -> tensor<?x8xf32> {
      %y = nabla.fused_dot %x, %w contracting = [1] x [0]
          : tensor<?x64xf32>, tensor<64x8xf32>
      return %y : tensor<?x8xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_FloatTensor:$x, Nabla_FloatArray:$w,
      Variadic<Nabla_FloatTensor>:$extra,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$lhs_batching,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$rhs_batching,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$lhs_contracting,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$rhs_contracting,
      DefaultValuedOptionalAttr<StrArrayAttr, "{}">:$epilogue);
  let results = (outs Nabla_FloatTensor:$result);
  let assemblyFormat = [{
    $x `,` $w (`(` $extra^ `)`)?
    (`batching` `=` $lhs_batching^ `x` $rhs_batching)?
    (`contracting` `=` $lhs_contracting^ `x` $rhs_contracting)?
    (`epilogue` `=` $epilogue^)? attr-dict
    `:` type($x) `,` qualified(type($w)) (`,` type($extra)^)?
  }];
  let extraClassDefinition = verifyHook # inferHook;
}

def Nabla_TransposeOp
    : Nabla_ArrayOp<"transpose", "{{{\"permutation\", true}}, 1}"> {
  let summary = "Permutes dimensions; of an implicit array: a view";
  let description = [{
    ```mlir
    func.func @transpose(%x: tensor<2x3x4xf32>) -> tensor<4x2x3xf32> {
      %y = nabla.transpose %x permutation = [2, 0, 1] : tensor<2x3x4xf32>
      return %y : tensor<4x2x3xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs Nabla_Array:$result);
}

def Nabla_ReshapeOp : Nabla_Op<"reshape"> {
  let summary = "Changes the shape; the elements keep their order";
  let description = [{
    Of an implicit array: a view, when strides express it; with a tensor as
    result type it is materialized. A result may have one `?`, which the number
    of elements determines; with more of them `sizes` gives each.

    ```mlir
    func.func @reshape(%x: tensor<?x6xf32>) -> tensor<?x2x3xf32> {
      %y = nabla.reshape %x : tensor<?x6xf32> -> tensor<?x2x3xf32>
      return %y : tensor<?x2x3xf32>
    }
    ```
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

    ```mlir
    func.func @broadcast_in_dim(%x: tensor<3xf32>, %like: tensor<?x3xf32>) -> tensor<?x3xf32> {
      %zero = arith.constant 0 : index
      %n = tensor.dim %like, %zero : tensor<?x3xf32>
      %y = nabla.broadcast_in_dim %x dims = [1] sizes(%n) : tensor<3xf32> -> tensor<?x3xf32>
      return %y : tensor<?x3xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, DenseI64ArrayAttr:$dims,
                       Variadic<Index>:$sizes);
  let results = (outs Nabla_Array:$result);
  let assemblyFormat = "$input `dims` `=` $dims (`sizes` `(` $sizes^ `)`)? "
      "attr-dict `:` qualified(type($input)) `->` qualified(type($result))";
}

// Where a slice begins.
def Nabla_Start : AnyTypeOf<[Index, 0DTensorOf<[I64, I32]>],
                            "index, or tensor of i64 or i32 of rank 0">;

def Nabla_SliceOp : Nabla_ArrayOp<"slice",
    "{{{\"starts\", true}, {\"limits\", true}, {\"strides\", true, true}}, 1}"> {
  let summary = "Extracts a box of an array, with optional strides";
  let description = [{
    StableHLO's slice: indices starts, starts + strides, ... below limits;
    strides are 1 if they are not given. A limit of -1 is the end of the
    dimension. Of an implicit array: a view.

    ```mlir
    func.func @slice(%x: tensor<8x10xf32>) -> tensor<4x5xf32> {
      %y = nabla.slice %x starts = [2, 0] limits = [6, -1] strides = [1, 2] : tensor<8x10xf32>
      return %y : tensor<4x5xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, DenseI64ArrayAttr:$starts,
      DenseI64ArrayAttr:$limits,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$strides);
  let results = (outs Nabla_Array:$result);
}

def Nabla_DynamicSliceOp : Nabla_Op<"dynamic_slice", [AttrSizedOperandSegments]> {
  let summary = "Extracts a box of an array at offsets that are operands";
  let description = [{
    The result type gives the size of the box, `sizes` each `?` of it. Where it
    would reach beyond the array it is moved inside (StableHLO). A packed
    operand is decoded only there (`fused_gather`).

    ```mlir
    func.func @dynamic_slice(%x: tensor<8x10xf32>, %i: tensor<i64>) -> tensor<2x10xf32> {
      %y = nabla.dynamic_slice %x at(%i, %i : tensor<i64>, tensor<i64>) : tensor<8x10xf32> -> tensor<2x10xf32>
      return %y : tensor<2x10xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, Variadic<Nabla_Start>:$starts,
                       Variadic<Index>:$sizes);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = [{
    $input `at` `(` ($starts^ `:` type($starts))? `)` (`sizes` `(` $sizes^ `)`)?
    attr-dict `:` qualified(type($input)) `->` type($result)
  }];
}

def Nabla_DynamicUpdateSliceOp : Nabla_InferOp<"dynamic_update_slice"> {
  let summary = "Replaces a box of an array";
  let description = [{
    The box has the shape of the second operand, which has as many dimensions
    as the array, none of them larger, and its element type. `at` has where the
    box begins, an entry for each dimension: an index, or a tensor of i64 or i32
    of rank 0. Where the box would reach beyond the array it is moved inside
    (StableHLO). Array and update may be packed: they are materialized,
    reported, since the result is a tensor. In place when nothing else reads the
    array.

    ```mlir
    func.func @dynamic_update_slice(%cache: tensor<8x10xf32>, %row: tensor<1x10xf32>, %i: tensor<i64>) -> tensor<8x10xf32> {
      %zero = nabla.constant dense<0> : tensor<i64>
      %y = nabla.dynamic_update_slice %cache, %row at(%i, %zero : tensor<i64>, tensor<i64>)
          : tensor<8x10xf32>, tensor<1x10xf32>
      return %y : tensor<8x10xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, Nabla_Array:$update,
                       Variadic<Nabla_Start>:$starts);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $update `at` `(` ($starts^ `:` type($starts))? `)` attr-dict
    `:` qualified(type($input)) `,` qualified(type($update))
  }];
}

class Nabla_JoinOp<string mnemonic>
    : Nabla_ArrayOp<mnemonic, "{{{\"dim\"}}, -1}"> {
  let arguments = (ins Variadic<Nabla_Array>:$inputs, I64Attr:$dim);
  let results = (outs Nabla_Array:$result);
}
def Nabla_ConcatenateOp : Nabla_JoinOp<"concatenate"> {
  let summary = "Joins arrays along a dimension";
  let description = [{
    Of implicit arrays of one encoding: implicit, when the components joined
    are those of the result. That is so along the first dimension of more than
    one element, for arrays, or pieces of arrays in order, that begin with a
    block and (but the last one) end with one; with `blocks = leading` for
    rows. Otherwise the operands are materialized.

    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    func.func @concatenate(%a: tensor<2x3xf32>, %b: tensor<?x3xf32>, %v: !w) -> (tensor<?x3xf32>, !nabla.implicit<16x64xf32, #nabla.nf4<block = 64>>) {
      %x = nabla.concatenate %a, %b dim = 0 : tensor<2x3xf32>, tensor<?x3xf32>
      %y = nabla.concatenate %v, %v dim = 0 : !w, !w
          -> !nabla.implicit<16x64xf32, #nabla.nf4<block = 64>>
      return %x, %y : tensor<?x3xf32>, !nabla.implicit<16x64xf32, #nabla.nf4<block = 64>>
    }
    ```
  }];
}
def Nabla_StackOp : Nabla_JoinOp<"stack"> {
  let summary = "Joins arrays along a new dimension";
  let description = [{
    Of implicit arrays of one encoding: a view of them concatenated, where that
    stays packed and `dim` is 0.

    ```mlir
    func.func @stack(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x2x3xf32> {
      %y = nabla.stack %a, %b dim = 1 : tensor<2x3xf32>, tensor<2x3xf32>
      return %y : tensor<2x2x3xf32>
    }
    ```
  }];
}

def Nabla_SplitOp : Nabla_ArrayOp<"split",
    "{{{\"dim\"}, {\"sizes\", true}}, 1}"> {
  let summary = "Divides an array into pieces along a dimension";
  let description = [{
    `sizes` gives the pieces, which are the whole. Of an implicit array: views.

    ```mlir
    func.func @split(%x: tensor<8x6xf32>) -> (tensor<8x2xf32>, tensor<8x4xf32>) {
      %a, %b = nabla.split %x dim = 1 sizes = [2, 4] : tensor<8x6xf32>
      return %a, %b : tensor<8x2xf32>, tensor<8x4xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, I64Attr:$dim,
                       DenseI64ArrayAttr:$sizes);
  let results = (outs Variadic<Nabla_Array>:$results);
}

def Nabla_PadOp : Nabla_InferOp<"pad"> {
  let summary = "Inserts a value around and between the elements of an array";
  let description = [{
    StableHLO's pad: `interior` between neighbours (0 if it is not given),
    `low` before and `high` behind; negative ones of these take away.

    ```mlir
    func.func @pad(%x: tensor<2x3xf32>, %v: tensor<f32>) -> tensor<3x6xf32> {
      %y = nabla.pad %x, %v low = [0, 1] high = [0, 2] interior = [1, 0] : tensor<2x3xf32>, tensor<f32>
      return %y : tensor<3x6xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, Nabla_Tensor:$value,
      DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$interior);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $value `low` `=` $low `high` `=` $high
    (`interior` `=` $interior^)? attr-dict
    `:` qualified(type($input)) `,` type($value)
  }];
}

def Nabla_FlipOp : Nabla_InferOp<"flip"> {
  let summary = "Reverses dimensions";
  let description = [{
    Of an implicit array no view, since strides of views are not negative.

    ```mlir
    func.func @flip(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %y = nabla.flip %x dims = [1] : tensor<2x3xf32>
      return %y : tensor<2x3xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, DenseI64ArrayAttr:$dims);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$input `dims` `=` $dims attr-dict `:` "
                       "qualified(type($input))";
}

def Nabla_IndexTensor : RankedTensorOf<[I64, I32], [], "tensor of i64 or i32">;

// The dimension numbers of StableHLO's gather.
class Nabla_GatherBase<string mnemonic, Type operand>
    : Nabla_InferOp<mnemonic> {
  let arguments = (ins operand:$input, Nabla_IndexTensor:$indices,
      DenseI64ArrayAttr:$offset_dims,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$collapsed_dims,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$input_batching,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$indices_batching,
      DenseI64ArrayAttr:$index_map, I64Attr:$vector_dim,
      DenseI64ArrayAttr:$sizes);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $indices `offset_dims` `=` $offset_dims
    (`collapsed_dims` `=` $collapsed_dims^)?
    (`batching` `=` $input_batching^ `x` $indices_batching)?
    `index_map` `=` $index_map `vector_dim` `=` $vector_dim `sizes` `=` $sizes
    attr-dict `:` qualified(type($input)) `,` type($indices)
  }];
}
def Nabla_GatherOp : Nabla_GatherBase<"gather", Nabla_Array> {
  let summary = "Extracts boxes of an array at offsets from an index array";
  let description = [{
    StableHLO's gather. `vector_dim` is the dimension of the indices along which
    the components of one place lie, or their rank when a place is one number;
    component i is of dimension index_map[i] of the array. There begins a box of
    `sizes` (-1: the whole dimension), moved inside where it would reach beyond
    the array. Dimensions of the box go to offset_dims of the result, but for
    those of size 1 in collapsed_dims and in batching; the result's others are
    those of the indices. `batching` pairs dimensions of array and indices.
    Rows of a table: `offset_dims = [1] collapsed_dims = [0] index_map = [0]
    vector_dim = 1 sizes = [1, 64]`. A packed operand is decoded where it is
    read (`fused_gather`).

    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    func.func @gather(%w: !w, %rows: tensor<?x1xi64>) -> tensor<?x64xf32> {
      %y = nabla.gather %w, %rows offset_dims = [1] collapsed_dims = [0] index_map = [0]
          vector_dim = 1 sizes = [1, 64] : !w, tensor<?x1xi64>
      return %y : tensor<?x64xf32>
    }
    ```
  }];
}
def Nabla_FusedGatherOp
    : Nabla_GatherBase<"fused_gather", Nabla_ImplicitType> {
  let summary = "Decodes boxes of a packed array, without the other elements";
  let description = [{
    What `gather` says, exactly. Made by `nabla-dispatch`.

    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    func.func @fused_gather(%w: !w, %rows: tensor<?x1xi64>) -> tensor<?x64xf32> {
      %y = nabla.fused_gather %w, %rows offset_dims = [1] collapsed_dims = [0] index_map = [0]
          vector_dim = 1 sizes = [1, 64] : !w, tensor<?x1xi64>
      return %y : tensor<?x64xf32>
    }
    ```
  }];
}

def Nabla_ScatterOp : Nabla_InferOp<"scatter"> {
  let summary = "Replaces or updates boxes of an array";
  let description = [{
    StableHLO's scatter; the dimension numbers are those of a `gather` that
    would take the updates (offset_dims are update_window_dims, collapsed_dims
    inserted_window_dims). Elements outside of the array are left out. Updates
    are applied one after the other in row-major order, each rounded to the
    element type; `min` and `max` of a NaN are NaN.

    ```mlir
    func.func @scatter(%x: tensor<8x4xf32>, %rows: tensor<2x1xi64>, %u: tensor<2x4xf32>) -> tensor<8x4xf32> {
      %y = nabla.scatter add %x, %rows, %u offset_dims = [1] collapsed_dims = [0] index_map = [0]
          vector_dim = 1 : tensor<8x4xf32>, tensor<2x1xi64>, tensor<2x4xf32>
      return %y : tensor<8x4xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, Nabla_IndexTensor:$indices,
      Nabla_Array:$updates, Nabla_ScatterKind:$kind,
      DenseI64ArrayAttr:$offset_dims,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$collapsed_dims,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$input_batching,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$indices_batching,
      DenseI64ArrayAttr:$index_map, I64Attr:$vector_dim);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = [{
    $kind $input `,` $indices `,` $updates `offset_dims` `=` $offset_dims
    (`collapsed_dims` `=` $collapsed_dims^)?
    (`batching` `=` $input_batching^ `x` $indices_batching)?
    `index_map` `=` $index_map `vector_dim` `=` $vector_dim
    attr-dict `:` qualified(type($input)) `,` type($indices) `,`
    qualified(type($updates))
  }];
}

def Nabla_ConvGeneralOp : Nabla_InferOp<"conv_general"> {
  let summary = "Convolves an array with a kernel";
  let description = [{
    StableHLO's convolution with one batch group, unreversed (`flip` turns a
    kernel round). `input_dims` and
    `output_dims` say which dimension is the batch, which the feature, and which
    the spatial ones are; `kernel_dims` which is the output feature, which the
    input feature, and the spatial ones: 0, 1, 2, ... if they are not given. For
    each spatial dimension `strides`, `input_dilation` and `kernel_dilation` (1
    if they are not given) and the padding, `low` and `high` (0, may be
    negative). With `groups` the features are cut into as many parts, each with
    kernels of its own. f16 and bf16 accumulate in f32 and round once.

    ```mlir
    func.func @conv_general(%x: tensor<1x3x8x8xf32>, %k: tensor<4x3x3x3xf32>) -> tensor<1x4x4x4xf32> {
      %y = nabla.conv_general %x, %k strides = [2, 2] low = [1, 1] high = [1, 1]
          : tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>
      return %y : tensor<1x4x4x4xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_FloatArray:$input, Nabla_FloatArray:$kernel,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$strides,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$low,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$high,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$input_dilation,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$kernel_dilation,
      DefaultValuedOptionalAttr<I64Attr, "1">:$groups,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$input_dims,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$kernel_dims,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$output_dims);
  let results = (outs Nabla_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $kernel (`strides` `=` $strides^)? (`low` `=` $low^)?
    (`high` `=` $high^)? (`input_dilation` `=` $input_dilation^)?
    (`kernel_dilation` `=` $kernel_dilation^)? (`groups` `=` $groups^)?
    (`input_dims` `=` $input_dims^)? (`kernel_dims` `=` $kernel_dims^)?
    (`output_dims` `=` $output_dims^)? attr-dict
    `:` qualified(type($input)) `,` qualified(type($kernel))
  }];
}

def Nabla_PoolOp : Nabla_InferOp<"pool"> {
  let summary = "Reduces the windows of an array";
  let description = [{
    StableHLO's reduce_window: for each dimension the size of the `window`, and
    `strides`, `dilation` (1 if they are not given) and the padding, `low` and
    `high` (0, may be negative), which counts as nothing. `avg`, of floats,
    divides by the number of elements of the array in the window (NaN for none),
    with `count_padding` by the size of the window. `max` and `min` of a NaN are
    NaN. f16 and bf16 sum in f32 and round once.

    ```mlir
    func.func @pool(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32> {
      %y = nabla.pool avg %x window = [1, 1, 2, 2] strides = [1, 1, 2, 2] : tensor<1x3x8x8xf32>
      return %y : tensor<1x3x4x4xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, Nabla_PoolKind:$kind,
      DenseI64ArrayAttr:$window,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$strides,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$dilation,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$low,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$high,
      UnitAttr:$count_padding);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = [{
    $kind $input `window` `=` $window (`strides` `=` $strides^)?
    (`dilation` `=` $dilation^)? (`low` `=` $low^)? (`high` `=` $high^)?
    (`count_padding` $count_padding^)? attr-dict `:` qualified(type($input))
  }];
}

class Nabla_UnaryOp<string mnemonic> : Nabla_InferOp<mnemonic> {
  let description = Nabla_Example<mnemonic, "%x: tensor<4xf32>",
      "%x : tensor<4xf32>", "tensor<4xf32>">.text;
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
  let description = [{
    ```mlir
    func.func @add(%x: tensor<?xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
      %z = nabla.add %x, %y : tensor<?xf32>, tensor<4xf32>
      return %z : tensor<4xf32>
    }
    ```
  }];
}
def Nabla_MulOp
    : Nabla_ArrayOp<"mul", "{{}, 2}", [Commutative]> {
  let summary = "Multiplies element by element; integers wrap";
  let description = [{
    Of a packed array and a `#nabla.splat`: packed, of scales that were
    multiplied, where these are f32 and so are the elements, or where neither is
    f16 and the factor is a power of two. With a power of two the dense
    values are the same, bit for bit, as long as no product of a scale leaves
    the range of its type; with other factors an element is value * (scale *
    factor), not (value * scale) * factor.

    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    !half = !nabla.implicit<8x64xf32, #nabla.splat<0.5 : f32>>
    func.func @mul(%x: tensor<4xf32>, %w: !w) -> (tensor<4xf32>, !w) {
      %y = nabla.mul %x, %x : tensor<4xf32>, tensor<4xf32>
      %half = nabla.pack -> !half
      %v = nabla.mul %w, %half : !w, !half -> !w
      return %y, %v : tensor<4xf32>, !w
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$lhs, Nabla_Array:$rhs);
  let results = (outs Nabla_Array:$result);
}

def Nabla_ReduceOp : Nabla_InferOp<"reduce"> {
  let summary = "Reduces dimensions: sum, mean, product, maximum and others";
  let description = [{
    Over no elements `sum` is 0, `prod` 1, `max` the lowest value of the type
    (-inf), `min` the highest, `mean` NaN, `any` false and `all` true. `max` and
    `min` of a NaN are NaN. f16 and bf16 are summed, or multiplied, in f32 and
    rounded once; integers wrap. `mean` is of floats, `any` and `all` are of i1.

    ```mlir
    func.func @reduce(%x: tensor<2x3xf32>) -> tensor<2x1xf32> {
      %y = nabla.reduce max %x dims = [1] keep_dims : tensor<2x3xf32>
      return %y : tensor<2x1xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, Nabla_ReduceKind:$kind,
                       DenseI64ArrayAttr:$dims, UnitAttr:$keep_dims);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$kind $input `dims` `=` $dims (`keep_dims` "
      "$keep_dims^)? attr-dict `:` qualified(type($input))";
}

def Nabla_ConstantOp : Nabla_InferOp<"constant"> {
  let summary = "A dense constant";
  let description = [{
    ```mlir
    func.func @constant() -> tensor<2xf32> {
      %y = nabla.constant dense<[1.0, 2.0]> : tensor<2xf32>
      return %y : tensor<2xf32>
    }
    ```
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$value attr-dict";
}

include "NablaControl.td"
include "NablaMath.td"
include "NablaComposite.td"
include "NablaCall.td"

#endif
