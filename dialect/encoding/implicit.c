/* Implicit types: the rules for shapes and views, components, views of views.
 * Everything else about encodings is in encoding.c. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "dialect/encoding/custom_encoding.h"
#include "dialect/encoding/encoding.h"
#include "lib/base/checked.h"

static bool complain(char message[NABLA_MESSAGE_SIZE], const char *what) {
  snprintf(message, NABLA_MESSAGE_SIZE, "%s", what);
  return false;
}

/* Multiplies dimensions; returns false if one is dynamic or the product needs
 * more than 62 bits. */
static bool product(intptr_t rank, const int64_t *shape, uint64_t *out) {
  uint64_t all = 1;
  bool empty = false;
  for (intptr_t i = 0; i < rank; i++) {
    if (shape[i] < 0) return false;
    if (shape[i] == 0) empty = true;
    if (shape[i] != 0 && __builtin_mul_overflow(all, (uint64_t)shape[i], &all))
      return false;
    if (all >> 62) return false;
  }
  *out = empty ? 0 : all;
  return true;
}

/* Checks that every index of the view lies inside the storage. */
static bool check_view(const nablaImplicit *p, uint64_t stored,
                       char message[NABLA_MESSAGE_SIZE]) {
  if (p->offset < 0) return complain(message, "offset of a view is negative");
  uint64_t last = (uint64_t)p->offset;
  for (intptr_t i = 0; i < p->rank; i++) {
    if (p->strides[i] < 0)
      return complain(message, "strides of a view are not negative");
    if (p->shape[i] == 0) return true; /* no index */
    uint64_t span;
    if (__builtin_mul_overflow((uint64_t)p->shape[i] - 1,
                               (uint64_t)p->strides[i], &span) ||
        __builtin_add_overflow(last, span, &last))
      return complain(message, "strides of a view overflow");
  }
  if (last < stored) return true;
  snprintf(message, NABLA_MESSAGE_SIZE,
           "the view reaches element %llu of a storage of %llu elements",
           (unsigned long long)last, (unsigned long long)stored);
  return false;
}

/* Checks a lora: it changes a matrix that its base can store, by factors that
 * can be stored. */
static bool check_lora(const nabla_encoding_info *info, intptr_t rank,
                       const int64_t *storage,
                       char message[NABLA_MESSAGE_SIZE]) {
  if (rank != 2) {
    snprintf(message, NABLA_MESSAGE_SIZE,
             "#nabla.lora needs a storage of rank 2, rows and columns, not of "
             "rank %d",
             (int)rank);
    return false;
  }
  for (int i = 0; i < 2; i++)
    if (storage[i] > ((int64_t)1 << 62) / info->rank)
      return complain(message,
                      "the factors of #nabla.lora have less than 2^62 "
                      "elements");
  return true;
}

/* Checks that the storage is a whole number of blocks. */
static bool check_ggml(const nabla_ggml *format, uint64_t stored,
                       char message[NABLA_MESSAGE_SIZE]) {
  uint64_t bytes;
  if (!nabla_ggml_size(format, stored, &bytes, NULL)) return true;
  snprintf(message, NABLA_MESSAGE_SIZE,
           "#nabla.ggml<%s> has blocks of %u elements: a storage of %llu "
           "elements is no whole number of them, one of %llu is",
           format->name, format->elements, (unsigned long long)stored,
           (unsigned long long)(stored - stored % format->elements +
                                format->elements));
  return false;
}

static bool check_stored(const nablaImplicit *p,
                         char message[NABLA_MESSAGE_SIZE]) {
  nabla_encoding_info info = nabla_encoding_read(p->encoding);
  intptr_t rank = p->storageRank >= 0 ? p->storageRank : p->rank;
  const int64_t *storage = p->storageRank >= 0 ? p->storage : p->shape;
  uint64_t stored;
  if (!product(rank, storage, &stored))
    return complain(message,
                    "the storage of an implicit array has static dimensions "
                    "and less than 2^62 elements");
  if (info.granularity == NABLA_PER_ROW && rank < 2) {
    snprintf(message, NABLA_MESSAGE_SIZE,
             "#nabla.%s with blocks = leading needs a storage of rank 2 or "
             "more; rank %d is legal with block = 64",
             info.row->name, (int)rank);
    return false;
  }
  nabla_encoding_info at = info;
  for (; at.kind == NABLA_KIND_LORA; at = nabla_encoding_read(at.base))
    if (!check_lora(&at, rank, storage, message)) return false;
  if (at.kind == NABLA_KIND_GGML && !check_ggml(at.ggml, stored, message))
    return false;
  if (info.kind == NABLA_KIND_CUSTOM &&
      !nabla_custom_check_storage(p->encoding, rank, storage, message))
    return false;
  return p->storageRank < 0 || check_view(p, stored, message);
}

