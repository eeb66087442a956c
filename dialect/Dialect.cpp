// The C++ that ODS needs: registration, assembly of the encoding attribute and
// of the implicit type, and the hooks to C. Glue without logic.
#include "dialect/dialect.h"

#include "mlir/Support/TypeID.h"

// MLIR knows a trait by the name that its compiler prints of a template's
// argument. Debian's libMLIR was built with clang, which prints another one
// than gcc: what gcc compiles would have none of these traits, unless they are
// given clang's names before anything asks.
struct TraitName : mlir::detail::FallbackTypeIDResolver {
  static mlir::TypeID id(llvm::StringRef name) {
    return registerImplicitTypeID(name);
  }
};
#define TRAIT(name)                                                      \
  namespace mlir::OpTrait {                                              \
  template <typename>                                                    \
  class name;                                                            \
  }                                                                      \
  template <>                                                            \
  mlir::TypeID mlir::TypeID::get<mlir::OpTrait::name>() {                \
    static TypeID id = TraitName::id("mlir::OpTrait::" #name "<Empty>"); \
    return id;                                                           \
  }
TRAIT(IsTerminator)
TRAIT(IsCommutative)
TRAIT(SingleBlock)
TRAIT(AttrSizedOperandSegments)
TRAIT(HasRecursiveMemoryEffects)
#undef TRAIT

#include "llvm/ADT/TypeSwitch.h"
#include "mlir/CAPI/Registration.h"
#include "mlir/CAPI/Rewrite.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/InliningUtils.h"

using namespace mlir;
#include "dialect/NablaDialect.h.inc"
#include "dialect/NablaEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/NablaAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/NablaTypes.h.inc"
#define GET_OP_CLASSES
#include "dialect/NablaOps.h.inc"

namespace nabla {
template <typename Op>
static LogicalResult inferInC(MLIRContext *context,
                              std::optional<Location> location,
                              ValueRange operands, DictionaryAttr attributes,
                              OpaqueProperties properties,
                              SmallVectorImpl<Type> &types) {
  SmallVector<MlirValue> values;
  for (Value operand : operands) values.push_back(wrap(operand));
  Attribute all = attributes;
  if constexpr (!std::is_same_v<typename Op::template InferredProperties<Op>,
                                EmptyProperties>)
    if (properties)
      all = Op::getPropertiesAsAttr(
          context, *properties.as<typename Op::Properties *>());
  nablaInference in = {wrap(Op::getOperationName()),
                       wrap(context),
                       wrap(location.value_or(UnknownLoc::get(context))),
                       intptr_t(values.size()),
                       values.data(),
                       wrap(all)};
  MlirType out[NABLA_MAX_RESULTS];
  intptr_t count = 0;
  auto result = unwrap(nablaInferOp(&in, out, &count));
  for (intptr_t i = 0; i < count; i++) types.push_back(unwrap(out[i]));
  return result;
}

// A canonicalization that is written in C.
struct FoldInC : RewritePattern {
  FoldInC(StringRef op, MLIRContext *context)
      : RewritePattern(op, /*benefit=*/1, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    RewriterBase *base = &rewriter;
    return success(nablaFoldControl(wrap(op), wrap(base)));
  }
};

// Every op may be inlined into every region.
struct Inliner : DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;
  bool isLegalToInline(Operation *, Region *, bool,
                       IRMapping &) const override {
    return true;
  }
  bool isLegalToInline(Region *, Region *, bool, IRMapping &) const override {
    return true;
  }
};

// `KEY = VALUE`, or a VALUE alone, which is called "value"; a VALUE is a type,
// an attribute or a keyword.
static ParseResult parseEntry(AsmParser &parser, NamedAttrList &entries) {
  StringRef key = "value", word;
  Attribute value;
  Type type;
  auto at = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalKeyword(&word)))
    failed(parser.parseOptionalEqual())
        ? (void)(value = StringAttr::get(parser.getContext(), word))
        : (void)(key = word);
  if (key == "blocks" && succeeded(parser.parseOptionalKeyword(&word)))
    value = StringAttr::get(parser.getContext(), word);  // "tensor" is no type
  if (!value) {
    auto parsed = parser.parseOptionalType(type);
    if (parsed.has_value() && succeeded(*parsed)) value = TypeAttr::get(type);
    if (!parsed.has_value()) parsed = parser.parseOptionalAttribute(value);
    if (!parsed.has_value() && succeeded(parser.parseKeyword(&word)))
      value = StringAttr::get(parser.getContext(), word);
    if (!value) return failure();
  }
  if (key == "value" && entries.get(key)) key = "values";  // {...} of custom
  if (entries.get(key))
    return parser.emitError(at) << "parameter '" << key << "' is given twice";
  return entries.append(key, value), success();
}

