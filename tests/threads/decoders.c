/* Two language models in one process, four conversations on their two
 * executables at once, each on a thread: the tokens are those that each model
 * says alone, also while the other executable and its model are closed and
 * opened again. A step allocates nothing.
 *
 *   decoders text NUMBER       writes the program of model 0 or 1
 *   decoders run SAVED SAVED   runs the saved programs of both
 *
 * Model 0 is dense, model 1 is packed in memory; both are made up. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nabla/decoder.h"
#include "nabla/session.h"

enum { HIDDEN = 64, INNER = 96, SHARED = 32, WORDS = 90, LAYERS = 2 };
enum { FEW = 12, MANY = 60, ROUNDS = 4, TENSORS = 3 + 9 * LAYERS };

static char folder[200];

/* ---- made-up models ------------------------------------------------------ */

typedef struct tensor {
  char name[64];
  unsigned rows, columns; /* 0 columns: of rank 1 */
} tensor;

static size_t list_tensors(tensor out[TENSORS]) {
  static const struct {
    const char *name;
    unsigned rows, columns;
  } parts[] = {{"input_layernorm", HIDDEN, 0},
               {"post_attention_layernorm", HIDDEN, 0},
               {"self_attn.q_proj", HIDDEN, HIDDEN},
               {"self_attn.k_proj", SHARED, HIDDEN},
               {"self_attn.v_proj", SHARED, HIDDEN},
               {"self_attn.o_proj", HIDDEN, HIDDEN},
               {"mlp.gate_proj", INNER, HIDDEN},
               {"mlp.up_proj", INNER, HIDDEN},
               {"mlp.down_proj", HIDDEN, INNER}};
  size_t count = 0;
  out[count++] = (tensor){"model.embed_tokens.weight", WORDS, HIDDEN};
  out[count++] = (tensor){"lm_head.weight", WORDS, HIDDEN};
  out[count++] = (tensor){"model.norm.weight", HIDDEN, 0};
  for (int layer = 0; layer < LAYERS; layer++)
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
      out[count] = (tensor){"", parts[i].rows, parts[i].columns};
      (void)snprintf(out[count].name, sizeof out[count].name,
                     "model.layers.%d.%s.weight", layer, parts[i].name);
      count++;
    }
  return count;
}

static size_t elements_of(const tensor *t) {
  return (size_t)t->rows * (t->columns ? t->columns : 1);
}

static int write_values(FILE *file, const tensor *t, uint64_t *random) {
  int good = 1;
  for (size_t i = 0; i < elements_of(t); i++) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    const float even = (float)(*random >> 40) / (float)(1 << 23) - 1;
    const float value = t->columns ? even / 3 : 1 + even / 9;
    good &= fwrite(&value, sizeof value, 1, file) == 1;
  }
  return good;
}

static int write_weights(const char *path, uint64_t seed) {
  tensor all[TENSORS];
  const size_t count = list_tensors(all);
  char json[8192] = "{";
  size_t used = 1, at = 0;
  for (size_t i = 0; i < count; i++) {
    char shape[40];
    const size_t bytes = elements_of(&all[i]) * sizeof(float);
    (void)snprintf(shape, sizeof shape, all[i].columns ? "%u,%u" : "%u",
                   all[i].rows, all[i].columns);
    used += (size_t)snprintf(json + used, sizeof json - used,
                             "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],"
                             "\"data_offsets\":[%zu,%zu]}",
                             i ? "," : "", all[i].name, shape, at, at + bytes);
    at += bytes;
  }
  json[used++] = '}';
  while (used % 8) json[used++] = ' ';
  const uint64_t size = used;
  FILE *file = fopen(path, "wb");
  if (!file) return 0;
  int good = fwrite(&size, 8, 1, file) == 1 && fwrite(json, used, 1, file) == 1;
  for (size_t i = 0; i < count; i++)
    good = good && write_values(file, &all[i], &seed);
  return !fclose(file) && good;
}

