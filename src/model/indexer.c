#include "model/indexer.h"

#include <string.h>

#include "base/mem.h"
#include "model/model.h"

#define OP(name, ...) s->be->ops->name(s->be, __VA_ARGS__)

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + TT_TENSOR_ALIGN - 1) / TT_TENSOR_ALIGN * TT_TENSOR_ALIGN;
}

static uint64_t lay_out(tt_indexer *x, const tt_arch *a, uint32_t kv_bits, uint32_t max_context,
                        uint32_t rows, char *base)
{
    uint64_t at = 0, d = a->indexer_dim, r = a->indexer_block, K = a->indexer_budget / r;
    uint64_t span = rows < TT_SPAN_ROWS ? rows : TT_SPAN_ROWS, most = max_context / r + 1;
    uint64_t done = span / r + 1, half = tt_rope_rotary(a) / 2, work = K * r + r - 1;
    uint64_t code = tt_kv_row_bytes(kv_bits, a->n_kv_heads, a->head_dim),
             meta = tt_kv_meta_bytes(kv_bits, a->n_kv_heads, a->head_dim);
#define PLACE(field, bytes)                                                                        \
    do {                                                                                           \
        if (x != NULL)                                                                             \
            x->field = (void *)(base + at);                                                        \
        at += aligned(bytes);                                                                      \
    } while (0)
    PLACE(raw, (r - 1 + span) * d * sizeof(float));
    PLACE(mean, done * d * sizeof(float));
    PLACE(cosine, done * half * sizeof(float));
    PLACE(sine, done * half * sizeof(float));
    PLACE(scores, TT_INDEX_ROWS * a->indexer_heads * most * sizeof(float));
    PLACE(picks, TT_INDEX_ROWS * K * sizeof(uint32_t));
    PLACE(work.k, work * code);
    PLACE(work.v, work * code);
    PLACE(work.k_meta, work * meta);
    PLACE(work.v_meta, work * meta);
#undef PLACE
    return at;
}

uint64_t tt_indexer_cost(const tt_arch *a, uint32_t kv_bits, uint32_t max_context, uint32_t rows)
{
    return a->indexer_dim > 0 ? lay_out(NULL, a, kv_bits, max_context, rows, NULL) : 0;
}

tt_status tt_indexer_init(tt_indexer *x, const tt_arch *a, uint32_t kv_bits, uint32_t max_context,
                          uint32_t rows, tt_error *err)
{
    *x = (tt_indexer){.K = a->indexer_budget / a->indexer_block,
                      .most = max_context / a->indexer_block + 1,
                      .work = {.bits = kv_bits, .heads = a->n_kv_heads, .dim = a->head_dim},
                      .bytes = tt_indexer_cost(a, kv_bits, max_context, rows)};
    TT_TRY(tt_mem_alloc(x->bytes, "index scratch", &x->block, err));
    (void)lay_out(x, a, kv_bits, max_context, rows, x->block);
    return TT_OK;
}

void tt_indexer_free(tt_indexer *x)
{
    tt_mem_free(x->block, x->bytes);
    *x = (tt_indexer){0};
}

void tt_indexer_add(tt_step *s, const tt_attention_weights *w, uint32_t i)
{
    const tt_arch *a = s->arch;
    const tt_rope *rope = &s->model->rope;
    tt_indexer *x = &s->model->indexer;
    uint32_t r = a->indexer_block, Hi = a->indexer_heads;
    size_t d = a->indexer_dim, row = d * sizeof(float);
    uint32_t have = s->pos0 % r, n = (have + s->T) / r, left = (have + s->T) % r;
    float *kept = tt_recurrent_index(s->recurrent, i);
    float *keys = tt_kv_index(s->kv, i) + s->pos0 / r * d;

    memcpy(x->raw, kept, have * row);
    for (uint32_t t = 0; t < s->T; t++)
        memcpy(x->raw + (have + t) * d, s->s->iqk + (t * (Hi + 1) + Hi) * d, row);
    tt_rope_rows_every(rope, x->cosine, x->sine, s->pos0 - have, r, n);
    OP(mean_rows, x->mean, x->raw, (uint32_t)d, r, n);
    OP(norm_rope, keys, x->mean, d, d, w->index_k_norm, 1, (uint32_t)d, (float)a->rms_eps,
       x->cosine, x->sine, rope->rotary, n);
    memcpy(kept, x->raw + (size_t)n * r * d, left * row);
    memset(kept + left * d, 0, (r - 1 - left) * row);
    tt_step_mark_values(s, kept, s->recurrent->index_floats);
}

/* Rows that see no more than K complete blocks come first. */
static uint32_t dense_rows(const tt_step *s, const tt_indexer *x)
{
    uint64_t end = (uint64_t)(x->K + 1) * s->arch->indexer_block - 1; /* first position beyond */
    uint64_t rows = end > s->pos0 ? end - s->pos0 : 0;
    return rows < s->T ? (uint32_t)rows : s->T;
}

void tt_indexer_attend(tt_step *s, uint32_t i)
{
    const tt_arch *a = s->arch;
    tt_indexer *x = &s->model->indexer;
    const tt_kv_layer *kv = &s->kv->layer[i];
    uint32_t r = a->indexer_block, Hi = a->indexer_heads, d = a->indexer_dim, Hq = a->n_heads;
    size_t ldq = (size_t)Hq * a->head_dim;
    uint32_t dense = dense_rows(s, x);

    if (dense > 0)
        OP(attend, s->s->oa, s->s->q, kv, Hq, s->pos0, dense);
    for (uint32_t t = dense, n; t < s->T; t += n) {
        uint32_t pos = s->pos0 + t;
        n = s->T - t < TT_INDEX_ROWS ? s->T - t : TT_INDEX_ROWS;
        tt_mat keys = {.dtype = TT_DTYPE_F32,
                       .rows = (pos + n) / r,
                       .cols = d,
                       .words = tt_kv_index(s->kv, i)};
        OP(matmul, x->scores, x->most, s->s->iq + (size_t)t * Hi * d, d, &keys, n * Hi);
        OP(pick_blocks, x->picks, x->scores, Hi, x->most, r, x->K, pos, n);
        OP(attend_blocks, s->s->oa + t * ldq, s->s->q + t * ldq, kv, &x->work, x->picks, r, x->K,
           Hq, pos, n);
    }
}
