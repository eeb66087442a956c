// Operations that compute element by element, create arrays, or reduce one
// dimension. Included by Nabla.td, which has the base classes.
#ifndef NABLA_DIALECT_MATH_TD
#define NABLA_DIALECT_MATH_TD

class Nabla_MathOp<string mnemonic, string text, string of = "tensor<4xf32>",
                   string gives = of> : Nabla_InferOp<mnemonic> {
  let summary = text;
  let description = Nabla_Example<mnemonic, "%x: " # of, "%x : " # of,
                                  gives>.text;
  let arguments = (ins Nabla_Array:$input);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` qualified(type($input))";
}

def Nabla_AbsOp : Nabla_MathOp<"abs", "|x|; the lowest integer stays">;
def Nabla_NegOp : Nabla_ArrayOp<"neg", "{{}, 1}"> {
  let summary = "-x; integers wrap";
  let description = [{
    The result for a packed array whose scales have a sign is packed, with
    negated scales; its dense values are the negated ones, bit for bit.

    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    func.func @neg(%x: tensor<4xf32>, %w: !w) -> (tensor<4xf32>, !w) {
      %y = nabla.neg %x : tensor<4xf32>
      %v = nabla.neg %w : !w -> !w
      return %y, %v : tensor<4xf32>, !w
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input);
  let results = (outs Nabla_Array:$result);
}
def Nabla_SignOp : Nabla_MathOp<"sign", "-1, 0 or 1; zeros and NaN stay">;
def Nabla_StopGradientOp : Nabla_InferOp<"stop_gradient"> {
  let summary = "The operand, as a constant to nabla-vjp and nabla-jvp";
  let description = Nabla_Example<"stop_gradient", "%x: tensor<4xf32>",
      "%x : tensor<4xf32>", "tensor<4xf32>">.text;
  let arguments = (ins Nabla_Tensor:$input);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}
def Nabla_ExpOp : Nabla_MathOp<"exp", "e^x">;
def Nabla_LogOp : Nabla_MathOp<"log", "Natural logarithm; NaN below 0">;
def Nabla_Log1pOp : Nabla_MathOp<"log1p", "log(1 + x), exact near 0">;
def Nabla_SqrtOp : Nabla_MathOp<"sqrt", "Square root; NaN below 0">;
def Nabla_RsqrtOp : Nabla_MathOp<"rsqrt", "1 / sqrt(x)">;
def Nabla_SinOp : Nabla_MathOp<"sin", "Sine, of any finite argument">;
def Nabla_CosOp : Nabla_MathOp<"cos", "Cosine, of any finite argument">;
def Nabla_TanOp : Nabla_MathOp<"tan", "Tangent, of any finite argument">;
def Nabla_AcosOp : Nabla_MathOp<"acos", "Arc cosine; NaN beyond [-1, 1]">;
def Nabla_AtanhOp : Nabla_MathOp<"atanh",
    "Area tangent; NaN beyond [-1, 1]">;
def Nabla_TanhOp : Nabla_MathOp<"tanh", "Hyperbolic tangent">;
def Nabla_ErfOp : Nabla_MathOp<"erf", "Error function">;
def Nabla_SigmoidOp : Nabla_MathOp<"sigmoid", "1 / (1 + exp(-x))">;
def Nabla_FloorOp : Nabla_MathOp<"floor", "The next integer below">;
def Nabla_CeilOp : Nabla_MathOp<"ceil", "The next integer above">;
def Nabla_RoundOp : Nabla_MathOp<"round", "The nearest integer, half to even">;
def Nabla_TruncOp : Nabla_MathOp<"trunc", "The next integer towards 0">;
def Nabla_NotOp : Nabla_MathOp<"not", "All bits inverted",
                              "tensor<4xi32>">;
def Nabla_IsNanOp : Nabla_MathOp<"is_nan", "Whether x is NaN, as i1",
                                "tensor<4xf32>", "tensor<4xi1>">;
def Nabla_IsInfOp : Nabla_MathOp<"is_inf", "Whether x is infinite, as i1",
                                "tensor<4xf32>", "tensor<4xi1>">;

def Nabla_GeluKind : I32EnumAttr<"GeluKind", "how gelu is computed", [
  I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"tanh", 1>]> {
  let cppNamespace = "::nabla";
}
def Nabla_GeluOp : Nabla_InferOp<"gelu"> {
  let summary = "x times the normal distribution's function of x";
  let description = [{
    `none`: x (1 + erf(x / sqrt(2))) / 2; `tanh`: x (1 + tanh(sqrt(2 / pi) (x +
    0.044715 x^3))) / 2.

    ```mlir
    func.func @gelu(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = nabla.gelu %x approximate = tanh : tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input,
      DefaultValuedAttr<Nabla_GeluKind, "::nabla::GeluKind::none">:$approximate);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$input (`approximate` `=` $approximate^)? attr-dict "
                       "`:` qualified(type($input))";
}

