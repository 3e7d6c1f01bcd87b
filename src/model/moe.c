#include "model/moe.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/model.h"

/* Picks an expert must get on average for the next layer's experts to be read before its router has
 * spoken: a read that nobody wants is then rare, even where a few experts get most of the picks. */
#define GUESS_PICKS 32u
/* The part of the slots that reads ahead may hold: the rest keeps what decode has earned. */
#define WINDOW_SHARE 8u

enum { NOTHING_DONE, GATE_UP_DONE, ALL_DONE };

static tt_moe *tables_of(const tt_step *s)
{
    tt_model *m = s->model;
    return s->draft ? &m->draft->moe : s->beside ? &m->beside.moe : &m->moe;
}

/* ---- memory ---- */

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + TT_TENSOR_ALIGN - 1) / TT_TENSOR_ALIGN * TT_TENSOR_ALIGN;
}

/* Of a span, and of all picks of a decode step. */
static uint32_t gather_rows(const tt_arch *a, uint32_t rows)
{
    uint32_t decode = TT_DECODE_ROWS * a->top_k, most = rows < TT_MOE_ROWS ? rows : TT_MOE_ROWS;
    return most > decode ? most : decode;
}

static uint64_t lay_out(tt_moe *m, const tt_arch *a, uint64_t rows, char *base)
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
    PLACE(leases.lease, E);
    PLACE(leases.expert, E);
    PLACE(leases.slot, E);
    PLACE(leases.generation, E);
    PLACE(leases.hit, E);
    PLACE(leases.weight, E);
    PLACE(job, E);
    PLACE(now, E);
    PLACE(state, E);
    PLACE(m, G * a->moe_intermediate);
    PLACE(y, G * a->hidden_size);
#undef PLACE
    return at;
}

uint64_t tt_moe_cost(const tt_arch *a, uint32_t rows)
{
    return tt_arch_is_moe(a) ? lay_out(NULL, a, rows, NULL) : 0;
}

