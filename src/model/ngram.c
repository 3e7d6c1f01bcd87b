#include "model/ngram.h"

#include "base/clock.h"
#include "base/mem.h"
#include "model/model.h"

#define HELD (2 * TT_NGRAM_BATCH)

/* ---- life ---- */

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + TT_IO_ALIGN - 1) / TT_IO_ALIGN * TT_IO_ALIGN;
}

/* A row that begins anywhere. */
static uint64_t slot_bytes(const tt_arch *a)
{
    return aligned((uint64_t)tt_arch_ngram_cols(a) * 2 + TT_IO_ALIGN - 2);
}

static uint64_t lay_out(tt_ngram *g, const tt_arch *a, char *base)
{
    uint64_t at = 0, n = (uint64_t)HELD * tt_arch_ngrams(a);
#define PLACE(field, bytes)                                                                        \
    do {                                                                                           \
        if (g != NULL)                                                                             \
            g->field = (void *)(base + at);                                                        \
        at += aligned(bytes);                                                                      \
    } while (0)
    PLACE(pages, n * slot_bytes(a));
    PLACE(reads, n * sizeof(tt_read));
    PLACE(inside, n * sizeof(uint32_t));
#undef PLACE
    return at;
}

uint64_t tt_ngram_cost(const tt_arch *a)
{
    return tt_arch_ngrams(a) > 0 ? lay_out(NULL, a, NULL) : 0;
}

tt_status tt_ngram_init(tt_ngram *g, const tt_install *in, const tt_model_options *o, tt_error *err)
{
    const tt_arch *a = tt_install_arch(in);
    char path[TT_MAX_PATH];
    const char *paths[] = {path};
    tt_reader_options ro = {.kind = TT_READER_AUTO};
    tt_status st = TT_OK;
    *g = (tt_ngram){.layout = *tt_install_ngram_layout(in),
                    .n = tt_arch_ngrams(a),
                    .slot = slot_bytes(a),
                    .bytes = tt_ngram_cost(a)};
    TT_GOTO(tt_mem_alloc(g->bytes, "pages of the n-gram table", &g->block, err), fail);
    (void)lay_out(g, a, g->block);
    if (o->reader != NULL)
        TT_GOTO(tt_reader_kind_parse(o->reader, &ro.kind, err), fail);
    TT_GOTO(tt_install_path(in, TT_NGRAM_NAME, path, err), fail);
    TT_GOTO(tt_reader_open(paths, 1, &ro, &g->reader, err), fail);
    TT_GOTO(tt_reader_register_memory(g->reader, g->pages, (uint64_t)HELD * g->n * g->slot, err),
            fail);
    return TT_OK;
fail:
    tt_ngram_free(g);
    return st;
}

void tt_ngram_free(tt_ngram *g)
{
    tt_reader_close(&g->reader);
    tt_mem_free(g->block, g->bytes);
    *g = (tt_ngram){0};
}

/* ---- the hash ---- */

/* Ids from `back` on count as the end of a text where the text begins, or where one ended. */
static void context(uint64_t *c, const tt_arch *a, const uint32_t *past, uint32_t pos0,
                    const uint32_t *ids, uint32_t t)
{
    bool ended = false;
    c[0] = ids[t];
    for (uint32_t s = 1; s < a->ngram_size; s++) {
        uint32_t id = s <= t ? ids[t - s] : s <= pos0 + t ? past[pos0 + t - s] : a->ngram_eos;
        ended = ended || id == a->ngram_eos;
        c[s] = ended ? a->ngram_eos : id;
    }
}

static void hash(uint64_t *rows, const tt_arch *a, const tt_ngram_weights *w, const uint64_t *c)
{
    uint64_t m = c[0] * (uint64_t)w->multipliers[0];
    for (uint32_t s = 1, h = 0; s < a->ngram_size; s++) {
        m ^= c[s] * (uint64_t)w->multipliers[s];
        for (uint32_t end = h + a->ngram_heads; h < end; h++)
            rows[h] = m % (uint64_t)w->sizes[h] + (uint64_t)w->offsets[h];
    }
}

void tt_ngram_rows(uint64_t *rows, const tt_arch *a, const tt_ngram_weights *w, const uint32_t *ids,
                   uint32_t len)
{
    uint64_t c[TT_MAX_NGRAM];
    context(c, a, NULL, 0, ids, len - 1);
    hash(rows, a, w, c);
}

