/* nabla-cluster: forms clusters of elementwise operations and reductions, and
 * puts the call of a function in the place of each. Equal clusters share a
 * kernel, and its function. */
#include "transforms/cluster/cluster.h"

#include <mlir-c/BuiltinAttributes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/ops.h"
#include "transforms/cluster/along.h"
#include "transforms/cluster/call.h"
#include "transforms/cluster/conv.h"
#include "transforms/ir/service_text.h"
#include "transforms/ir/target.h"
#include "transforms/passes.h"

/* A kernel or function of the module, whose text is the same but for the name
 * in front of the first '('. */
typedef struct made {
  char *text;
  char name[64];
} made;

typedef struct clustering {
  MlirOperation module;
  nabla_features features;
  made *all;
  size_t count, capacity;
  unsigned number; /* of the next name */
} clustering;

/* A name that the module does not have. */
static void new_name(clustering *s, const char *what, const char *op,
                     char out[64]) {
  do {
    (void)snprintf(out, 64, "nabla_cluster%s_%u_%.24s", what, s->number++, op);
  } while (nabla_module_has(s->module, out));
}

static const made *find(const clustering *s, const char *text) {
  for (size_t i = 0; i < s->count; i++)
    if (!strcmp(strchr(s->all[i].text, '('), strchr(text, '(')))
      return &s->all[i];
  return NULL;
}

static bool keep(clustering *s, const nabla_text *text, const char *name) {
  if (s->count == s->capacity) {
    const size_t capacity = s->capacity ? 2 * s->capacity : 16;
    made *all = realloc(s->all, capacity * sizeof *all);
    if (!all) return false;
    s->all = all;
    s->capacity = capacity;
  }
  made *m = &s->all[s->count];
  m->text = malloc(text->size + 1);
  if (!m->text) return false;
  memcpy(m->text, text->data, text->size + 1);
  (void)snprintf(m->name, sizeof m->name, "%s", name);
  s->count++;
  return true;
}

/* Adds what `text` defines to the module, unless it has that already; `name`
 * becomes the name there. */
static bool add(clustering *s, MlirOperation at, const nabla_text *text,
                char name[64]) {
  if (text->failed)
    return mlirLogicalResultIsSuccess(
        nabla_error_at(at, "has a cluster that is too large"));
  const made *old = find(s, text->data);
  if (old) {
    (void)snprintf(name, 64, "%s", old->name);
    return true;
  }
  return keep(s, text, name);
}

/* The name of the last operation without the dialect's. */
static const char *op_name(MlirOperation op) {
  return nabla_op_find(op)->name + strlen("nabla.");
}

static void remark(const nabla_cluster *c, const nabla_block_index *index,
                   MlirLocation location) {
  nabla_text text = {0};
  nabla_text_add(&text, "computes ");
  for (int i = 0; i < c->member_count && text.size < 400; i++)
    nabla_text_add(&text, "%s%s", i ? ", " : "",
                   op_name(index->ops[c->members[i].number]));
  nabla_text_add(
      &text, " by one kernel: %d pass%s over %s, %d inputs, %d results",
      c->passes, c->passes == 1 ? "" : "es",
      c->split ? "each row" : "all elements", c->input_count, c->output_count);
  if (text.data)
    nablaOptimizationRemark(location, false, "Cluster", "nabla-cluster",
                            text.data);
  nabla_text_deinit(&text);
}

/* Results of the call in the place of those of the members. Broadcasts of them
 * that are still used stand behind the call. */
static void replace(const nabla_cluster *c, const nabla_block_index *index,
                    MlirOperation call) {
  for (int i = 0; i < c->output_count; i++)
    mlirValueReplaceAllUsesOfWith(c->outputs[i].value,
                                  mlirOperationGetResult(call, i));
  for (int i = c->member_count; i-- > 0;) {
    MlirOperation member = index->ops[c->members[i].number];
    for (MlirOpOperand use =
             mlirValueGetFirstUse(mlirOperationGetResult(member, 0));
         !mlirOpOperandIsNull(use);
         use = mlirValueGetFirstUse(mlirOperationGetResult(member, 0)))
      nabla_op_erase(mlirOpOperandGetOwner(use));
    nabla_op_erase(member);
  }
}

