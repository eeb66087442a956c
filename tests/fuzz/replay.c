/* Runs a fuzz target over inputs, for builds without libFuzzer:
 * replay ARCHIVE.txt... (tests/support/corpus.h). Fails when an archive holds
 * no input or cannot be read. */
#include <stdint.h>
#include <stdio.h>

#include "tests/fuzz/fuzz.h"
#include "tests/support/corpus.h"

static void replay(void *context, const char *name, const uint8_t *data,
                   size_t size) {
  (void)context;
  (void)name;
  (void)LLVMFuzzerTestOneInput(data, size);
}

int main(int argc, char **argv) {
  long total = 0;
  for (int i = 1; i < argc; i++) {
    long inputs = corpus_read(argv[i], replay, NULL);
    if (inputs == 0) fprintf(stderr, "replay: %s has no inputs\n", argv[i]);
    if (inputs <= 0) return 1;
    total += inputs;
  }
  printf("figure: inputs_replayed %ld\n", total);
  return total == 0;
}
