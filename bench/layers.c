/* How long compiling a decoder takes, and how much memory: NF4 weights, grouped
 * heads, any number of positions, all layers alike. Each row is a process of
 * its own, which compiles once.
 *
 *   layers [LAYERS...]     1, 8 and 32 of them without arguments */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nabla/compiler.h"

#define MAX_LAYERS 1000

/* Parameters of a layer, in the order in which they are passed; `#` stands for
 * its number in all that follows. */
static const char arguments[] =
    ", %n#: !v, %m#: !v, %q#: !w, %k#: !s, %u#: !s, %o#: !w, %g#: !up, %h#: "
    "!up, %d#: !down";

static const char body[] =
    "  %a# = nabla.rms_norm %x#, %n# eps = 1.0e-5 : !x, !v\n"
    "  %b# = nabla.linear %a#, %q# : !x, !w\n"
    "  %c# = nabla.linear %a#, %k# : !x, !s\n"
    "  %e# = nabla.linear %a#, %u# : !x, !s\n"
    "  %b1# = nabla.reshape %b# sizes(%t) : !x -> tensor<?x32x128xf32>\n"
    "  %c1# = nabla.reshape %c# sizes(%t) : tensor<?x1024xf32> -> "
    "tensor<?x8x128xf32>\n"
    "  %e1# = nabla.reshape %e# sizes(%t) : tensor<?x1024xf32> -> "
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
    "  %f2# = nabla.reshape %f1# sizes(%t) : tensor<?x32x128xf32> -> !x\n"
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
    "!w = !nabla.implicit<4096x4096xf32, #nabla.nf4<block = 64>>\n"
    "!s = !nabla.implicit<1024x4096xf32, #nabla.nf4<block = 64>>\n"
    "!up = !nabla.implicit<11008x4096xf32, #nabla.nf4<block = 64>>\n"
    "!down = !nabla.implicit<4096x11008xf32, #nabla.nf4<block = 64>>\n";

/* `text` with the number of a layer for #, the next one for @. */
static void print_layer(FILE *out, const char *text, int layer) {
  for (; *text; text++) {
    if (*text == '#' || *text == '@')
      fprintf(out, "_%d", layer + (*text == '@'));
    else
      putc(*text, out);
  }
}

static char *program_of(int layers, size_t *size) {
  char *text = NULL;
  FILE *out = open_memstream(&text, size);
  if (!out) return NULL;
  fprintf(out, "%sfunc.func @decoder(%%x_0: !x, %%p: tensor<?xi64>", aliases);
  for (int i = 0; i < layers; i++) print_layer(out, arguments, i);
  fprintf(out,
          ") -> !x {\n  %%zero = arith.constant 0 : index\n"
          "  %%t = tensor.dim %%x_0, %%zero : !x\n");
  for (int i = 0; i < layers; i++) print_layer(out, body, i);
  fprintf(out, "  return %%x_%d : !x\n}\n", layers);
  if (fclose(out)) return NULL;
  return text;
}

static double milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int compile(int layers) {
  nabla_compiler_options options = {.struct_size = sizeof options, .cache = ""};
  nabla_compile_options choice = {.struct_size = sizeof choice,
                                  .policy = "error"};
  nabla_compiler *compiler;
  nabla_executable *executable;
  nabla_diag diag = NABLA_DIAG_INIT;
  size_t size;
  char *text = program_of(layers, &size);
  double start = milliseconds();
  int failed = !text ||
               nabla_compiler_create(&options, NULL, &compiler, &diag) ||
               nabla_compile_text(compiler, text, size, "decoder.mlir", &choice,
                                  &executable, &diag);
  if (failed) {
    fprintf(stderr, "layers: %s\n", diag.what);
    return 1;
  }
  double total = milliseconds() - start;
  nabla_compile_report r = nabla_compiler_last_report(compiler);
  printf("%6d %8.0f %8.0f %8.0f %8.0f %8.0f %8.0f %8.0f", layers, total,
         r.parse_ms, r.passes_ms, r.translate_ms, r.optimize_ms, r.codegen_ms,
         r.link_ms);
  fflush(stdout);
  nabla_executable_close(executable);
  nabla_compiler_destroy(compiler);
  free(text);
  return 0;
}

/* In a process of its own, whose memory is measured. */
static int measure(int layers) {
  int status;
  struct rusage usage;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) _exit(compile(layers));
  if (child < 0 || wait4(child, &status, 0, &usage) != child) return 1;
  printf(" %9.1f\n", (double)usage.ru_maxrss / 1024);
  return !WIFEXITED(status) || WEXITSTATUS(status);
}

int main(int argc, char **argv) {
  static const int usual[] = {1, 8, 32};
  printf(
      "ms, the first time in a process; peak memory in MiB\n"
      "%6s %8s %8s %8s %8s %8s %8s %8s %9s\n",
      "layers", "total", "parse", "passes", "transl.", "optimize", "codegen",
      "link", "peak");
  int failed = 0;
  for (int i = 0; argc < 2 && !failed && i < 3; i++) failed = measure(usual[i]);
  for (int i = 1; !failed && i < argc; i++) {
    long layers = strtol(argv[i], NULL, 10);
    failed = layers < 1 || layers > MAX_LAYERS || measure((int)layers);
  }
  return failed;
}
