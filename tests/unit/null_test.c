/* Every function that returns a status, with each pointer NULL in turn: refused
 * by name, and nothing is touched; what ends the life of something takes NULL.
 */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "nabla/checkpoint.h"
#include "nabla/custom_call.h"
#include "nabla/decoder.h"
#include "nabla/dtype.h"
#include "nabla/encoding.h"
#include "nabla/executable.h"
#include "nabla/folder.h"
#include "nabla/ggml.h"
#include "nabla/matmul.h"
#include "nabla/measure.h"
#include "nabla/model.h"
#include "nabla/pool.h"
#include "nabla/profile.h"
#include "nabla/quantize.h"
#include "nabla/safetensors.h"
#include "nabla/session.h"
#include "nabla/sink.h"
#include "nabla/tokenizer.h"
#include "nabla/weight.h"

/* A row is called with P for every other pointer: one that is looked at before
 * all are checked shows as a crash. */
static void *unreadable = (void *)(uintptr_t)8;
#define P unreadable

static void expect(nabla_status status, const nabla_diag *diag,
                   const char *function, const char *parameter) {
  char text[80];
  (void)snprintf(text, sizeof text, " %s is NULL", parameter);
  cr_expect_eq(status, NABLA_INVALID_ARGUMENT, "%s, %s: %d", function,
               parameter, (int)status);
  cr_expect(strstr(diag->what, text), "%s, %s: %s", function, parameter,
            diag->what);
}

#define REFUSED(function, parameter, arguments)     \
  Test(null, function##_##parameter) {              \
    nabla_diag diag = NABLA_DIAG_INIT;              \
    const nabla_status status = function arguments; \
    expect(status, &diag, #function, #parameter);   \
  }
#define OPTIONAL(function, parameter)
#include "tests/unit/null_cases.def"
#undef REFUSED
#undef OPTIONAL

Test(null, lives_that_end) {
  nabla_blob_release(NULL);
  nabla_checkpoint_close(NULL);
  nabla_executable_close(NULL);
  nabla_dense_release(NULL, NULL);
  nabla_folder_destroy(NULL);
  nabla_matmul_plan_destroy(NULL);
  nabla_model_close(NULL);
  nabla_packed_model_close(NULL);
  nabla_plan_destroy(NULL);
  nabla_pool_destroy(NULL);
  nabla_comm_destroy(NULL);
  nabla_session_close(NULL);
  nabla_tensor_file_close(NULL);
  nabla_tokenizer_close(NULL);
  nabla_safetensors_writer_destroy(NULL);
}
