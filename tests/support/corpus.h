/* Archives of fuzzer inputs, tests/fuzz/corpus/TARGET.txt: one input a line, a
 * name, a blank, and the bytes between quotation marks: printable ASCII as it
 * is, \\ and \" for these two, \n, \r, \t, and \x with two digits for other
 * bytes. Text, so that git shows which input changed and how. Lines that begin
 * with # are remarks. scripts/corpus packs and unpacks them. */
#ifndef NABLA_TESTS_CORPUS_H
#define NABLA_TESTS_CORPUS_H

#include <stddef.h>
#include <stdint.h>

/* Called with each input: memory of exactly its size, which the call may not
 * keep. */
typedef void (*corpus_input)(void *context, const char *name,
                             const uint8_t *data, size_t size);

/* Reads an archive and passes its inputs on, in its order. Returns how many;
 * -1, with a message on standard error that names file and line, for a file
 * that cannot be read or a line that is none. */
long corpus_read(const char *path, corpus_input input, void *context);

#endif
