#include "repack/hub_sides.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "repack/hub_fetch.h"

#define NAME      "read-first.bin"
#define GAP_BYTES (64 * TT_KIB)
#define MAX_BYTES (256 * TT_MIB)

static bool add(tt_hub_sides *s, const tt_st_tensor *t)
{
    if (s->count == s->cap) {
        size_t cap = s->cap == 0 ? 256 : 2 * s->cap;
        tt_hub_side *grown = realloc(s->items, cap * sizeof *grown);
        if (grown == NULL)
            return false;
        s->items = grown;
        s->cap = cap;
    }
    s->items[s->count++] = (tt_hub_side){t->shard, t->offset, t->offset + t->bytes, 0};
    return true;
}

static bool add_pieces(tt_hub_sides *s, const tt_piece *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        /* Matrices of a stack share their factors: neighbours, mostly. */
        if (p[i].blocks != NULL && (i == 0 || p[i].blocks != p[i - 1].blocks) &&
            !add(s, p[i].blocks))
            return false;
    return true;
}

static bool add_norms(tt_hub_sides *s, const tt_inventory *inv, const tt_index *ix,
                      const tt_piece *p)
{
    for (size_t i = 0; i < ix->count; i++)
        if (tt_inventory_find(inv, ix->entries[i].name)->offset_norm && !add(s, p[i].values))
            return false;
    return true;
}

static int by_place(const void *pa, const void *pb)
{
    const tt_hub_side *a = pa, *b = pb;
    if (a->shard != b->shard)
        return a->shard < b->shard ? -1 : 1;
    return a->begin != b->begin ? (a->begin < b->begin ? -1 : 1) : 0;
}

/* Neighbours become one. */
static void merge(tt_hub_sides *s, uint64_t gap)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++) {
        const tt_hub_side *t = &s->items[i];
        tt_hub_side *last = n > 0 ? &s->items[n - 1] : NULL;
        if (last != NULL && last->shard == t->shard && t->begin <= last->end + gap) {
            last->end = t->end > last->end ? t->end : last->end;
            continue;
        }
        s->items[n++] = *t;
    }
    s->count = n;
    for (size_t i = 0; i < n; i++) {
        s->items[i].at = s->total;
        s->total += s->items[i].end - s->items[i].begin;
    }
}

tt_status tt_hub_sides_find(const tt_repack_plan *plan, uint64_t gap, tt_hub_sides *out,
                            tt_error *err)
{
    tt_hub_sides s = {0};
    const tt_inventory *inv = &plan->inventory;
    size_t experts = tt_repack_plan_expert_layers(plan) * plan->arch.n_experts * TT_MATS;
    if (!add_pieces(&s, plan->weights_src, plan->weights.count) ||
        !add_pieces(&s, plan->mtp_src, plan->mtp.count) ||
        !add_pieces(&s, plan->expert_src, experts) ||
        !add_pieces(&s, plan->ngrams.shard, plan->ngrams.n_shards) ||
        !add_norms(&s, inv, &plan->weights, plan->weights_src) ||
        !add_norms(&s, inv, &plan->mtp, plan->mtp_src)) {
        tt_hub_sides_free(&s);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the tensors that are read first");
    }
    if (s.count > 0) {
        qsort(s.items, s.count, sizeof *s.items, by_place);
        merge(&s, gap > 0 ? gap : GAP_BYTES);
    }
    if (s.total > MAX_BYTES) {
        tt_status st = tt_fail(err, TT_ERR_LIMIT,
                               "the tensors that are read first have %llu bytes, at most %llu",
                               (unsigned long long)s.total, (unsigned long long)MAX_BYTES);
        tt_hub_sides_free(&s);
        return st;
    }
    *out = s;
    return TT_OK;
}

/* As an earlier attempt kept them. */
static bool read_kept(tt_hub_sides *s, const char *path, const tt_hub_state *state)
{
    const json_t *o = json_object_get(state->files, NAME);
    char *bytes = NULL, hex[TT_SHA256_HEX];
    size_t n = 0;
    if (o == NULL || tt_file_read(path, MAX_BYTES, &bytes, &n, NULL) != TT_OK)
        return false;
    bool same = n == s->total && tt_sha256_of(bytes, n, hex, NULL) == TT_OK &&
                strcmp(hex, json_string_value(json_object_get(o, "sha256"))) == 0;
    if (same)
        memcpy(s->bytes, bytes, n);
    free(bytes);
    return same;
}

static tt_status take(void *ctx, size_t i, const unsigned char *bytes, tt_error *err)
{
    const tt_hub_sides *s = ctx;
    const tt_hub_side *t = &s->items[i];
    memcpy(s->bytes + t->at, bytes, t->end - t->begin);
    return TT_OK;
}

static tt_status fetch(tt_hub_sides *s, tt_hub *hub, tt_hub_file *const *files,
                       const tt_repack_events *ev, tt_error *err)
{
    tt_hub_part *parts = calloc(s->count, sizeof *parts);
    if (parts == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %zu ranges", s->count);
    for (size_t i = 0; i < s->count; i++)
        parts[i] = (tt_hub_part){files[s->items[i].shard], s->items[i].begin, s->items[i].end};
    tt_status st = tt_hub_fetch_all(hub, parts, s->count, ev, take, s, err);
    free(parts);
    return st;
}

tt_status tt_hub_sides_fetch(tt_hub_sides *s, tt_hub *hub, tt_hub_file *const *files,
                             const char *dir, tt_hub_state *state, tt_journal *journal,
                             const tt_repack_events *ev, tt_error *err)
{
    char path[TT_MAX_PATH], hex[TT_SHA256_HEX];
    tt_hub_file *kept;
    if (s->count == 0)
        return TT_OK;
    TT_TRY(tt_path_join(path, dir, NAME, err));
    if ((s->bytes = malloc(s->total)) == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the tensors that are read first");
    if (read_kept(s, path, state))
        return TT_OK;
    tt_note(ev, TT_NOTE_STAGE, "reading norm weights and factors");
    TT_TRY(fetch(s, hub, files, ev, err));
    TT_TRY(tt_file_publish(path, s->bytes, s->total, err));
    TT_TRY(tt_sha256_of(s->bytes, s->total, hex, err));
    if ((kept = calloc(1, sizeof *kept)) == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the tensors that are read first");
    strcpy(kept->name, NAME);
    kept->size = s->total;
    tt_status st = tt_hub_state_file(state, journal, hex, s->total, kept, err);
    free(kept);
    return st;
}

bool tt_hub_sides_read(const tt_hub_sides *s, uint32_t shard, uint64_t offset, void *buf, size_t n)
{
    size_t lo = 0, hi = s->count;
    while (lo < hi) { /* the last that begins at or before the place */
        size_t mid = lo + (hi - lo) / 2;
        const tt_hub_side *t = &s->items[mid];
        if (t->shard < shard || (t->shard == shard && t->begin <= offset))
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == 0 || s->bytes == NULL)
        return false;
    const tt_hub_side *t = &s->items[lo - 1];
    if (t->shard != shard || offset > t->end || n > t->end - offset)
        return false;
    memcpy(buf, s->bytes + t->at + (offset - t->begin), n);
    return true;
}

void tt_hub_sides_free(tt_hub_sides *s)
{
    free(s->items);
    free(s->bytes);
    *s = (tt_hub_sides){0};
}
