/* The page: Qwen3.8-Flash-Next (qwen4_exp), in the order and symbols of docs/model-qwen4.md.
 *
 * T rows of this step (decode is T = 1), S streams of width H, rank of the mixing matrices, Hq/Hkv
 * heads of d, Hi index heads of di, Hk/Hv heads of dk/dv, C convolution channels, E experts, K
 * chosen, D width of a token's rows of the n-gram table. */
#include <string.h>

#include "model/forward.h"
#include "model/model.h"

#define OP(name, ...) s->be->ops->name(s->be, __VA_ARGS__)

/* Several W and one x, y[T, W.rows] = W x; the reads ahead go on meanwhile */
static void mul_all(tt_step *s, const float *x, uint32_t n, const tt_product *p)
{
    OP(matmul_many, p, n, x, p->W->cols, s->T);
    tt_moe_poll(s);
    tt_ngram_poll(s);
}

static void mul(tt_step *s, float *y, const tt_mat *W, const float *x)
{
    mul_all(s, x, 1, (tt_product[]){{y, W}});
}

static void stream_norm(tt_step *s, float *y, const float *x, const float *w)
{
    const tt_arch *a = s->arch;
    OP(stream_norm, y, x, w, a->streams, a->hidden_size, (float)a->rms_eps, s->T);
}

/* Gated residual, 2: what a block reads of the streams, and how much of it each will take. */
static void read_streams(tt_step *s, const tt_mix_weights *w)
{
    tt_scratch *b = s->s;
    uint32_t S = s->arch->streams, rank = s->arch->mix_rank, H = s->arch->hidden_size;

    stream_norm(s, b->rn, b->h, w->norm); /* [T, S, H] */
    mul_all(s, b->rn, w->inject.rows > 0 ? 2 : 1,
            (tt_product[]){{b->low, &w->down},        /* [T, rank] */
                           {b->inject, &w->inject}}); /* [T, S] */
    OP(silu_scaled, b->low, 1.0f / (float)S, (size_t)s->T * rank);
    mul(s, b->mix, &w->up, b->low);                   /* [T, S, H] */
    OP(mix_streams, b->x, b->mix, b->rn, S, H, s->T); /* [T, H] */
}

/* ... and what they take. */
static void add_streams(tt_step *s, const float *y)
{
    OP(add_streams, s->s->h, y, s->s->inject, s->arch->streams, s->arch->hidden_size, s->T);
}

/* Sparse attention, 4 */
static void attention(tt_step *s, const tt_attention_weights *w, uint32_t i)
{
    const tt_arch *a = s->arch;
    tt_scratch *b = s->s;
    uint32_t Hq = a->n_heads, Hkv = a->n_kv_heads, d = a->head_dim, R = s->model->rope.rotary;
    uint32_t Hi = a->indexer_heads, di = a->indexer_dim;
    float eps = (float)a->rms_eps;
    size_t ldr = (size_t)2 * Hq * d, ldk = (size_t)Hkv * d, ldi = (size_t)(Hi + 1) * di;

    mul_all(s, b->x, 4,
            (tt_product[]){{b->r, &w->q},            /* [T, Hq, q: d | gate: d] */
                           {b->k, &w->k},            /* [T, Hkv, d] */
                           {b->v, &w->v},            /* [T, Hkv, d] */
                           {b->iqk, &w->index_qk}}); /* [T, Hi + 1, di] */
    OP(norm_rope, b->q, b->r, ldr, 2 * d, w->q_norm, Hq, d, eps, b->cosine, b->sine, R, s->T);
    OP(norm_rope, b->kr, b->k, ldk, d, w->k_norm, Hkv, d, eps, b->cosine, b->sine, R, s->T);
    OP(norm_rope, b->iq, b->iqk, ldi, di, w->index_q_norm, Hi, di, eps, b->cosine, b->sine, R,
       s->T);
    OP(kv_append, &s->kv->layer[i], b->kr, b->v, s->pos0, s->T);
    tt_indexer_add(s, w, i);
    tt_indexer_attend(s, i); /* [T, Hq, d] */
    OP(sigmoid_gate, b->oa, b->r + d, ldr, 2 * d, Hq, d, s->T);
    mul(s, b->y, &w->o, b->oa); /* [T, H] */
}

