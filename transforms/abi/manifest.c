/* nabla-manifest: what public functions take and give, as the JSON text that
 * lib/runtime reads (docs/JSON.md), kept in the module attribute
 * `nabla.manifest` because lowering forgets implicit types. Also says that
 * arguments are not written: they may be mapped files. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/encoding/encoding_nested.h"
#include "dialect/verify/checks.h"
#include "transforms/abi/manifest_components.h"
#include "transforms/abi/manifest_names.h"
#include "transforms/ir/ir.h"
#include "transforms/passes.h"
#include "transforms/shard/layout.h"
#include "transforms/state/state.h"

/* The name of a dtype as in files; NULL when no array of it can be passed. */
static const char *dtype_name(MlirType type) {
  if (mlirTypeIsAF32(type)) return "F32";
  if (mlirTypeIsAF16(type)) return "F16";
  if (mlirTypeIsABF16(type)) return "BF16";
  if (mlirTypeIsAF64(type)) return "F64";
  if (!mlirTypeIsAInteger(type)) return NULL;
  unsigned width = mlirIntegerTypeGetWidth(type);
  if (mlirIntegerTypeIsUnsigned(type)) return width == 8 ? "U8" : NULL;
  if (!mlirIntegerTypeIsSignless(type)) return NULL;
  return width == 64   ? "I64"
         : width == 32 ? "I32"
         : width == 8  ? "I8"
         : width == 1  ? "BOOL"
                       : NULL;
}

static bool can_pass(MlirType type) {
  if (nablaTypeIsAImplicit(type)) return true;
  return mlirTypeIsARankedTensor(type) &&
         mlirShapedTypeGetRank(type) <= NABLA_MAX_RANK &&
         dtype_name(mlirShapedTypeGetElementType(type));
}

static nabla_status write_text(void *self, const void *data, size_t size,
                               nabla_diag *diag) {
  (void)diag;
  nabla_text_add(self, "%.*s", (int)size, (const char *)data);
  return NABLA_OK;
}

static void put(nabla_json_out *out, const char *key, const char *value) {
  nabla_json_out_key(out, key);
  nabla_json_out_string(out, value);
}

static void put_shape(nabla_json_out *out, intptr_t rank,
                      const int64_t *shape) {
  nabla_json_out_key(out, "shape");
  nabla_json_out_array(out);
  for (intptr_t i = 0; i < rank; i++) {
    if (nabla_is_dynamic(shape[i]))
      nabla_json_out_null(out);
    else
      nabla_json_out_u64(out, (uint64_t)shape[i]);
  }
  nabla_json_out_array_end(out);
}

/* The name of an encoding without parameters: "ggml<q4_0>". */
static void put_blocks(nabla_json_out *out, const nabla_ggml *ggml) {
  char name[32];
  (void)snprintf(name, sizeof name, "ggml<%s>", ggml->name);
  put(out, "encoding", name);
}

static void put_planes(nabla_json_out *out, MlirType type) {
  nabla_format format = nabla_implicit_format(type);
  put(out, "encoding", format.encoding->name);
  put(out, "granularity",
      format.granularity == NABLA_PER_ROW      ? "row"
      : format.granularity == NABLA_PER_TENSOR ? "tensor"
                                               : "block");
  nabla_json_out_key(out, "block");
  nabla_json_out_u64(out, format.block);
  nabla_encoding_info info = nabla_implicit_encoding(type);
  if (nabla_manifest_is_dynamic8(&info)) {
    nabla_json_out_key(out, "nested_block");
    nabla_json_out_u64(out, nabla_encoding_read(info.nested).block);
  }
}

/* What is bound: codes and scales, or blocks. */
static void put_packed(nabla_json_out *out, MlirType type) {
  nabla_encoding_info info = nabla_implicit_encoding(type);
  if (info.kind == NABLA_KIND_GGML)
    put_blocks(out, info.ggml);
  else
    put_planes(out, type);
  nabla_json_out_key(out, "components");
  nabla_json_out_array(out);
  nabla_manifest_components(out, type, "");
  nabla_json_out_array_end(out);
}

/* Nothing is stored. */
static void put_implied(nabla_json_out *out, MlirType type) {
  bool splat = nabla_implicit_encoding(type).kind == NABLA_KIND_SPLAT;
  put(out, "encoding", splat ? "splat" : "identity");
  nabla_json_out_key(out, "components");
  nabla_json_out_array(out);
  nabla_json_out_array_end(out);
}

static bool is_packed(MlirType type) {
  if (!nablaTypeIsAImplicit(type)) return false;
  nabla_encoding_kind kind = nabla_implicit_encoding(type).kind;
  return kind == NABLA_KIND_PACKED || kind == NABLA_KIND_GGML;
}

