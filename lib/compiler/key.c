/* Keys of the object cache; see key.h. */
#include "lib/compiler/key.h"

#include <elf.h>
#include <link.h>
#include <llvm-c/Core.h>
#include <string.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "nabla/version.h"

/* Parts are hashed with their length, so that none runs into the next. */
static void add(XXH3_state_t *hash, const void *data, size_t size) {
  uint64_t length = size;
  (void)XXH3_128bits_update(hash, &length, sizeof length);
  (void)XXH3_128bits_update(hash, data, size);
}

static void add_text(XXH3_state_t *hash, const char *text) {
  add(hash, text, strlen(text));
}

static void add_chunk(MlirStringRef chunk, void *hash) {
  (void)XXH3_128bits_update(hash, chunk.data, chunk.length);
}

/* ---- the build ---- */

typedef struct search {
  uintptr_t address; /* of something in the wanted file */
  XXH3_state_t *hash;
} search;

/* The build id is a note of the linker: GNU, type 3. 1 when found. */
static int add_notes(XXH3_state_t *hash, const uint8_t *notes, size_t size) {
  size_t at = 0;
  while (size - at >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    memcpy(&note, notes + at, sizeof note);
    size_t name = at + sizeof note;
    size_t text = name + (((size_t)note.n_namesz + 3) & ~(size_t)3);
    size_t next = text + (((size_t)note.n_descsz + 3) & ~(size_t)3);
    if (next > size || next <= at) return 0;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        !memcmp(notes + name, "GNU", 4)) {
      add(hash, notes + text, note.n_descsz);
      return 1;
    }
    at = next;
  }
  return 0;
}

/* Without a build id: which file it is and when it was written. */
static void add_file(XXH3_state_t *hash, const char *path) {
  struct stat info;
  if (stat(path && *path ? path : "/proc/self/exe", &info)) return;
  int64_t parts[] = {(int64_t)info.st_dev, (int64_t)info.st_ino,
                     (int64_t)info.st_size, (int64_t)info.st_mtim.tv_sec,
                     (int64_t)info.st_mtim.tv_nsec};
  add(hash, parts, sizeof parts);
}

static int visit(struct dl_phdr_info *info, size_t size, void *self) {
  search *s = self;
  int here = 0;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum && !here; i++) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    uintptr_t begin = info->dlpi_addr + part->p_vaddr;
    here = part->p_type == PT_LOAD && s->address >= begin &&
           s->address - begin < part->p_memsz;
  }
  if (!here) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    if (part->p_type != PT_NOTE) continue;
    const uint8_t *notes =
        (const uint8_t *)(uintptr_t)(info->dlpi_addr + part->p_vaddr);
    if (add_notes(s->hash, notes, part->p_memsz)) return 1;
  }
  add_file(s->hash, info->dlpi_name);
  return 1;
}

static void add_build(XXH3_state_t *hash, uintptr_t address) {
  search s = {address, hash};
  dl_iterate_phdr(visit, &s);
}

/* ---- the key ---- */

nabla_status nabla_key_make(MlirModule module, const char *asked,
                            const nabla_machine *target, nabla_cache_key *out,
                            nabla_diag *diag) {
  XXH3_state_t *hash = XXH3_createState();
  if (!hash) return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a key");
  (void)XXH3_128bits_reset(hash);
  add_text(hash, "nabla object 1 " NABLA_VERSION);
  add_build(hash, (uintptr_t)&nabla_key_make);
  unsigned version[3];
  LLVMGetVersion(&version[0], &version[1], &version[2]);
  add(hash, version, sizeof version);
  add_build(hash, (uintptr_t)&LLVMGetVersion);
  add_text(hash, asked);
  add_text(hash, target->triple);
  add_text(hash, target->cpu);
  add_text(hash, target->features);
  mlirOperationWriteBytecode(mlirModuleGetOperation(module), add_chunk, hash);
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(hash));
  memcpy(out->bytes, canonical.digest, NABLA_CACHE_KEY_SIZE);
  XXH3_freeState(hash);
  return NABLA_OK;
}
