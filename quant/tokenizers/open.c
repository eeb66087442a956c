/* Opening tokenizers, and what an open one tells of its pieces. */
#include <stdio.h>
#include <string.h>

#include "lib/base/file/file.h"
#include "lib/base/require.h"
#include "quant/tokenizers/tokenizer_internal.h"

typedef struct kind {
  const char *file, *suffix;
  const nabla_tokenizer_calls *calls;
} kind;

#define TOKENIZER(id, file, suffix, what) \
  {file, suffix, &nabla_##id##_tokenizer},
static const kind kinds[] = {
#include "quant/tokenizers/tokenizers.def"
};
#undef TOKENIZER
#define KINDS (sizeof kinds / sizeof *kinds)

#define TOKENIZER(id, file, suffix, what) " " file
static const char folder_files[] =
#include "quant/tokenizers/tokenizers.def"
    ;
#undef TOKENIZER

#define TOKENIZER(id, file, suffix, what) " *" suffix " (" what ")"
static const char known_suffixes[] =
#include "quant/tokenizers/tokenizers.def"
    ;
#undef TOKENIZER

enum { MAX_PATH = 4096 };

nabla_status nabla_tokenizer_read(const nabla_allocator *allocator,
                                  const nabla_tokenizer_calls *calls,
                                  const uint8_t *data, size_t size,
                                  nabla_tokenizer **out, nabla_diag *diag) {
  void *memory;
  NABLA_TRY(nabla_alloc(allocator, 1, sizeof(nabla_tokenizer), &memory, diag));
  nabla_tokenizer *tokenizer = memory;
  *tokenizer = (nabla_tokenizer){
      .allocator = allocator,
      .calls = calls,
      .roles = {NABLA_TOKEN_NONE, NABLA_TOKEN_NONE, NABLA_TOKEN_NONE}};
  nabla_vocabulary_init(&tokenizer->vocabulary, allocator);
  const nabla_status status = calls->read(tokenizer, data, size, diag);
  if (status)
    nabla_tokenizer_close(tokenizer);
  else
    *out = tokenizer;
  return status;
}

static nabla_status load(const nabla_file *file, const kind *of,
                         const nabla_allocator *allocator,
                         nabla_tokenizer **out, nabla_diag *diag) {
  nabla_buffer data;
  nabla_buffer_init(&data, allocator, "a tokenizer's file",
                    NABLA_TOKENIZER_MAX_FILE);
  nabla_status status =
      nabla_file_read_all(file, NABLA_TOKENIZER_MAX_FILE, &data, diag);
  if (!status)
    status = nabla_tokenizer_read(allocator, of->calls, data.data, data.size,
                                  out, diag);
  nabla_buffer_deinit(&data);
  return status;
}

static nabla_status open_file(const char *path, const kind *of,
                              const nabla_environment *environment,
                              nabla_tokenizer **out, nabla_diag *diag) {
  nabla_file *file;
  NABLA_TRY(nabla_file_open(environment->os, environment->allocator, path,
                            &file, diag));
  const nabla_status status = load(file, of, environment->allocator, out, diag);
  nabla_file_close(file);
  if (status) nabla_diag_set_file(diag, path);
  return status;
}

static const kind *kind_of_name(const char *path) {
  const size_t length = strlen(path);
  for (size_t i = 0; i < KINDS; i++) {
    const size_t size = strlen(kinds[i].suffix);
    if (length > size && !strcmp(path + length - size, kinds[i].suffix))
      return &kinds[i];
  }
  return NULL;
}

static nabla_status refuse(const char *path, const char *what,
                           const char *known, nabla_diag *diag) {
  const nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT, "%s", what);
  nabla_diag_set_file(diag, path);
  nabla_diag_set_next(diag, "known are:%s", known);
  return status;
}

static nabla_status open_folder(const char *path, const nabla_os *os,
                                const nabla_environment *environment,
                                nabla_tokenizer **out, nabla_diag *diag) {
  char file[MAX_PATH];
  nabla_os_info info;
  for (size_t i = 0; i < KINDS; i++) {
    const int length =
        snprintf(file, sizeof file, "%s/%s", path, kinds[i].file);
    if (length < 0 || (size_t)length >= sizeof file)
      return nabla_fail(diag, NABLA_TOO_LARGE, "a path of %d bytes", length);
    if (os->path_info(os->self, file, 1, &info) >= 0)
      return open_file(file, &kinds[i], environment, out, diag);
  }
  return refuse(path, "the folder has no tokenizer", folder_files, diag);
}

nabla_status nabla_tokenizer_open(const char *path,
                                  const nabla_environment *environment,
                                  nabla_tokenizer **out, nabla_diag *diag) {
  static const nabla_environment defaults;
  nabla_os_info info;
  NABLA_REQUIRE(path, diag);
  NABLA_REQUIRE(out, diag);
  if (!environment) environment = &defaults;
  const nabla_os *os = environment->os ? environment->os : nabla_os_default();
  if (os->path_info(os->self, path, 1, &info) >= 0 && info.is_folder)
    return open_folder(path, os, environment, out, diag);
  const kind *of = kind_of_name(path);
  if (!of)
    return refuse(path, "its name is not that of a tokenizer", known_suffixes,
                  diag);
  return open_file(path, of, environment, out, diag);
}

void nabla_tokenizer_close(nabla_tokenizer *tokenizer) {
  if (!tokenizer) return;
  if (tokenizer->calls->deinit) tokenizer->calls->deinit(tokenizer);
  nabla_vocabulary_deinit(&tokenizer->vocabulary);
  nabla_free(tokenizer->allocator, tokenizer, 1, sizeof *tokenizer);
}

uint32_t nabla_tokenizer_size(const nabla_tokenizer *tokenizer) {
  return nabla_vocabulary_size(&tokenizer->vocabulary);
}

uint32_t nabla_tokenizer_id(const nabla_tokenizer *tokenizer, const char *piece,
                            size_t length) {
  return nabla_vocabulary_find(&tokenizer->vocabulary, piece, length);
}

const char *nabla_tokenizer_piece(const nabla_tokenizer *tokenizer, uint32_t id,
                                  size_t *out_length) {
  const nabla_vocabulary *vocabulary = &tokenizer->vocabulary;
  const nabla_piece *piece = id < nabla_vocabulary_size(vocabulary)
                                 ? nabla_vocabulary_at(vocabulary, id)
                                 : NULL;
  if (piece && piece->kind == NABLA_PIECE_ABSENT) piece = NULL;
  if (out_length) *out_length = piece ? piece->length : 0;
  return piece ? (const char *)vocabulary->bytes.data + piece->at : NULL;
}

int nabla_tokenizer_is_special(const nabla_tokenizer *tokenizer, uint32_t id) {
  const nabla_vocabulary *vocabulary = &tokenizer->vocabulary;
  return id < nabla_vocabulary_size(vocabulary) &&
         nabla_vocabulary_at(vocabulary, id)->is_special;
}

nabla_token_roles nabla_tokenizer_roles(const nabla_tokenizer *tokenizer) {
  return tokenizer->roles;
}
