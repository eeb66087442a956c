/* A server of conversations, in a process without a compiler:
 *
 *   llama MODEL --save PROGRAM.so -n 1
 *   serve MODEL PROGRAM.so SOCKET
 *
 * answers on a Unix socket. A request is a line of JSON, with `conversation`
 * and any of `text`, `count`, `temperature`, `top_p`, `seed`, `end`:
 *
 *   {"conversation": "a", "text": "Tom had a", "count": 20}
 *   {"conversation":"a","text":" red"}                 as soon as it is made
 *   {"conversation":"a","done":true,"tokens":20,"position":25}
 *   {"error":"..."}                                    instead, if it failed
 *
 * Who owns what: the server has one model, whose pages other processes share,
 * one executable bound to it and one tokenizer. They do not change after the
 * start, so that all threads use them without a lock. A conversation has a
 * session, with its cache. It is closed before the executable, and that before
 * the model.
 *
 * What may run at once: runs of different sessions, each on the thread of its
 * client (an executable with a pool would share its threads among them, one run
 * after the other). A conversation answers one client at a time.
 *
 *   cc *.c $(pkg-config --cflags --libs nabla-runtime) -lpthread */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "json.h"
#include "nabla/decoder.h"

enum { CONVERSATIONS = 32, CLIENTS = 16, NAME = 64, LINE = 1 << 16 };

typedef struct conversation {
  char name[NAME];
  nabla_session *session; /* NULL: the place is free */
  int is_busy;            /* a client has it, and all of it but the name */
  uint64_t position;      /* tokens in its cache */
  nabla_token_stream stream;
  float *logits;
  uint32_t *order;
} conversation;

typedef struct server {
  nabla_model *model;
  nabla_executable *executable;
  nabla_tokenizer *tokenizer;
  nabla_decoder_limits limits;
  pthread_mutex_t lock; /* of the conversations' places and `is_busy` */
  conversation conversations[CONVERSATIONS];
} server;

typedef struct client {
  server *server;
  int fd; /* -1: the place is free */
  FILE *in, *out;
  pthread_t thread;
  atomic_int is_done;
} client;

/* What a line asks for. */
typedef struct request {
  const char *name, *text;
  size_t size;
  double count, temperature, top_p, seed, end;
} request;

static atomic_int is_stopped; /* free of locks, as a handler needs it */
static void stop(int number) { (void)number, is_stopped = 1; }

/* ---- conversations ------------------------------------------------------- */

/* Frees what a conversation has; its place is free then. */
static void clear(conversation *c) {
  nabla_session_close(c->session);
  free(c->logits);
  free(c->order);
  *c = (conversation){0};
}

static nabla_status begin(const server *s, conversation *c, const char *name,
                          nabla_diag *diag) {
  memcpy(c->name, name, strlen(name) + 1);
  c->logits = calloc(s->limits.vocabulary, sizeof *c->logits);
  c->order = calloc(s->limits.vocabulary, sizeof *c->order);
  nabla_status status =
      c->logits && c->order
          ? nabla_session_create(s->executable, NULL, &c->session, diag)
          : nabla_fail(diag, NABLA_NO_MEMORY, "out of memory");
  if (status) clear(c);
  return status;
}

/* Finds the conversation, or begins it, for the caller alone. */
static nabla_status take(server *s, const char *name, conversation **out,
                         nabla_diag *diag) {
  conversation *c = NULL, *place = NULL;
  nabla_status status = NABLA_OK;
  pthread_mutex_lock(&s->lock);
  for (size_t i = 0; i < CONVERSATIONS; i++) {
    if (!s->conversations[i].session)
      place = &s->conversations[i];
    else if (!strcmp(s->conversations[i].name, name))
      c = &s->conversations[i];
  }
  if (c && c->is_busy)
    status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "the conversation answers another client");
  else if (!c && !place)
    status = nabla_fail(diag, NABLA_TOO_LARGE,
                        "there are %d conversations: end one", CONVERSATIONS);
  else if (!c)
    status = begin(s, c = place, name, diag);
  if (!status) c->is_busy = 1, *out = c;
  pthread_mutex_unlock(&s->lock);
  return status;
}

static void give_back(server *s, conversation *c, int is_over) {
  pthread_mutex_lock(&s->lock);
  c->is_busy = 0;
  if (is_over) clear(c);
  pthread_mutex_unlock(&s->lock);
}

