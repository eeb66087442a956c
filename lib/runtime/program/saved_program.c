/* See saved_program.h: writing, reading and judging records. */
#include "lib/runtime/program/saved_program.h"

#include <inttypes.h>
#include <string.h>

#include "lib/base/bytes.h"
#include "lib/base/checked.h"
#include "nabla/services.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Where numbers stand, from the end of the text. */
enum {
  AT_CODE_SIZE = 0,
  AT_TEXT_SIZE = 8,
  AT_ZERO = 12,
  AT_ABI = 16,
  AT_VERSION = 20,
  AT_MAGIC = 24,
  AT_HASH = AT_MAGIC + NABLA_SAVED_MAGIC_SIZE,
};
_Static_assert(AT_HASH + NABLA_SAVED_HASH_SIZE == NABLA_SAVED_FIXED, "layout");

#define PIECE ((size_t)1 << 20) /* bytes that are hashed at a time */

/* ---- writing ------------------------------------------------------------ */

static nabla_status append_text(nabla_buffer *file, const char *triple,
                                const nabla_x86_features *features,
                                nabla_diag *diag) {
  NABLA_TRY(nabla_buffer_append(file, triple, strlen(triple) + 1, diag));
  const char *separator = "";
  for (size_t i = 0; i < NABLA_X86_FEATURE_COUNT; i++) {
    if (!features->has[i]) continue;
    const char *name = nabla_x86_feature_name(i);
    NABLA_TRY(nabla_buffer_append(file, separator, strlen(separator), diag));
    NABLA_TRY(nabla_buffer_append(file, name, strlen(name), diag));
    separator = ",";
  }
  return nabla_buffer_append(file, "", 1, diag);
}

nabla_status nabla_saved_append(nabla_buffer *file, const char *triple,
                                const nabla_x86_features *features,
                                nabla_diag *diag) {
  const size_t code_size = file->size;
  uint8_t fixed[AT_HASH] = {0};
  NABLA_TRY(append_text(file, triple, features, diag));
  const size_t text_size = file->size - code_size;
  if (text_size > NABLA_SAVED_TEXT_MAX ||
      file->size > NABLA_SAVED_MAX - NABLA_SAVED_FIXED)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "the program has more than %u bytes of code",
                      NABLA_SAVED_MAX);
  nabla_store_le64(fixed + AT_CODE_SIZE, code_size);
  nabla_store_le32(fixed + AT_TEXT_SIZE, (uint32_t)text_size);
  nabla_store_le32(fixed + AT_ABI, NABLA_SERVICES_VERSION);
  nabla_store_le32(fixed + AT_VERSION, NABLA_SAVED_VERSION);
  memcpy(fixed + AT_MAGIC, NABLA_SAVED_MAGIC, NABLA_SAVED_MAGIC_SIZE);
  NABLA_TRY(nabla_buffer_append(file, fixed, sizeof fixed, diag));
  XXH128_canonical_t hash;
  XXH128_canonicalFromHash(&hash, XXH3_128bits(file->data, file->size));
  return nabla_buffer_append(file, hash.digest, sizeof hash.digest, diag);
}

/* ---- reading ------------------------------------------------------------ */

/* `tail` ends with the magic and the hash. */
static nabla_status check_magic(const uint8_t *tail, size_t size,
                                nabla_diag *diag) {
  if (size >= NABLA_SAVED_FIXED &&
      !memcmp(tail + size - NABLA_SAVED_FIXED + AT_MAGIC, NABLA_SAVED_MAGIC,
              NABLA_SAVED_MAGIC_SIZE))
    return NABLA_OK;
  const nabla_status status = nabla_fail(
      diag, NABLA_CORRUPT, "this is no saved program, or its end is missing");
  nabla_diag_set_next(diag,
                      "make one: nabla-compile PROGRAM.mlir -o PROGRAM.so");
  return status;
}

static nabla_status fail_damaged(nabla_diag *diag) {
  const nabla_status status =
      nabla_fail(diag, NABLA_CORRUPT, "the saved program is damaged");
  nabla_diag_set_next(diag, "copy it again, or compile the program again");
  return status;
}

nabla_status nabla_saved_parse(const uint8_t *tail, size_t tail_size,
                               uint64_t file_size, nabla_saved_record *out,
                               nabla_diag *diag) {
  NABLA_TRY(check_magic(tail, tail_size, diag));
  const uint8_t *fixed = tail + tail_size - NABLA_SAVED_FIXED;
  const uint32_t version = nabla_load_le32(fixed + AT_VERSION);
  if (version != NABLA_SAVED_VERSION) {
    const nabla_status status =
        nabla_fail(diag, NABLA_UNSUPPORTED,
                   "the saved program has version %" PRIu32
                   " of its record; this build "
                   "reads %u",
                   version, NABLA_SAVED_VERSION);
    nabla_diag_set_next(diag, "compile the program again");
    return status;
  }
  const uint64_t code_size = nabla_load_le64(fixed + AT_CODE_SIZE);
  const uint32_t text_size = nabla_load_le32(fixed + AT_TEXT_SIZE);
  uint64_t total;
  if (text_size > NABLA_SAVED_TEXT_MAX ||
      text_size > tail_size - NABLA_SAVED_FIXED ||
      nabla_load_le32(fixed + AT_ZERO) != 0 ||
      !nabla_add_u64(code_size, (uint64_t)text_size + NABLA_SAVED_FIXED,
                     &total) ||
      total != file_size)
    return fail_damaged(diag);
  const char *text = (const char *)fixed - text_size;
  const char *end = memchr(text, 0, text_size);
  if (!end || memchr(end + 1, 0, text_size - (size_t)(end + 1 - text)) !=
                  text + text_size - 1)
    return fail_damaged(diag);
  *out = (nabla_saved_record){.triple = text,
                              .features = end + 1,
                              .code_size = code_size,
                              .abi = nabla_load_le32(fixed + AT_ABI)};
  return NABLA_OK;
}

