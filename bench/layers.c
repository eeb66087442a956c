/* How long compiling a decoder takes, and how much memory: NF4 weights, grouped
 * heads, any number of positions, all layers alike. Each row is a process of
 * its own, which compiles once.
 *
 *   layers [LAYERS...]     1, 8 and 32 of them without arguments
 *   layers --derivative [LAYERS...]
 *                          with dense weights: the decoder, and its derivative
 *                          by all floats, of 128 positions and of any number */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nabla/compiler.h"

#define MAX_LAYERS 1000
#define POSITIONS  "128"

/* A program of this bench. */
typedef struct variant {
  bool is_dense, is_known; /* its weights; its number of positions */
  bool is_derivative;
} variant;

/* In these texts # is the number of a layer and @ the next one, {...} a weight
 * of a shape and type, $ the sizes of a result, if the number of positions is
 * not known.
 *
 * Parameters of a layer, in the order in which they are passed: */
static const char arguments[] =
    ", %n#: !v, %m#: !v, %q#: !w, %k#: !s, %u#: !s, %o#: !w, %g#: !up, %h#: "
    "!up, %d#: !down";

static const char body[] =
    "  %a# = nabla.rms_norm %x#, %n# eps = 1.0e-5 : !x, !v\n"
    "  %b# = nabla.linear %a#, %q# : !x, !w\n"
    "  %c# = nabla.linear %a#, %k# : !x, !s\n"
    "  %e# = nabla.linear %a#, %u# : !x, !s\n"
    "  %b1# = nabla.reshape %b#$ : !x -> tensor<?x32x128xf32>\n"
    "  %c1# = nabla.reshape %c#$ : tensor<?x1024xf32> -> "
    "tensor<?x8x128xf32>\n"
    "  %e1# = nabla.reshape %e#$ : tensor<?x1024xf32> -> "
    "tensor<?x8x128xf32>\n"
    "  %b2# = nabla.transpose %b1# permutation = [1, 0, 2] : "
    "tensor<?x32x128xf32>\n"
    "  %c2# = nabla.transpose %c1# permutation = [1, 0, 2] : "
    "tensor<?x8x128xf32>\n"
    "  %e2# = nabla.transpose %e1# permutation = [1, 0, 2] : "
    "tensor<?x8x128xf32>\n"
    "  %b3# = nabla.rope halves %b2#, %p dim = 1 : !heads, tensor<?xi64>\n"
    "  %c3# = nabla.rope halves %c2#, %p dim = 1 : !shared, tensor<?xi64>\n"
    "  %f# = nabla.attention %b3#, %c3#, %e2# causal : !heads, !shared, "
    "!shared\n"
    "  %f1# = nabla.transpose %f# permutation = [1, 0, 2] : !heads\n"
    "  %f2# = nabla.reshape %f1#$ : tensor<?x32x128xf32> -> !x\n"
    "  %i# = nabla.linear %f2#, %o# : !x, !w\n"
    "  %j# = nabla.add %i#, %x# : !x, !x\n"
    "  %l# = nabla.rms_norm %j#, %m# eps = 1.0e-5 : !x, !v\n"
    "  %g1# = nabla.linear %l#, %g# : !x, !up\n"
    "  %g2# = nabla.silu %g1# : !hidden\n"
    "  %h1# = nabla.linear %l#, %h# : !x, !up\n"
    "  %h2# = nabla.mul %g2#, %h1# : !hidden, !hidden\n"
    "  %r# = nabla.linear %h2#, %d# : !hidden, !down\n"
    "  %x@ = nabla.add %r#, %j# : !x, !x\n";

static const char aliases[] =
    "!x = tensor<?x4096xf32>\n!v = tensor<4096xf32>\n"
    "!hidden = tensor<?x11008xf32>\n!heads = tensor<32x?x128xf32>\n"
    "!shared = tensor<8x?x128xf32>\n"
    "!w = {4096x4096xf32}\n"
    "!s = {1024x4096xf32}\n"
    "!up = {11008x4096xf32}\n"
    "!down = {4096x11008xf32}\n";

static void print_text(FILE *out, const char *text, int layer, variant v) {
  for (; *text; text++) switch (*text) {
      case '#':
        fprintf(out, "_%d", layer);
        break;
      case '@':
        fprintf(out, "_%d", layer + 1);
        break;
      case '{':
        fputs(v.is_dense ? "tensor<" : "!nabla.implicit<", out);
        break;
      case '}':
        fputs(v.is_dense ? ">" : ", #nabla.nf4<block = 64>>", out);
        break;
      case '?':
        fputs(v.is_known ? POSITIONS : "?", out);
        break;
      case '$':
        fputs(v.is_known ? "" : " sizes(%t)", out);
        break;
      default:
        putc(*text, out);
    }
}