/* ---- an answer ----------------------------------------------------------- */

/* Sends what was written. A client that did not take all of it gets no further
 * line, which would begin in the middle of another. */
static int is_sent(FILE *out) { return !fflush(out) && !ferror(out); }

static nabla_status send_text(FILE *out, const conversation *c,
                              const char *text, size_t size, nabla_diag *diag) {
  if (!size) return NABLA_OK;
  fprintf(out, "{\"conversation\":\"%s\",\"text\":", c->name);
  json_write(out, text, size);
  fprintf(out, "}\n");
  return is_sent(out) ? NABLA_OK
                      : nabla_fail(diag, NABLA_CANCELLED, "the client is gone");
}

/* Runs the model over tokens behind those of the cache. The stream sees them
 * too: what it gives of a prompt is dropped. */
static nabla_status feed(const server *s, conversation *c, const uint32_t *ids,
                         size_t count, nabla_diag *diag) {
  int64_t *tokens = malloc((count + 1) * sizeof *tokens);
  if (!tokens) return nabla_fail(diag, NABLA_NO_MEMORY, "out of memory");
  for (size_t i = 0; i < count; i++) tokens[i] = ids[i];
  const nabla_status status =
      nabla_decoder_run(c->session, tokens, count, c->position, c->logits,
                        s->limits.vocabulary, diag);
  free(tokens);
  if (!status) c->position += count;
  return status;
}

static nabla_status generate(const server *s, conversation *c, const request *r,
                             FILE *out, size_t *out_count, char *piece,
                             nabla_diag *diag) {
  const nabla_sampling how = {sizeof how, r->temperature, r->top_p};
  const size_t capacity = nabla_tokenizer_stream_capacity(s->tokenizer);
  const uint32_t end = nabla_tokenizer_roles(s->tokenizer).eos;
  uint64_t random = (uint64_t)r->seed;
  size_t size;
  int64_t id;
  for (*out_count = 0; (double)*out_count < r->count && !is_stopped;
       ++*out_count) {
    if (c->position == s->limits.context) break;
    NABLA_TRY(nabla_decoder_sample(c->logits, s->limits.vocabulary, &how,
                                   &random, c->order, &id, diag));
    const uint32_t token = (uint32_t)id;
    if (token == end) break;
    size = 0; /* a token that the tokenizer does not have has no text */
    if (token < nabla_tokenizer_size(s->tokenizer))
      NABLA_TRY(nabla_tokenizer_stream_next(s->tokenizer, &c->stream, token,
                                            NABLA_DECODE_SKIP_SPECIAL, piece,
                                            capacity, &size, diag));
    NABLA_TRY(feed(s, c, &token, 1, diag));
    NABLA_TRY(send_text(out, c, piece, size, diag));
  }
  return NABLA_OK;
}

/* Takes the text in, and answers. */
static nabla_status converse(const server *s, conversation *c, const request *r,
                             FILE *out, size_t *out_count, nabla_diag *diag) {
  const size_t capacity = nabla_tokenizer_stream_capacity(s->tokenizer);
  nabla_token_list list = {0};
  size_t size;
  char *piece = malloc(capacity);
  nabla_status status =
      piece ? nabla_tokenizer_encode(
                  s->tokenizer, r->text, r->size,
                  c->position ? NABLA_ENCODE_PLAIN : NABLA_ENCODE_ADD_SPECIAL,
                  &list, diag)
            : nabla_fail(diag, NABLA_NO_MEMORY, "out of memory");
  if (!status && (list.count || !c->position))
    status = feed(s, c, list.ids, list.count, diag);
  for (size_t i = 0; i < list.count && !status; i++)
    status = nabla_tokenizer_stream_next(s->tokenizer, &c->stream, list.ids[i],
                                         NABLA_DECODE_SKIP_SPECIAL, piece,
                                         capacity, &size, diag);
  nabla_token_list_release(s->tokenizer, &list);
  if (!status) status = generate(s, c, r, out, out_count, piece, diag);
  free(piece);
  return status;
}

/* ---- lines --------------------------------------------------------------- */

static nabla_status refuse(nabla_diag *diag, const char *why, const char *key) {
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "%s%s%.40s%s", why,
                    key ? " '" : "", key ? key : "", key ? "'" : "");
}