tt_status tt_moe_init(tt_moe *m, const tt_arch *a, uint32_t rows, tt_expert_cache *cache,
                      const tt_expert_layout *layout, tt_error *err)
{
    uint32_t slots = tt_expert_cache_slots(cache), window = slots / WINDOW_SHARE;
    window = window > a->top_k ? window : a->top_k;
    *m = (tt_moe){.cache = cache,
                  .layout = layout,
                  .rows_max = gather_rows(a, rows),
                  .window = window < a->n_experts ? window : a->n_experts,
                  .bytes = tt_moe_cost(a, rows)};
    tt_status st = tt_mem_alloc(m->bytes, "expert scratch", &m->block, err);
    if (st != TT_OK)
        return st;
    (void)lay_out(m, a, rows, m->block);
    m->leases.most = a->n_experts;
    return TT_OK;
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

/* ---- leases ---- */

/* Lease i of those held, counted from the oldest. */
static tt_expert_lease *lease_at(const tt_moe_leases *q, uint32_t i)
{
    uint32_t at = q->head + i;
    return &q->lease[at < q->most ? at : at - q->most];
}

/* Asks for the n experts whose ids and weights stand at `at`, as the newest lease. */
static void ask(tt_step *s, tt_moe *m, uint32_t layer, uint32_t at, uint32_t n)
{
    tt_moe_leases *q = &m->leases;
    tt_expert_lease *l = &q->lease[at];
    *l = (tt_expert_lease){.layer = layer,
                           .n = n,
                           .prefill = s->prefill,
                           .weight = q->weight + at,
                           .expert = q->expert + at,
                           .slot = q->slot + at,
                           .generation = q->generation + at,
                           .hit = q->hit + at};
    s->status = tt_expert_cache_ask(m->cache, l, s->err);
    q->count += s->status == TT_OK;
}

static void release_first(tt_moe *m)
{
    tt_moe_leases *q = &m->leases;
    tt_expert_cache_release(m->cache, lease_at(q, 0));
    q->head = q->head + 1 < q->most ? q->head + 1 : 0;
    q->count--;
}

static void release_all(tt_moe *m)
{
    while (m->leases.count > 0)
        release_first(m);
    m->leases.guessed = 0;
}

/* Decode: the next experts, as many as there is room for. */
static void ask_together(tt_step *s, tt_moe *m, uint32_t layer)
{
    tt_moe_leases *q = &m->leases;
    uint32_t room = tt_expert_cache_slots(m->cache), rows = 0, n = 0;
    q->head = 0;
    while (m->next < m->n_active && (n < room || n == 0)) {
        uint32_t e = m->active[m->next], more = picks_of(m, e);
        if (rows + more > m->rows_max)
            break;
        rows += more;
        q->expert[n] = e;
        q->weight[n++] = (float)more;
        m->next++;
    }
    ask(s, m, layer, 0, n);
}

/* Prefill: one more expert as the newest lease. */
static void ask_one(tt_step *s, tt_moe *m, uint32_t layer, uint32_t e, float weight)
{
    tt_moe_leases *q = &m->leases;
    uint32_t at = (uint32_t)(lease_at(q, q->count) - q->lease);
    q->expert[at] = e;
    q->weight[at] = weight;
    ask(s, m, layer, at, 1);
}

static bool has_room(const tt_moe *m)
{
    return m->leases.count < m->window && tt_expert_cache_slots(m->cache) > 0;
}

/* Prefill: experts of the layer until the window is full, then the next layer's. */
static void ask_ahead(tt_step *s, tt_moe *m, uint32_t layer)
{
    const tt_arch *a = s->arch;
    while (m->next < m->n_active && (has_room(m) || m->leases.count == 0) && s->status == TT_OK) {
        uint32_t e = m->active[m->next++];
        ask_one(s, m, layer, e, (float)picks_of(m, e) / (float)s->T);
    }
    bool guess = layer + 1 < a->n_layers && s->T >= GUESS_PICKS * (a->n_experts / a->top_k);
    while (guess && m->next == m->n_active && m->leases.guessed < a->n_experts && has_room(m) &&
           s->status == TT_OK) {
        ask_one(s, m, layer + 1, m->leases.guessed, 0);
        m->leases.guessed += s->status == TT_OK;
    }
}

/* What was read ahead for this layer is asked for now, joining the reads; what nobody picked is
 * given back. */
static void keep_guesses(tt_step *s, tt_moe *m, uint32_t layer)
{
    tt_moe_leases *q = &m->leases;
    uint32_t guessed = q->guessed;
    q->guessed = 0;
    for (uint32_t i = 0; i < guessed && s->status == TT_OK; i++) {
        tt_expert_lease old = *lease_at(q, 0);
        uint32_t slot = *old.slot, generation = *old.generation, e = *old.expert;
        old.slot = &slot;
        old.generation = &generation;
        q->head = q->head + 1 < q->most ? q->head + 1 : 0;
        q->count--;
        if (picks_of(m, e) > 0) {
            ask_one(s, m, layer, e, (float)picks_of(m, e) / (float)s->T);
            m->next++;
        }
        tt_expert_cache_release(m->cache, &old);
    }
}

/* ---- the time that a layer's experts take, the shared one included ---- */

static void stage_begins(const tt_step *s)
{
    if (s->model->times != NULL && !s->draft)
        s->model->times->began = tt_now();
}

static void stage_ends(const tt_step *s, uint32_t layer)
{
    tt_stage_times *t = s->model->times;
    if (t == NULL || s->draft)
        return;
    double spent = tt_now() - t->began;
    t->moe += spent;
    t->moe_layer[layer] += spent;
    t->layers++;
}

/* ---- asking ---- */

void tt_moe_ask(tt_step *s, uint32_t layer)
{
    tt_moe *m = tables_of(s);
    if (s->status != TT_OK)
        return;
    stage_begins(s);
    group(m, s);
    if (s->prefill) {
        keep_guesses(s, m, layer);
        ask_ahead(s, m, layer);
    } else {
        ask_together(s, m, layer);
    }
}

void tt_moe_poll(tt_step *s)
{
    const tt_moe *m = tables_of(s);
    if (m->leases.count > 0 || (m->cache != NULL && tt_expert_cache_warming(m->cache)))
        tt_expert_cache_poll(m->cache);
}

void tt_moe_end(tt_step *s)
{
    release_all(tables_of(s));
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

/* Where job i of the batch has its expert. */
static const tt_expert_lease *lease_of_job(const tt_step *s, const tt_moe *m, uint32_t i,
                                           uint32_t *member)
{
    *member = s->prefill ? 0 : i;
    return lease_at(&m->leases, s->prefill ? i : 0);
}

/* Rows [begin, begin + n) of an expert's, results at row `at` of the buffers. Weights are bound
 * when the bytes are here. */
static void add_job(tt_moe *m, const tt_step *s, const float *x, uint32_t e, uint32_t begin,
                    uint32_t n, uint32_t at)
{
    size_t H = s->arch->hidden_size, F = s->arch->moe_intermediate;
    const uint32_t *row = m->row + m->first[e] + begin;
    m->job[m->n_jobs] = (tt_expert_job){.x = x,
                                        .m = m->m + at * F,
                                        .y = m->y + at * H,
                                        .row = row,
                                        .weight = m->weight + m->first[e] + begin,
                                        .n = n};
    m->state[m->n_jobs++] = NOTHING_DONE;
}

static bool is_here(const tt_step *s, const tt_moe *m, uint32_t i, tt_expert_part part)
{
    uint32_t member;
    const tt_expert_lease *l = lease_of_job(s, m, i, &member);
    return tt_expert_cache_ready(m->cache, l, member, part);
}

/* Waits for a part of job i's expert, and binds it. */
static void fetch(tt_step *s, tt_moe *m, uint32_t i, tt_expert_part part)
{
    uint32_t member;
    const tt_expert_lease *l = lease_of_job(s, m, i, &member);
    const void *bytes = NULL;
    s->status = tt_expert_cache_wait(m->cache, l, member, part, &bytes, s->err);
    if (s->status != TT_OK)
        return;
    m->job[i].gate = operand(&m->layout->gate, bytes);
    m->job[i].up = operand(&m->layout->up, bytes);
    m->job[i].down = operand(&m->layout->down, bytes);
}

/* Runs one half of every job whose bytes for it are here; false when there was none. */
static bool run_half(tt_step *s, tt_moe *m, tt_expert_part part)
{
    unsigned char before = part == TT_EXPERT_GATE_UP ? NOTHING_DONE : GATE_UP_DONE;
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n_jobs && s->status == TT_OK; i++) {
        if (m->state[i] != before || !is_here(s, m, i, part))
            continue;
        fetch(s, m, i, part);
        m->state[i]++;
        m->now[n++] = m->job[i];
    }
    if (n == 0 || s->status != TT_OK)
        return false;
    if (part == TT_EXPERT_GATE_UP)
        s->be->ops->experts_gate_up(s->be, m->now, n);
    else
        s->be->ops->experts_down(s->be, m->now, n);
    return true;
}

/* The first thing that is still missing. */
static void wait_for_one(tt_step *s, tt_moe *m)
{
    for (uint32_t i = 0; i < m->n_jobs; i++) {
        if (m->state[i] == ALL_DONE)
            continue;
        fetch(s, m, i, m->state[i] == NOTHING_DONE ? TT_EXPERT_GATE_UP : TT_EXPERT_ALL);
        return;
    }
}

static bool all_done(const tt_moe *m)
{
    for (uint32_t i = 0; i < m->n_jobs; i++)
        if (m->state[i] != ALL_DONE)
            return false;
    return true;
}

/* What is here first, then what arrives; sums in ascending id. */
static void run_batch(tt_step *s, tt_moe *m, float *acc)
{
    while (s->status == TT_OK && !all_done(m)) {
        tt_expert_cache_poll(m->cache);
        bool some = run_half(s, m, TT_EXPERT_GATE_UP);
        some |= run_half(s, m, TT_EXPERT_ALL);
        if (!some && s->status == TT_OK)
            wait_for_one(s, m);
    }
    if (s->status == TT_OK)
        s->be->ops->experts_reduce(s->be, acc, s->arch->hidden_size, m->job, m->n_jobs);
}

/* All experts of the oldest lease, or a piece of it that fits. */
static void run_together(tt_step *s, tt_moe *m, float *acc, const float *x)
{
    const tt_expert_lease *l = lease_at(&m->leases, 0);
    uint32_t at = 0;
    m->n_jobs = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        uint32_t n = picks_of(m, l->expert[i]);
        add_job(m, s, x, l->expert[i], 0, n, at);
        at += n;
    }
    run_batch(s, m, acc);
    release_first(m);
}