class Nabla_PairOp<string mnemonic, string text, list<Trait> traits = [],
                   string of = "tensor<4xf32>">
    : Nabla_InferOp<mnemonic, traits> {
  let summary = text;
  let description = Nabla_Example<mnemonic, "%x: " # of # ", %y: " # of,
                                  "%x, %y : " # of # ", " # of, of>.text;
  let arguments = (ins Nabla_Array:$lhs, Nabla_Array:$rhs);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` qualified(type($lhs)) `,` "
                       "qualified(type($rhs))";
}

// Integer division can fail at run time, so that it must not be executed where
// the program does not.
class Nabla_DivisionOp<string mnemonic, string text>
    : Nabla_EffectOp<mnemonic, [NoMemoryEffect,
        DeclareOpInterfaceMethods<InferTypeOpInterface>,
        DeclareOpInterfaceMethods<ConditionallySpeculatable>]> {
  let summary = text;
  let description = Nabla_Example<mnemonic,
      "%x: tensor<4xf32>, %y: tensor<4xf32>",
      "%x, %y : tensor<4xf32>, tensor<4xf32>", "tensor<4xf32>">.text;
  let arguments = (ins Nabla_Array:$lhs, Nabla_Array:$rhs);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` qualified(type($lhs)) `,` "
                       "qualified(type($rhs))";
  let extraClassDefinition = verifyHook # inferHook # [{
    ::mlir::Speculation::Speculatability $cppClass::getSpeculatability() {
      return ::mlir::isa<::mlir::FloatType>(
                 getResult().getType().getElementType())
                 ? ::mlir::Speculation::Speculatable
                 : ::mlir::Speculation::NotSpeculatable;
    }
  }];
}

def Nabla_SubOp : Nabla_PairOp<"sub",
    "Subtracts element by element; integers wrap">;
def Nabla_DivOp : Nabla_DivisionOp<"div",
    "Divides; integers towards 0, by 0 is an error of the program">;
def Nabla_ModOp : Nabla_DivisionOp<"mod",
    "x - floor(x / y) y, of the sign of y; integers by 0 are an error">;
def Nabla_PowOp : Nabla_PairOp<"pow", "x to the power of y">;
def Nabla_MaximumOp : Nabla_PairOp<"maximum",
    "The greater one; NaN if one is NaN, 0 of 0 and -0", [Commutative]>;
def Nabla_MinimumOp : Nabla_PairOp<"minimum",
    "The smaller one; NaN if one is NaN, -0 of 0 and -0", [Commutative]>;
def Nabla_AndOp : Nabla_PairOp<"and", "Bits that both have", [Commutative],
                              "tensor<4xi32>">;
def Nabla_OrOp : Nabla_PairOp<"or", "Bits that one has", [Commutative],
                              "tensor<4xi32>">;
def Nabla_XorOp : Nabla_PairOp<"xor", "Bits that differ", [Commutative],
                              "tensor<4xi32>">;

def Nabla_CompareKind : I32EnumAttr<"CompareKind", "a comparison", [
  I32EnumAttrCase<"eq", 0>, I32EnumAttrCase<"ne", 1>, I32EnumAttrCase<"lt", 2>,
  I32EnumAttrCase<"le", 3>, I32EnumAttrCase<"gt", 4>,
  I32EnumAttrCase<"ge", 5>]> {
  let cppNamespace = "::nabla";
}
def Nabla_CompareOp : Nabla_InferOp<"compare"> {
  let summary = "Compares element by element, giving i1";
  let description = [{
    If an operand is NaN, `ne` is true and all others are false. 0 equals -0.

    ```mlir
    func.func @compare(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xi1> {
      %z = nabla.compare lt %x, %y : tensor<4xf32>, tensor<4xf32>
      return %z : tensor<4xi1>
    }
    ```
  }];
  let arguments = (ins Nabla_CompareKind:$kind, Nabla_Array:$lhs,
                       Nabla_Array:$rhs);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$kind $lhs `,` $rhs attr-dict `:` "
                       "qualified(type($lhs)) `,` qualified(type($rhs))";
}

