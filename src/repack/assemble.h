/* assemble.h: the files of an install around its payload: list, checksums, tokenizer, manifest,
 * receipt.
 *
 * Owns:      the list of files with digests, and what is written after the weights.
 * Not here:  the weights (repack.c, hub_install.c), publication (target.h).
 * Laws:      the manifest is written last, after a receipt for the final path.
 * Threads:   one at a time.
 */
#ifndef TT_REPACK_ASSEMBLE_H
#define TT_REPACK_ASSEMBLE_H

#include "format/install_writer.h"
#include "repack/checkpoint.h"
#include "repack/emit.h"
#include "repack/repack.h"

typedef struct tt_assembly {
    const tt_repack_events *ev;
    const char *dir; /* where the files are written */
    const tt_snapshot *snap;
    const tt_repack_plan *plan;
    uint32_t *crc;        /* of every expert, by layer; owned */
    uint64_t done, total; /* bytes of the whole job, for progress */
    /* The files so far; digests and names are stored beside them. */
    tt_install_file files[TT_MAX_INSTALL_FILES];
    tt_emitted emitted[TT_MAX_INSTALL_FILES];
    char rels[TT_MAX_INSTALL_FILES][64];
    size_t n_files;
    tt_manifest_content content;
} tt_assembly;

/* Takes memory for the checksums and checks the number of files. `a` is zeros but for ev. */
TT_MUST_CHECK tt_status tt_assembly_init(tt_assembly *a, const char *dir, const tt_snapshot *snap,
                                         const tt_repack_plan *plan, tt_error *err);
void tt_assembly_free(tt_assembly *a);

/* Bytes of all files but manifest and receipt, and what blocks and directories take beside them. */
uint64_t tt_assembly_payload(const tt_snapshot *snap, const tt_repack_plan *plan);
uint64_t tt_assembly_slack(const tt_repack_plan *plan);

/* A file of the install, front to back. */
TT_MUST_CHECK tt_status tt_assembly_begin(tt_assembly *a, const char *rel, tt_emit *e,
                                          tt_error *err);
TT_MUST_CHECK tt_status tt_assembly_finish(tt_assembly *a, const char *rel, tt_emit *e,
                                           tt_error *err);
/* Lists a file whose size, time and digest are known. */
void tt_assembly_list(tt_assembly *a, const char *rel, const tt_emitted *is);

TT_MUST_CHECK tt_status tt_assembly_crc_table(tt_assembly *a, tt_error *err);
TT_MUST_CHECK tt_status tt_assembly_tokenizer(tt_assembly *a, tt_error *err);
/* Receipt for `path`, then the manifest; fills digest, files and bytes of the report. */
TT_MUST_CHECK tt_status tt_assembly_manifest(tt_assembly *a, const char *model_id, const char *path,
                                             tt_repack_report *report, tt_error *err);
/* What a report says of plan and checkpoint. */
void tt_assembly_report(const tt_assembly *a, const char *model_id, const char *path,
                        tt_repack_report *report);

/* Tells what the tokenizer files of a checkpoint lack, after `check_text` has judged them. */
TT_MUST_CHECK tt_status tt_assembly_check_text(const tt_repack_options *o, tt_snapshot *snap,
                                               uint32_t vocab, const tt_repack_events *ev,
                                               tt_error *err);

#endif
