#include "repack/against.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "format/install_layout.h"
#include "format/quant.h"
#include "repack/checkpoint.h"
#include "repack/segments.h"

#define MOST_BYTES (2 * TT_GIB)

typedef struct compare {
    tt_install *in;
    tt_snapshot snap;
    tt_repack_plan plan;
    tt_segments seg;
    tt_converter *conv;
    tt_segment_bytes is, must;
    tt_emit *files; /* of the install, for reading */
    const tt_repack_events *ev;
} compare;

/* ---- widths ---- */

static void take_width(tt_policy *p, tt_role role, tt_dtype dtype)
{
    uint32_t bits = tt_dtype_bits(dtype);
    if (role < TT_ROLE_PLAIN && (bits != 0 || p->role_bits[role] == 0))
        p->role_bits[role] = bits != 0 ? bits : 16;
}

/* The widths of roles as the install has them. */
static tt_status read_policy(const tt_install *in, tt_policy *p, tt_error *err)
{
    tt_inventory inv = {0};
    const tt_index *const indexes[] = {tt_install_index(in), tt_install_mtp_index(in)};
    TT_TRY(tt_inventory_create(tt_install_arch(in), &inv, err));
    *p = (tt_policy){.build_bits = 16};
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; indexes[k] != NULL && i < indexes[k]->count; i++) {
            const tt_want *w = tt_inventory_find(&inv, indexes[k]->entries[i].name);
            if (w != NULL)
                take_width(p, w->role, indexes[k]->entries[i].dtype);
        }
    }
    if (tt_install_expert_layout(in) != NULL)
        take_width(p, TT_ROLE_EXPERTS, tt_install_expert_layout(in)->gate.dtype);
    tt_inventory_free(&inv);
    return TT_OK;
}

/* ---- structure ---- */

static tt_status not_of_it(const compare *c, tt_error *err, const char *what)
{
    return tt_fail_at(err, TT_ERR_CORRUPT, tt_install_dir(c->in), -1,
                      "%s was not made of %s: %s differs", tt_install_dir(c->in), c->snap.dir,
                      what);
}

static bool same_index(const tt_index *a, const tt_index *b)
{
    size_t n = b != NULL ? b->count : 0;
    if (a->count != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        const tt_index_entry *x = &a->entries[i], *y = &b->entries[i];
        if (strcmp(x->name, y->name) != 0 || x->dtype != y->dtype || x->offset != y->offset ||
            x->bytes != y->bytes || x->rank != y->rank ||
            memcmp(x->shape, y->shape, sizeof x->shape) != 0)
            return false;
    }
    return true;
}

static bool same_mat(const tt_expert_mat *a, const tt_expert_mat *b)
{
    return a->dtype == b->dtype && a->rows == b->rows && a->cols == b->cols &&
           a->words_offset == b->words_offset && a->scales_offset == b->scales_offset;
}

static bool same_layout(const tt_expert_layout *a, const tt_expert_layout *b)
{
    if (b == NULL)
        return a->n_experts == 0;
    return a->n_experts == b->n_experts && a->stride == b->stride && same_mat(&a->gate, &b->gate) &&
           same_mat(&a->up, &b->up) && same_mat(&a->down, &b->down);
}

static tt_status compare_structure(const compare *c, tt_error *err)
{
    json_t *a = NULL, *b = NULL;
    TT_TRY(tt_arch_to_json(&c->plan.arch, &a, err));
    tt_status st = tt_arch_to_json(tt_install_arch(c->in), &b, err);
    bool same = st == TT_OK && json_equal(a, b);
    json_decref(a);
    json_decref(b);
    TT_TRY(st);
    if (!same)
        return not_of_it(c, err, "the architecture");
    if (!same_index(&c->plan.weights, tt_install_index(c->in)) ||
        !same_index(&c->plan.mtp, tt_install_mtp_index(c->in)))
        return not_of_it(c, err, "the list of tensors, or a width,");
    if (!same_layout(&c->plan.experts, tt_install_expert_layout(c->in)) ||
        !same_layout(&c->plan.mtp_experts, tt_install_mtp_expert_layout(c->in)))
        return not_of_it(c, err, "the table of experts");
    const tt_ngram_layout *n = tt_install_ngram_layout(c->in);
    if (n != NULL && n->dtype != c->plan.ngrams.layout.dtype) /* the rest follows from arch */
        return not_of_it(c, err, "the type of the n-gram table");
    return TT_OK;
}

/* ---- bytes ---- */