static const MlirStringRef no_state = {NULL, 0};
static const MlirType no_type = {NULL};

/* The dtype and shape of an array, and how it is packed. */
static void put_type(nabla_json_out *out, MlirType type) {
  int64_t shape[NABLA_MAX_RANK];
  intptr_t rank = nabla_array_rank(type);
  for (intptr_t i = 0; i < rank; i++) shape[i] = nabla_array_dim(type, i);
  put(out, "dtype", dtype_name(nabla_array_element(type)));
  if (is_packed(type)) {
    nablaImplicit p = nablaImplicitTypeParts(type);
    if (p.storageRank >= 0)
      put_shape(out, p.storageRank, p.storage);
    else
      put_shape(out, rank, shape);
    put_packed(out, type);
  } else {
    put_shape(out, rank, shape);
    if (nablaTypeIsAImplicit(type)) put_implied(out, type);
  }
}

/* How an argument is divided. */
typedef struct cut {
  const nabla_grid *shard;
  nabla_division layout;
} cut;

/* "cut": a dimension, of the storage of a packed array, the ranks between
 * neighbours and how many there are, for each part of the mesh. */
static void put_cut(nabla_json_out *out, const cut *pieces) {
  nabla_division storage;
  const nabla_division *layout = &storage;
  if (nabla_layout_is_whole(&pieces->layout) ||
      !nabla_layout_storage(&pieces->layout, &storage))
    return;
  nabla_json_out_key(out, "cut");
  nabla_json_out_array(out);
  for (intptr_t d = 0; d < layout->rank; d++)
    for (uint32_t i = 0; i < layout->dims[d].count; i++) {
      const uint8_t atom = layout->dims[d].at[i];
      nabla_json_out_u64(out, (uint64_t)d);
      nabla_json_out_u64(out, (uint64_t)pieces->shard->atoms.stride[atom]);
      nabla_json_out_u64(out, (uint64_t)pieces->shard->atoms.size[atom]);
    }
  nabla_json_out_array_end(out);
}

/* One argument, or a dense result. `state` is the name of the state that an
 * argument is, without data where it is none. `packed` is the type of the
 * packed result that a result is the first component of, or null. */
static void put_port(nabla_json_out *out, MlirStringRef name, MlirType type,
                     MlirStringRef state, MlirType packed, bool is_donated,
                     const cut *pieces) {
  nabla_json_out_object(out);
  nabla_json_out_key(out, "name");
  nabla_json_out_string_n(out, name.data, name.length);
  put_type(out, type);
  if (!mlirTypeIsNull(packed)) {
    nabla_json_out_key(out, "packed");
    nabla_json_out_object(out);
    put_type(out, packed);
    nabla_json_out_object_end(out);
  }
  if (state.data) {
    nabla_json_out_key(out, "state");
    nabla_json_out_string_n(out, state.data, state.length);
  }
  if (is_donated) {
    nabla_json_out_key(out, "donated");
    nabla_json_out_bool(out, true);
  }
  if (pieces) put_cut(out, pieces);
  nabla_json_out_object_end(out);
}

/* An argument of an encoding from outside: its components are inputs. */
static void put_components(nabla_json_out *out, MlirStringRef name,
                           MlirType type) {
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  uint32_t count = nabla_implicit_components(type, parts);
  for (uint32_t i = 0; i < count; i++) {
    nabla_text text = {0};
    nabla_text_add(&text, "%.*s.%s", (int)name.length, name.data,
                   parts[i].name);
    put_port(out, nabla_ref(text.data ? text.data : parts[i].name),
             nabla_component_type(&parts[i]), no_state, no_type, false, NULL);
    nabla_text_deinit(&text);
  }
}

static void put_argument(nabla_json_out *out, MlirStringRef name, MlirType type,
                         MlirStringRef state, bool is_donated,
                         const cut *pieces) {
  if (nablaTypeIsAImplicit(type) &&
      nabla_implicit_encoding(type).kind == NABLA_KIND_CUSTOM)
    put_components(out, name, type);
  else
    put_port(out, name, type, state, no_type, is_donated, pieces);
}

/* Whether a file could hold a result as a weight: all sizes are known then. */
static bool is_weight(MlirType type) {
  if (!is_packed(type) || !nabla_manifest_can_bind(type)) return false;
  for (intptr_t i = 0; i < nabla_array_rank(type); i++)
    if (nabla_is_dynamic(nabla_array_dim(type, i))) return false;
  return true;
}

/* A dense result, or the leaves of an implicit one, of which the first tells
 * of `packed`, the whole. */
