/* Engines: compiled programs by hash, compilers, recorders that are idle. */
#ifndef NABLA_ARRAY_ENGINE_H
#define NABLA_ARRAY_ENGINE_H

#include <stdbool.h>

#include "lib/array/recorder.h"
#include "nabla/array.h"
#include "nabla/session.h"
#include "transforms/dispatch/rule_set.h"

/* A graph as a key: its hash, and the bytes that were hashed, which tell
 * graphs apart. */
typedef struct nabla_graph_key {
  XXH128_hash_t hash;
  const uint8_t *bytes;
  size_t size;
} nabla_graph_key;

/* A compiled graph. */
typedef struct nabla_program nabla_program;

/* A policy by name; 0: that of the engine. */
typedef enum nabla_array_policy {
  NABLA_ARRAY_POLICY_DEFAULT,
  NABLA_ARRAY_POLICY_OFF,
  NABLA_ARRAY_POLICY_WARN,
  NABLA_ARRAY_POLICY_ERROR,
} nabla_array_policy;
/* Reads "off", "warn", "error", or NULL. */
NABLA_MUST_USE nabla_status nabla_array_policy_read(const char *text,
                                                    nabla_array_policy *out,
                                                    nabla_diag *diag);

const nabla_allocator *nabla_engine_allocator(const nabla_engine *engine);
const nabla_environment *nabla_engine_environment(const nabla_engine *engine);
/* That of its arrays (watch.h); NULL unless it is a debug engine. */
struct nabla_watch *nabla_engine_watch(const nabla_engine *engine);

/* Lends a recorder, which is given back. */
NABLA_MUST_USE nabla_status nabla_engine_take_recorder(nabla_engine *engine,
                                                       nabla_recorder **out,
                                                       nabla_diag *diag);
void nabla_engine_give_recorder(nabla_engine *engine, nabla_recorder *recorder);

/* Finds the program of a graph, or compiles it: `write` appends its bytecode.
 * Threads that want the same program wait for the one that compiles it. The
 * program is given back with nabla_engine_give. */
typedef struct nabla_program_writer {
  nabla_status (*write)(void *self, nabla_buffer *bytecode, nabla_diag *diag);
  void *self;
  nabla_array_policy policy; /* programs of other policies are others */
  bool has_sessions; /* users run it in sessions: all of its results are whole,
                        also where it is divided over a mesh */
} nabla_program_writer;
NABLA_MUST_USE nabla_status nabla_engine_take(
    nabla_engine *engine, const nabla_graph_key *key,
    const nabla_program_writer *writer, nabla_program **out, nabla_diag *diag);
void nabla_engine_give(nabla_engine *engine, nabla_program *program);
/* Gives a program of text to a sink, in another form (nabla_emit_text).
 * @param options  NULL: those of the engine */
NABLA_MUST_USE nabla_status nabla_engine_emit(
    nabla_engine *engine, const nabla_buffer *text, const char *name,
    const nabla_compile_options *options, nabla_array_policy policy,
    nabla_emission emission, const nabla_sink *sink, nabla_diag *diag);

/* Its bytes: machine code and description. */
uint64_t nabla_program_bytes(const nabla_program *program);
/* What nabla-dispatch counted when it was compiled. */
nabla_dispatch_counts nabla_program_counts(const nabla_program *program);
/* Its executable, with the function "main". */
nabla_executable *nabla_program_executable(const nabla_program *program);
/* Lends a session of it, which is given back; the program keeps one that is
 * idle, with the memory of a run. */
NABLA_MUST_USE nabla_status nabla_program_take_session(nabla_program *program,
                                                       nabla_session **out,
                                                       nabla_diag *diag);
void nabla_program_give_session(nabla_program *program, nabla_session *session);
/* Whether it is divided over a mesh; then it is run by nabla_divided_run of
 * divided.h, else by nabla_executable_run. */
bool nabla_program_is_divided(const nabla_program *program);
/* Lends its ranks, which are given back with the status of their run. */
typedef struct nabla_ranks nabla_ranks;
NABLA_MUST_USE nabla_status nabla_program_take_ranks(nabla_program *program,
                                                     nabla_ranks **out,
                                                     nabla_diag *diag);
void nabla_program_give_ranks(nabla_program *program, nabla_ranks *ranks,
                              nabla_status status);

#endif