static tt_status open_files(compare *c, tt_error *err)
{
    if ((c->files = calloc(c->seg.n_files, sizeof *c->files)) == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %u files", c->seg.n_files);
    for (uint32_t i = 0; i < c->seg.n_files; i++)
        c->files[i].fd = -1;
    for (uint32_t i = 0; i < c->seg.n_files; i++) {
        TT_TRY(tt_install_path(c->in, c->seg.files[i].rel, c->files[i].path, err));
        TT_TRY(tt_file_open(c->files[i].path, &c->files[i].fd, &c->files[i].at, err));
    }
    return TT_OK;
}

static tt_status compare_segment(compare *c, const tt_segment *g, tt_error *err)
{
    TT_TRY(tt_segment_convert(c->conv, g, &c->must, err));
    TT_TRY(tt_segment_read_back(g, c->files, &c->is, err));
    if (memcmp(c->is.words, c->must.words, g->bytes) == 0 &&
        memcmp(c->is.scales, c->must.scales, g->sides) == 0 &&
        memcmp(c->is.biases, c->must.biases, g->sides) == 0)
        return TT_OK;
    return tt_fail_at(
        err, TT_ERR_CORRUPT, c->seg.files[g->file].rel, (int64_t)g->at,
        "values %llu to %llu of \"%.200s\" do not give the bytes that the install has "
        "for them",
        (unsigned long long)g->first, (unsigned long long)(g->first + g->count - 1), g->src->name);
}

/* Every n-th segment, another one in every round of n, and the ends of the list. */
static tt_status compare_bytes(compare *c, uint64_t most, tt_against_report *r, tt_error *err)
{
    size_t n = c->seg.count, every = (size_t)(c->seg.source_bytes / most) + 1;
    for (size_t i = 0; i < n; i++) {
        const tt_segment *g = &c->seg.items[i];
        if (i != 0 && i + 1 != n && (i + i / every) % every != 0)
            continue;
        TT_TRY(compare_segment(c, g, err));
        r->compared++;
        r->source_bytes += g->count * tt_st_dtype_bytes(g->src->dtype);
        if (c->ev != NULL && c->ev->progress != NULL && !c->ev->progress(c->ev->ctx, i + 1, n))
            return tt_fail(err, TT_ERR_ABORTED, "stopped");
    }
    return TT_OK;
}

static tt_status run(compare *c, const char *install, const char *snapshot, uint64_t most,
                     unsigned threads, tt_against_report *r, tt_error *err)
{
    tt_policy policy;
    TT_TRY(tt_install_open(install, TT_INSTALL_NO_RECEIPT | TT_INSTALL_NO_HASH, NULL, NULL, &c->in,
                           err));
    TT_TRY(tt_snapshot_open(snapshot, NULL, &c->snap, err));
    TT_TRY(read_policy(c->in, &policy, err));
    TT_TRY(tt_repack_plan_create(c->snap.st, c->snap.config, c->snap.config_path, &policy, NULL,
                                 &c->plan, err));
    TT_TRY(compare_structure(c, err));
    TT_TRY(tt_segments_create(c->snap.st, &c->plan, 0, 0, &c->seg, err));
    TT_TRY(tt_converter_create(c->snap.st, threads, 0, &c->conv, err));
    TT_TRY(tt_segment_bytes_init(&c->seg, &c->is, err));
    TT_TRY(tt_segment_bytes_init(&c->seg, &c->must, err));
    TT_TRY(open_files(c, err));
    r->parts = c->seg.count;
    return compare_bytes(c, most, r, err);
}

tt_status tt_against_run(const char *install, const char *snapshot, uint64_t most_bytes,
                         unsigned threads, const tt_repack_events *ev, tt_against_report *report,
                         tt_error *err)
{
    compare c = {.ev = ev};
    tt_against_report r = {0};
    tt_status st = run(&c, install, snapshot, most_bytes != 0 ? most_bytes : MOST_BYTES,
                       threads != 0 ? threads : tt_physical_cores(), &r, err);
    for (uint32_t i = 0; c.files != NULL && i < c.seg.n_files; i++)
        tt_emit_drop(&c.files[i]);
    free(c.files);
    tt_segment_bytes_free(&c.is);
    tt_segment_bytes_free(&c.must);
    tt_converter_close(&c.conv);
    tt_segments_free(&c.seg);
    tt_repack_plan_free(&c.plan);
    tt_snapshot_close(&c.snap);
    tt_install_close(&c.in);
    if (st == TT_OK && report != NULL)
        *report = r;
    return st;
}