/* Gated DeltaNet with a sigmoid gate, 3 */
static void delta_net(tt_step *s, const tt_delta_weights *w, uint32_t i)
{
    const tt_arch *a = s->arch;
    tt_scratch *b = s->s;
    tt_delta_shape shape = {a->lin_key_heads, a->lin_value_heads, a->lin_key_dim, a->lin_value_dim};
    uint32_t C = tt_arch_conv_dim(a), Hv = a->lin_value_heads;
    float *state = tt_recurrent_state(s->recurrent, i), *conv = tt_recurrent_conv(s->recurrent, i);

    mul_all(s, b->x, 4,
            (tt_product[]){{b->u, &w->qkv},            /* [T, C] */
                           {b->z, &w->z},              /* [T, Hv, dv] */
                           {b->b, &w->b},              /* [T, Hv] */
                           {b->a, &w->a}});            /* [T, Hv] */
    OP(conv_silu, b->c, conv, b->u, w->conv, C, s->T); /* [T, q | k | v] */
    OP(delta_qk_norm, b->c, C, &shape, s->T);
    OP(delta_gates, b->g, b->beta, b->a, b->b, w->A_log, w->dt_bias, Hv, s->T);
    if (s->prefill)
        OP(delta_chunked, b->od, state, b->c, C, b->g, b->beta, &shape, s->pos0, s->T);
    else
        OP(delta_recurrent, b->od, state, b->c, C, b->g, b->beta, &shape, s->T); /* [T, Hv, dv] */
    OP(gated_norm, b->od, b->od, b->z, w->norm, Hv, a->lin_value_dim, (float)a->rms_eps,
       TT_GATE_SIGMOID, s->T);
    mul(s, b->y, &w->out, b->od); /* [T, H] */
    tt_step_mark(s, i);
}

/* N-gram block, 5: R = R + P + c */
static void ngrams(tt_step *s, const tt_ngram_weights *w)
{
    const tt_arch *a = s->arch;
    tt_scratch *b = s->s;
    uint32_t S = a->streams, H = a->hidden_size, D = a->ngram_size;
    size_t n = (size_t)s->T * S * H;
    float *rows = tt_recurrent_ngram(s->recurrent);

    tt_ngram_take(s, b->e); /* [T, D], from the disk */
    mul_all(s, b->e, 2,
            (tt_product[]){{b->nk, &w->key},     /* [T, S, H] */
                           {b->nv, &w->value}}); /* [T, H] */
    stream_norm(s, b->nk, b->nk, w->norm_key);
    stream_norm(s, b->nq, b->h, w->norm_query);
    OP(ngram_gate, b->nk, b->nk, b->nq, b->nv, S, H, s->T); /* P */
    stream_norm(s, b->nn, b->nk, w->norm_conv);
    OP(conv_dilated, b->nq, rows, b->nn, w->conv, S * H, D, s->T); /* c */
    OP(add, b->h, b->nk, n);
    OP(add, b->h, b->nq, n);
    tt_step_mark_values(s, rows, s->recurrent->ngram_floats);
}

/* Mixture of experts, 6: the router of a span and the gate of its shared expert ... */
static void route(tt_step *s, const tt_layer_weights *w, uint32_t l)
{
    const tt_arch *a = s->arch;
    tt_scratch *b = s->s;

    mul_all(s, b->x, 2,
            (tt_product[]){{b->l, &w->router},                   /* [T, E] */
                           {b->sg, &w->shared_gate}});           /* [T, 1] */
    OP(route, b->ids, b->p, b->l, a->n_experts, a->top_k, s->T); /* [T, K] */
    tt_mark(s, TT_STAGE_ROUTER_IDS, l, a->top_k, b->ids);
    tt_mark(s, TT_STAGE_ROUTER_WEIGHTS, l, a->top_k, b->p);
}