static nabla_status parse(char *line, request *out, nabla_diag *diag) {
  static const char letters[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  json_member members[JSON_MEMBERS];
  size_t count;
  const char *why = json_read(line, members, &count);
  if (why) return refuse(diag, why, NULL);
  *out = (request){.name = "", .text = "", .count = 64, .top_p = .9, .seed = 1};
  const struct {
    const char *key;
    double *number, most;
  } numbers[] = {{"count", &out->count, 1e6},
                 {"temperature", &out->temperature, 1e3},
                 {"top_p", &out->top_p, 1},
                 {"seed", &out->seed, 9e15}};
  for (size_t i = 0; i < count; i++) {
    const json_member *m = &members[i];
    size_t j = 0;
    while (j < 4 && strcmp(m->key, numbers[j].key) != 0) j++;
    if (j < 4 && m->kind == JSON_NUMBER && m->number >= 0 &&
        m->number <= numbers[j].most)
      *numbers[j].number = m->number;
    else if (!strcmp(m->key, "text") && m->kind == JSON_TEXT)
      out->text = m->text, out->size = m->size;
    else if (!strcmp(m->key, "conversation") && m->kind == JSON_TEXT)
      out->name = m->text;
    else if (!strcmp(m->key, "end") && m->kind == JSON_BOOL)
      out->end = m->number;
    else
      return refuse(diag, "not a member, or not a value of it:", m->key);
  }
  const size_t size = strlen(out->name);
  if (!size || size >= NAME || out->name[strspn(out->name, letters)])
    return refuse(diag,
                  "a conversation is named by 1 to 63 letters, digits, - "
                  "and _, not",
                  out->name);
  return NABLA_OK;
}

/* Answers one line. A conversation whose run failed has a cache that nobody can
 * use: it is over. What is refused before a run, and a client that is gone,
 * leave it as it is. */
static void answer(server *s, char *line, const char *why, FILE *out) {
  nabla_diag diag = NABLA_DIAG_INIT;
  request r = {0};
  conversation *c = NULL;
  size_t count = 0;
  unsigned long long position = 0;
  char sentence[1200];
  nabla_status status = why ? refuse(&diag, why, NULL) : parse(line, &r, &diag);
  if (!status) status = take(s, r.name, &c, &diag);
  if (!status) {
    if (r.end == 0) status = converse(s, c, &r, out, &count, &diag);
    position = c->position;
    give_back(s, c,
              r.end != 0 || !position ||
                  (status && status != NABLA_INVALID_ARGUMENT &&
                   status != NABLA_CANCELLED));
  }
  if (status) {
    nabla_diag_format(&diag, sentence, sizeof sentence);
    fprintf(out, "{\"error\":");
    json_write(out, sentence, strlen(sentence));
    fprintf(out, "}\n");
  } else {
    fprintf(out,
            "{\"conversation\":\"%s\",\"done\":true,\"tokens\":%zu,"
            "\"position\":%llu}\n",
            r.name, count, position);
  }
}

/* Reads a line; what is beyond LINE bytes is skipped. 0: there is none. */
static int read_line(FILE *in, char line[LINE], const char **out_why) {
  size_t size = 0;
  int byte;
  *out_why = NULL;
  while ((byte = getc(in)) != EOF && byte != '\n') {
    if (size + 1 == LINE) *out_why = "the line is too long";
    if (!byte) *out_why = "the line has a byte 0";
    if (!*out_why) line[size++] = (char)byte;
  }
  line[size] = '\0';
  return byte != EOF;
}

static void *serve_client(void *self) {
  client *c = self;
  char *line = malloc(LINE);
  const char *why;
  while (line && !is_stopped && read_line(c->in, line, &why)) {
    answer(c->server, line, why, c->out);
    if (!is_sent(c->out)) break;
  }
  free(line);
  (void)shutdown(c->fd, SHUT_RDWR);
  c->is_done = 1;
  return NULL;
}

/* ---- the socket ---------------------------------------------------------- */

static nabla_status listen_at(const char *path, int *out, nabla_diag *diag) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path)
    return refuse(diag, "too long for a socket:", path);
  memcpy(address.sun_path, path, strlen(path));
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  (void)umask(077); /* the user's own */
  if (fd >= 0 && !bind(fd, (const struct sockaddr *)&address, sizeof address) &&
      !listen(fd, SOMAXCONN)) {
    *out = fd;
    return NABLA_OK;
  }
  const int error = errno;
  if (fd >= 0) (void)close(fd);
  const nabla_status status =
      nabla_fail(diag, NABLA_IO, "cannot listen: %s", strerror(error));
  nabla_diag_set_file(diag, path);
  return status;
}

