/* Runs of a compiled decoder, whose program does not check its inputs:
 * nabla/decoder.h. */
#include <inttypes.h>
#include <string.h>

#include "lib/base/require.h"
#include "lib/runtime/session/session_internal.h"
#include "nabla/decoder.h"

/* The first cache, an argument of `f`, or NULL. */
static const nabla_port *cache_of(const nabla_signature *f) {
  for (size_t i = 0; i < f->argument_count; i++)
    if (!strcmp(f->arguments[i].state_name, "cache.0.k"))
      return &f->arguments[i];
  return NULL;
}

/* Whether `port` is an integer, alone or in a row of `size`. */
static int is_i64(const nabla_port *port, uint32_t rank, int64_t size) {
  return port->dtype == NABLA_DTYPE_I64 && port->rank == rank &&
         (!rank || port->shape[0] == size);
}

/* Whether a function takes tokens, a position and caches, and gives logits. */
static int is_step(const nabla_signature *f, int64_t tokens) {
  return f && f->argument_count > 2 && f->result_count >= 1 &&
         is_i64(&f->arguments[0], 1, tokens) &&
         is_i64(&f->arguments[1], 0, 0) && cache_of(f) &&
         cache_of(f)->rank == 3 && f->results[0].rank == 2 &&
         f->results[0].dtype == NABLA_DTYPE_F32 && f->results[0].shape[1] > 0;
}

static nabla_status refuse(const char *function, nabla_diag *diag) {
  const nabla_status status =
      nabla_fail(diag, NABLA_UNSUPPORTED,
                 "the program has no function '%s' of a decoder", function);
  nabla_diag_set_next(diag, "compile the text that nabla_decoder_write writes");
  return status;
}

nabla_status nabla_decoder_find_limits(const nabla_executable *executable,
                                       nabla_decoder_limits *out,
                                       nabla_diag *diag) {
  NABLA_REQUIRE(executable, diag);
  NABLA_REQUIRE(out, diag);
  const nabla_signature *one = nabla_executable_find(executable, "decode");
  const nabla_signature *many = nabla_executable_find(executable, "prefill");
  if (!is_step(one, 1)) return refuse("decode", diag);
  if (!is_step(many, NABLA_DYNAMIC)) return refuse("prefill", diag);
  *out = (nabla_decoder_limits){
      .vocabulary = (uint64_t)one->results[0].shape[1],
      .context = (uint64_t)cache_of(one)->shape[1],
      .logits = many->results[0].shape[0] == NABLA_DYNAMIC ? NABLA_LOGITS_ALL
                                                           : NABLA_LOGITS_LAST};
  return NABLA_OK;
}

nabla_status nabla_decoder_check_tokenizer(const nabla_executable *executable,
                                           const nabla_tokenizer *tokenizer,
                                           nabla_diag *diag) {
  nabla_decoder_limits limits;
  NABLA_REQUIRE(executable, diag);
  NABLA_REQUIRE(tokenizer, diag);
  NABLA_TRY(nabla_decoder_find_limits(executable, &limits, diag));
  const uint32_t size = nabla_tokenizer_size(tokenizer);
  if (size <= limits.vocabulary) return NABLA_OK;
  const nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                 "the tokenizer has %" PRIu32 " tokens, the model %" PRIu64,
                 size, limits.vocabulary);
  nabla_diag_set_next(diag, "open the tokenizer that came with this model");
  return status;
}

/* Tokens of the vocabulary, which the caches have room for. */
static nabla_status check_tokens(const nabla_decoder_limits *limits,
                                 const int64_t *ids, size_t count,
                                 uint64_t position, nabla_diag *diag) {
  if (!count)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "there is no token to feed");
  for (size_t i = 0; i < count; i++)
    if (ids[i] < 0 || (uint64_t)ids[i] >= limits->vocabulary)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "token %" PRId64 " is none of the model's %" PRIu64,
                        ids[i], limits->vocabulary);
  if (position <= limits->context && count <= limits->context - position)
    return NABLA_OK;
  const nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                         "%zu tokens behind %" PRIu64
                                         " do not fit into a cache of %" PRIu64,
                                         count, position, limits->context);
  nabla_diag_set_next(diag,
                      "feed fewer tokens, or write the program for a larger "
                      "context");
  return status;
}

nabla_status nabla_decoder_run(nabla_session *session, const int64_t *ids,
                               size_t count, uint64_t position, float *logits,
                               size_t logit_count, nabla_diag *diag) {
  nabla_decoder_limits limits;
  NABLA_REQUIRE(session, diag);
  NABLA_REQUIRE(ids, diag);
  NABLA_REQUIRE(logits, diag);
  NABLA_TRY(nabla_decoder_find_limits(session->executable, &limits, diag));
  NABLA_TRY(check_tokens(&limits, ids, count, position, diag));
  const size_t rows = limits.logits == NABLA_LOGITS_ALL ? count : 1;
  if (logit_count / limits.vocabulary < rows)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "room for %zu logits, and %zu rows of %" PRIu64
                      " are to be written",
                      logit_count, rows, limits.vocabulary);
  int64_t at = (int64_t)position;
  const nabla_dense inputs[] = {{.data = (void *)(uintptr_t)ids,
                                 .dtype = NABLA_DTYPE_I64,
                                 .rank = 1,
                                 .shape = {(int64_t)count}},
                                {.data = &at, .dtype = NABLA_DTYPE_I64}};
  nabla_dense output = {.data = logits,
                        .dtype = NABLA_DTYPE_F32,
                        .rank = 2,
                        .shape = {(int64_t)rows, (int64_t)limits.vocabulary}};
  return nabla_session_run(session, count == 1 ? "decode" : "prefill", inputs,
                           2, &output, 1, diag);
}

/* The folder of a path, in `out` of `room` bytes. */
static nabla_status folder_of(const char *path, char *out, size_t room,
                              nabla_diag *diag) {
  const char *slash = strrchr(path, '/');
  if (!slash) path = ".", slash = path + 1;
  if (slash == path) slash++; /* the root */
  const size_t length = (size_t)(slash - path);
  if (length >= room)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "the path of the model has more than %zu bytes", room);
  memcpy(out, path, length);
  out[length] = '\0';
  return NABLA_OK;
}

nabla_status nabla_decoder_open_tokenizer(const nabla_executable *executable,
                                          const nabla_model *model,
                                          const char *path,
                                          const nabla_environment *environment,
                                          nabla_tokenizer **out,
                                          nabla_diag *diag) {
  char folder[4096];
  nabla_tokenizer *made = NULL;
  NABLA_REQUIRE(executable, diag);
  NABLA_REQUIRE(model, diag);
  NABLA_REQUIRE(out, diag);
  if (!path) {
    const nabla_tensor_file *file =
        nabla_checkpoint_borrow_shard(nabla_model_borrow_checkpoint(model), 0);
    NABLA_TRY(folder_of(nabla_tensor_file_borrow_path(file), folder,
                        sizeof folder, diag));
    path = folder;
  }
  NABLA_TRY(nabla_tokenizer_open(path, environment, &made, diag));
  const nabla_status status =
      nabla_decoder_check_tokenizer(executable, made, diag);
  if (status) {
    nabla_tokenizer_close(made);
    nabla_diag_set_file(diag, path);
    return status;
  }
  *out = made;
  return NABLA_OK;
}