static char *program_of(int layers, variant v, size_t *size) {
  char *text = NULL;
  FILE *out = open_memstream(&text, size);
  if (!out) return NULL;
  print_text(out, aliases, 0, v);
  fputs("func.func @decoder(%x_0: !x, ", out);
  print_text(out, "%p: tensor<?xi64>", 0, v);
  for (int i = 0; i < layers; i++) print_text(out, arguments, i, v);
  fprintf(out,
          ") -> !x {\n  %%zero = arith.constant 0 : index\n"
          "  %%t = tensor.dim %%x_0, %%zero : !x\n");
  for (int i = 0; i < layers; i++) print_text(out, body, i, v);
  fprintf(out, "  return %%x_%d : !x\n}\n", layers);
  if (fclose(out)) return NULL;
  return text;
}

static double milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Replaces a program by its derivative. The function itself becomes private, so
 * that the compiler removes it: the derivative does not call it. */
static nabla_status derive(nabla_compiler *compiler, char **text, size_t *size,
                           nabla_diag *diag) {
  const nabla_derivation vjp = {
      .struct_size = sizeof vjp, .transform = "vjp", .function = "decoder"};
  nabla_blob derived = {0};
  const nabla_sink sink = nabla_blob_sink(&derived);
  nabla_status status = nabla_derive_text(compiler, *text, *size,
                                          "decoder.mlir", &vjp, 1, &sink, diag);
  free(*text);
  *text = NULL;
  FILE *out = status ? NULL : open_memstream(text, size);
  const char *found = out ? strstr(derived.bytes, "@decoder(") : NULL;
  if (found)
    fprintf(out, "%.*sprivate %s", (int)(found - derived.bytes), derived.bytes,
            found);
  if (!status && (!out || fclose(out))) status = NABLA_NO_MEMORY;
  if (!status && !found) {
    snprintf(diag->what, sizeof diag->what, "the derivative has no @decoder");
    status = NABLA_CORRUPT;
  }
  nabla_blob_release(&derived);
  return status;
}

static int compile(int layers, variant v) {
  nabla_compiler_options options = {.struct_size = sizeof options, .cache = ""};
  nabla_compile_options choice = {.struct_size = sizeof choice,
                                  .policy = "error"};
  nabla_compiler *compiler;
  nabla_executable *executable;
  nabla_diag diag = NABLA_DIAG_INIT;
  size_t size;
  char *text = program_of(layers, v, &size);
  int failed = !text ||
               nabla_compiler_create(&options, NULL, &compiler, &diag) ||
               (v.is_derivative && derive(compiler, &text, &size, &diag));
  double start = milliseconds();
  failed = failed || nabla_compile_text(compiler, text, size, "decoder.mlir",
                                        &choice, &executable, &diag);
  if (failed) {
    fprintf(stderr, "layers: %s\n", diag.what);
    return 1;
  }
  double total = milliseconds() - start;
  nabla_compile_report r = nabla_compiler_last_report(compiler);
  printf("%6d %9s %8.0f %8.0f %8.0f %8.0f %8.0f %8.0f %8.0f", layers,
         v.is_known ? POSITIONS : "?", total, r.parse_ms, r.passes_ms,
         r.translate_ms, r.optimize_ms, r.codegen_ms, r.link_ms);
  fflush(stdout);
  nabla_executable_close(executable);
  nabla_compiler_destroy(compiler);
  free(text);
  return 0;
}

/* In a process of its own, whose memory is measured. */
static int measure(int layers, variant v) {
  int status;
  struct rusage usage;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) _exit(compile(layers, v));
  if (child < 0 || wait4(child, &status, 0, &usage) != child) return 1;
  printf(" %9.1f%s\n", (double)usage.ru_maxrss / 1024,
         v.is_derivative ? "  derivative" : "");
  return !WIFEXITED(status) || WEXITSTATUS(status);
}

static int measure_all(int layers, bool derives) {
  static const variant packed = {false, false, false};
  if (!derives) return measure(layers, packed);
  for (int i = 0; i < 4; i++) {
    const variant v = {true, i < 2, i % 2};
    if (measure(layers, v)) return 1;
  }
  return 0;
}

int main(int argc, char **argv) {
  static const int usual[] = {1, 8, 32};
  const bool derives = argc > 1 && !strcmp(argv[1], "--derivative");
  const int first = 1 + derives;
  printf(
      "ms, the first time in a process; peak memory in MiB\n"
      "%6s %9s %8s %8s %8s %8s %8s %8s %8s %9s\n",
      "layers", "positions", "total", "parse", "passes", "transl.", "optimize",
      "codegen", "link", "peak");
  int failed = 0;
  for (int i = 0; argc <= first && !failed && i < 3; i++)
    failed = measure_all(usual[i], derives);
  for (int i = first; !failed && i < argc; i++) {
    long layers = strtol(argv[i], NULL, 10);
    failed =
        layers < 1 || layers > MAX_LAYERS || measure_all((int)layers, derives);
  }
  return failed;
}
