/* mini_install.h: small installs for tests, and ways to damage them.
 *
 * Owns:      converting a mini checkpoint, reading and changing files, copying directories.
 * Not here:  the checkpoint (mini_checkpoint.h).
 * Laws:      failures of the helpers end the test program.
 * Threads:   one.
 */
#ifndef TT_TEST_MINI_INSTALL_H
#define TT_TEST_MINI_INSTALL_H

#include "repack/repack.h"
#include "support/mini_checkpoint.h"

/* What a conversion told. */
typedef struct mini_notes {
    char text[16384]; /* one "kind: text" a line */
    size_t lines;
} mini_notes;

tt_repack_events mini_events(mini_notes *notes);

/* Converts the checkpoint in `from` to `to`; `bits` 0 is the default. */
TT_MUST_CHECK tt_status mini_convert(const char *from, const char *to, uint32_t bits,
                                     tt_error *err);
/* Writes a checkpoint to `dir`/source and converts it to `dir`/`name`, whose path is written to
 * `path`. */
void mini_install(const char *dir, const char *name, const mini_options *o, uint32_t bits,
                  char path[600]);

/* Whole file "dir/rel", allocated; release with free. */
char *mini_slurp(const char *dir, const char *rel, size_t *len);
void mini_spew(const char *dir, const char *rel, const void *bytes, size_t len);
/* Changes one byte in place; `at` from the end when negative. Keeps the modification time when
 * `quietly`. */
void mini_poke(const char *dir, const char *rel, int64_t at, unsigned char xor, bool quietly);
void mini_remove(const char *dir, const char *rel);
/* Copies a directory with its subdirectories. */
void mini_copy(const char *from, const char *to);
/* True when both files exist and are equal. */
bool mini_same(const char *dir_a, const char *dir_b, const char *rel);

#endif