static void move_broadcasts(const nabla_cluster *c, MlirOperation call,
                            const nabla_block_index *index, size_t last) {
  for (int i = 0; i < c->output_count; i++) {
    MlirValue value = mlirOperationGetResult(call, i);
    MlirOpOperand use = mlirValueGetFirstUse(value);
    while (!mlirOpOperandIsNull(use)) {
      MlirOperation owner = mlirOpOperandGetOwner(use);
      use = mlirOpOperandGetNextUse(use);
      const size_t user = nabla_block_index_find(index, owner);
      if (user < last && nabla_is(owner, "nabla.broadcast_in_dim"))
        mlirOperationMoveAfter(owner, call);
    }
  }
}

typedef struct function_call {
  intptr_t operand_count;
  const MlirValue *operands;
  intptr_t result_count;
  const MlirType *results;
} function_call;

static MlirOperation create_function_call(const function_call *call,
                                          MlirOperation before,
                                          const char *name) {
  MlirContext context = nabla_op_context(before);
  const MlirNamedAttribute callee = nabla_named(
      context, "callee", mlirFlatSymbolRefAttrGet(context, nabla_ref(name)));
  const nabla_op_spec spec = {"func.call",    call->operand_count,
                              call->operands, call->result_count,
                              call->results,  1,
                              &callee};
  return nabla_op_create(before, &spec);
}

static MlirOperation create_call(const nabla_cluster *c, MlirOperation last,
                                 const char *name) {
  MlirValue operands[NABLA_CLUSTER_INPUTS + NABLA_CLUSTER_CHECKS];
  MlirType results[NABLA_CLUSTER_OUTPUTS];
  for (int i = 0; i < c->input_count; i++) operands[i] = c->inputs[i].value;
  for (int i = 0; i < c->check_count; i++)
    operands[c->input_count + i] = c->checks[i].size;
  for (int i = 0; i < c->output_count; i++)
    results[i] = mlirValueGetType(c->outputs[i].value);
  const function_call call = {c->input_count + c->check_count, operands,
                              c->output_count, results};
  return create_function_call(&call, last, name);
}

/* Writes the function `name`, which calls `kernel`; false where it cannot be.
 */
typedef bool write_call(const void *what, const char *name, const char *kernel,
                        nabla_text *text);

static bool write_cluster_call(const void *what, const char *name,
                               const char *kernel, nabla_text *text) {
  return nabla_cluster_write_call(what, name, kernel, text);
}

static bool write_along_call(const void *what, const char *name,
                             const char *kernel, nabla_text *text) {
  nabla_along_write_call(what, name, kernel, text);
  return true;
}

static bool write_conv_call(const void *what, const char *name,
                            const char *kernel, nabla_text *text) {
  nabla_conv_write_call(what, name, kernel, text);
  return true;
}

/* Puts a kernel, whose text is given, and the function that calls it into the
 * module, where it lacks them; `name` is the function's. */
static bool make(clustering *s, MlirOperation last, nabla_text *kernel_text,
                 char kernel[64], write_call *call, const void *what,
                 char name[64], bool *out_done) {
  nabla_text text = {0}, module = {0};
  size_t before = s->count;
  bool good = add(s, last, kernel_text, kernel);
  if (good && s->count > before)
    nabla_text_add(&module, "%s", kernel_text->data);
  else if (good)
    nabla_text_add(&module, "llvm.func @%s(!llvm.ptr, i64, i64)\n", kernel);
  new_name(s, "_call", op_name(last), name);
  nabla_text_add(&module, NABLA_PARALLEL_TEXT NABLA_REQUIRE_EQUAL_TEXT);
  *out_done = call(what, name, kernel, &text);
  before = s->count;
  if (good && *out_done) good = add(s, last, &text, name);
  if (good && *out_done && s->count > before) {
    nabla_text_add(&module, "%s", text.data);
    good = nabla_module_add(last, &module);
  }
  nabla_text_deinit(&text);
  nabla_text_deinit(&module);
  return good;
}

static bool make_cluster(clustering *s, const nabla_cluster *c,
                         MlirOperation last, char name[64], bool *out_done) {
  char kernel[64];
  nabla_text text = {0};
  new_name(s, "", op_name(last), kernel);
  nabla_cluster_emit(c, s->features, kernel, &text);
  const bool good =
      make(s, last, &text, kernel, write_cluster_call, c, name, out_done);
  nabla_text_deinit(&text);
  return good;
}