Attribute NablaDialect::parseAttribute(DialectAsmParser &parser, Type) const {
  StringRef encoding = "sharding", text = parser.getFullSymbolSpec();
  NamedAttrList entries;
  MlirAttribute canonical;
  char message[NABLA_MESSAGE_SIZE];
  auto at = parser.getCurrentLocation();
  if (text.consume_front("sharding<"))  // C reads the text: sharding.h
    entries.append("text", StringAttr::get(getContext(), text));
  else if (parser.parseKeyword(&encoding) ||
           (succeeded(parser.parseOptionalLess()) &&
            (parser.parseCommaSeparatedList(
                 [&] { return parseEntry(parser, entries); }) ||
             parser.parseGreater())))
    return {};
  if (!nablaHookEncoding(wrap(getContext()), wrap(encoding),
                         wrap(entries.getDictionary(getContext())), &canonical,
                         message))
    return parser.emitError(at) << message, Attribute();
  return EncodingAttr::get(getContext(), encoding,
                           cast<DictionaryAttr>(unwrap(canonical)));
}

static void print(MlirStringRef text, void *printer) {
  *static_cast<AsmPrinter *>(printer) << unwrap(text);
}
void NablaDialect::printAttribute(Attribute attribute,
                                  DialectAsmPrinter &printer) const {
  nablaHookEncodingPrint(wrap(attribute), ::nabla::print, &printer);
}

static nablaImplicitType stored(ArrayRef<int64_t> shape, Type elementType,
                                Attribute encoding, ArrayRef<int64_t> view) {
  return {intptr_t(shape.size()), intptr_t(view.size()),
          shape.data(),           view.data(),
          wrap(elementType),      wrap(encoding)};
}

// `, view<STORAGE, strides = [...], offset = N>`: see nablaImplicitType.
static ParseResult parseView(AsmParser &parser, SmallVector<int64_t> &view) {
  SmallVector<int64_t> storage;
  auto number = [&] { return parser.parseInteger(view.emplace_back()); };
  if (parser.parseKeyword("view") || parser.parseLess() ||
      parser.parseDimensionList(storage, false, false))
    return failure();
  view.push_back(int64_t(storage.size()));
  view.append(storage);
  return failure(
      parser.parseComma() || parser.parseKeyword("strides") ||
      parser.parseEqual() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, number) ||
      parser.parseComma() || parser.parseKeyword("offset") ||
      parser.parseEqual() || number() || parser.parseGreater());
}

Type ImplicitType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape, view;
  Type elementType;
  Attribute encoding;
  auto at = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseDimensionList(shape) ||
      parser.parseType(elementType) || parser.parseComma() ||
      parser.parseAttribute(encoding) ||
      (succeeded(parser.parseOptionalComma()) && parseView(parser, view)) ||
      parser.parseGreater() ||
      failed(verify([&] { return parser.emitError(at); }, shape, elementType,
                    encoding, view)))
    return {};
  auto s = stored(shape, elementType, encoding, view);
  return unwrap(nablaHookImplicitCanonical(wrap(parser.getContext()), &s));
}

void ImplicitType::print(AsmPrinter &printer) const {
  nablaHookImplicitPrint(wrap(Type(*this)), ::nabla::print, &printer);
}
LogicalResult ImplicitType::verify(function_ref<InFlightDiagnostic()> emitError,
                                   ArrayRef<int64_t> shape, Type elementType,
                                   Attribute encoding, ArrayRef<int64_t> view) {
  char message[NABLA_MESSAGE_SIZE];
  auto s = stored(shape, elementType, encoding, view);
  if (nablaHookImplicitVerify(&s, message)) return success();
  return emitError() << message;
}
// The assembly of Nabla_ArrayOp: `operands` of them (-1: any number), keys in
// this order.
struct Form {
  SmallVector<nablaKey> keys;
  int operands;
};

// `KEY = NUMBER`, `KEY = [NUMBER, ...]`; `all` is what no attribute means.
static ParseResult parseKey(OpAsmParser &parser, const nablaKey &key,
                            NamedAttrList &attributes) {
  SmallVector<int64_t> list;
  auto number = [&] { return parser.parseInteger(list.emplace_back()); };
  auto square = AsmParser::Delimiter::Square;
  if (failed(parser.parseOptionalKeyword(key.name)))
    return key.isOptional ? success() : parser.parseKeyword(key.name);
  if (parser.parseEqual()) return failure();
  if (!key.isList && key.isOptional &&
      succeeded(parser.parseOptionalKeyword("all")))
    return success();
  if (key.isList ? parser.parseCommaSeparatedList(square, number) : number())
    return failure();
  Builder &b = parser.getBuilder();
  Attribute value = b.getDenseI64ArrayAttr(list);
  if (!key.isList) value = b.getI64IntegerAttr(list[0]);
  return attributes.append(key.name, value), success();
}

