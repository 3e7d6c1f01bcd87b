/* repack.h: checkpoint -> install, start to end.
 *
 * Owns:      the order of steps: plan, check, write, publish.
 * Not here:  each step (tensor_plan.h, convert.h, target.h), printing (apps/repack/).
 * Laws:      (1) what is written is a verified install at the target, or nothing;  (2) nothing is
 *            printed: what is to be told goes through the events.
 * Threads:   one conversion at a time on the calling thread, with a pool inside.
 */
#ifndef TT_REPACK_REPACK_H
#define TT_REPACK_REPACK_H

#include "repack/tensor_plan.h"

typedef struct tt_repack_options {
    const char *input;    /* checkpoint directory */
    const char *output;   /* install to write */
    const char *model_id; /* NULL: the checkpoint directory's name */
    tt_policy policy;
    bool overwrite;
    /* Judges the tokenizer files in `dir` for a model of `vocab` ids before anything is written,
     * and says whether a chat template is among them; NULL: they are copied unseen. This room
     * cannot read them itself. */
    tt_status (*check_text)(void *ctx, const char *dir, uint32_t vocab, bool *has_template,
                            tt_error *err);
    void *check_ctx;
    unsigned threads;      /* 0: one a physical core */
    uint64_t chunk_values; /* 0: the default; tests make it small */
} tt_repack_options;

typedef struct tt_repack_report {
    char path[TT_MAX_PATH]; /* the install */
    char model_id[TT_MAX_MODEL_ID + 1];
    char manifest_sha256[65];
    size_t files;   /* with the manifest */
    uint64_t bytes; /* of those files */
    uint64_t tensors, experts, vision_tensors, kept_tensors;
    bool has_tokenizer, has_template;
} tt_repack_report;

TT_MUST_CHECK tt_status tt_repack_run(const tt_repack_options *o, const tt_repack_events *ev,
                                      tt_repack_report *report, tt_error *err);

/* "2026-01-31T12:00:00Z", now. */
void tt_repack_time(char out[32]);
/* What writes manifests and receipts: "TinyTitanRepack 0.1.0". */
#define TT_REPACK_TOOL "TinyTitanRepack " TT_VERSION_STRING

#endif
