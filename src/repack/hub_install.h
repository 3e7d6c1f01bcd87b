/* hub_install.h: repository on a hub -> install, without a copy of the checkpoint in between.
 *
 * Owns:      the order of steps: what is it, headers, plan, space, ranges, digests, publication;
 *            what is trusted of an earlier attempt.
 * Not here:  each step.
 * Laws:      (1) what is written is a verified install at the target, or a partial directory that
 *            can be continued and never loads;  (2) of an earlier attempt only what has the
 *            recorded digest counts;  (3) a range that is done is not fetched again;  (4) the
 *            install is the one that tt_repack_run makes of the downloaded checkpoint, but for its
 *            `source`.
 * Threads:   one installation at a time on the calling thread; one thread asks the hub.
 */
#ifndef TT_REPACK_HUB_INSTALL_H
#define TT_REPACK_HUB_INSTALL_H

#include "repack/hub_client.h"
#include "repack/repack.h"

typedef struct tt_hub_install_options {
    tt_repack_options repack; /* input is ignored; model_id NULL: the repository's name */
    tt_hub_options hub;       /* with `resume`, repository and revision may be NULL */
    const char *pin;          /* first digits of the commit that the revision must be, or NULL */
    const char *index_sha256; /* that the checkpoint's index must have, or NULL */
    bool resume;
    bool policy_given;    /* with `resume`: the policy must be the one of the beginning */
    uint64_t range_bytes; /* 0: the default; tests make it small */
    uint64_t window;      /* 0: the default */
} tt_hub_install_options;

typedef struct tt_hub_report {
    char repository[TT_HUB_MAX_REPO + 1], commit[65];
    uint64_t received;         /* bytes from the hub, this time */
    size_t ranges, kept;       /* of the plan; of an earlier attempt */
    uint32_t shards, verified; /* verified: read in order and equal to the hub's SHA-256 */
    size_t recorded;           /* ranges of the others, whose digests the manifest has */
    uint64_t source_bytes;     /* that the ranges have */
    uint64_t first_bytes;      /* of small tensors that are read before; ranges have them too */
    bool finished_before;      /* nothing was left to do */
} tt_hub_report;

TT_MUST_CHECK tt_status tt_hub_install(const tt_hub_install_options *o, const tt_repack_events *ev,
                                       tt_repack_report *report, tt_hub_report *hub, tt_error *err);

/* What an installation would do, from headers alone. */
typedef struct tt_hub_plan {
    char repository[TT_HUB_MAX_REPO + 1], commit[65];
    uint64_t tensors, experts, ranges, vision_tensors;
    uint64_t shard_bytes;   /* of all shards */
    uint64_t source_bytes;  /* to be downloaded */
    uint64_t install_bytes; /* of the install */
    uint64_t disk_bytes;    /* needed at the output, with journal and reserve */
    uint64_t free_bytes;    /* there now */
    double rate;            /* bytes a second, of a probe; 0: not probed */
    json_t *table;          /* array of {name, dtype, bytes, source_bytes}; owned */
} tt_hub_plan;
TT_MUST_CHECK tt_status tt_hub_plan_make(const tt_hub_install_options *o,
                                         const tt_repack_events *ev, tt_hub_plan *out,
                                         tt_error *err);

/* Removes what an interrupted installation into `output` left. TT_ERR_NOT_FOUND when there is
 * nothing. */
TT_MUST_CHECK tt_status tt_hub_discard(const char *output, tt_error *err);

#endif
