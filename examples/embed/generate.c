/* The smallest engine: compiles the decoder of a model and continues a text,
 * always with the likeliest token.
 *
 *   generate MODEL PROMPT [TOKENS]
 *
 * MODEL is a folder with config.json (of a Llama), safetensors and a tokenizer;
 * its weights may be dense, or packed by nabla-quant.
 *
 *   cc generate.c $(pkg-config --cflags --libs nabla) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/compiler.h"
#include "nabla/decoder.h"
#include "nabla/tokenizer.h"

typedef struct engine {
  nabla_model *model;           /* outlives the executable                  */
  nabla_tokenizer *tokenizer;   /* any number of texts                      */
  nabla_compiler *compiler;     /* not needed once the program is compiled  */
  nabla_executable *executable; /* any number of sessions                   */
  nabla_session *session;       /* one text: its cache                      */
  nabla_decoder_limits limits;
  float *logits;
} engine;

static nabla_status open_engine(engine *e, const char *folder,
                                nabla_diag *diag) {
  nabla_blob text = {0};
  const nabla_sink sink = nabla_blob_sink(&text);
  NABLA_TRY(nabla_model_open(folder, NULL, &e->model, diag));
  NABLA_TRY(nabla_tokenizer_open(folder, NULL, &e->tokenizer, diag));
  NABLA_TRY(nabla_compiler_create(NULL, NULL, &e->compiler, diag));
  nabla_status status =
      nabla_decoder_write(e->model, NULL, NULL, &sink, NULL, diag);
  if (!status)
    status = nabla_compile_text(e->compiler, text.bytes, text.size, "decoder",
                                NULL, &e->executable, diag);
  nabla_blob_release(&text);
  if (status) return status;
  NABLA_TRY(
      nabla_executable_bind_model(e->executable, e->model, NULL, NULL, diag));
  NABLA_TRY(nabla_decoder_find_limits(e->executable, &e->limits, diag));
  NABLA_TRY(nabla_decoder_check_tokenizer(e->executable, e->tokenizer, diag));
  NABLA_TRY(nabla_session_create(e->executable, NULL, &e->session, diag));
  e->logits = calloc(e->limits.vocabulary, sizeof *e->logits);
  return e->logits ? NABLA_OK
                   : nabla_fail(diag, NABLA_NO_MEMORY, "out of memory");
}

static void close_engine(engine *e) {
  free(e->logits);
  nabla_session_close(e->session);
  nabla_executable_close(e->executable);
  nabla_compiler_destroy(e->compiler);
  nabla_tokenizer_close(e->tokenizer);
  nabla_model_close(e->model);
}

/* Feeds a token behind `*position` others; returns the likeliest next one. */
static nabla_status step(engine *e, int64_t token, uint64_t *position,
                         int64_t *out, nabla_diag *diag) {
  const uint64_t vocabulary = e->limits.vocabulary;
  uint64_t best = 0;
  NABLA_TRY(nabla_decoder_run(e->session, &token, 1, *position, e->logits,
                              vocabulary, diag));
  for (uint64_t i = 1; i < vocabulary; i++)
    if (e->logits[i] > e->logits[best]) best = i;
  *out = (int64_t)best;
  ++*position;
  return NABLA_OK;
}

/* Writes the text of a token, once its characters are whole. */
static nabla_status print(engine *e, nabla_token_stream *stream, int64_t token,
                          nabla_diag *diag) {
  const size_t room = nabla_tokenizer_stream_capacity(e->tokenizer);
  char *text = malloc(room);
  size_t size;
  if (!text) return nabla_fail(diag, NABLA_NO_MEMORY, "out of memory");
  const nabla_status status = nabla_tokenizer_stream_next(
      e->tokenizer, stream, (uint32_t)token, NABLA_DECODE_SKIP_SPECIAL, text,
      room, &size, diag);
  if (!status) fwrite(text, 1, size, stdout);
  free(text);
  return status;
}

static nabla_status generate(engine *e, const char *prompt, uint64_t count,
                             nabla_diag *diag) {
  nabla_token_list list = {NULL, 0};
  nabla_token_stream stream = {.held_count = 0};
  uint64_t position = 0;
  int64_t next = 0;
  nabla_status status =
      nabla_tokenizer_encode(e->tokenizer, prompt, strlen(prompt),
                             NABLA_ENCODE_ADD_SPECIAL, &list, diag);
  for (size_t i = 0; i < list.count && !status; i++) {
    status = print(e, &stream, list.ids[i], diag);
    if (!status) status = step(e, list.ids[i], &position, &next, diag);
  }
  nabla_token_list_release(e->tokenizer, &list);
  for (uint64_t i = 0; i < count && !status; i++) {
    status = print(e, &stream, next, diag);
    if (!status) status = step(e, next, &position, &next, diag);
  }
  printf("\n");
  return status;
}

int main(int argc, char **argv) {
  engine e = {0};
  nabla_diag diag = NABLA_DIAG_INIT;
  if (argc < 3 || argc > 4) {
    fprintf(stderr, "usage: generate MODEL PROMPT [TOKENS]\n");
    return 2;
  }
  const uint64_t count = argc > 3 ? strtoull(argv[3], NULL, 10) : 40;
  nabla_status status = open_engine(&e, argv[1], &diag);
  if (!status) status = generate(&e, argv[2], count, &diag);
  if (status) {
    char text[1024];
    nabla_diag_format(&diag, text, sizeof text);
    fprintf(stderr, "generate: %s\n", text);
  }
  close_engine(&e);
  return status != NABLA_OK;
}