static int write_models(void) {
  char path[256];
  const char *parent = getenv("TMPDIR");
  (void)snprintf(folder, sizeof folder, "%s/nabla-XXXXXX",
                 parent ? parent : P_tmpdir);
  if (!mkdtemp(folder)) return 0;
  (void)snprintf(path, sizeof path, "%s/config.json", folder);
  FILE *file = fopen(path, "wb");
  if (!file) return 0;
  fprintf(file,
          "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": %d,\n"
          "\"model_type\": \"llama\", \"intermediate_size\": %d,\n"
          "\"vocab_size\": %d, \"num_hidden_layers\": %d,\n"
          "\"num_attention_heads\": 4, \"num_key_value_heads\": 2,\n"
          "\"max_position_embeddings\": 128, \"rope_theta\": 10000.0,\n"
          "\"rms_norm_eps\": 1e-05, \"hidden_act\": \"silu\",\n"
          "\"tie_word_embeddings\": false}\n",
          HIDDEN, INNER, WORDS, LAYERS);
  int good = !fclose(file);
  for (int i = 0; i < 2; i++) {
    (void)snprintf(path, sizeof path, "%s/%d.safetensors", folder, i);
    good = good && write_weights(path, (uint64_t)i + 1);
  }
  return good;
}

static void remove_models(void) {
  static const char *const names[] = {"0.safetensors", "1.safetensors",
                                      "config.json"};
  for (size_t i = 0; i < 3; i++) {
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    (void)unlink(path);
  }
  (void)rmdir(folder);
}

/* ---- engines ------------------------------------------------------------- */

/* Allocations of all engines. */
static atomic_size_t requests;

static void *resize(void *self, void *block, size_t old_size, size_t new_size) {
  const nabla_allocator *of = nabla_allocator_default();
  (void)self;
  if (new_size) requests++;
  return of->resize(of->self, block, old_size, new_size);
}

static const nabla_allocator counting = {.resize = resize};

typedef struct engine {
  nabla_model *model;
  nabla_packed_model *packed;
  nabla_executable *executable;
} engine;

static int complain(const nabla_diag *diag) {
  char line[1200];
  nabla_diag_format(diag, line, sizeof line);
  printf("%s\n", line);
  return 0;
}

static int open_model(engine *e, int number) {
  char path[256];
  nabla_diag diag = NABLA_DIAG_INIT;
  (void)snprintf(path, sizeof path, "%s/%d.safetensors", folder, number);
  if (nabla_model_open(path, NULL, &e->model, &diag) ||
      (number && nabla_model_pack(e->model, "nf4:32", NULL, &e->packed, &diag)))
    return complain(&diag);
  return 1;
}

static int open_engine(engine *e, int number, const char *program,
                       nabla_pool *pool) {
  const nabla_environment environment = {.allocator = &counting, .pool = pool};
  nabla_bind_options options = {.struct_size = sizeof options};
  nabla_diag diag = NABLA_DIAG_INIT;
  *e = (engine){0};
  if (!open_model(e, number)) return 0;
  options.weights =
      nabla_packed_model_weights(e->packed, &options.weight_count);
  if (nabla_executable_open(program, &environment, &e->executable, &diag) ||
      nabla_executable_bind_model(e->executable, e->model, &options, NULL,
                                  &diag))
    return complain(&diag);
  return 1;
}

static void close_engine(engine *e) {
  nabla_executable_close(e->executable);
  nabla_packed_model_close(e->packed);
  nabla_model_close(e->model);
}

/* ---- conversations ------------------------------------------------------- */

typedef struct talk {
  nabla_session *session;
  int count; /* tokens to say */
  int64_t said[MANY];
  size_t requests; /* until the fifth token, and after all */
  size_t all_requests;
  int is_wrong;
} talk;

/* Says the likeliest tokens, and closes the session. */
static void *say(void *self) {
  static const int64_t prompt[] = {1, 7, 30};
  talk *t = self;
  float logits[WORDS];
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_status status =
      nabla_decoder_run(t->session, prompt, 3, 0, logits, WORDS, &diag);
  for (int i = 0; i < t->count && !status; i++) {
    status = nabla_decoder_sample(logits, WORDS, NULL, NULL, NULL, &t->said[i],
                                  &diag);
    if (!status)
      status = nabla_decoder_run(t->session, &t->said[i], 1, (uint64_t)(3 + i),
                                 logits, WORDS, &diag);
    if (i == 4) t->requests = requests;
  }
  t->all_requests = requests;
  if (status) t->is_wrong = !complain(&diag);
  nabla_session_close(t->session);
  return NULL;
}

