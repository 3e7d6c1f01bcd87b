#include "bench/timeline.h"

#include <stdlib.h>

#include "bench/synth_random.h"

/* Rows made at a time: no scratch is smaller, and the past does not depend on the plan. */
#define ROWS TT_BLOCK
/* Values of the sizes that real ones have: keys are normalised, states are small. */
#define STATE_SIZE 0.05f

tt_status bench_timeline_open(tt_model *model, bench_timeline *out, tt_error *err)
{
    bench_timeline t = {.model = model};
    TT_TRY(
        tt_kv_cache_init(&t.kv, &model->arch, model->plan.kv_bits, model->plan.max_context, err));
    tt_status st = tt_recurrent_init(&t.recurrent, &model->arch, err);
    t.tokens = calloc(model->plan.max_context, sizeof *t.tokens);
    if (st == TT_OK && t.tokens == NULL)
        st = tt_fail(err, TT_ERR_NOMEM, "out of memory for a timeline");
    if (st != TT_OK) {
        bench_timeline_close(&t);
        return st;
    }
    *out = t;
    return TT_OK;
}

void bench_timeline_close(bench_timeline *t)
{
    if (t->model == NULL)
        return;
    tt_kv_cache_free(&t->kv);
    tt_recurrent_free(&t->recurrent);
    free(t->tokens);
    *t = (bench_timeline){0};
}

static void even(float *out, uint64_t n, float size, uint64_t seed)
{
    for (uint64_t i = 0; i < n; i += 4) {
        uint64_t bits = synth_draw(&seed);
        for (unsigned j = 0; j < 4 && i + j < n; j++, bits >>= 16)
            out[i + j] = size * synth_spread(bits & 0xffff);
    }
}

tt_status bench_timeline_fill(bench_timeline *t, uint32_t n, uint64_t seed, tt_error *err)
{
    tt_model *m = t->model;
    tt_scratch *s = &m->scratch;
    uint32_t width = m->arch.n_kv_heads * m->arch.head_dim;
    TT_TRY(tt_kv_cache_grow(&t->kv, n, err));
    for (uint32_t l = 0; l < t->kv.n_layers; l++)
        for (uint32_t at = 0; at < n; at += ROWS) {
            uint32_t T = n - at < ROWS ? n - at : ROWS;
            even(s->kr, (uint64_t)T * width, 1, synth_seed(seed, (uint64_t)l << 32 | at, 1));
            even(s->v, (uint64_t)T * width, 1, synth_seed(seed, (uint64_t)l << 32 | at, 2));
            m->be->ops->kv_append(m->be, &t->kv.layer[l], s->kr, s->v, at, T);
        }
    for (uint32_t l = 0; l < t->kv.n_layers && t->kv.index_dim > 0; l++)
        even(tt_kv_index(&t->kv, l), (uint64_t)(n / t->kv.index_block) * t->kv.index_dim, 1,
             synth_seed(seed, l, 4));
    for (uint32_t i = 0; i < n; i++)
        t->tokens[i] = (uint32_t)(synth_seed(seed, i, 5) % m->arch.vocab_size);
    even(t->recurrent.block, t->recurrent.bytes / sizeof(float), STATE_SIZE,
         synth_seed(seed, 0, 3));
    t->n = n;
    return TT_OK;
}

tt_status bench_timeline_decode(bench_timeline *t, uint32_t id, tt_error *err)
{
    tt_model *m = t->model;
    if (t->n >= m->plan.max_context)
        return tt_fail(err, TT_ERR_CONTEXT, "the context of %u tokens is full",
                       m->plan.max_context);
    if (id >= m->arch.vocab_size)
        return tt_fail(err, TT_ERR_INVALID, "id %u, the vocabulary has %u entries", id,
                       m->arch.vocab_size);
    TT_TRY(tt_kv_cache_grow(&t->kv, t->n + 1, err));
    tt_step step = {.model = m,
                    .be = m->be,
                    .arch = &m->arch,
                    .s = &m->scratch,
                    .kv = &t->kv,
                    .recurrent = &t->recurrent,
                    .tokens = &id,
                    .past = t->tokens,
                    .pos0 = t->n,
                    .T = 1,
                    .err = err};
    tt_model_forward(&step);
    TT_TRY(step.status);
    tt_model_head(&step, m->scratch.logits, NULL, 0, 1);
    t->tokens[t->n++] = id;
    return TT_OK;
}
