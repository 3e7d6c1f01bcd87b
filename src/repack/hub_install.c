#include "repack/hub_install.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "format/install_layout.h"
#include "repack/assemble.h"
#include "repack/hub_fetch.h"
#include "repack/hub_sides.h"
#include "repack/hub_source.h"
#include "repack/scan.h"
#include "repack/segments.h"
#include "repack/target.h"

#define SYNC_BYTES   (64 * TT_MIB)   /* of source between two syncs of the journal */
#define SPACE_BYTES  (256 * TT_MIB)  /* of source between two looks at the free space */
#define RESERVE      (64 * TT_MIB)   /* left to others */
#define MAX_RECORDED ((size_t)65536) /* ranges whose digests a manifest has room for */

/* One installation. */
typedef struct work {
    const tt_hub_install_options *o;
    const tt_repack_events *ev;
    tt_target target;
    tt_hub *hub;
    tt_hub_state state;
    tt_journal *journal;
    tt_hub_source source;
    tt_hub_sides sides;
    tt_snapshot snap;
    tt_repack_plan plan;
    tt_segments seg;
    tt_converter *conv;
    tt_segment_bytes bytes;
    tt_emit *out; /* one for each payload file */
    tt_assembly a;
    tt_hub_report *hr;
    /* The range that the converter reads from. */
    const tt_source_range *range;
    const unsigned char *range_bytes;
    uint64_t done; /* source bytes of ranges that are done */
    /* The shard whose digest is taken, and how far. */
    tt_sha256 *sha;
    uint32_t sha_shard;
    uint64_t sha_at;
    bool sha_on;
} work;

/* ---- the checkpoint that is elsewhere ---- */

static tt_status read_remote(void *ctx, uint32_t shard, uint64_t offset, void *buf, size_t n,
                             tt_error *err)
{
    const work *w = ctx;
    const tt_source_range *r = w->range;
    if (tt_hub_sides_read(&w->sides, shard, offset, buf, n))
        return TT_OK;
    if (r == NULL || r->shard != shard || offset < r->begin || n > r->end - r->begin ||
        offset - r->begin > r->end - r->begin - n)
        return tt_fail(err, TT_ERR_INTERNAL, "bytes were asked for that are not in the range");
    memcpy(buf, w->range_bytes + (offset - r->begin), n);
    return TT_OK;
}

static tt_status remote_size(void *ctx, const char *shard, uint64_t *bytes, tt_error *err)
{
    return tt_hub_source_size(&((work *)ctx)->source, shard, bytes, err);
}

static const char *shard_name(const work *w, uint32_t shard)
{
    return strrchr(tt_safetensors_shard_path(w->snap.st, shard), '/') + 1;
}

static tt_hub_file *shard_file(const work *w, uint32_t shard)
{
    const char *name = shard_name(w, shard);
    for (uint32_t i = 0; i < w->source.n_shards; i++)
        if (strcmp(w->source.shards[i].name, name) == 0)
            return &w->source.shards[i];
    return NULL;
}

/* ---- identity ---- */

static tt_status path_in_work(const work *w, const char *name, char path[TT_MAX_PATH],
                              tt_error *err)
{
    return tt_path_join(path, w->target.work, name, err);
}

static tt_status open_journal(work *w, tt_error *err)
{
    char path[TT_MAX_PATH];
    TT_TRY(path_in_work(w, "journal", path, err));
    return tt_journal_open(path, tt_hub_state_line, &w->state, &w->journal, err);
}

static tt_status differs(tt_error *err, const char *what, const char *was, const char *is)
{
    return tt_fail(
        err, TT_ERR_STATE,
        "the partial install was begun with %s %s, not %s: continue it with that, or remove "
        "it with --discard-partial",
        what, was, is);
}

/* What was asked for now agrees with what was begun. */
static tt_status check_begun(const work *w, tt_error *err)
{
    const tt_hub_install_options *o = w->o;
    const tt_hub_state *s = &w->state;
    if (o->hub.repository != NULL && strcmp(o->hub.repository, s->repository) != 0)
        return differs(err, "repository", s->repository, o->hub.repository);
    if (o->hub.revision != NULL && strcmp(o->hub.revision, s->requested) != 0 &&
        strcmp(o->hub.revision, s->commit) != 0)
        return differs(err, "revision", s->requested, o->hub.revision);
    if (o->pin != NULL && strncmp(o->pin, s->commit, strlen(o->pin)) != 0)
        return differs(err, "commit", s->commit, o->pin);
    if (o->repack.model_id != NULL && strcmp(o->repack.model_id, s->model_id) != 0)
        return differs(err, "model id", s->model_id, o->repack.model_id);
    if (o->policy_given && memcmp(&o->repack.policy, &s->policy, sizeof s->policy) != 0)
        return tt_fail(
            err, TT_ERR_STATE,
            "the partial install was begun with other widths (--bits, --role-bits): leave "
            "them away to continue it, or remove it with --discard-partial");
    return TT_OK;
}