def Nabla_SelectOp : Nabla_InferOp<"select"> {
  let summary = "The elements of one array where a condition holds, else those "
                "of another";
  let description = [{
    ```mlir
    func.func @select(%c: tensor<4xi1>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
      %z = nabla.select %c, %x, %y : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>
      return %z : tensor<4xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$condition, Nabla_Array:$yes,
                       Nabla_Array:$no);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$condition `,` $yes `,` $no attr-dict `:` "
      "qualified(type($condition)) `,` qualified(type($yes)) `,` "
      "qualified(type($no))";
}

def Nabla_ConvertOp : Nabla_Op<"convert"> {
  let summary = "Converts every element to another type";
  let description = [{
    Conversions to floats round once, half to even. Floats are converted to
    integers towards 0; values out of range become the nearest value, and NaN
    becomes 0. Integers wrap in narrower types. The conversion to i1 is true for
    all values but 0, also for NaN.

    An implicit result has the same components with another element type. If the
    elements of the operand are f32, its dense values are those of a converted
    dense array, bit for bit. If they are f16 or bf16, the dense values of the
    operand are rounded from f32 to this type; those of the result are not.

    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    !half = !nabla.implicit<8x64xf16, #nabla.nf4<block = 64>>
    func.func @convert(%x: tensor<4xf32>, %w: !w) -> (tensor<4xi32>, !half) {
      %y = nabla.convert %x : tensor<4xf32> -> tensor<4xi32>
      %v = nabla.convert %w : !w -> !half
      return %y, %v : tensor<4xi32>, !half
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input);
  let results = (outs Nabla_Array:$result);
  let assemblyFormat = "$input attr-dict `:` qualified(type($input)) `->` "
                       "qualified(type($result))";
}

// `sizes` gives each `?` of the result.
class Nabla_CreateOp<string mnemonic, string text> : Nabla_Op<mnemonic> {
  let summary = text;
  let results = (outs Nabla_Tensor:$result);
}
def Nabla_FullOp : Nabla_CreateOp<"full", "An array of one value"> {
  let description = [{
    ```mlir
    func.func @full(%like: tensor<?x3xf32>) -> tensor<?x3xf32> {
      %zero = arith.constant 0 : index
      %n = tensor.dim %like, %zero : tensor<?x3xf32>
      %y = nabla.full 1.0 : f32 sizes(%n) -> tensor<?x3xf32>
      return %y : tensor<?x3xf32>
    }
    ```
  }];
  let arguments = (ins AnyAttr:$value, Variadic<Index>:$sizes);
  let assemblyFormat = "$value (`sizes` `(` $sizes^ `)`)? attr-dict `->` "
                       "type($result)";
}
def Nabla_IotaOp : Nabla_CreateOp<"iota",
    "The index along a dimension; integers wrap"> {
  let description = [{
    ```mlir
    func.func @iota(%like: tensor<?x3xf32>) -> tensor<?x3xi64> {
      %zero = arith.constant 0 : index
      %n = tensor.dim %like, %zero : tensor<?x3xf32>
      %y = nabla.iota dim = 1 sizes(%n) -> tensor<?x3xi64>
      return %y : tensor<?x3xi64>
    }
    ```
  }];
  let arguments = (ins I64Attr:$dim, Variadic<Index>:$sizes);
  let assemblyFormat = "`dim` `=` $dim (`sizes` `(` $sizes^ `)`)? attr-dict "
                       "`->` type($result)";
}
def Nabla_TriOp : Nabla_CreateOp<"tri",
    "1 where the last index is at most the one before + `diagonal`, else 0"> {
  let description = [{
    ```mlir
    func.func @tri(%like: tensor<?x3xf32>) -> tensor<?x3xf32> {
      %zero = arith.constant 0 : index
      %n = tensor.dim %like, %zero : tensor<?x3xf32>
      %y = nabla.tri diagonal = -1 sizes(%n) -> tensor<?x3xf32>
      return %y : tensor<?x3xf32>
    }
    ```
  }];
  let arguments = (ins DefaultValuedOptionalAttr<I64Attr, "0">:$diagonal,
                       Variadic<Index>:$sizes);
  let assemblyFormat = "(`diagonal` `=` $diagonal^)? (`sizes` `(` $sizes^ "
                       "`)`)? attr-dict `->` type($result)";
}
class Nabla_RandomOp<string mnemonic, string text>
    : Nabla_CreateOp<mnemonic, text> {
  let arguments = (ins RankedTensorOf<[I64], [], "seed">:$seed,
                       Variadic<Index>:$sizes);
  let assemblyFormat = "$seed (`sizes` `(` $sizes^ `)`)? attr-dict `:` "
                       "type($seed) `->` type($result)";
}
def Nabla_UniformOp : Nabla_RandomOp<"uniform", "Random numbers in [0, 1)"> {
  let description = [{
    Philox 4x32-10: the key is the seed, the counter (i, 0, 0) with i the 64 bits
    of the flat index of the element; its four words are a, b, c, d. A number is
    the upper n bits of a, or of (a, b) for f64, divided by 2^n, with n = 24 for
    f32, 11 for f16, 8 for bf16 and 53 for f64. The numbers depend only on seed,
    shape and type. With an array of seeds the result has the dimensions of the
    seeds, then those of the numbers of each seed: `tensor<8xi64> ->
    tensor<8x2x3xf32>`.

    ```mlir
    func.func @uniform(%seed: tensor<i64>) -> tensor<2x3xf32> {
      %y = nabla.uniform %seed : tensor<i64> -> tensor<2x3xf32>
      return %y : tensor<2x3xf32>
    }
    ```
  }];
}
def Nabla_NormalOp : Nabla_RandomOp<"normal",
    "Random numbers of the normal distribution"> {
  let description = [{
    sqrt(-2 log u) cos(2 pi v), computed in f64 from the words a, b, c, d of
    `uniform`: u = (h + 1) / 2^53, h being the upper 53 bits of (a, b), and
    v = l / 2^53, l being the upper 53 bits of (c, d).

    ```mlir
    func.func @normal(%seed: tensor<i64>) -> tensor<2x3xf32> {
      %y = nabla.normal %seed : tensor<i64> -> tensor<2x3xf32>
      return %y : tensor<2x3xf32>
    }
    ```
  }];
}

class Nabla_AlongOp<string mnemonic, string text> : Nabla_InferOp<mnemonic> {
  let summary = text;
  let description = Nabla_Example<mnemonic, "%x: tensor<2x3xf32>",
      "%x dim = 1 : tensor<2x3xf32>", "tensor<2x3xf32>">.text;
  let arguments = (ins Nabla_Array:$input, I64Attr:$dim);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$input `dim` `=` $dim attr-dict `:` "
                       "qualified(type($input))";
}
class Nabla_AcrossOp<string mnemonic, string text, string gives = "f32">
    : Nabla_InferOp<mnemonic> {
  let summary = text;
  let description = Nabla_Example<mnemonic, "%x: tensor<2x3xf32>",
      "%x dim = 1 keep_dims : tensor<2x3xf32>",
      "tensor<2x1x" # gives # ">">.text;
  let arguments = (ins Nabla_Array:$input, I64Attr:$dim, UnitAttr:$keep_dims);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$input `dim` `=` $dim (`keep_dims` $keep_dims^)? "
                       "attr-dict `:` qualified(type($input))";
}
def Nabla_ArgmaxOp : Nabla_AcrossOp<"argmax",
    "Index (i64) of the first largest element; NaN is larger than all", "i64">;
def Nabla_ArgminOp : Nabla_AcrossOp<"argmin",
    "Index (i64) of the first smallest element; NaN is smaller than all", "i64">;
def Nabla_LogsumexpOp : Nabla_AcrossOp<"logsumexp",
    "log of the sum of exp(x) along a dimension; summed in f64">;
def Nabla_CumsumOp : Nabla_AlongOp<"cumsum",
    "Sums of the elements up to each one along a dimension; integers wrap">;
def Nabla_SoftmaxOp : Nabla_AlongOp<"softmax",
    "exp(x) over its sum along a dimension; summed in f32 or f64">;
def Nabla_LogSoftmaxOp : Nabla_AlongOp<"log_softmax",
    "log of softmax; summed in f32 or f64">;

#endif