/* Decodes the stored view; returns false if it is malformed. */
static bool read_stored(const nablaImplicitType *stored, nablaImplicit *out,
                        char message[NABLA_MESSAGE_SIZE]) {
  *out = (nablaImplicit){.rank = stored->rank,
                         .elementType = stored->elementType,
                         .encoding = stored->encoding,
                         .storageRank = -1};
  intptr_t storage = stored->viewSize ? (intptr_t)stored->view[0] : 0;
  if (stored->rank > NABLA_MAX_RANK || storage > NABLA_MAX_RANK)
    return complain(message, "an implicit array has at most 16 dimensions");
  for (intptr_t i = 0; i < stored->rank; i++) out->shape[i] = stored->shape[i];
  if (!stored->viewSize) return true;
  if (storage < 1)
    return complain(message, "a view names its storage shape: view<4x8, ...>");
  intptr_t strides = stored->viewSize - storage - 2;
  if (strides != stored->rank) {
    snprintf(message, NABLA_MESSAGE_SIZE,
             "a view of rank %d has a stride for each dimension, not %d",
             (int)stored->rank, (int)strides);
    return false;
  }
  out->storageRank = storage;
  for (intptr_t i = 0; i < storage; i++) out->storage[i] = stored->view[1 + i];
  for (intptr_t i = 0; i < strides; i++)
    out->strides[i] = stored->view[1 + storage + i];
  out->offset = stored->view[stored->viewSize - 1];
  return true;
}

static bool check(const nablaImplicit *p, char message[NABLA_MESSAGE_SIZE]) {
  uint64_t elements;
  if (!mlirTypeIsAF32(p->elementType) && !mlirTypeIsAF16(p->elementType) &&
      !mlirTypeIsABF16(p->elementType))
    return complain(message,
                    "elements of an implicit array are f32, f16 or bf16");
  if (!nablaAttributeIsAEncoding(p->encoding))
    return complain(message, "expected an encoding, as #nabla.nf4<block = 64>");
  if (!product(p->rank, p->shape, &elements))
    return complain(message,
                    "dimensions of an implicit array are static, with less "
                    "than 2^62 elements");
  nabla_encoding_kind kind = nabla_encoding_read(p->encoding).kind;
  if (nabla_encoding_is_stored(kind)) return check_stored(p, message);
  if (p->storageRank >= 0)
    return complain(message, kind == NABLA_KIND_SPLAT
                                 ? "#nabla.splat has no storage to view"
                                 : "#nabla.identity has no storage to view");
  if (kind == NABLA_KIND_IDENTITY && p->rank != 2)
    return complain(message, "#nabla.identity is a matrix, of rank 2");
  return true;
}

bool nablaHookImplicitVerify(const nablaImplicitType *stored,
                             char message[NABLA_MESSAGE_SIZE]) {
  nablaImplicit parts;
  return read_stored(stored, &parts, message) && check(&parts, message);
}

static void row_major(intptr_t rank, const int64_t *shape, int64_t *strides) {
  int64_t stride = 1;
  for (intptr_t i = rank; i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i] > 0 ? shape[i] : 1;
  }
}

/* Makes a view canonical: strides of dimensions of size 1, and of empty arrays,
 * are 0, and a view that equals the storage becomes the identity. */
static void canonicalize(nablaImplicit *p) {
  if (p->storageRank < 0) return;
  bool empty = false;
  for (intptr_t i = 0; i < p->rank; i++) empty |= p->shape[i] == 0;
  int64_t identity[NABLA_MAX_RANK];
  row_major(p->rank, p->shape, identity);
  bool same = p->storageRank == p->rank && (p->offset == 0 || empty);
  for (intptr_t i = 0; i < p->rank; i++) {
    if (empty || p->shape[i] == 1) p->strides[i] = identity[i] = 0;
    same = same && p->strides[i] == identity[i] && p->shape[i] == p->storage[i];
  }
  if (empty) p->offset = 0;
  if (same) p->storageRank = -1, p->offset = 0;
}

static MlirType type_of(MlirContext context, const nablaImplicit *parts) {
  nablaImplicit p = *parts;
  int64_t view[2 * NABLA_MAX_RANK + 2];
  nablaImplicitType stored = {p.rank,        0,         p.shape, view,
                              p.elementType, p.encoding};
  canonicalize(&p);
  if (p.storageRank >= 0) {
    view[stored.viewSize++] = p.storageRank;
    for (intptr_t i = 0; i < p.storageRank; i++)
      view[stored.viewSize++] = p.storage[i];
    for (intptr_t i = 0; i < p.rank; i++)
      view[stored.viewSize++] = p.strides[i];
    view[stored.viewSize++] = p.offset;
  }
  return nablaImplicitTypeGet(context, &stored);
}

nablaImplicit nablaImplicitTypeParts(MlirType type) {
  nablaImplicitType stored = nablaImplicitTypeStored(type);
  nablaImplicit parts;
  char message[NABLA_MESSAGE_SIZE];
  (void)read_stored(&stored, &parts, message); /* verified before */
  return parts;
}

