/* Lowering of custom_call: a function that puts what the handler is given into
 * words on its stack (nabla_services.call) and hands out the results. */
#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>

#include "dialect/verify/checks.h"
#include "transforms/abi/calls.h"
#include "transforms/ir/service_text.h"
#include "transforms/lower/list.h"
#include "transforms/lower/lowering.h"

typedef struct calling {
  nabla_template *t;
  nabla_text *text;
  int64_t site;
  intptr_t arrays, results;
  intptr_t word, words; /* the next, and how many */
  intptr_t in_place;    /* the argument in whose memory the result is; -1 */
  char name[64];
} calling;

static void add_memref(nabla_text *text, MlirType type) {
  nabla_text_add(text, "memref<");
  for (intptr_t i = 0; i < mlirShapedTypeGetRank(type); i++) {
    int64_t dim = mlirShapedTypeGetDimSize(type, i);
    if (nabla_is_dynamic(dim))
      nabla_text_add(text, "?x");
    else
      nabla_text_add(text, "%" PRId64 "x", dim);
  }
  nabla_text_add_type(text, mlirShapedTypeGetElementType(type));
  nabla_text_add(text, ">");
}

/* words[next] = %value, an i64 */
static void put_value(calling *c, const char *prefix, intptr_t number) {
  nabla_text_add(c->text,
                 "  %%i%td = arith.constant %td : index\n"
                 "  memref.store %%%s%td, %%words[%%i%td] : memref<%tdxi64>\n",
                 c->word, c->word, prefix, number, c->word, c->words);
  c->word++;
}

static void put_number(calling *c, uint64_t number) {
  nabla_text_add(c->text, "  %%n%td = arith.constant %" PRIu64 " : i64\n",
                 c->word, number);
  put_value(c, "n", c->word);
}

/* The number of the buffer of result `r`. */
static intptr_t result_buffer(const calling *c, intptr_t r) {
  return c->in_place < 0 ? c->arrays + r : c->in_place;
}

/* dtype, rank, address and dimensions of buffer %bBUFFER of type `type`, array
 * `number` of the call. */
static void put_buffer(calling *c, intptr_t number, intptr_t buffer,
                       MlirType type) {
  nabla_dtype dtype = NABLA_DTYPE_F32;
  intptr_t rank = mlirShapedTypeGetRank(type);
  (void)nabla_call_dtype(mlirShapedTypeGetElementType(type), &dtype);
  put_number(c, (uint64_t)dtype);
  put_number(c, (uint64_t)rank);
  nabla_text_add(c->text,
                 "  %%p%td = memref.extract_aligned_pointer_as_index %%b%td : ",
                 number, buffer);
  add_memref(c->text, type);
  nabla_text_add(c->text,
                 " -> index\n"
                 "  %%q%td = arith.index_cast %%p%td : index to i64\n",
                 number, number);
  put_value(c, "q", number);
  for (intptr_t i = 0; i < rank; i++) {
    int64_t dim = mlirShapedTypeGetDimSize(type, i);
    if (!nabla_is_dynamic(dim)) {
      put_number(c, (uint64_t)dim);
      continue;
    }
    nabla_text_add(c->text,
                   "  %%k%td = arith.constant %td : index\n"
                   "  %%m%td = memref.dim %%b%td, %%k%td : ",
                   c->word, i, c->word, buffer, c->word);
    add_memref(c->text, type);
    nabla_text_add(c->text,
                   "\n  %%d%td = arith.index_cast %%m%td : index to i64\n",
                   c->word, c->word);
    put_value(c, "d", c->word);
  }
}

static void count_words(calling *c) {
  c->words = 2;
  for (intptr_t i = 0; i < c->arrays; i++)
    c->words += 3 + mlirShapedTypeGetRank(nabla_operand_type(c->t->op, i));
  for (intptr_t i = 0; i < c->results; i++)
    c->words += 3 + mlirShapedTypeGetRank(nabla_result_type(c->t->op, i));
}