template <typename Op>
static ParseResult parseArrays(OpAsmParser &parser, OperationState &result,
                               const Form &form) {
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SmallVector<Type> types, written;
  NamedAttrList others;
  auto at = parser.getNameLoc();
  if (parser.parseOperandList(operands, form.operands)) return failure();
  for (auto &key : form.keys)
    if (parseKey(parser, key, result.attributes)) return failure();
  if (parser.parseOptionalAttrDict(others) || parser.parseColonTypeList(types))
    return failure();
  for (auto &key : form.keys)
    if (others.get(key.name))
      return parser.emitError(at) << "'" << key.name << "' is written as `"
                                  << key.name << " = ...` before the types";
  result.attributes.append(others);
  if ((succeeded(parser.parseOptionalArrow()) &&
       parser.parseTypeList(written)) ||
      parser.resolveOperands(operands, types, at, result.operands) ||
      failed(inferInC<Op>(parser.getContext(), result.location, result.operands,
                          result.attributes.getDictionary(parser.getContext()),
                          nullptr, result.types)))
    return failure();
  if (written.empty() || written == result.types) return success();
  auto error = parser.emitError(at, "has results of other types: ");
  llvm::interleaveComma(result.types, error);
  return error;
}

static void printArrays(OpAsmPrinter &printer, Operation *op,
                        const Form &form) {
  AsmPrinter *to = &printer;
  SmallVector<StringRef> elided;
  printer << ' ' << op->getOperands();
  for (auto &key : form.keys) {
    elided.push_back(key.name);
    nablaHookKeyPrint(&key, wrap(op->getAttr(key.name)), ::nabla::print, to);
  }
  printer.printOptionalAttrDict(op->getAttrs(), elided);
  printer << " : " << op->getOperandTypes();
  if (llvm::any_of(op->getResultTypes(), llvm::IsaPred<ImplicitType>))
    printer << " -> " << op->getResultTypes();
}
}  // namespace nabla
#include "dialect/NablaEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/NablaAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/NablaTypes.cpp.inc"
#define GET_OP_CLASSES
#include "dialect/NablaDialect.cpp.inc"
#include "dialect/NablaOps.cpp.inc"

void nabla::NablaDialect::initialize() {
  addAttributes<EncodingAttr>();
  addTypes<ImplicitType>();
  addOperations<
#define GET_OP_LIST
#include "dialect/NablaOps.cpp.inc"
      >();
  addInterfaces<Inliner>();
}
MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Nabla, nabla, nabla::NablaDialect)
using namespace nabla;
bool nablaAttributeIsAEncoding(MlirAttribute a) {
  auto encoding = dyn_cast<EncodingAttr>(unwrap(a));
  return encoding && encoding.getEncoding() != "sharding";
}
MlirStringRef nablaEncodingAttrParts(MlirAttribute a, MlirAttribute *out) {
  auto encoding = dyn_cast<EncodingAttr>(unwrap(a));
  if (!encoding) return wrap(StringRef());
  *out = wrap(Attribute(encoding.getParameters()));
  return wrap(encoding.getEncoding());
}
MlirAttribute nablaEncodingAttrGet(MlirContext context, MlirStringRef name,
                                   MlirAttribute parameters) {
  return wrap(EncodingAttr::get(unwrap(context), unwrap(name),
                                cast<DictionaryAttr>(unwrap(parameters))));
}
bool nablaTypeIsAImplicit(MlirType t) { return isa<ImplicitType>(unwrap(t)); }
nablaImplicitType nablaImplicitTypeStored(MlirType t) {
  auto type = cast<ImplicitType>(unwrap(t));
  return stored(type.getShape(), type.getElementType(), type.getEncoding(),
                type.getView());
}
MlirType nablaImplicitTypeGet(MlirContext context, const nablaImplicitType *s) {
  return wrap(ImplicitType::get(
      unwrap(context), ArrayRef(s->shape, static_cast<size_t>(s->rank)),
      unwrap(s->elementType), unwrap(s->encoding),
      ArrayRef(s->view, static_cast<size_t>(s->viewSize))));
}