static void put_result(nabla_json_out *out, MlirType type, const char *name,
                       MlirType packed) {
  if (!nablaTypeIsAImplicit(type)) {
    put_port(out, nabla_ref(name), type, no_state, packed, false, NULL);
    return;
  }
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  uint32_t count = nabla_implicit_components(type, parts);
  for (uint32_t i = 0; i < count; i++) {
    char inner[NABLA_MAX_NESTING * 8 + 16];
    snprintf(inner, sizeof inner, "%s%s%s", name, *name ? "." : "",
             parts[i].name);
    put_result(out, parts[i].type, inner, i ? no_type : packed);
  }
}

/* A result that is divided is described as the piece that each rank gives. */
static void put_whole_result(nabla_json_out *out, MlirType type,
                             const cut *pieces) {
  char message[NABLA_MESSAGE_SIZE];
  MlirType local = type;
  if (pieces && nabla_layout_takes(type) &&
      !nabla_layout_is_whole(&pieces->layout) &&
      nabla_layout_local(pieces->shard, &pieces->layout, &local, message))
    put_port(out, nabla_ref(""), local, no_state, no_type, false, pieces);
  else
    put_result(out, type, "", is_weight(type) ? type : no_type);
}

static MlirType function_type(MlirOperation function) {
  return mlirTypeAttrGetValue(
      mlirOperationGetAttributeByName(function, nabla_ref("function_type")));
}

static bool can_enter(MlirOperation function) {
  MlirType type = function_type(function);
  for (intptr_t i = 0; i < mlirFunctionTypeGetNumInputs(type); i++)
    if (!can_pass(mlirFunctionTypeGetInput(type, i))) return false;
  for (intptr_t i = 0; i < mlirFunctionTypeGetNumResults(type); i++)
    if (!can_pass(mlirFunctionTypeGetResult(type, i))) return false;
  return true;
}

/* The type of an argument that nothing in a file can be bound to, or null. */
static MlirType nothing_binds(MlirOperation function) {
  MlirType type = function_type(function);
  for (intptr_t i = 0; i < mlirFunctionTypeGetNumInputs(type); i++) {
    MlirType input = mlirFunctionTypeGetInput(type, i);
    if (nablaTypeIsAImplicit(input) && !nabla_manifest_can_bind(input))
      return input;
  }
  return (MlirType){NULL};
}

static void warn_unbound(MlirOperation function, MlirType type) {
  nabla_text text = {0};
  nabla_text_add(&text, "is no entry point: no file holds ");
  nabla_text_add_attribute(&text, nablaImplicitTypeParts(type).encoding);
  nabla_text_add(&text, "; take its components and nabla.pack them");
  if (text.data)
    nablaEmitWarning(mlirOperationGetLocation(function), text.data);
  nabla_text_deinit(&text);
}

static MlirStringRef symbol(MlirOperation function) {
  return mlirStringAttrGetValue(
      mlirOperationGetAttributeByName(function, nabla_ref("sym_name")));
}

static bool is_public_function(MlirOperation op) {
  if (!nabla_is(op, "func.func")) return false;
  MlirAttribute visibility =
      mlirOperationGetAttributeByName(op, nabla_ref("sym_visibility"));
  return (mlirAttributeIsNull(visibility) ||
          nabla_text_equals(mlirStringAttrGetValue(visibility), "public")) &&
         !mlirBlockIsNull(
             mlirRegionGetFirstBlock(mlirOperationGetRegion(op, 0)));
}

static void put_function(nabla_json_out *out, MlirOperation function,
                         const nabla_grid *shard) {
  MlirType type = function_type(function);
  MlirStringRef name = symbol(function);
  nabla_json_out_object(out);
  nabla_json_out_key(out, "name");
  nabla_json_out_string_n(out, name.data, name.length);
  nabla_json_out_key(out, "arguments");
  nabla_json_out_array(out);
  for (intptr_t i = 0; i < mlirFunctionTypeGetNumInputs(type); i++) {
    char fallback[32];
    const cut pieces = {
        shard, shard
                   ? nabla_layout_of_argument(shard, function, i,
                                              mlirFunctionTypeGetInput(type, i))
                   : nabla_layout_whole(mlirFunctionTypeGetInput(type, i))};
    put_argument(out, nabla_argument_name(function, i, fallback),
                 mlirFunctionTypeGetInput(type, i),
                 nabla_state_name(function, NABLA_ARGUMENTS, i),
                 nabla_donated_is(function, i), &pieces);
  }
  nabla_json_out_array_end(out);
  nabla_json_out_key(out, "results");
  nabla_json_out_array(out);
  for (intptr_t i = 0; i < mlirFunctionTypeGetNumResults(type); i++) {
    MlirType result = mlirFunctionTypeGetResult(type, i);
    cut pieces = {shard, nabla_layout_whole(result)};
    if (shard)
      pieces.layout =
          nabla_layout_of_port(shard, function, NABLA_RESULTS, i, result);
    if (!nabla_state_name(function, NABLA_RESULTS, i).data)
      put_whole_result(out, result, shard ? &pieces : NULL);
  }
  nabla_json_out_array_end(out);
  nabla_json_out_object_end(out);
}

