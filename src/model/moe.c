#include "model/moe.h"

#include <string.h>

#include "base/mem.h"
#include "model/model.h"

/* ---- memory ---- */

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + TT_TENSOR_ALIGN - 1) / TT_TENSOR_ALIGN * TT_TENSOR_ALIGN;
}

/* A prefill chunk's rows fit, and so do all picks of a decode step. */
static uint32_t gather_rows(const tt_arch *a, uint32_t rows)
{
    uint32_t decode = TT_DECODE_ROWS * a->top_k;
    return rows > decode ? rows : decode;
}

static uint64_t lay_out(tt_moe *m, const tt_arch *a, uint64_t rows, uint64_t slots, char *base)
{
    uint64_t at = 0, E = a->n_experts, G = gather_rows(a, (uint32_t)rows), picks = rows * a->top_k;
#define PLACE(field, n)                                                                            \
    do {                                                                                           \
        if (m != NULL)                                                                             \
            m->field = (void *)(base + at);                                                        \
        at += aligned((n) * sizeof *((tt_moe *)0)->field);                                         \
    } while (0)
    PLACE(first, E + 1);
    PLACE(cursor, E);
    PLACE(row, picks);
    PLACE(weight, picks);
    PLACE(active, E);
    PLACE(job, slots);
    PLACE(now, slots);
    PLACE(x, G * a->hidden_size);
    PLACE(m, G * a->moe_intermediate);
    PLACE(y, G * a->hidden_size);
    PLACE(lease.slot, slots);
    PLACE(lease.expert, slots);
    PLACE(lease.generation, slots);
    PLACE(lease.hit, slots);
#undef PLACE
    return at;
}

uint64_t tt_moe_cost(const tt_arch *a, uint32_t rows, uint32_t slots)
{
    return tt_arch_is_moe(a) ? lay_out(NULL, a, rows, slots, NULL) : 0;
}

tt_status tt_moe_init(tt_moe *m, const tt_arch *a, uint32_t rows, tt_expert_cache *cache,
                      const tt_expert_layout *layout, tt_error *err)
{
    uint32_t slots = tt_expert_cache_slots(cache) / a->n_layers; /* a layer's share */
    *m = (tt_moe){
        .cache = cache, .layout = layout, .slots = slots, .rows_max = gather_rows(a, rows)};
    m->bytes = tt_moe_cost(a, rows, slots);
    tt_status st = tt_mem_alloc(m->bytes, "expert scratch", &m->block, err);
    if (st == TT_OK)
        (void)lay_out(m, a, rows, slots, m->block);
    return st;
}

void tt_moe_free(tt_moe *m)
{
    tt_mem_free(m->block, m->bytes);
    *m = (tt_moe){0};
}

/* ---- grouping ---- */

/* Counting sort of the picks by expert; rows stay ascending within an expert. */
static void group(tt_moe *m, const tt_step *s)
{
    uint32_t E = s->arch->n_experts, n = s->T * s->arch->top_k;
    const uint32_t *ids = s->s->ids;
    memset(m->first, 0, (E + 1) * sizeof *m->first);
    for (uint32_t i = 0; i < n; i++)
        m->first[ids[i] + 1]++;
    m->n_active = 0;
    m->next = 0;
    for (uint32_t e = 0; e < E; e++) {
        if (m->first[e + 1] > 0)
            m->active[m->n_active++] = e;
        m->first[e + 1] += m->first[e];
        m->cursor[e] = m->first[e];
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = m->cursor[ids[i]]++;
        m->row[at] = i / s->arch->top_k;
        m->weight[at] = s->s->p[i];
    }
}

static uint32_t picks_of(const tt_moe *m, uint32_t e)
{
    return m->first[e + 1] - m->first[e];
}

/* The next experts, ascending, that fit slots and gather buffer together; asks the cache for them.
 */
static void ask_batch(tt_step *s, tt_moe *m, uint32_t layer)
{
    uint32_t rows = 0, n = 0;
    while (m->next + n < m->n_active && n < m->slots) {
        uint32_t more = picks_of(m, m->active[m->next + n]);
        if (n > 0 && rows + more > m->rows_max)
            break;
        rows += more;
        m->lease.expert[n] = m->active[m->next + n];
        n++;
    }
    m->lease.layer = layer;
    m->lease.n = n;
    s->status = tt_expert_cache_ask(m->cache, &m->lease, s->err);
    m->leased = s->status == TT_OK;
}

void tt_moe_ask(tt_step *s, uint32_t layer)
{
    tt_moe *m = &s->model->moe;
    if (s->status != TT_OK)
        return;
    group(m, s);
    ask_batch(s, m, layer);
}

/* ---- running ---- */

static tt_mat operand(const tt_expert_mat *t, const char *expert)
{
    tt_mat m = {
        .dtype = t->dtype, .rows = t->rows, .cols = t->cols, .words = expert + t->words_offset};
    if (t->scales_bytes > 0) {
        m.scales = (const uint16_t *)(const void *)(expert + t->scales_offset);
        m.biases = (const uint16_t *)(const void *)(expert + t->biases_offset);
    }
    return m;
}

/* Gathers the rows of every expert of the batch; weights are bound when the bytes are here. */
static void make_jobs(tt_moe *m, const tt_step *s, const float *x)
{
    uint32_t H = s->arch->hidden_size, F = s->arch->moe_intermediate;
    size_t at = 0;
    for (uint32_t i = 0; i < m->lease.n; i++) {
        uint32_t e = m->lease.expert[i], n = picks_of(m, e);
        const uint32_t *row = m->row + m->first[e];
        m->job[i] = (tt_expert_job){.x = m->x + at * H,
                                    .m = m->m + at * F,
                                    .y = m->y + at * H,
                                    .row = row,
                                    .weight = m->weight + m->first[e],
                                    .n = n};
        for (uint32_t j = 0; j < n; j++)
            memcpy(m->x + (at + j) * H, x + (size_t)row[j] * H, H * sizeof *x);
        at += n;
    }
}

/* Runs those experts of the batch that were hits, or those that were not. */
static void run_part(tt_step *s, tt_moe *m, bool hits)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->lease.n && s->status == TT_OK; i++) {
        if (m->lease.hit[i] != hits)
            continue;
        const void *bytes = NULL;
        s->status = tt_expert_cache_wait(m->cache, &m->lease, i, TT_EXPERT_ALL, &bytes, s->err);
        if (s->status != TT_OK)
            return;
        m->job[i].gate = operand(&m->layout->gate, bytes);
        m->job[i].up = operand(&m->layout->up, bytes);
        m->job[i].down = operand(&m->layout->down, bytes);
        m->now[n++] = m->job[i];
    }
    if (n > 0) {
        s->be->ops->experts_gate_up(s->be, m->now, n);
        s->be->ops->experts_down(s->be, m->now, n);
    }
}

void tt_moe_run(tt_step *s, float *acc, const float *x, uint32_t layer)
{
    tt_moe *m = &s->model->moe;
    uint32_t H = s->arch->hidden_size;
    if (s->status != TT_OK)
        return;
    memset(acc, 0, (size_t)s->T * H * sizeof *acc);
    while (m->leased) {
        make_jobs(m, s, x);
        run_part(s, m, true);
        run_part(s, m, false);
        if (s->status == TT_OK)
            s->be->ops->experts_reduce(s->be, acc, H, m->job, m->lease.n);
        tt_expert_cache_release(m->cache, &m->lease);
        m->leased = false;
        m->next += m->lease.n;
        if (s->status == TT_OK && m->next < m->n_active)
            ask_batch(s, m, layer);
    }
}