MlirType nablaHookImplicitCanonical(MlirContext context,
                                    const nablaImplicitType *stored) {
  nablaImplicit parts;
  char message[NABLA_MESSAGE_SIZE];
  (void)read_stored(stored, &parts, message);
  return type_of(context, &parts);
}

uint64_t nabla_implicit_storage_elements(MlirType type) {
  nablaImplicit p = nablaImplicitTypeParts(type);
  uint64_t stored = 0;
  if (p.storageRank >= 0)
    (void)product(p.storageRank, p.storage, &stored);
  else
    (void)product(p.rank, p.shape, &stored);
  return stored;
}

nabla_strided nabla_implicit_strided(MlirType type) {
  nablaImplicit p = nablaImplicitTypeParts(type);
  nabla_strided out = {p.rank, {0}, {0}, p.offset};
  memcpy(out.shape, p.shape, sizeof out.shape);
  if (p.storageRank >= 0)
    memcpy(out.strides, p.strides, sizeof out.strides);
  else
    row_major(p.rank, p.shape, out.strides);
  return out;
}

MlirType nabla_implicit_with_view(MlirType type, const nabla_strided *view) {
  nablaImplicit p = nablaImplicitTypeParts(type);
  if (nabla_encoding_is_stored(nabla_encoding_read(p.encoding).kind)) {
    if (p.storageRank < 0) {
      p.storageRank = p.rank;
      memcpy(p.storage, p.shape, sizeof p.storage);
    }
    memcpy(p.strides, view->strides, sizeof p.strides);
    p.offset = view->offset;
  }
  p.rank = view->rank;
  memcpy(p.shape, view->shape, sizeof p.shape);
  return type_of(mlirTypeGetContext(type), &p);
}

bool nabla_implicit_has_views(MlirType type) {
  return nabla_implicit_encoding(type).kind != NABLA_KIND_IDENTITY;
}

MlirType nabla_implicit_with_encoding(MlirType type, MlirAttribute encoding) {
  nablaImplicit p = nablaImplicitTypeParts(type);
  p.encoding = encoding;
  return type_of(mlirTypeGetContext(type), &p);
}

/* Groups dimensions that are contiguous with each other, then divides each
 * group as the new shape requires, like numpy's attempt_nocopy_reshape. */
bool nabla_implicit_reshape(MlirType type, intptr_t rank, const int64_t *shape,
                            nabla_strided *out) {
  nabla_strided from = nabla_implicit_strided(type);
  *out = (nabla_strided){rank, {0}, {0}, from.offset};
  if (!nabla_implicit_has_views(type)) return false;
  memcpy(out->shape, shape, (size_t)rank * sizeof *shape);
  for (intptr_t i = 0; i < rank; i++)
    if (shape[i] == 0) return true;
  intptr_t i = 0, o = 0;
  while (i < from.rank || o < rank) {
    intptr_t i0 = i, o0 = o;
    int64_t a = i < from.rank ? from.shape[i++] : 1;
    int64_t b = o < rank ? shape[o++] : 1;
    while (a != b) {
      if (a < b)
        a *= i < from.rank ? from.shape[i++] : 1;
      else
        b *= o < rank ? shape[o++] : 1;
      if (i >= from.rank && o >= rank && a != b) return false;
    }
    while (i < from.rank && from.shape[i] == 1) i++;
    while (o < rank && shape[o] == 1) o++;
    int64_t inner = 0, expected = -1;
    for (intptr_t d = i; d-- > i0;) {
      if (from.shape[d] == 1) continue;
      if (expected < 0)
        inner = from.strides[d];
      else if (from.strides[d] != expected)
        return false;
      expected = from.strides[d] * from.shape[d];
    }
    for (intptr_t d = o; d-- > o0;) {
      out->strides[d] = shape[d] == 1 ? 0 : inner;
      inner *= shape[d];
    }
  }
  return true;
}

MlirType nabla_dense_type(MlirType type) {
  if (!nablaTypeIsAImplicit(type)) return type;
  nablaImplicit p = nablaImplicitTypeParts(type);
  return mlirRankedTensorTypeGet(p.rank, p.shape, p.elementType,
                                 mlirAttributeGetNull());
}

intptr_t nabla_array_rank(MlirType type) {
  if (nablaTypeIsAImplicit(type)) return nablaImplicitTypeParts(type).rank;
  return (intptr_t)mlirShapedTypeGetRank(type);
}

int64_t nabla_array_dim(MlirType type, intptr_t index) {
  if (nablaTypeIsAImplicit(type))
    return nablaImplicitTypeParts(type).shape[index];
  return mlirShapedTypeGetDimSize(type, index);
}

MlirType nabla_array_element(MlirType type) {
  if (nablaTypeIsAImplicit(type))
    return nablaImplicitTypeParts(type).elementType;
  return mlirShapedTypeGetElementType(type);
}

bool nabla_is_dynamic(int64_t dim) {
  return dim == mlirShapedTypeGetDynamicSize();
}