/* ---- judging ------------------------------------------------------------ */

#if defined(__x86_64__)
#define MACHINE "x86_64"
#elif defined(__aarch64__)
#define MACHINE "aarch64"
#else
#define MACHINE "unknown"
#endif

/* "x86_64-pc-linux-gnu": the machine in front, the system somewhere. */
static nabla_status check_machine(const char *triple, nabla_diag *diag) {
  const size_t length = strcspn(triple, "-");
  if (length == strlen(MACHINE) && !memcmp(triple, MACHINE, length) &&
      strstr(triple, "-linux"))
    return NABLA_OK;
  const nabla_status status = nabla_fail(
      diag, NABLA_UNSUPPORTED,
      "the saved program is for %.60s; this is " MACHINE "-linux", triple);
  nabla_diag_set_next(diag, "compile it for this machine");
  return status;
}

static nabla_status check_feature(const char *name, size_t length,
                                  const nabla_x86_features *cpu,
                                  nabla_diag *diag) {
  const size_t feature = nabla_x86_feature_find(name, length);
  const int has = feature < NABLA_X86_FEATURE_COUNT && cpu->has[feature];
  if (has &&
      (!nabla_x86_feature_uses_tiles(feature) || nabla_x86_tiles_allowed()))
    return NABLA_OK;
  const nabla_status status = nabla_fail(
      diag, NABLA_UNSUPPORTED, "the saved program needs %.*s, which %s",
      (int)(length < 40 ? length : 40), name,
      has                                 ? "the system does not permit here"
      : feature < NABLA_X86_FEATURE_COUNT ? "this CPU lacks"
                                          : "this build does not know");
  nabla_diag_set_next(diag,
                      "compile it with --target x86-64-v3, or another that "
                      "this CPU can do");
  return status;
}

nabla_status nabla_saved_check(const nabla_saved_record *record,
                               const nabla_x86_features *cpu,
                               nabla_diag *diag) {
  if (record->abi != NABLA_SERVICES_VERSION) {
    const nabla_status status =
        nabla_fail(diag, NABLA_UNSUPPORTED,
                   "the saved program was compiled for version %" PRIu32
                   " of the services; this build has %u",
                   record->abi, NABLA_SERVICES_VERSION);
    nabla_diag_set_next(diag, "compile the program again");
    return status;
  }
  NABLA_TRY(check_machine(record->triple, diag));
  for (const char *at = record->features; *at;) {
    const size_t length = strcspn(at, ",");
    NABLA_TRY(check_feature(at, length, cpu, diag));
    at += length + (at[length] == ',');
  }
  return NABLA_OK;
}

/* ---- a file ------------------------------------------------------------- */

/* Hashes all but the hash. */
static nabla_status hash_file(const nabla_file *file, uint8_t *room,
                              XXH3_state_t *state, nabla_diag *diag) {
  const uint64_t size = nabla_file_size(file) - NABLA_SAVED_HASH_SIZE;
  for (uint64_t at = 0; at < size;) {
    const size_t part = size - at < PIECE ? (size_t)(size - at) : PIECE;
    NABLA_TRY(nabla_file_read(file, at, room, part, diag));
    (void)XXH3_128bits_update(state, room, part);
    at += part;
  }
  return NABLA_OK;
}

static nabla_status verify(const nabla_file *file,
                           const nabla_x86_features *cpu, uint8_t *room,
                           nabla_diag *diag) {
  const uint64_t size = nabla_file_size(file);
  const size_t tail =
      size < NABLA_SAVED_TAIL ? (size_t)size : (size_t)NABLA_SAVED_TAIL;
  NABLA_TRY(nabla_file_read(file, size - tail, room, tail, diag));
  NABLA_TRY(check_magic(room, tail, diag));
  uint8_t given[NABLA_SAVED_HASH_SIZE];
  memcpy(given, room + tail - sizeof given, sizeof given);
  XXH3_state_t state;
  (void)XXH3_128bits_reset(&state);
  NABLA_TRY(hash_file(file, room, &state, diag));
  XXH128_canonical_t found;
  XXH128_canonicalFromHash(&found, XXH3_128bits_digest(&state));
  if (memcmp(given, found.digest, sizeof given) != 0) return fail_damaged(diag);
  nabla_saved_record record;
  NABLA_TRY(nabla_file_read(file, size - tail, room, tail, diag));
  NABLA_TRY(nabla_saved_parse(room, tail, size, &record, diag));
  return nabla_saved_check(&record, cpu, diag);
}

nabla_status nabla_saved_verify(const nabla_file *file,
                                const nabla_x86_features *cpu,
                                nabla_diag *diag) {
  void *room = NULL;
  if (nabla_file_size(file) > NABLA_SAVED_MAX)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "the file has %" PRIu64
                      " bytes, a saved program at most "
                      "%u",
                      nabla_file_size(file), NABLA_SAVED_MAX);
  NABLA_TRY(nabla_alloc_raw(NULL, PIECE, 1, &room, diag));
  nabla_status status = verify(file, cpu, room, diag);
  if (!status) status = nabla_file_check_unchanged(file, diag);
  nabla_free(NULL, room, PIECE, 1);
  if (status) nabla_diag_set_file(diag, nabla_file_borrow_path(file));
  return status;
}