/* ---- reading ---- */

/* Rows of token `t` of the step. */
static void ask(tt_step *s, tt_ngram *g, uint32_t t)
{
    const tt_arch *a = s->arch;
    uint64_t c[TT_MAX_NGRAM], rows[TT_MAX_NGRAM_ROWS];
    context(c, a, s->past, s->pos0, s->tokens, t);
    hash(rows, a, &s->model->weights.ngram, c);
    for (uint32_t h = 0; h < g->n && s->status == TT_OK; h++) {
        size_t i = (size_t)(t % HELD) * g->n + h;
        uint64_t begin = rows[h] * g->layout.row_bytes, end = begin + g->layout.row_bytes;
        uint64_t page = begin / TT_IO_ALIGN * TT_IO_ALIGN;
        g->inside[i] = (uint32_t)(begin - page);
        g->reads[i] =
            (tt_read){.offset = page, .bytes = aligned(end - page), .dst = g->pages + i * g->slot};
        s->status = g->reader->ops->start(g->reader, &g->reads[i], s->err);
        g->stats.pages += g->reads[i].bytes / TT_IO_ALIGN;
    }
    g->stats.rows += g->n;
}

/* As many tokens as there is room for, whole batches but for the last. */
static void ask_more(tt_step *s, tt_ngram *g, uint32_t T)
{
    while (g->asked < T && s->status == TT_OK) {
        uint32_t batch = T - g->asked < TT_NGRAM_BATCH ? T - g->asked : TT_NGRAM_BATCH;
        if (g->asked + batch > g->taken + HELD)
            return;
        for (uint32_t i = 0; i < batch && s->status == TT_OK; i++)
            ask(s, g, g->asked++);
        tt_reader_flush(g->reader);
    }
}

void tt_ngram_begin(tt_step *s)
{
    tt_ngram *g = &s->model->ngram;
    g->asked = g->taken = 0;
    g->step = s;
    ask_more(s, g, s->T);
}

void tt_ngram_poll(tt_step *s)
{
    tt_ngram *g = &s->model->ngram;
    if (g->taken < g->asked)
        tt_reader_poll(g->reader);
}

static void widen(float *e, const char *row, const tt_ngram_layout *l)
{
    const uint16_t *v = (const uint16_t *)(const void *)row;
    for (uint32_t i = 0; i < l->cols; i++)
        e[i] = l->dtype == TT_DTYPE_F16 ? tt_f16_to_f32(v[i]) : tt_bf16_to_f32(v[i]);
}

/* Waits for a read, and counts how long that took. */
static tt_status wait_for(tt_ngram *g, tt_read *rd, tt_error *err)
{
    if (tt_read_done(rd))
        return g->reader->ops->wait(g->reader, rd, err);
    double begin = tt_now();
    tt_status st = g->reader->ops->wait(g->reader, rd, err);
    g->stats.waited += tt_now() - begin;
    return st;
}

void tt_ngram_take(tt_step *s, float *e)
{
    tt_ngram *g = &s->model->ngram;
    tt_step *whole = g->step; /* spans end when it has failed */
    for (uint32_t t = 0; t < s->T && whole->status == TT_OK; t++) {
        size_t first = (size_t)(g->taken % HELD) * g->n;
        for (size_t i = first; i < first + g->n && whole->status == TT_OK; i++) {
            whole->status = wait_for(g, &g->reads[i], whole->err);
            if (whole->status == TT_OK)
                widen(e, g->pages + i * g->slot + g->inside[i], &g->layout);
            e += g->layout.cols;
        }
        if (whole->status != TT_OK)
            return;
        g->taken++;
        ask_more(whole, g, whole->T);
    }
}

void tt_ngram_end(tt_step *s)
{
    tt_ngram *g = &s->model->ngram;
    for (; g->taken < g->asked; g->taken++)
        for (uint32_t h = 0; h < g->n; h++) {
            tt_read *rd = &g->reads[(size_t)(g->taken % HELD) * g->n + h];
            if (rd->state != TT_READ_IDLE)
                (void)!g->reader->ops->wait(g->reader, rd, NULL);
        }
    g->step = NULL;
}