static int begin(const engine *e, uint32_t threads, talk *out) {
  const nabla_session_options options = {.struct_size = sizeof options,
                                         .threads = threads};
  return !nabla_session_create(e->executable, &options, &out->session, NULL);
}

static int differs(const talk *t, const talk *want) {
  return t->is_wrong ||
         memcmp(t->said, want->said, (size_t)t->count * sizeof *t->said) != 0;
}

/* Conversations 0 and 2 are the first model's, and end early; its engine is
 * closed then, and opened and closed again. */
static int run_round(char **programs, nabla_pool *pool, const talk want[2]) {
  engine engines[2];
  pthread_t ids[4];
  talk talks[4] = {{0}};
  int wrong = 0;
  for (int i = 0; i < 2; i++)
    if (!open_engine(&engines[i], i, programs[i], pool)) return 1;
  for (int i = 0; i < 4; i++) {
    talks[i].count = i % 2 ? MANY : FEW;
    if (!begin(&engines[i % 2], i == 3 ? 2 : 0, &talks[i]) ||
        pthread_create(&ids[i], NULL, say, &talks[i]))
      return 1;
  }
  for (int i = 0; i < 4; i += 2) (void)pthread_join(ids[i], NULL);
  close_engine(&engines[0]);
  if (!open_engine(&engines[0], 0, programs[0], pool)) return 1;
  close_engine(&engines[0]);
  nabla_executable_close(engines[1].executable); /* its sessions keep it */
  engines[1].executable = NULL;
  for (int i = 1; i < 4; i += 2) (void)pthread_join(ids[i], NULL);
  close_engine(&engines[1]);
  for (int i = 0; i < 4; i++) wrong += differs(&talks[i], &want[i % 2]);
  return wrong;
}

static int run(char **programs) {
  talk want[2] = {{.count = MANY}, {.count = MANY}};
  nabla_pool *pool = NULL;
  int wrong = 0;
  for (int i = 0; i < 2; i++) {
    engine e;
    if (!open_engine(&e, i, programs[i], NULL) || !begin(&e, 0, &want[i]))
      return 1;
    (void)say(&want[i]);
    close_engine(&e);
    wrong += want[i].is_wrong;
    /* alone: what is asked for is asked for by it */
    if (want[i].requests != want[i].all_requests)
      printf("model %d: %zu allocations in %d steps\n", i,
             want[i].all_requests - want[i].requests, MANY - 5);
    wrong += !want[i].requests || want[i].requests != want[i].all_requests;
  }
  wrong += !memcmp(want[0].said, want[1].said, sizeof want[0].said);
  if (nabla_pool_create(2, NULL, &pool, NULL)) return 1;
  for (int i = 0; i < ROUNDS && !wrong; i++)
    wrong = run_round(programs, i & 1 ? pool : NULL, want);
  nabla_pool_destroy(pool);
  if (wrong) printf("%d conversations are wrong\n", wrong);
  return wrong != 0;
}

static int write_text(int number) {
  engine e = {0};
  nabla_blob text = {0};
  const nabla_sink sink = nabla_blob_sink(&text);
  nabla_decoder_options options = {.struct_size = sizeof options};
  nabla_diag diag = NABLA_DIAG_INIT;
  int good = open_model(&e, number);
  options.weights = nabla_packed_model_weights(e.packed, &options.weight_count);
  if (good && nabla_decoder_write(e.model, &options, NULL, &sink, NULL, &diag))
    good = complain(&diag);
  good = good && fwrite(text.bytes, 1, text.size, stdout) == text.size;
  nabla_blob_release(&text);
  close_engine(&e);
  return !good;
}

int main(int argc, char **argv) {
  int code = 2;
  if (!write_models()) return 1;
  if (argc == 3 && !strcmp(argv[1], "text")) code = write_text(*argv[2] == '1');
  if (argc == 4 && !strcmp(argv[1], "run")) code = run(argv + 2);
  remove_models();
  return code;
}
