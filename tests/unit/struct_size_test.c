/* Structures of options: one whose struct_size is not that of the library is
 * refused before anything else is read, and its defaults are accepted. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "nabla/decoder.h"
#include "nabla/encoding.h"
#include "nabla/executable.h"
#include "nabla/matmul.h"
#include "nabla/quantize.h"
#include "nabla/session.h"

/* Other arguments: reading them would show as a crash. */
static void *unreadable = (void *)(uintptr_t)8;
#define P unreadable

static nabla_diag diag;

/* Calls with `options` of several wrong sizes; zero is that of a program which
 * never set the member. */
#define REFUSES(name, type, call)                                        \
  Test(struct_size, name##_of_another_size) {                            \
    type options = {0};                                                  \
    const size_t wrong[] = {0, sizeof options - 1, sizeof options + 8,   \
                            SIZE_MAX};                                   \
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {          \
      options.struct_size = wrong[i];                                    \
      diag = (nabla_diag)NABLA_DIAG_INIT;                                \
      cr_expect_eq(call, NABLA_INVALID_ARGUMENT, "%zu bytes", wrong[i]); \
      cr_expect(strstr(diag.what, "struct_size"), "%s", diag.what);      \
    }                                                                    \
  }
static const nabla_dequantize_options decode = {.struct_size = sizeof decode};
REFUSES(codec, nabla_codec_options, nabla_codec_select(P, &options, P, &diag))
REFUSES(decoder, nabla_decoder_options,
        nabla_decoder_write(P, &options, NULL, P, NULL, &diag))
REFUSES(bind_model, nabla_bind_options,
        nabla_executable_bind_model(P, P, &options, NULL, &diag))
REFUSES(session, nabla_session_options,
        nabla_session_create(P, &options, P, &diag))
REFUSES(session_arrays, nabla_session_arrays,
        nabla_session_call(P, P, &options, &diag))
REFUSES(session_usage, nabla_session_usage,
        nabla_session_memory(P, &options, &diag))
REFUSES(matmul, nabla_matmul_options,
        nabla_matmul_plan_create(P, &options, P, &diag))
REFUSES(plan, nabla_quantize_options,
        nabla_plan_create(P, &options, NULL, P, &diag))
REFUSES(write, nabla_write_options,
        nabla_plan_write(P, &options, NULL, P, &diag))
REFUSES(decode, nabla_dequantize_options,
        nabla_dequantize(P, &options, P, NULL, P, &diag))
REFUSES(decode_to, nabla_write_options,
        nabla_dequantize(P, &decode, &options, NULL, P, &diag))

Test(struct_size, defaults_are_accepted) {
  const nabla_codec_options options = {.struct_size = sizeof options};
  const nabla_format format = {.encoding = nabla_encoding_find("nf4"),
                               .block = 64};
  nabla_codec by_options, by_null;
  cr_assert_eq(nabla_codec_select(&format, &options, &by_options, &diag),
               NABLA_OK);
  cr_assert_eq(nabla_codec_select(&format, NULL, &by_null, &diag), NABLA_OK);
  cr_expect_eq(by_options.isa, by_null.isa);
  cr_expect_eq(by_options.dtype, by_null.dtype);
  cr_expect_eq(by_options.stages, by_null.stages);
}
