/* Inside quant/: what a nabla_folder holds, and writing it. Functions are
 * defined in quant/write/folder_config.c too. */
#ifndef NABLA_QUANT_HUGGINGFACE_FOLDER_H
#define NABLA_QUANT_HUGGINGFACE_FOLDER_H

#include "lib/base/file/file.h"
#include "lib/base/file/output_temporary.h"
#include "lib/base/memory.h"
#include "nabla/folder.h"
#include "quant/huggingface/hf_config.h"

/* One file; small and of fixed size, so that rows can be sorted. */
typedef struct nabla_folder_row {
  size_t path; /* in `texts` */
  nabla_os_info info;
  nabla_folder_action action;
  const char *reason; /* of LEAVE */
  size_t target;      /* of a link to a file, in `texts`; else 0 */
  int is_hidden;
} nabla_folder_row;

struct nabla_folder {
  const nabla_allocator *allocator;
  const nabla_os *os;
  const nabla_checkpoint *checkpoint;
  const nabla_plan *plan; /* NULL: decoded; not used once it is made */
  nabla_os_info output;   /* of what is at the output, if has_output */
  int has_output;
  nabla_buffer rows, texts;
  /* What may be copied lies below one of these; "" where it is not known, or
   * there is none. */
  char root[NABLA_PATH_SIZE], blobs[NABLA_PATH_SIZE];
  nabla_folder_totals totals;

  int has_config;
  nabla_buffer config; /* the text of config.json */
  nabla_hf_config parsed;
  nabla_config_change change;
  nabla_buffer new_config; /* with INSERT, REPLACE and REMOVE */
  nabla_buffer skip;       /* of nabla_module */
};

static inline int nabla_folder_copies(const nabla_folder_row *row) {
  return row->action == NABLA_FOLDER_COPY || row->action == NABLA_FOLDER_EDIT;
}

const nabla_folder_row *nabla_folder_row_at(const nabla_folder *folder,
                                            size_t index);
const char *nabla_folder_path_at(const nabla_folder *folder, size_t index);

/* Whether a file of that path, or a folder, is written. */
int nabla_folder_writes(const nabla_folder *folder, const char *path,
                        int is_folder);

/* Finds out where the folder is, and the blobs of the cache that it is in. */
NABLA_MUST_USE nabla_status nabla_folder_find_root(nabla_folder *folder,
                                                   const char *path,
                                                   nabla_diag *diag);

/* Whether the absolute path, free of links, leads below the folder or to the
 * blobs. */
int nabla_folder_holds(const nabla_folder *folder, const char *target);

/* Whether an error of nabla_os.path_of means that no path is known, as where
 * /proc is not mounted. */
int nabla_folder_is_unknown(int error);

/* Whether a file there is parsed, so that a link to anywhere is followed. */
int nabla_folder_parses(const char *path);

/* Lists the files: fills rows, texts and totals. */
NABLA_MUST_USE nabla_status nabla_folder_scan(nabla_folder *folder,
                                              nabla_diag *diag);

/* Decides about config.json: fills `change`, `skip` and `new_config`. */
NABLA_MUST_USE nabla_status nabla_folder_decide(nabla_folder *folder,
                                                nabla_diag *diag);

/* NABLA_UNSUPPORTED when the decision is to refuse. */
NABLA_MUST_USE nabla_status nabla_folder_check(const nabla_folder *folder,
                                               nabla_diag *diag);

/* Writes everything into an output folder; adds to the summary. */
NABLA_MUST_USE nabla_status nabla_folder_write(
    const nabla_folder *folder, const nabla_output_folder *output,
    const nabla_environment *environment, const nabla_progress *progress,
    nabla_write_summary *summary, nabla_diag *diag);

#endif
