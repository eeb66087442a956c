/* From a program in the nabla dialect to code that runs in this process, or to
 * an object file. Part of libnabla, which needs LLVM and MLIR 22. */
#ifndef NABLA_COMPILER_H
#define NABLA_COMPILER_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/environment.h"
#include "nabla/executable.h"
#include "nabla/sink.h"
#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The stack that a thread needs to call anything of libnabla, to run programs
 * too. Parsing and compiling, which need more, have a thread of their own for
 * the length of the call, with a stack of 256 MiB of address space. */
#define NABLA_CALLER_STACK_BYTES ((size_t)262144)

/* A compiler: MLIR context, LLVM target, JIT, object cache. Programs are parsed
 * and compiled on a thread of the compiler, which takes no signals. One call at
 * a time per compiler; several compilers, and processes, may work at once, also
 * on one cache. */
typedef struct nabla_compiler nabla_compiler;

/* Options of a compiler. Members that are 0 or NULL are defaults; texts are
 * copied. */
typedef struct nabla_compiler_options {
  size_t struct_size; /* sizeof(nabla_compiler_options) */
  /* Folder of the object cache; NULL: $NABLA_CACHE, else
   * $XDG_CACHE_HOME/nabla, else $HOME/.cache/nabla. "off" or "", here or in
   * the variable, turns it off. It is made when missing, and used only when it
   * belongs to this user and nobody else may enter it: objects in it are code
   * that will run. */
  const char *cache;
  /* Bytes after which the least recently used entries go; 0: 256 MiB. */
  uint64_t cache_limit;
  /* MLIR's diagnostics, one call each, with location; NULL: stderr. Called on
   * the thread that compiles, while the caller waits. */
  void (*diagnostic)(void *self, const char *text);
  void *diagnostic_self;
} nabla_compiler_options;

NABLA_API NABLA_MUST_USE nabla_status nabla_compiler_create(
    const nabla_compiler_options *options, const nabla_environment *environment,
    nabla_compiler **out, nabla_diag *diag);
/* Executables that it made stay valid. NULL is allowed. */
NABLA_API void nabla_compiler_destroy(nabla_compiler *compiler);

/* Options of a compilation; members that are NULL are defaults. They are rows
 * of nabla/compile_options.def, which docs/COMPILE_OPTIONS.md shows: target,
 * numerics and policy are text, rules an array of `rule_count` names. */
typedef struct nabla_compile_options {
  size_t struct_size; /* sizeof(nabla_compile_options) */
#define NABLA_OPTION_TEXT(id, flag, argument, fallback, help) const char *id;
#define NABLA_OPTION_CHOICE(id, flag, argument, values, fallback, help) \
  const char *id;
#define NABLA_OPTION_FLAG(id, flag, help) const char *id;
#define NABLA_OPTION_FILES(id, count, flag, argument, help) \
  const char *const *id;                                    \
  size_t count;
#include "nabla/compile_options.def"
#undef NABLA_OPTION_TEXT
#undef NABLA_OPTION_CHOICE
#undef NABLA_OPTION_FLAG
#undef NABLA_OPTION_FILES
} nabla_compile_options;

/* Compiles a file, or text that `name` stands for in diagnostics, into this
 * process. The same program, options and target come from the cache, with the
 * warnings that they had. No failure of the cache fails a compilation.
 * @return NABLA_OK
 *         NABLA_CORRUPT           the program does not parse or verify, or a
 *                                 pass refused it: diagnostics say where
 *         NABLA_INVALID_ARGUMENT  an option
 *         NABLA_UNSUPPORTED       a target that this machine cannot run, an
 *                                 intrinsic that the target lacks, or MLIR's
 *                                 bytecode: programs are text
 *         NABLA_TOO_LARGE         it nests too deep, or is too large otherwise
 *                                 (docs/COMPILER.md, "Limits")
 *         NABLA_IO
 *         NABLA_NO_MEMORY         also where no thread can be started */
NABLA_API NABLA_MUST_USE nabla_status
nabla_compile_file(nabla_compiler *compiler, const char *path,
                   const nabla_compile_options *options, nabla_executable **out,
                   nabla_diag *diag);
NABLA_API NABLA_MUST_USE nabla_status
nabla_compile_text(nabla_compiler *compiler, const char *text, size_t size,
                   const char *name, const nabla_compile_options *options,
                   nabla_executable **out, nabla_diag *diag);

/* What nabla_emit_* give. */
typedef enum nabla_emission {
  NABLA_EMIT_MLIR, /* after the pipeline: LLVM dialect                  */
  NABLA_EMIT_LLVM, /* LLVM IR, optimised                                */
  NABLA_EMIT_ASM,
  NABLA_EMIT_OBJ,
  NABLA_EMIT_SO, /* a saved program: nabla_executable_open, docs/SAVED.md */
} nabla_emission;