/* The oldest expert, with those after it that are here and fit; one with more rows than fit goes
 * alone, piece by piece. */
static void run_next(tt_step *s, tt_moe *m, float *acc, const float *x)
{
    const tt_moe_leases *q = &m->leases;
    uint32_t e = *lease_at(q, 0)->expert, n = picks_of(m, e), at = 0;
    for (; n - at > m->rows_max && s->status == TT_OK; at += m->rows_max) {
        m->n_jobs = 0;
        add_job(m, s, x, e, at, m->rows_max, 0);
        run_batch(s, m, acc);
    }
    m->n_jobs = 0;
    add_job(m, s, x, e, at, n - at, 0);
    at = n - at;
    while (m->n_jobs < q->count - q->guessed && is_here(s, m, m->n_jobs, TT_EXPERT_ALL)) {
        e = *lease_at(q, m->n_jobs)->expert;
        n = picks_of(m, e);
        if (at + n > m->rows_max)
            break;
        add_job(m, s, x, e, 0, n, at);
        at += n;
    }
    run_batch(s, m, acc);
    for (uint32_t i = 0; i < m->n_jobs; i++)
        release_first(m);
}

void tt_moe_run(tt_step *s, float *acc, const float *x, uint32_t layer)
{
    tt_moe *m = tables_of(s);
    if (s->status != TT_OK)
        return;
    memset(acc, 0, (size_t)s->T * s->arch->hidden_size * sizeof *acc);
    while (s->status == TT_OK && (m->leases.count > m->leases.guessed || m->next < m->n_active)) {
        if (s->prefill) {
            ask_ahead(s, m, layer);
            if (tt_step_goes_on(s, layer))
                run_next(s, m, acc, x);
        } else {
            if (m->leases.count == 0)
                ask_together(s, m, layer);
            if (s->status == TT_OK)
                run_together(s, m, acc, x);
        }
    }
    if (s->status != TT_OK)
        release_all(m);
    stage_ends(s, layer);
}