/* "(%a0: TYPE, ...) -> (TYPE, ...)", or without the names. */
static void add_signature(calling *c, bool names) {
  MlirOperation op = c->t->op;
  nabla_text_add(c->text, "(");
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    nabla_text_add(c->text, "%s", i ? ", " : "");
    if (names) nabla_text_add(c->text, "%%a%td: ", i);
    nabla_text_add_type(c->text, nabla_operand_type(op, i));
  }
  nabla_text_add(c->text, ") -> (");
  for (intptr_t i = 0; i < c->results; i++) {
    nabla_text_add(c->text, "%s", i ? ", " : "");
    nabla_text_add_type(c->text, nabla_result_type(op, i));
  }
  nabla_text_add(c->text, ")");
}

static void add_return(calling *c, const char *prefix) {
  nabla_text_add(c->text, "  return");
  for (intptr_t i = 0; i < c->results; i++)
    nabla_text_add(c->text, "%s%%%s%td", i ? ", " : " ", prefix, i);
  for (intptr_t i = 0; i < c->results; i++) {
    nabla_text_add(c->text, "%s", i ? ", " : " : ");
    nabla_text_add_type(c->text, nabla_result_type(c->t->op, i));
  }
  nabla_text_add(c->text, "\n}\n");
}

static void add_inputs(calling *c) {
  for (intptr_t i = 0; i < c->arrays; i++) {
    MlirType type = nabla_operand_type(c->t->op, i);
    nabla_text_add(c->text, "  %%b%td = bufferization.to_buffer %%a%td%s : ", i,
                   i, i == c->in_place ? "" : " read_only");
    nabla_text_add_type(c->text, type);
    nabla_text_add(c->text, " to ");
    add_memref(c->text, type);
    nabla_text_add(c->text, "\n");
    put_buffer(c, i, i, type);
  }
}

/* Room for the results; the sizes that are not known are the last operands, and
 * not negative. */
static void add_outputs(calling *c) {
  intptr_t size = c->arrays;
  if (c->in_place >= 0) {
    put_buffer(c, c->arrays, c->in_place, nabla_result_type(c->t->op, 0));
    return;
  }
  for (intptr_t r = 0; r < c->results; r++) {
    MlirType type = nabla_result_type(c->t->op, r);
    intptr_t first = size;
    for (intptr_t i = 0; i < mlirShapedTypeGetRank(type); i++) {
      if (!nabla_is_dynamic(mlirShapedTypeGetDimSize(type, i))) continue;
      nabla_text_add(c->text,
                     "  %%x%td = arith.index_cast %%a%td : index to i64\n"
                     "  %%y%td = arith.minsi %%x%td, %%zero : i64\n"
                     "  func.call @nabla_require_equal(%%y%td, %%zero, "
                     "%%where) : (i64, i64, !llvm.ptr) -> ()\n",
                     size, size, size, size, size);
      size++;
    }
    nabla_text_add(c->text, "  %%b%td = memref.alloc(", c->arrays + r);
    for (intptr_t i = first; i < size; i++)
      nabla_text_add(c->text, "%s%%a%td", i > first ? ", " : "", i);
    nabla_text_add(c->text, ") : ");
    add_memref(c->text, type);
    nabla_text_add(c->text, "\n");
    put_buffer(c, c->arrays + r, c->arrays + r, type);
  }
}

static void add_call(calling *c) {
  nabla_text_add(
      c->text,
      "  %%wi = memref.extract_aligned_pointer_as_index %%words : "
      "memref<%tdxi64> -> index\n"
      "  %%wq = arith.index_cast %%wi : index to i64\n"
      "  %%wp = llvm.inttoptr %%wq : i64 to !llvm.ptr\n"
      "  %%site = arith.constant %" PRId64
      " : i64\n"
      "  func.call @nabla_custom_call(%%site, %%wp) : (i64, !llvm.ptr) -> ()\n",
      c->words, c->site);
  for (intptr_t r = 0; r < c->results; r++) {
    MlirType type = nabla_result_type(c->t->op, r);
    nabla_text_add(c->text,
                   "  %%r%td = bufferization.to_tensor %%b%td restrict "
                   "writable : ",
                   r, result_buffer(c, r));
    add_memref(c->text, type);
    nabla_text_add(c->text, " to ");
    nabla_text_add_type(c->text, type);
    nabla_text_add(c->text, "\n");
  }
  add_return(c, "r");
}