static bool is_function(MlirOperation op) { return nabla_is(op, "func.func"); }

/* Arguments are read only, in every function: bufferization would write into
 * them where it can. */
static void protect_arguments(MlirOperation function) {
  if (mlirBlockIsNull(
          mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0))))
    return;
  nabla_arguments_protect(
      function, 0, mlirFunctionTypeGetNumInputs(function_type(function)));
}

/* Checks a function, and describes it where it is an entry point of `op`. */
static bool describe(MlirOperation op, MlirOperation function,
                     const nabla_grid *grid, nabla_json_out *out) {
  bool good = nabla_manifest_check_function(function) &&
              nabla_state_check(op, function) &&
              nabla_donated_check(op, function);
  protect_arguments(function);
  if (!mlirOperationEqual(mlirOperationGetParentOperation(function), op) ||
      !is_public_function(function))
    return good; /* those of nested modules are theirs */
  MlirType unbound = nothing_binds(function);
  if (!mlirTypeIsNull(unbound)) {
    warn_unbound(function, unbound);
    return good;
  }
  if (!can_enter(function)) {
    nablaEmitWarning(mlirOperationGetLocation(function),
                     "is no entry point: it takes or gives what is neither "
                     "a tensor nor an implicit array");
    return good;
  }
  good = nabla_manifest_check_arguments(function) && good;
  put_function(out, function, grid);
  mlirOperationSetAttributeByName(function, nabla_ref("llvm.emit_c_interface"),
                                  mlirUnitAttrGet(nabla_op_context(op)));
  return good;
}

/* The number of ranks, and their order in the mesh. */
static void write_mesh(const nabla_grid *grid, nabla_json_out *out) {
  const MlirAttribute devices =
      mlirOperationGetAttributeByName(grid->op, nabla_ref("devices"));
  nabla_json_out_key(out, "ranks");
  nabla_json_out_u64(out, (uint64_t)grid->mesh.devices);
  if (mlirAttributeIsNull(devices)) return;
  nabla_json_out_key(out, "devices");
  nabla_json_out_array(out);
  for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(devices); i++)
    nabla_json_out_u64(out, (uint64_t)mlirIntegerAttrGetValueInt(
                                mlirArrayAttrGetElement(devices, i)));
  nabla_json_out_array_end(out);
}

MlirLogicalResult nabla_run_manifest(MlirOperation op,
                                     const nablaPassValue *values,
                                     void *prepared) {
  (void)values, (void)prepared;
  MlirContext context = nabla_op_context(op);
  MlirStringRef key = nabla_ref("nabla.manifest");
  if (!mlirAttributeIsNull(mlirOperationGetAttributeByName(op, key)))
    return mlirLogicalResultSuccess();
  nabla_grid shard;
  size_t meshes = 0;
  if (!nabla_shard_begin(op, &shard, &meshes))
    return mlirLogicalResultFailure();
  nabla_op_list all = nabla_ops_collect(op, is_function);
  nabla_text text = {0};
  nabla_json_out out = {.self = &text, .write = write_text};
  nabla_json_out_object(&out);
  nabla_json_out_key(&out, "abi");
  nabla_json_out_u64(&out, 1);
  nabla_json_out_key(&out, "functions");
  nabla_json_out_array(&out);
  bool good = true;
  for (size_t i = 0; i < all.count; i++)
    good = describe(op, all.ops[i], meshes ? &shard : NULL, &out) && good;
  nabla_json_out_array_end(&out);
  if (meshes) write_mesh(&shard, &out);
  nabla_json_out_object_end(&out);
  for (size_t i = 0; i < all.count; i++) { /* LLVM would warn of them */
    nabla_state_strip(all.ops[i], NABLA_ARGUMENTS, "nabla.name");
    nabla_state_strip(all.ops[i], NABLA_ARGUMENTS, "nabla.dims");
    nabla_state_strip(all.ops[i], NABLA_ARGUMENTS, "nabla.captured");
  }
  good = good && nabla_state_check_shared(&all);
  bool failed = nabla_json_out_finish(&out) || text.failed || all.failed;
  if (!failed)
    mlirOperationSetAttributeByName(
        op, key, mlirStringAttrGet(context, nabla_ref(text.data)));
  nabla_text_deinit(&text);
  nabla_op_list_deinit(&all);
  if (failed) return nabla_error_at(op, "has too many functions to describe");
  return good ? mlirLogicalResultSuccess() : mlirLogicalResultFailure();
}