/* ... the shared expert, and the experts of all rows of the step. */
static void moe(tt_step *s, const tt_layer_weights *w, uint32_t l)
{
    tt_scratch *b = s->s;
    size_t H = s->arch->hidden_size;
    tt_span p;

    tt_moe_ask(s, l);                                                  /* the disk starts */
    for (tt_span_first(&p, s); p.step.T > 0; tt_span_next(&p, s, l)) { /* work meanwhile */
        tt_scratch *v = p.step.s;
        OP(swiglu, v->m, v->x, &w->mlp.gate, &w->mlp.up, p.step.T); /* [T, F] */
        mul(&p.step, v->y, &w->mlp.down, v->m);                     /* [T, H] */
    }
    tt_moe_run(s, b->acc, b->x, l); /* ascending expert id */
    memset(b->x, 0, s->T * H * sizeof *b->x);
    OP(moe_add, b->x, b->acc, b->y, b->sg, (uint32_t)H, s->T);
    add_streams(s, b->x);
}

/* The rows of a span: mixer, and what of the feed-forward part a row needs alone. */
static void mix(tt_step *s, const tt_layer_weights *w, uint32_t l)
{
    if (l == s->arch->ngram_layer)
        ngrams(s, &s->model->weights.ngram);
    read_streams(s, &w->mix_attn);
    if (w->kind == TT_LAYER_FULL)
        attention(s, &w->attn, w->kind_index);
    else
        delta_net(s, &w->delta, w->kind_index);
    add_streams(s, s->s->y);
    tt_mark(s, TT_STAGE_MIXER, l, tt_arch_residual(s->arch), s->s->h);
    read_streams(s, &w->mix_ffn);
    route(s, w, l);
}

static void layer(tt_step *s, const tt_layer_weights *w, uint32_t l)
{
    tt_span p;

    for (tt_span_first(&p, s); p.step.T > 0; tt_span_next(&p, s, l))
        mix(&p.step, w, l);
    moe(s, w, l);
    tt_mark(s, TT_STAGE_LAYER, l, tt_arch_residual(s->arch), s->s->h);
}

/* R_s = E[token] for every s */
static void embed(tt_step *s, const tt_mat *E)
{
    size_t H = s->arch->hidden_size, S = s->arch->streams;

    OP(embed, s->s->x, E, s->tokens, s->T); /* [T, H] */
    for (size_t i = 0; i < s->T * S; i++)
        memcpy(s->s->h + i * H, s->s->x + i / S * H, H * sizeof(float));
    tt_mark(s, TT_STAGE_EMBED, 0, (uint32_t)H, s->s->x);
}

void tt_forward_qwen4_exp(tt_step *s)
{
    tt_ngram_begin(s); /* the disk starts: the ids are all it needs */
    tt_rope_rows(&s->model->rope, s->s->cosine, s->s->sine, s->pos0, s->T);
    embed(s, &s->model->weights.embed);
    for (uint32_t l = 0; l < s->arch->n_layers && tt_step_goes_on(s, l); l++)
        layer(s, &s->model->weights.layer[l], l);
    tt_moe_end(s);
    tt_ngram_end(s);
}

void tt_head_qwen4_exp(tt_step *s, float *logits, float *top, uint32_t row0, uint32_t n)
{
    tt_scratch rows = *s->s;
    tt_step some = *s;

    rows.h += row0 * (size_t)tt_arch_residual(s->arch);
    some.s = &rows;
    some.T = n;
    read_streams(&some, &s->model->weights.mix);
    OP(matmul_max, logits, top, rows.x, s->arch->hidden_size, &s->model->weights.head, n);
}