/* Ends the client in a place: at once, or if it is done. */
static void finish(client *c, int is_forced) {
  if (c->fd < 0 || (!is_forced && !c->is_done)) return;
  (void)shutdown(c->fd, SHUT_RDWR);
  (void)pthread_join(c->thread, NULL);
  (void)fclose(c->in);
  (void)fclose(c->out);
  c->fd = -1;
}

/* A thread for a client. One that takes nothing for 10 seconds is gone. */
static void welcome(server *s, client clients[CLIENTS], int fd) {
  static const char full[] = "{\"error\":\"there are too many clients\"}\n";
  const struct timeval patience = {.tv_sec = 10};
  size_t i = 0;
  while (i < CLIENTS && clients[i].fd >= 0) i++;
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  FILE *in = i < CLIENTS ? fdopen(fd, "r") : NULL;
  const int copy = in ? dup(fd) : -1;
  FILE *out = copy >= 0 ? fdopen(copy, "w") : NULL;
  if (copy >= 0 && !out) (void)close(copy);
  if (out) {
    clients[i] = (client){.server = s, .fd = fd, .in = in, .out = out};
    if (!pthread_create(&clients[i].thread, NULL, serve_client, &clients[i]))
      return;
    clients[i].fd = -1;
  }
  (void)!write(fd, full, sizeof full - 1);
  if (out) (void)fclose(out);
  (void)(in ? fclose(in) : close(fd));
}

static void serve(server *s, int listening) {
  static client clients[CLIENTS];
  for (size_t i = 0; i < CLIENTS; i++) clients[i].fd = -1;
  while (!is_stopped) {
    struct pollfd wait = {.fd = listening, .events = POLLIN};
    const int ready = poll(&wait, 1, 500);
    for (size_t i = 0; i < CLIENTS; i++) finish(&clients[i], 0);
    const int fd = ready > 0 ? accept(listening, NULL, NULL) : -1;
    if (fd >= 0) welcome(s, clients, fd);
  }
  for (size_t i = 0; i < CLIENTS; i++) finish(&clients[i], 1);
}

/* ---- the start ----------------------------------------------------------- */

/* A file that somebody truncates ends its conversations, not the process. */
static nabla_status open_all(server *s, char **argv, nabla_diag *diag) {
  const nabla_model_options guarded = {sizeof guarded, NABLA_MODEL_GUARDED};
  NABLA_TRY(nabla_model_open_with(argv[1], &guarded, NULL, &s->model, diag));
  NABLA_TRY(nabla_executable_open(argv[2], NULL, &s->executable, diag));
  NABLA_TRY(
      nabla_executable_bind_model(s->executable, s->model, NULL, NULL, diag));
  NABLA_TRY(nabla_decoder_find_limits(s->executable, &s->limits, diag));
  return nabla_decoder_open_tokenizer(s->executable, s->model, NULL, NULL,
                                      &s->tokenizer, diag);
}

int main(int argc, char **argv) {
  static server s = {.lock = PTHREAD_MUTEX_INITIALIZER};
  const struct sigaction action = {.sa_handler = stop};
  nabla_diag diag = NABLA_DIAG_INIT;
  char line[1200];
  int fd = -1;
  if (argc != 4) {
    fprintf(stderr, "usage: serve MODEL PROGRAM.so SOCKET\n");
    return 2;
  }
  (void)sigaction(SIGINT, &action, NULL);
  (void)sigaction(SIGTERM, &action, NULL);
  (void)signal(SIGPIPE, SIG_IGN); /* a client that is gone is an error */
  nabla_status status = open_all(&s, argv, &diag);
  if (!status) status = listen_at(argv[3], &fd, &diag);
  if (!status) {
    printf("listening\n");
    (void)fflush(stdout);
    serve(&s, fd);
    (void)close(fd);
    (void)unlink(argv[3]);
  } else {
    nabla_diag_format(&diag, line, sizeof line);
    fprintf(stderr, "serve: %s\n", line);
  }
  for (size_t i = 0; i < CONVERSATIONS; i++) clear(&s.conversations[i]);
  nabla_tokenizer_close(s.tokenizer);
  nabla_executable_close(s.executable);
  nabla_model_close(s.model);
  return status != NABLA_OK;
}
