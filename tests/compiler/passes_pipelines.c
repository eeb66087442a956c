/* Pipelines: each can be written from the default values and from those of the
 * compiler, a planned stage adds nothing, and a value that is not there is
 * refused with its name. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "transforms/pipelines.h"

static int failures;

static void expect(bool good, const char *what, const char *of) {
  if (good) return;
  printf("failed: %s: %s\n", of, what);
  failures++;
}

static void check_rows(void) {
  for (int id = 0; id < NABLA_PIPELINE_COUNT; id++) {
    const nabla_pipeline p = nabla_pipeline_get((nabla_pipeline_id)id);
    nabla_text text = {0}, last = {0};
    nabla_diag diag = NABLA_DIAG_INIT;
    expect(!nabla_pipeline_write((nabla_pipeline_id)id, nabla_pipeline_defaults,
                                 &text, &diag),
           diag.what, p.flag);
    expect(text.size && !strchr(text.data, '$'), "an unknown value", p.flag);
    expect(text.size && !strstr(text.data, ",,"), "an empty pass", p.flag);
    expect(p.stage_count > 0, "no stages", p.flag);
    for (size_t i = 0; i < p.stage_count; i++) {
      expect(*p.stages[i].passes, "says nothing", p.stages[i].id);
      expect(strlen(p.stages[i].id) < 15, "is a long name", p.stages[i].id);
      for (size_t k = 0; k < i; k++)
        expect(strcmp(p.stages[i].id, p.stages[k].id), "is there twice",
               p.stages[i].id);
    }
    expect(!nabla_stage_write(&p.stages[p.stage_count - 1],
                              nabla_pipeline_defaults, &last, NULL) &&
               last.size < text.size &&
               !strcmp(text.data + text.size - last.size, last.data),
           "does not end with its last stage", p.flag);
    nabla_text_deinit(&text);
    nabla_text_deinit(&last);
  }
}

static void check_places(void) {
  static const char *const places[] = {"differentiate", "batch", "partition",
                                       "device"};
  const nabla_pipeline p = nabla_pipeline_get(NABLA_PIPELINE_cpu);
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    size_t at = 0;
    while (at < p.stage_count && strcmp(p.stages[at].id, places[i])) at++;
    expect(at < p.stage_count, "is no stage", places[i]);
  }
}

static void check_values(void) {
  const nabla_stage x86 = {"x86", "a", NABLA_STAGE_x86};
  const nabla_stage portable = {"portable", "b", NABLA_STAGE_portable};
  const nabla_pipeline_value on_x86[] = {{"target_name", "x86"}, {NULL, NULL}};
  const nabla_stage planned = {"later", "$what, one day", NABLA_STAGE_PLANNED};
  const nabla_stage two = {"two", "cse,x{a=$one b=$two_b}", NABLA_STAGE_ALWAYS};
  const nabla_pipeline_value one[] = {{"one", "1"}, {NULL, NULL}};
  const nabla_pipeline_value both[] = {
      {"one", "1"}, {"two_b", "$one"}, {NULL, NULL}};
  nabla_text text = {0};
  nabla_diag diag = NABLA_DIAG_INIT;
  expect(!nabla_stage_write(&planned, one, &text, NULL) && text.size == 0,
         "writes something", "planned");
  expect(nabla_stage_write(&two, one, &text, &diag) == NABLA_INVALID_ARGUMENT,
         "takes what is not there", "two");
  expect(strstr(diag.what, "'two_b'") && strstr(diag.what, "'two'"), diag.what,
         "two");
  text.size = 0;
  expect(!nabla_stage_write(&two, both, &text, NULL) &&
             !strcmp(text.data, "cse,x{a=1 b=$one}"),
         text.data, "both");
  text.size = 0;
  expect(!nabla_stage_write(&x86, on_x86, &text, NULL) &&
             !nabla_stage_write(&portable, on_x86, &text, NULL) &&
             !strcmp(text.data, "a"),
         text.data, "stages of targets");
  nabla_text_deinit(&text);
}

int main(void) {
  check_rows();
  check_places();
  check_values();
  if (failures) return 1;
  printf("pipelines: passed\n");
  return 0;
}