/* Compiles for `options->target`, which need not be this machine, and gives
 * the result to `sink`, in one or more calls, after all of it was made.
 * NABLA_EMIT_SO runs the linker ld.lld-22, or cc, of PATH, on files in memory
 * (/proc must be mounted): nothing is left, whatever ends the process. It works
 * whatever the process does with SIGCHLD, and sends it none.
 * @return as nabla_compile_text, and what `write` returned when not NABLA_OK;
 *         NABLA_UNSUPPORTED  neither linker is there
 *         NABLA_IO           the linker fails: its output goes to diagnostics
 */
NABLA_API NABLA_MUST_USE nabla_status nabla_emit_text(
    nabla_compiler *compiler, const char *text, size_t size, const char *name,
    const nabla_compile_options *options, nabla_emission emission,
    const nabla_sink *sink, nabla_diag *diag);

/* A function that is made from another one of a program, beside it. Members
 * that are NULL are defaults; names and numbers are as the pass nabla-TRANSFORM
 * takes them (docs/PASSES.md). */
typedef struct nabla_derivation {
  size_t struct_size;    /* sizeof(nabla_derivation)                       */
  const char *transform; /* "vjp", "jvp" or "vmap"; not NULL               */
  const char *function;  /* NULL: "main". What is made is called
                            FUNCTION.TRANSFORM                             */
  const char *wrt;       /* vjp, jvp: "x,w.a"                              */
  const char *mode, *save, *check_finite;     /* vjp                       */
  const char *in_axes, *out_axes, *axis_size; /* vmap: "0,none", "?", "8"  */
} nabla_derivation;

/* Makes functions, one after the other: a later one may be made from an earlier
 * one, "main.vjp". Gives the program with them to `sink`, as text that
 * nabla_compile_text takes. nabla/derivative.h does the same with functions of
 * arrays.
 * @return as nabla_compile_text, and what the sink returned;
 *         NABLA_INVALID_ARGUMENT  a transform of another name; a member that
 *                                 the transform does not have, or with other
 *                                 characters than letters, digits and "_.,-?"
 *         NABLA_CORRUPT           also a function that cannot be made:
 *                                 diagnostics say why */
NABLA_API NABLA_MUST_USE nabla_status
nabla_derive_text(nabla_compiler *compiler, const char *text, size_t size,
                  const char *name, const nabla_derivation *derivations,
                  size_t count, const nabla_sink *sink, nabla_diag *diag);

/* Where an object and its header go. */
typedef struct nabla_static_sinks {
  size_t struct_size; /* sizeof(nabla_static_sinks) */
  nabla_sink object, header;
  const char *prefix; /* of the names of its functions: a C identifier */
} nabla_static_sinks;

/* An object for static linking, as NABLA_EMIT_OBJ, and a C header for it:
 * functions called PREFIX_NAME of pointers and sizes, for C17 and C++17, which
 * need libc alone (docs/SAVED.md). The header is given first, both after all
 * passes.
 * @return as nabla_emit_text;
 *         NABLA_INVALID_ARGUMENT  the prefix, or a function's name, is no name
 *                                 in C
 *         NABLA_UNSUPPORTED       custom calls, or more than 256 arrays in a
 *                                 function */
NABLA_API NABLA_MUST_USE nabla_status
nabla_emit_static(nabla_compiler *compiler, const char *text, size_t size,
                  const char *name, const nabla_compile_options *options,
                  const nabla_static_sinks *sinks, nabla_diag *diag);

/* How the last compilation went, for people and benchmarks. `link_ms` is all
 * of it but parsing when the object came from the cache. */
typedef struct nabla_compile_report {
  int from_cache;
  double parse_ms, passes_ms, translate_ms, optimize_ms, codegen_ms, link_ms;
  /* What nabla-dispatch did, also where the object came from the cache:
   * operands that it decoded because no rule took their operation, whatever the
   * policy says; operations that rules replaced; times that a rule declined;
   * fused operations of the program. */
  uint64_t materializations, rules, declined, fused;
} nabla_compile_report;
NABLA_API nabla_compile_report
nabla_compiler_last_report(const nabla_compiler *compiler);

/* From here on plans (nabla/matmul.h) get code generated for exactly their
 * shape, where kernels have the encoding: tens of milliseconds for each range
 * of M of the first plan of a kind (a small m_max makes it less), nothing for
 * the next in this process. Plans that exist stay as they are. Thread-safe; a
 * second call changes nothing. */
NABLA_API void nabla_compiler_provide_plans(void);

/* Ends that, and frees code that no plan uses; plans that use it keep it.
 * Thread-safe; also without a call before. */
NABLA_API void nabla_compiler_withhold_plans(void);

#ifdef __cplusplus
}
#endif

#endif