static tt_status choose_model_id(work *w, tt_error *err)
{
    const char *id = w->o->repack.model_id;
    if (id == NULL)
        id = strchr(w->o->hub.repository, '/') + 1;
    if (!tt_model_id_valid(id))
        return tt_fail(err, TT_ERR_INVALID,
                       "\"%.100s\" cannot be a model id: give one with --model-id", id);
    strcpy(w->state.model_id, id);
    return TT_OK;
}

static tt_status connect_hub(work *w, tt_error *err)
{
    tt_hub_options h = w->o->hub;
    if (w->state.begun) {
        h.repository = w->state.repository;
        h.revision = w->state.requested;
    }
    TT_TRY(tt_hub_open(&h, w->ev, &w->hub, err));
    if (w->state.begun)
        tt_hub_pin(w->hub, w->state.commit);
    return TT_OK;
}

static tt_status begin(work *w, tt_error *err)
{
    tt_hub_state *s = &w->state;
    const tt_hub_install_options *o = w->o;
    tt_hub_listing l = {0};
    tt_note(w->ev, TT_NOTE_STAGE, "asking for %s", o->hub.repository);
    TT_TRY(choose_model_id(w, err));
    TT_TRY(tt_hub_source_list(w->hub, o->hub.revision, &l, err));
    strcpy(s->commit, l.commit);
    json_decref(s->names);
    json_decref(s->sizes);
    s->names = l.names;
    s->sizes = l.sizes;
    if (o->pin != NULL && strncmp(o->pin, s->commit, strlen(o->pin)) != 0)
        return tt_fail(err, TT_ERR_STATE,
                       "%s of %s is the commit %s by now, the catalogue has %s: give --repo and "
                       "--revision to install it all the same",
                       o->hub.revision, o->hub.repository, s->commit, o->pin);
    strcpy(s->repository, o->hub.repository);
    strcpy(s->requested, o->hub.revision);
    s->policy = o->repack.policy;
    s->range_bytes = o->range_bytes;
    tt_hub_pin(w->hub, s->commit);
    return tt_hub_state_begin(s, w->journal, err);
}

/* ---- plan ---- */

/* What the hub says of each file goes into the description of the source. */
static tt_status describe_source(work *w, tt_error *err)
{
    json_t *files = json_object_get(w->snap.source, "files"), *entry;
    const char *name;
    int rc = json_object_set_new(w->snap.source, "repository", json_string(w->state.repository));
    rc |= json_object_set_new(w->snap.source, "revision", json_string(w->state.commit));
    json_object_foreach(files, name, entry)
    {
        const json_t *f = json_object_get(w->state.files, name);
        const char *id = json_string_value(json_object_get(f, "id"));
        if (id != NULL && id[0] != '\0')
            rc |= json_object_set_new(entry, "hub_id", json_string(id));
    }
    if (rc != 0)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the description of the source");
    const char *want = w->o->index_sha256,
               *is = json_string_value(json_object_get(w->snap.source, "index_sha256"));
    if (want != NULL && strcmp(want, is) != 0)
        return tt_fail(err, TT_ERR_STATE,
                       "the index of %s has the SHA-256 %s, the catalogue has %s: this is not the "
                       "checkpoint that was pinned",
                       w->state.repository, is, want);
    return TT_OK;
}

static tt_status make_plan(work *w, tt_error *err)
{
    char dir[TT_MAX_PATH];
    tt_st_remote remote = {w, remote_size, read_remote};
    TT_TRY(path_in_work(w, "source", dir, err));
    TT_TRY(tt_hub_source_fetch(w->hub, dir, &w->state, w->journal, w->ev, &w->source, err));
    TT_TRY(tt_snapshot_open(dir, &remote, &w->snap, err));
    TT_TRY(describe_source(w, err));
    TT_TRY(tt_repack_plan_create(w->snap.st, w->snap.config, w->snap.config_path, &w->state.policy,
                                 w->ev, &w->plan, err));
    TT_TRY(tt_assembly_check_text(&w->o->repack, &w->snap, w->plan.arch.vocab_size, w->ev, err));
    TT_TRY(tt_assembly_init(&w->a, w->target.partial, &w->snap, &w->plan, err));
    return tt_segments_create(w->snap.st, &w->plan, w->state.range_bytes, w->o->repack.chunk_values,
                              &w->seg, err);
}