/* The words are on the stack of a function of their own: where the call stands
 * could be in a loop. */
static void add_function(calling *c) {
  nabla_text_add(c->text,
                 "func.func private @nabla_custom_call(i64, "
                 "!llvm.ptr)\n" NABLA_REQUIRE_EQUAL_TEXT
                 "llvm.mlir.global internal constant @nabla_where_custom_call("
                 "\"nabla.custom_call\\00\") {addr_space = 0 : i32}\n"
                 "func.func private @%s",
                 c->name);
  add_signature(c, true);
  nabla_text_add(c->text,
                 " {\n  %%words = %s() : memref<%tdxi64>\n"
                 "  %%zero = arith.constant 0 : i64\n"
                 "  %%where = llvm.mlir.addressof @nabla_where_custom_call : "
                 "!llvm.ptr\n",
                 "memref.alloca", c->words);
  put_number(c, (uint64_t)c->arrays);
  put_number(c, (uint64_t)c->results);
  add_inputs(c);
  add_outputs(c);
  add_call(c);
}

static void add_template(calling *c) {
  intptr_t operands = mlirOperationGetNumOperands(c->t->op);
  nabla_text_add(c->text, "func.func @t");
  add_signature(c, true);
  nabla_text_add(c->text, " {\n  ");
  for (intptr_t i = 0; i < c->results; i++)
    nabla_text_add(c->text, "%s%%v%td", i ? ", " : "", i);
  nabla_text_add(c->text, "%sfunc.call @%s(", c->results ? " = " : "", c->name);
  for (intptr_t i = 0; i < operands; i++)
    nabla_text_add(c->text, "%s%%a%td", i ? ", " : "", i);
  nabla_text_add(c->text, ") : ");
  add_signature(c, false);
  nabla_text_add(c->text, "\n");
  add_return(c, "v");
}

/* One that the module has not. */
static void name_function(calling *c) {
  for (unsigned i = 0; i == 0 || nabla_module_has(c->t->op, c->name); i++)
    snprintf(c->name, sizeof c->name, "nabla_call_%" PRId64 "_%u", c->site, i);
}

bool nabla_lower_custom_call(nabla_template *t) {
  MlirOperation op = t->op;
  calling c = {.t = t,
               .text = &t->text,
               .results = mlirOperationGetNumResults(op),
               .in_place = nabla_op_integer(op, NABLA_CALL_IN_PLACE, -1)};
  MlirAttribute site =
      mlirOperationGetAttributeByName(op, nabla_ref(NABLA_CALL_SITE));
  if (mlirAttributeIsNull(site) || !mlirAttributeIsAInteger(site)) {
    nabla_error_at(op, "has no number: run --nabla-calls first");
    return false;
  }
  c.site = mlirIntegerAttrGetValueInt(site);
  while (c.arrays < mlirOperationGetNumOperands(op) &&
         !mlirTypeIsAIndex(nabla_operand_type(op, c.arrays)))
    c.arrays++;
  if (c.in_place != -1 &&
      (c.in_place < 0 || c.in_place >= c.arrays || c.results != 1 ||
       !mlirTypeEqual(nabla_operand_type(op, c.in_place),
                      nabla_result_type(op, 0)))) {
    nabla_error_at(op, "has " NABLA_CALL_IN_PLACE
                       ", which is the number of an argument with the type of "
                       "its one result");
    return false;
  }
  count_words(&c);
  name_function(&c);
  add_function(&c);
  add_template(&c);
  return nabla_template_replace(op, t->operand_count, t->operands, &t->text);
}