static bool lower(clustering *s, const nabla_cluster *c,
                  const nabla_block_index *index) {
  char name[64];
  bool is_done;
  const size_t number = c->members[c->member_count - 1].number;
  MlirOperation last = index->ops[number];
  if (!make_cluster(s, c, last, name, &is_done)) return false;
  if (!is_done) return true;
  MlirOperation call = create_call(c, last, name);
  if (mlirOperationIsNull(call)) return false;
  remark(c, index, mlirOperationGetLocation(last));
  replace(c, index, call);
  move_broadcasts(c, call, index, number);
  return true;
}

static bool lower_along(clustering *s, const nabla_along *a) {
  char kernel[64], name[64], remark[64];
  bool is_done;
  nabla_text text = {0};
  MlirOperation op = a->op;
  new_name(s, "", "along", kernel);
  nabla_along_emit(a, s->features, kernel, &text);
  const bool good =
      make(s, op, &text, kernel, write_along_call, a, name, &is_done);
  nabla_text_deinit(&text);
  if (!good) return false;
  MlirValue operand = mlirOperationGetOperand(op, 0);
  MlirType type = nabla_result_type(op, 0);
  const function_call named = {1, &operand, 1, &type};
  MlirOperation call = create_function_call(&named, op, name);
  if (mlirOperationIsNull(call)) return false;
  (void)snprintf(remark, sizeof remark, "computes %s by one kernel of %s",
                 op_name(op), a->end < a->rank ? "columns" : "rows");
  nablaOptimizationRemark(mlirOperationGetLocation(op), false, "Cluster",
                          "nabla-cluster", remark);
  MlirValue result = mlirOperationGetResult(call, 0);
  nabla_op_replace(op, &result);
  return true;
}

/* Reductions that are in no cluster, and others of along.h. */
static bool lower_all_along(clustering *s, MlirBlock block) {
  nabla_along a;
  bool good = true;
  MlirOperation op = mlirBlockGetFirstOperation(block);
  while (good && !mlirOperationIsNull(op)) {
    MlirOperation next = mlirOperationGetNextInBlock(op);
    if (nabla_along_of(op, &a)) good = lower_along(s, &a);
    op = next;
  }
  return good;
}

static void remark_conv(const nabla_conv *c) {
  nabla_text text = {0};
  nabla_text_add(&text, "computes conv_general");
  for (int i = 0; i < c->step_count; i++)
    nabla_text_add(&text, ", %s", op_name(c->steps[i].op));
  nabla_text_add(&text, " by one kernel of %s", nabla_conv_kernel(&c->spec));
  if (text.data)
    nablaOptimizationRemark(mlirOperationGetLocation(c->op), false, "Cluster",
                            "nabla-cluster", text.data);
  nabla_text_deinit(&text);
}

static bool lower_conv(clustering *s, nabla_conv *c) {
  char kernel[64], name[64];
  bool is_done;
  nabla_text text = {0};
  if (!nabla_conv_prepare(c)) return false;
  new_name(s, "", "conv", kernel);
  nabla_conv_emit(&c->spec, kernel, &text);
  const bool good =
      make(s, c->op, &text, kernel, write_conv_call, c, name, &is_done);
  nabla_text_deinit(&text);
  if (!good) return false;
  MlirValue operands[2 + 2 * NABLA_CONV_STEPS] = {c->x, c->w};
  const intptr_t count = 2 + nabla_conv_arguments(c, operands + 2);
  const function_call named = {count, operands, 1, &c->result};
  MlirOperation call = create_function_call(&named, c->last, name);
  if (mlirOperationIsNull(call)) return false;
  remark_conv(c);
  MlirValue result = nabla_conv_finish(c, mlirOperationGetResult(call, 0));
  if (mlirValueIsNull(result)) return false;
  mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(c->last, 0), result);
  nabla_conv_erase(c);
  return true;
}

static bool is_conv(MlirOperation op) {
  return nabla_is(op, "nabla.conv_general");
}