static tt_status fetch_sides(work *w, tt_error *err)
{
    uint32_t n = tt_safetensors_shards(w->snap.st);
    tt_hub_file **files = calloc(n, sizeof *files);
    if (files == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %u shards", n);
    for (uint32_t i = 0; i < n; i++)
        files[i] = shard_file(w, i);
    /* Where ranges are small, as in tests, so are the gaps between what is read at once. */
    tt_status st = tt_hub_sides_find(&w->plan, w->state.range_bytes / 256, &w->sides, err);
    if (st == TT_OK)
        st = tt_hub_sides_fetch(&w->sides, w->hub, files, w->source.dir, &w->state, w->journal,
                                w->ev, err);
    free(files);
    w->hr->first_bytes = w->sides.total;
    return st;
}

static tt_status settle_plan(work *w, tt_error *err)
{
    tt_hub_state *s = &w->state;
    if (s->n_ranges == 0)
        return tt_hub_state_plan(s, w->journal, w->seg.fingerprint, w->seg.n_ranges, err);
    if (strcmp(s->plan, w->seg.fingerprint) != 0 || s->n_ranges != w->seg.n_ranges)
        return tt_fail(
            err, TT_ERR_STATE,
            "the partial install was begun with another plan (%.12s, now %.12s), perhaps by "
            "another version of this program: finish it with that, or remove it with "
            "--discard-partial",
            s->plan, w->seg.fingerprint);
    return TT_OK;
}

/* Bytes of the payload that take no place on the disk yet. */
static uint64_t missing_bytes(const work *w)
{
    uint64_t need = tt_assembly_payload(&w->snap, &w->plan);
    for (uint32_t i = 0; i < w->seg.n_files; i++) {
        char path[TT_MAX_PATH];
        struct stat sb;
        if (tt_path_join(path, w->target.partial, w->seg.files[i].rel, NULL) != TT_OK ||
            stat(path, &sb) != 0)
            continue;
        uint64_t there = (uint64_t)sb.st_blocks * 512;
        if (there > (uint64_t)sb.st_size)
            there = (uint64_t)sb.st_size;
        need -= there < need ? there : need;
    }
    return need;
}

static uint64_t disk_need(const work *w)
{
    uint64_t journal = w->seg.n_ranges * 192 + TT_MIB;
    return missing_bytes(w) + tt_assembly_slack(&w->plan) + journal + RESERVE;
}

/* ---- payload files ---- */

static tt_status open_payload(work *w, tt_error *err)
{
    char path[TT_MAX_PATH];
    if ((w->out = calloc(w->seg.n_files, sizeof *w->out)) == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %u files", w->seg.n_files);
    for (uint32_t i = 0; i < w->seg.n_files; i++)
        w->out[i].fd = -1;
    if (tt_arch_is_moe(&w->plan.arch)) {
        TT_TRY(tt_path_join(path, w->target.partial, TT_EXPERTS_DIR, err));
        TT_TRY(tt_dir_make(path, err));
    }
    for (uint32_t i = 0; i < w->seg.n_files; i++) {
        const tt_payload_file *f = &w->seg.files[i];
        void *index = NULL;
        TT_TRY(tt_path_join(path, w->target.partial, f->rel, err));
        TT_TRY(tt_emit_open(&w->out[i], path, f->size, err));
        if (f->index == NULL)
            continue;
        bool mtp = f->index == &w->plan.mtp;
        TT_TRY(tt_index_encode(f->index, &index, err));
        tt_status st = tt_emit_write(&w->out[i], index, f->index->index_bytes, 0, err);
        if (st == TT_OK)
            st = tt_sha256_of(
                index, f->index->index_bytes,
                mtp ? w->a.content.mtp_index_sha256 : w->a.content.weights_index_sha256, err);
        free(index);
        TT_TRY(st);
    }
    return TT_OK;
}

static tt_status sync_payload(work *w, tt_error *err)
{
    for (uint32_t i = 0; i < w->seg.n_files; i++)
        if (fdatasync(w->out[i].fd) != 0)
            return tt_fail_errno(err, errno, w->out[i].path, "cannot sync %s", w->out[i].path);
    return TT_OK;
}

static tt_status progress(const work *w, uint64_t done, uint64_t total, tt_error *err)
{
    if (w->ev != NULL && w->ev->progress != NULL && !w->ev->progress(w->ev->ctx, done, total))
        return tt_fail(err, TT_ERR_ABORTED, "stopped");
    return TT_OK;
}

/* ---- what an earlier attempt left ---- */

static tt_status rehash(work *w, size_t i, tt_sha256 *sha, bool *same, tt_error *err)
{
    const tt_source_range *r = &w->seg.ranges[i];
    char hex[TT_SHA256_HEX];
    for (size_t k = r->first; k < r->first + r->count; k++) {
        TT_TRY(tt_segment_read_back(&w->seg.items[k], w->out, &w->bytes, err));
        TT_TRY(tt_segment_hash(&w->seg.items[k], &w->bytes, sha, err));
    }
    TT_TRY(tt_sha256_finish(sha, hex, err));
    *same = strcmp(hex, w->state.ranges[i]) == 0;
    return TT_OK;
}

static tt_status trust_what_stands(work *w, tt_error *err)
{
    tt_sha256 *sha = NULL;
    size_t lost = 0;
    uint64_t looked = 0, all = 0;
    if (w->o->resume)
        TT_TRY(tt_segments_clear_gaps(&w->seg, w->out, err));
    if (w->state.done == 0)
        return TT_OK;
    tt_note(w->ev, TT_NOTE_STAGE, "checking what is there");
    TT_TRY(tt_sha256_create(&sha, err));
    tt_status st = TT_OK;
    for (size_t i = 0; i < w->seg.n_ranges; i++)
        all += w->state.ranges[i][0] != '\0' ? w->seg.ranges[i].end - w->seg.ranges[i].begin : 0;
    for (size_t i = 0; i < w->seg.n_ranges && st == TT_OK; i++) {
        bool same = false;
        if (w->state.ranges[i][0] == '\0')
            continue;
        st = rehash(w, i, sha, &same, err);
        if (st != TT_OK)
            break;
        looked += w->seg.ranges[i].end - w->seg.ranges[i].begin;
        st = progress(w, looked, all, err);
        if (same) {
            w->done += w->seg.ranges[i].end - w->seg.ranges[i].begin;
            w->hr->kept++;
        } else {
            w->state.ranges[i][0] = '\0';
            lost++;
        }
    }
    tt_sha256_close(&sha);
    if (st == TT_OK && lost > 0)
        tt_note(
            w->ev, TT_NOTE_WARNING,
            "%zu of %zu finished ranges do not have their digest any more and are fetched again",
            lost, w->state.done);
    return st;
}

/* ---- fetching ---- */

/* Digest of whole shards, as long as their ranges come without a gap. */
static tt_status follow_shard(work *w, const tt_source_range *r, const unsigned char *bytes,
                              tt_error *err)
{
    if (!w->sha_on || w->sha_shard != r->shard) {
        const char *path = tt_safetensors_shard_path(w->snap.st, r->shard);
        char *head = NULL, hex[TT_SHA256_HEX];
        size_t n = 0;
        if (w->sha_on || w->sha_at != 0)
            TT_TRY(tt_sha256_finish(w->sha, hex, err)); /* a shard that was left */
        TT_TRY(tt_file_read(path, TT_MAX_SAFETENSORS_HEADER + 8, &head, &n, err));
        tt_status st = tt_sha256_update(w->sha, head, n, err);
        free(head);
        TT_TRY(st);
        w->sha_on = true;
        w->sha_shard = r->shard;
        w->sha_at = n;
    }
    if (w->sha_at != r->begin)
        return TT_OK; /* not in order: this shard's digest is not known */
    TT_TRY(tt_sha256_update(w->sha, bytes, r->end - r->begin, err));
    w->sha_at = r->end;
    return TT_OK;
}

static tt_status spoiled(tt_error *err, const char *what, const char *is, const char *must)
{
    return tt_fail(err, TT_ERR_CORRUPT,
                   "%s came with the SHA-256 %s, it must be %s: something on the way changes "
                   "bytes. Remove the partial install with --discard-partial and begin again",
                   what, is, must);
}

/* The last range of a shard is done. */
static tt_status judge_shard(work *w, const tt_source_range *r, tt_error *err)
{
    const char *name = shard_name(w, r->shard);
    /* As the header was recorded: the file itself belongs to the thread that fetches. */
    const json_t *f = json_object_get(w->state.files, name);
    const char *id = json_string_value(json_object_get(f, "id"));
    char hex[TT_SHA256_HEX];
    if (w->sha_at != (uint64_t)json_integer_value(json_object_get(f, "total")) ||
        !tt_sha256_hex_valid(id))
        return TT_OK;
    w->sha_on = false;
    w->sha_at = 0;
    TT_TRY(tt_sha256_finish(w->sha, hex, err));
    if (strcmp(hex, id) != 0)
        return spoiled(err, name, hex, id);
    return tt_hub_state_shard(&w->state, w->journal, name, hex, err);
}

static tt_status convert_range(work *w, size_t i, const unsigned char *bytes, tt_sha256 *sha,
                               tt_error *err)
{
    const tt_source_range *r = &w->seg.ranges[i];
    char hex[TT_SHA256_HEX], source[TT_SHA256_HEX];
    const char *shard = shard_name(w, r->shard);
    TT_TRY(tt_sha256_update(sha, bytes, r->end - r->begin, err));
    TT_TRY(tt_sha256_finish(sha, source, err));
    /* A range that was lost on the disk and comes once more, of a shard that was right. */
    if (json_object_get(w->state.shards, shard) != NULL && strcmp(source, w->state.sources[i]) != 0)
        return spoiled(err, shard, source, w->state.sources[i]);
    w->range = r;
    w->range_bytes = bytes;
    for (size_t k = r->first; k < r->first + r->count; k++) {
        const tt_segment *g = &w->seg.items[k];
        TT_TRY(tt_segment_convert(w->conv, g, &w->bytes, err));
        TT_TRY(tt_segment_write(g, w->out, &w->bytes, err));
        TT_TRY(tt_segment_hash(g, &w->bytes, sha, err));
    }
    TT_TRY(tt_sha256_finish(sha, hex, err));
    return tt_hub_state_range(&w->state, w->journal, i, hex, source, err);
}

static bool go_on(void *ctx, uint64_t came)
{
    const work *w = ctx;
    return w->ev == NULL || w->ev->progress == NULL ||
           w->ev->progress(w->ev->ctx, w->done, w->seg.source_bytes);
}

static tt_status fetch_loop(work *w, const size_t *missing, size_t n, tt_hub_fetch *f,
                            tt_error *err)
{
    tt_sha256 *sha = NULL;
    uint64_t synced = 0, looked = 0;
    tt_status st;
    TT_TRY(tt_sha256_create(&sha, err));
    for (size_t i = 0; i < n; i++) {
        const tt_source_range *r = &w->seg.ranges[missing[i]];
        const unsigned char *bytes = NULL;
        uint64_t size = r->end - r->begin;
        if (i == 0 || w->seg.ranges[missing[i - 1]].shard != r->shard)
            tt_note(w->ev, TT_NOTE_STAGE, "downloading %s", shard_name(w, r->shard));
        TT_GOTO(tt_hub_fetch_next(f, go_on, w, &bytes, err), out);
        TT_GOTO(follow_shard(w, r, bytes, err), out);
        TT_GOTO(convert_range(w, missing[i], bytes, sha, err), out);
        if (missing[i] + 1 == w->seg.n_ranges || w->seg.ranges[missing[i] + 1].shard != r->shard)
            TT_GOTO(judge_shard(w, r, err), out);
        w->done += size;
        synced += size;
        looked += size;
        TT_GOTO(progress(w, w->done, w->seg.source_bytes, err), out);
        if (synced >= SYNC_BYTES) {
            TT_GOTO(tt_journal_sync(w->journal, err), out);
            synced = 0;
        }
        if (looked >= SPACE_BYTES) {
            TT_GOTO(tt_target_space(&w->target, disk_need(w) - RESERVE, err), out);
            looked = 0;
        }
    }
    st = TT_OK;
out:
    tt_sha256_close(&sha);
    return st;
}

static tt_status fetch_ranges(work *w, tt_error *err)
{
    size_t *missing = calloc(w->seg.n_ranges, sizeof *missing), n = 0;
    tt_hub_part *parts = calloc(w->seg.n_ranges, sizeof *parts);
    tt_hub_fetch *f = NULL;
    tt_status st = TT_OK;
    if (missing == NULL || parts == NULL)
        st = tt_fail(err, TT_ERR_NOMEM, "out of memory for %zu ranges", w->seg.n_ranges);
    for (size_t i = 0; st == TT_OK && i < w->seg.n_ranges; i++) {
        const tt_source_range *r = &w->seg.ranges[i];
        if (w->state.ranges[i][0] != '\0')
            continue;
        parts[n] = (tt_hub_part){shard_file(w, r->shard), r->begin, r->end};
        missing[n++] = i;
    }
    if (st == TT_OK && n > 0) {
        st = tt_sha256_create(&w->sha, err);
        if (st == TT_OK)
            st = tt_hub_fetch_start(w->hub, parts, n, w->o->window, &f, err);
        if (st == TT_OK)
            st = fetch_loop(w, missing, n, f, err);
        tt_hub_fetch_close(&f);
        tt_sha256_close(&w->sha);
    }
    free(missing);
    free(parts);
    return st;
}

/* ---- the end ---- */

/* Checksums of experts, taken while their file is hashed. */
static tt_status take_crc(void *ctx, size_t file, uint64_t at, const unsigned char *block, size_t n,
                          tt_error *err)
{
    work *w = ctx;
    const tt_arch *a = &w->plan.arch;
    size_t row = file - 1 - (w->plan.mtp.count > 0);
    const tt_expert_layout *l = row >= a->n_layers ? &w->plan.mtp_experts : &w->plan.experts;
    w->a.crc[row * a->n_experts + at / l->stride] = tt_crc32c(0, block, l->payload_bytes);
    return TT_OK;
}

static tt_status hash_payload(work *w, tt_error *err)
{
    uint32_t n = w->seg.n_files;
    size_t first_expert = 1 + (w->plan.mtp.count > 0);
    tt_scan_file *files = calloc(n, sizeof *files);
    if (files == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %u files", n);
    for (uint32_t i = 0; i < n; i++) {
        strcpy(files[i].path, w->out[i].path);
        if (i < first_expert || i - first_expert >= tt_repack_plan_expert_layers(&w->plan))
            continue;
        bool mtp = i - first_expert >= w->plan.arch.n_layers;
        files[i].step = (mtp ? &w->plan.mtp_experts : &w->plan.experts)->stride;
        files[i].look = take_crc;
        files[i].ctx = w;
    }
    unsigned threads = w->o->repack.threads != 0 ? w->o->repack.threads : tt_physical_cores();
    tt_note(w->ev, TT_NOTE_STAGE, "hashing");
    tt_status st = tt_scan(files, n, threads, w->ev, err);
    for (uint32_t i = 0; i < n && st == TT_OK; i++)
        tt_assembly_list(&w->a, w->seg.files[i].rel, &files[i].is);
    free(files);
    return st;
}

/* Into the description of the source: which shards are the hub's, by the digest that it names, and
 * digests of what was read of the others. */
static tt_status record_shards(work *w, tt_error *err)
{
    json_t *files = json_object_get(w->snap.source, "files");
    bool listed = w->seg.n_ranges <= MAX_RECORDED, ok = true;
    if (!listed)
        tt_note(w->ev, TT_NOTE_WARNING,
                "%zu ranges are too many for a manifest: their digests are not recorded",
                w->seg.n_ranges);
    for (size_t i = 0; i < w->seg.n_ranges; i++) {
        const tt_source_range *r = &w->seg.ranges[i];
        const char *name = shard_name(w, r->shard);
        json_t *entry = json_object_get(files, name),
               *whole = json_object_get(w->state.shards, name);
        char place[48];
        if (whole != NULL) {
            ok &= json_object_set(entry, "sha256", whole) == 0;
        } else if (listed) {
            if (json_object_get(entry, "ranges") == NULL)
                ok &= json_object_set_new(entry, "ranges", json_object()) == 0;
            snprintf(place, sizeof place, "%llu-%llu", (unsigned long long)r->begin,
                     (unsigned long long)r->end);
            ok &= json_object_set_new(json_object_get(entry, "ranges"), place,
                                      json_string(w->state.sources[i])) == 0;
            w->hr->recorded++;
        }
    }
    w->hr->verified = (uint32_t)json_object_size(w->state.shards);
    return ok ? TT_OK
              : tt_fail(err, TT_ERR_NOMEM, "out of memory for the description of the source");
}

/* Files that an attempt which came this far has left; they are written anew. */
static tt_status remove_later_files(const work *w, tt_error *err)
{
    static const char *const names[] = {TT_MANIFEST_NAME, TT_RECEIPT_NAME, TT_CRC_NAME};
    char path[TT_MAX_PATH];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        TT_TRY(tt_path_join(path, w->target.partial, names[i], err));
        if (unlink(path) != 0 && errno != ENOENT)
            return tt_fail_errno(err, errno, path, "cannot remove %s", path);
    }
    TT_TRY(tt_path_join(path, w->target.partial, TT_TOKENIZER_DIR, err));
    return tt_dir_remove(path, err);
}

static tt_status finish(work *w, tt_repack_report *r, tt_error *err)
{
    tt_repack_events quiet = {.ctx = w->ev != NULL ? w->ev->ctx : NULL,
                              .note = w->ev != NULL ? w->ev->note : NULL};
    char dir[TT_MAX_PATH];
    TT_TRY(tt_journal_sync(w->journal, err));
    TT_TRY(sync_payload(w, err));
    TT_TRY(record_shards(w, err));
    TT_TRY(hash_payload(w, err));
    w->a.ev = &quiet; /* what is left is small */
    if (tt_arch_is_moe(&w->plan.arch)) {
        TT_TRY(tt_assembly_crc_table(&w->a, err));
        TT_TRY(tt_path_join(dir, w->target.partial, TT_EXPERTS_DIR, err));
        TT_TRY(tt_dir_sync(dir, err));
    }
    TT_TRY(tt_assembly_tokenizer(&w->a, err));
    TT_TRY(tt_assembly_manifest(&w->a, w->state.model_id, w->target.path, r, err));
    strcpy(w->target.manifest_sha256, r->manifest_sha256);
    tt_note(w->ev, TT_NOTE_STAGE, "publishing %s", w->target.path);
    return tt_target_publish(&w->target, err);
}

static tt_status install(work *w, tt_repack_report *r, tt_error *err)
{
    unsigned threads = w->o->repack.threads != 0 ? w->o->repack.threads : tt_physical_cores();
    TT_TRY(make_plan(w, err));
    w->hr->ranges = w->seg.n_ranges;
    w->hr->shards = tt_safetensors_shards(w->snap.st);
    w->hr->source_bytes = w->seg.source_bytes;
    TT_TRY(settle_plan(w, err));
    TT_TRY(remove_later_files(w, err));
    TT_TRY(tt_target_space(&w->target, disk_need(w), err));
    TT_TRY(fetch_sides(w, err));
    TT_TRY(tt_repack_plan_judge(&w->plan, w->snap.st, w->snap.config_path, w->ev, err));
    TT_TRY(tt_converter_create(w->snap.st, threads, w->o->repack.chunk_values, &w->conv, err));
    TT_TRY(tt_segment_bytes_init(&w->seg, &w->bytes, err));
    TT_TRY(open_payload(w, err));
    TT_TRY(trust_what_stands(w, err));
    TT_TRY(fetch_ranges(w, err));
    return finish(w, r, err);
}

/* Finds or makes the place of work, and says whether there is anything to do. */
static tt_status take_place(work *w, bool *finished, tt_error *err)
{
    const tt_repack_options *o = &w->o->repack;
    TT_TRY(tt_target_locate(&w->target, o->output, err));
    tt_target_work is = tt_target_find_work(&w->target);
    *finished = is == TT_WORK_FINISHED;
    if (is == TT_WORK_THERE && !w->o->resume)
        return tt_fail_at(
            err, TT_ERR_EXISTS, w->target.path, -1,
            "%s.partial holds an interrupted installation: continue it with --resume, or "
            "remove it with --discard-partial",
            w->target.path);
    if (is == TT_WORK_NONE && w->o->resume)
        return tt_fail_at(err, TT_ERR_NOT_FOUND, w->target.path, -1,
                          "there is no interrupted installation to continue (no %s.partial): leave "
                          "--resume away to begin one",
                          w->target.path);
    if (!*finished)
        TT_TRY(tt_target_init(&w->target, o->output, o->overwrite, err));
    return tt_target_take_work(&w->target, err);
}

static void close_all(work *w)
{
    for (uint32_t i = 0; w->out != NULL && i < w->seg.n_files; i++)
        tt_emit_drop(&w->out[i]);
    free(w->out);
    tt_sha256_close(&w->sha);
    tt_segment_bytes_free(&w->bytes);
    tt_converter_close(&w->conv);
    tt_segments_free(&w->seg);
    tt_assembly_free(&w->a);
    tt_repack_plan_free(&w->plan);
    tt_snapshot_close(&w->snap);
    tt_hub_sides_free(&w->sides);
    tt_hub_source_free(&w->source);
    tt_journal_close(&w->journal);
    tt_hub_state_free(&w->state);
    tt_hub_close(&w->hub);
}

/* Journal and identity: after it the hub is open and the state has begun. */
static tt_status start(work *w, tt_error *err)
{
    TT_TRY(open_journal(w, err));
    if (w->state.begun)
        TT_TRY(check_begun(w, err));
    else if (w->o->hub.repository == NULL || w->o->hub.revision == NULL)
        return tt_fail(
            err, TT_ERR_STATE,
            "the partial install was interrupted before it said what it is: remove it with "
            "--discard-partial and begin again");
    TT_TRY(connect_hub(w, err));
    return w->state.begun ? TT_OK : begin(w, err);
}

static tt_status run(work *w, tt_repack_report *r, tt_error *err)
{
    bool finished = false;
    TT_TRY(take_place(w, &finished, err));
    if (finished) {
        snprintf(r->path, sizeof r->path, "%s", w->target.path);
        w->hr->finished_before = true;
        return tt_target_discard(&w->target, err);
    }
    tt_status st = start(w, err);
    if (st == TT_OK)
        st = install(w, r, err);
    snprintf(w->hr->repository, sizeof w->hr->repository, "%s", w->state.repository);
    snprintf(w->hr->commit, sizeof w->hr->commit, "%s", w->state.commit);
    w->hr->received = w->hub != NULL ? tt_hub_received(w->hub) : 0;
    if (st == TT_OK)
        tt_assembly_report(&w->a, w->state.model_id, w->target.path, r);
    /* Without a finished range there is nothing to continue. */
    if (st != TT_OK && w->state.done == 0 && !w->o->resume) {
        tt_error ignored;
        if (tt_target_discard(&w->target, &ignored) != TT_OK)
            errno = 0;
    }
    return st;
}

tt_status tt_hub_install(const tt_hub_install_options *o, const tt_repack_events *ev,
                         tt_repack_report *report, tt_hub_report *hub, tt_error *err)
{
    work *w = calloc(1, sizeof *w);
    tt_repack_report r = {0};
    tt_hub_report hr = {0};
    if (w == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for an installation");
    w->o = o;
    w->ev = w->a.ev = ev;
    w->hr = &hr;
    w->target.lock = -1;
    tt_hub_state_init(&w->state);
    tt_status st = run(w, &r, err);
    close_all(w);
    tt_target_drop(&w->target);
    free(w);
    if (st == TT_OK && report != NULL)
        *report = r;
    if (hub != NULL)
        *hub = hr;
    return st;
}

/* ---- telling what would be done ---- */

static uint64_t source_of(const tt_piece *p, const tt_index_entry *e)
{
    uint64_t rows = 1, cols = e->shape[e->rank - 1];
    for (uint32_t d = 0; d + 1 < e->rank; d++)
        rows *= e->shape[d];
    if (p->scales == NULL)
        return rows * cols * tt_st_dtype_bytes(p->values->dtype);
    return p->values->bytes + p->scales->bytes + p->biases->bytes;
}

static bool add_row(json_t *table, const char *name, const char *dtype, uint64_t bytes,
                    uint64_t source)
{
    return json_array_append_new(table, json_pack("{s:s, s:s, s:I, s:I}", "name", name, "dtype",
                                                  dtype, "bytes", (json_int_t)bytes, "source_bytes",
                                                  (json_int_t)source)) == 0;
}

static bool add_weights(json_t *table, const tt_index *ix, const tt_piece *src)
{
    bool ok = true;
    for (size_t i = 0; i < ix->count; i++) {
        const tt_index_entry *e = &ix->entries[i];
        ok &= add_row(table, e->name, tt_dtype_name(e->dtype),
                      e->bytes + e->scales_bytes + e->biases_bytes, source_of(&src[i], e));
    }
    return ok;
}

static bool add_experts(json_t *table, const work *w)
{
    const tt_arch *a = &w->plan.arch;
    bool ok = true;
    for (size_t row = 0; row < tt_repack_plan_expert_layers(&w->plan); row++) {
        bool mtp = row >= a->n_layers;
        const tt_expert_layout *l = mtp ? &w->plan.mtp_experts : &w->plan.experts;
        uint64_t source = 0;
        char name[64];
        for (uint32_t e = 0; e < l->n_experts; e++) {
            for (unsigned m = 0; m < TT_MATS; m++) {
                const tt_piece *p = tt_repack_plan_expert(&w->plan, row, e, m);
                const tt_expert_mat *mat = m == TT_MAT_DOWN ? &l->down : &l->gate;
                uint64_t values = (uint64_t)mat->rows * mat->cols;
                source += p->scales == NULL
                              ? values * tt_st_dtype_bytes(p->values->dtype)
                              : mat->words_bytes + mat->scales_bytes + mat->biases_bytes;
            }
        }
        tt_expert_file_name(name, (uint32_t)(mtp ? row - a->n_layers : row), mtp);
        ok &= add_row(table, name, tt_dtype_name(l->gate.dtype), l->stride * l->n_experts, source);
    }
    return ok;
}

static bool add_ngrams(json_t *table, const work *w)
{
    const tt_table_plan *n = &w->plan.ngrams;
    uint64_t source = 0;
    for (uint32_t i = 0; i < n->n_shards; i++)
        source += n->shard[i].values->bytes;
    return n->n_shards == 0 || add_row(table, TT_NGRAM_NAME, tt_dtype_name(n->layout.dtype),
                                       n->layout.file_bytes, source);
}

/* The rate is that of the longest small file: of the payload nothing is fetched. */
static tt_status tell_plan(work *w, tt_hub_plan *p, tt_error *err)
{
    struct statvfs vfs;
    p->table = json_array();
    if (p->table == NULL || !add_weights(p->table, &w->plan.weights, w->plan.weights_src) ||
        !add_weights(p->table, &w->plan.mtp, w->plan.mtp_src) || !add_experts(p->table, w) ||
        !add_ngrams(p->table, w))
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a table of tensors");
    strcpy(p->repository, w->state.repository);
    strcpy(p->commit, w->state.commit);
    p->tensors = w->plan.weights.count + w->plan.mtp.count;
    p->experts = tt_repack_plan_expert_layers(&w->plan) * w->plan.arch.n_experts;
    p->ranges = w->seg.n_ranges;
    p->vision_tensors = w->plan.vision_tensors;
    for (uint32_t i = 0; i < w->source.n_shards; i++)
        p->shard_bytes += w->source.shards[i].size;
    p->source_bytes = w->seg.source_bytes;
    p->install_bytes = tt_assembly_payload(&w->snap, &w->plan);
    p->disk_bytes = disk_need(w);
    if (statvfs(w->target.parent, &vfs) == 0)
        p->free_bytes = (uint64_t)vfs.f_bavail * vfs.f_frsize;
    p->rate = tt_hub_rate(w->hub);
    return TT_OK;
}

tt_status tt_hub_plan_make(const tt_hub_install_options *o, const tt_repack_events *ev,
                           tt_hub_plan *out, tt_error *err)
{
    work *w = calloc(1, sizeof *w);
    tt_hub_report hr = {0};
    tt_hub_plan p = {0};
    if (w == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a plan");
    w->o = o;
    w->ev = w->a.ev = ev;
    w->hr = &hr;
    w->target.lock = -1;
    tt_hub_state_init(&w->state);
    tt_status st = tt_target_locate(&w->target, o->repack.output, err);
    /* Headers of an interrupted installation are used, and stay. */
    bool was_there = st == TT_OK && tt_target_find_work(&w->target) == TT_WORK_THERE;
    if (st == TT_OK)
        st = tt_target_take_work(&w->target, err);
    bool taken = st == TT_OK;
    if (st == TT_OK)
        st = start(w, err);
    if (st == TT_OK)
        st = make_plan(w, err);
    if (st == TT_OK)
        st = tell_plan(w, &p, err);
    if (taken && !was_there) {
        tt_error ignored;
        if (tt_target_discard(&w->target, &ignored) != TT_OK)
            errno = 0;
    }
    close_all(w);
    tt_target_drop(&w->target);
    free(w);
    if (st == TT_OK)
        *out = p;
    else
        json_decref(p.table);
    return st;
}

tt_status tt_hub_discard(const char *output, tt_error *err)
{
    tt_target t;
    TT_TRY(tt_target_locate(&t, output, err));
    if (tt_target_find_work(&t) == TT_WORK_NONE)
        return tt_fail_at(err, TT_ERR_NOT_FOUND, t.path, -1,
                          "there is no partial install to remove (no %s.partial)", t.path);
    tt_status st = tt_target_take_work(&t, err);
    if (st == TT_OK)
        st = tt_target_discard(&t, err);
    tt_target_drop(&t);
    return st;
}
