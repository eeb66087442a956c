/* Formats and packed buffers for tests of all encodings. */
#ifndef NABLA_TESTS_CODEC_FORMS_H
#define NABLA_TESTS_CODEC_FORMS_H

#include "nabla/encoding.h"

/* Combinations of span, scale type and zero point, allowed or not. */
#define CODEC_FORMS 30

/* Gives combination `number` with blocks of 64 (mx: 32), or as the size of a
 * row or tensor. @return 0 when the encoding has it not */
int codec_form(const nabla_encoding *encoding, size_t number,
               nabla_format *out);

/* Gives the format another block size or row length from a list, by number.
 * @return 0 at the end of the list */
int codec_form_resize(nabla_format *format, size_t number);

/* "int8 row of 64, F16, zero points"; the same memory at each call. */
const char *codec_form_text(const nabla_format *format);

/* Components between canaries. */
typedef struct guarded {
  nabla_packed parts;
  nabla_packed_size size;
  size_t scale_bytes; /* as nabla_encode gives them: dynamic8 is f32 */
  uint8_t *memory;
  size_t memory_bytes;
} guarded;

/* Makes room for `count` values, `shift` units off alignment; aborts when there
 * is no memory. */
guarded guarded_create(const nabla_format *format, size_t count, size_t shift);

/* Says whether all components are the same. */
int guarded_equal(const guarded *a, const guarded *b);

/* Frees. @return 0 when something was written outside the components */
int guarded_destroy(guarded *g);

/* Random numbers, the same in each run. */
uint32_t random_bits(void);
float random_normal(void);

/* Fills components with any bytes. */
void guarded_fill(guarded *g);

#endif