/* The first convolution of a block after `op`, which may be null, or null. */
static MlirOperation next_conv(MlirBlock block, MlirOperation op) {
  op = mlirOperationIsNull(op) ? mlirBlockGetFirstOperation(block)
                               : mlirOperationGetNextInBlock(op);
  while (!mlirOperationIsNull(op) && !is_conv(op))
    op = mlirOperationGetNextInBlock(op);
  return op;
}

/* Convolutions, before clusters: conversions of their operands and results may
 * be in these. An epilogue has no other one. */
static bool lower_convs(clustering *s, MlirBlock block) {
  nabla_conv c;
  bool good = true;
  MlirOperation op = next_conv(block, (MlirOperation){NULL});
  while (good && !mlirOperationIsNull(op)) {
    MlirOperation next = next_conv(block, op);
    if (nabla_conv_of(op, s->features, &c)) {
      nabla_conv_find_epilogue(&c);
      good = lower_conv(s, &c);
    }
    op = next;
  }
  return good;
}

static bool cluster_block(clustering *s, MlirBlock block);

static bool cluster_region(clustering *s, MlirRegion region) {
  for (MlirBlock block = mlirRegionGetFirstBlock(region);
       !mlirBlockIsNull(block); block = mlirBlockGetNextInRegion(block))
    if (!cluster_block(s, block)) return false;
  return true;
}

/* What was read where it is used is left without users. */
static bool erase_unused(MlirBlock block) {
  nabla_block_index index;
  const bool good = nabla_block_index_init(&index, block);
  for (size_t i = good ? index.count : 0; i-- > 0;) {
    MlirOperation op = index.ops[i];
    if ((nabla_is(op, "nabla.broadcast_in_dim") || nabla_is(op, "nabla.full") ||
         nabla_is(op, "nabla.iota") || nabla_is(op, "nabla.constant")) &&
        !nabla_use_count(mlirOperationGetResult(op, 0)))
      nabla_op_erase(op);
  }
  nabla_block_index_deinit(&index);
  return good;
}

static int by_last_member(const void *a, const void *b) {
  const nabla_cluster *x = a, *y = b;
  const size_t p = x->members[x->member_count - 1].number;
  const size_t q = y->members[y->member_count - 1].number;
  return (p > q) - (p < q);
}

static bool cluster_block(clustering *s, MlirBlock block) {
  nabla_block_index index;
  nabla_cluster *clusters = NULL;
  size_t count = 0;
  if (mlirOperationIsNull(mlirBlockGetTerminator(block))) return true;
  for (MlirOperation op = mlirBlockGetFirstOperation(block);
       !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++)
      if (!cluster_region(s, mlirOperationGetRegion(op, i))) return false;
  if (!lower_convs(s, block)) return false;
  bool good = nabla_block_index_init(&index, block) &&
              nabla_clusters_form(&index, s->features, &clusters, &count);
  /* from the last on: the inputs of a cluster are results of those that end
   * before, which may have begun behind it */
  if (good && count) qsort(clusters, count, sizeof *clusters, by_last_member);
  for (size_t i = count; good && i-- > 0;)
    good = lower(s, &clusters[i], &index);
  for (size_t i = 0; i < count; i++) nabla_cluster_deinit(&clusters[i]);
  free(clusters);
  nabla_block_index_deinit(&index);
  return good && (!count || erase_unused(block)) && lower_all_along(s, block);
}

MlirLogicalResult nabla_run_cluster(MlirOperation module,
                                    const nablaPassValue *values,
                                    void *prepared) {
  (void)prepared;
  const nabla_target *target = nabla_target_read(module, values[1].string);
  if (!target) return mlirLogicalResultFailure();
  if (!strcmp(values[2].string, "on")) return mlirLogicalResultSuccess();
  clustering s = {.module = module,
                  .features = target->features(values[0].string)};
  bool good = true;
  MlirOperation op = mlirBlockGetFirstOperation(
      mlirRegionGetFirstBlock(mlirOperationGetRegion(module, 0)));
  for (; good && !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    if (nabla_is(op, "func.func"))
      good = cluster_region(&s, mlirOperationGetRegion(op, 0));
  for (size_t i = 0; i < s.count; i++) free(s.all[i].text);
  free(s.all);
  return good ? mlirLogicalResultSuccess() : mlirLogicalResultFailure();
}
