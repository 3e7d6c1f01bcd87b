/* The page: Qwen 3.5, 3.6 and Ornith, dense and mixture of experts, in the order and symbols of
 * docs/model.md.
 *
 * T rows of this step (decode is T = 1), H width, Hq/Hkv heads of d, Hk/Hv heads of dk/dv, C
 * convolution channels, E experts, K chosen, F width of the MLP or of the shared expert. */
#include "model/forward.h"
#include "model/model.h"

#define OP(name, ...) s->be->ops->name(s->be, __VA_ARGS__)

/* y[T, W.rows] = W x; the reads ahead go on meanwhile */
static void mul(tt_step *s, float *y, const tt_mat *W, const float *x)
{
    OP(matmul, y, W->rows, x, W->cols, W, s->T);
    tt_moe_poll(s);
}

/* The same of several W and one x */
static void mul_all(tt_step *s, const float *x, uint32_t n, const tt_product *p)
{
    OP(matmul_many, p, n, x, p->W->cols, s->T);
    tt_moe_poll(s);
}

static void norm(tt_step *s, float *y, const float *x, const float *w)
{
    OP(rms_norm, y, x, w, s->arch->hidden_size, (float)s->arch->rms_eps, s->T);
}

/* Gated full attention, model.md 3 */
static void attention(tt_step *s, const tt_attention_weights *w, uint32_t i)
{
    const tt_arch *a = s->arch;
    tt_scratch *b = s->s;
    tt_line t;
    uint32_t Hq = a->n_heads, Hkv = a->n_kv_heads, d = a->head_dim, R = s->model->rope.rotary;
    float eps = (float)a->rms_eps;
    size_t ldr = (size_t)2 * Hq * d, ldk = (size_t)Hkv * d, ldq = (size_t)Hq * d;

    mul_all(s, b->x, 3,
            (tt_product[]){{b->r, &w->q},   /* [T, Hq, q: d | gate: d] */
                           {b->k, &w->k},   /* [T, Hkv, d] */
                           {b->v, &w->v}}); /* [T, Hkv, d] */
    OP(norm_rope, b->q, b->r, ldr, 2 * d, w->q_norm, Hq, d, eps, b->cosine, b->sine, R, s->T);
    OP(norm_rope, b->kr, b->k, ldk, d, w->k_norm, Hkv, d, eps, b->cosine, b->sine, R, s->T);
    for (uint32_t n = 0; tt_step_line(s, n, &t); n++) {
        const tt_kv_layer *kv = &t.kv->layer[i];
        OP(kv_append, kv, b->kr + t.row0 * ldk, b->v + t.row0 * ldk, t.pos0, t.T);
        OP(attend, b->oa + t.row0 * ldq, b->q + t.row0 * ldq, kv, Hq, t.pos0, t.T); /* [T, Hq, d] */
    }
    OP(sigmoid_gate, b->oa, b->r + d, ldr, 2 * d, Hq, d, s->T);
    mul(s, b->y, &w->o, b->oa); /* [T, H] */
}

/* Gated DeltaNet, model.md 4 */
static void delta_net(tt_step *s, const tt_delta_weights *w, uint32_t i)
{
    const tt_arch *a = s->arch;
    tt_scratch *b = s->s;
    tt_delta_shape shape = {a->lin_key_heads, a->lin_value_heads, a->lin_key_dim, a->lin_value_dim};
    uint32_t C = tt_arch_conv_dim(a), Hv = a->lin_value_heads, V = tt_arch_value_dim(a);
    tt_line t;

    mul_all(s, b->x, 4,
            (tt_product[]){{b->u, &w->qkv}, /* [T, C] */
                           {b->z, &w->z},   /* [T, Hv, dv] */
                           {b->b, &w->b},   /* [T, Hv] */
                           {b->a, &w->a}}); /* [T, Hv] */
    tt_step_keep(s, i);
    for (uint32_t n = 0; tt_step_line(s, n, &t); n++)
        OP(conv_silu, b->c + (size_t)t.row0 * C, tt_recurrent_conv(t.recurrent, i),
           b->u + (size_t)t.row0 * C, w->conv, C, t.T); /* [T, q | k | v] */
    OP(delta_qk_norm, b->c, C, &shape, s->T);
    OP(delta_gates, b->g, b->beta, b->a, b->b, w->A_log, w->dt_bias, Hv, s->T);
    tt_step_added(s, i);
    for (uint32_t n = 0; tt_step_line(s, n, &t); n++) {
        float *S = tt_recurrent_state(t.recurrent, i), *od = b->od + (size_t)t.row0 * V;
        const float *c = b->c + (size_t)t.row0 * C, *g = b->g + (size_t)t.row0 * Hv,
                    *beta = b->beta + (size_t)t.row0 * Hv;
        if (s->prefill)
            OP(delta_chunked, od, S, c, C, g, beta, &shape, t.pos0, t.T);
        else
            OP(delta_recurrent, od, S, c, C, g, beta, &shape, t.T); /* [T, Hv, dv] */
    }
    OP(gated_norm, b->od, b->od, b->z, w->norm, Hv, a->lin_value_dim, (float)a->rms_eps,
       TT_GATE_SILU, s->T);
    mul(s, b->y, &w->out, b->od); /* [T, H] */
    tt_step_mark(s, i);
}

/* Dense MLP and shared expert, model.md 5 */
static void mlp(tt_step *s, const tt_mlp_weights *w)
{
    OP(swiglu, s->s->m, s->s->x, &w->gate, &w->up, s->T); /* [T, F] */
    mul(s, s->s->y, &w->down, s->s->m);                   /* [T, H] */
}

/* Mixture of experts, model.md 6: the router of a span and the gate of its shared expert ... */
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
    tt_span p;

    tt_moe_ask(s, l); /* the disk starts */
    for (tt_span_first(&p, s); p.step.T > 0; tt_span_next(&p, s, l))
        mlp(&p.step, &w->mlp);      /* work meanwhile */
    tt_moe_run(s, b->acc, b->x, l); /* ascending expert id */
    OP(moe_add, b->h, b->acc, b->y, b->sg, s->arch->hidden_size, s->T);
}

/* The rows of a span: mixer, and what of the feed-forward part a row needs alone. */
static void mix(tt_step *s, const tt_layer_weights *w, uint32_t l)
{
    tt_scratch *b = s->s;
    size_t n = (size_t)s->T * s->arch->hidden_size;

    norm(s, b->x, b->h, w->norm_in);
    if (w->kind == TT_LAYER_FULL)
        attention(s, &w->attn, w->kind_index);
    else
        delta_net(s, &w->delta, w->kind_index);
    OP(add, b->h, b->y, n);
    tt_mark(s, TT_STAGE_MIXER, l, s->arch->hidden_size, b->h);

    norm(s, b->x, b->h, w->norm_post);
    if (tt_arch_is_moe(s->arch)) {
        route(s, w, l);
    } else {
        mlp(s, &w->mlp);
        OP(add, b->h, b->y, n);
    }
}

void tt_layer_qwen3_5(tt_step *s, const tt_layer_weights *w, uint32_t l)
{
    tt_span p;

    for (tt_span_first(&p, s); p.step.T > 0; tt_span_next(&p, s, l))
        mix(&p.step, w, l);
    if (tt_arch_is_moe(s->arch))
        moe(s, w, l);
    tt_mark(s, TT_STAGE_LAYER, l, s->arch->hidden_size, s->s->h);
}

void tt_forward_qwen3_5(tt_step *s)
{
    const tt_weights *w = &s->model->weights;
    const tt_rope *rope = &s->model->rope;
    tt_scratch *b = s->s;
    tt_line t;

    for (uint32_t n = 0; tt_step_line(s, n, &t); n++) {
        size_t at = (size_t)t.row0 * (rope->rotary / 2);
        tt_rope_rows(rope, b->cosine + at, b->sine + at, t.pos0, t.T);
    }
    OP(embed, b->h, &w->embed, s->tokens, s->T); /* [T, H] */
    tt_mark(s, TT_STAGE_EMBED, 0, s->arch->hidden_size, b->h);
    for (uint32_t l = 0; l < s->arch->n_layers && tt_step_goes_on(s, l); l++)
        tt_layer_qwen3_5(s, &w->layer[l], l);
    tt_moe_end(s);
}

void tt_head_qwen3_5(tt_step *s, float *logits, float *top, uint32_t row0, uint32_t n)
{
    const tt_weights *w = &s->model->weights;
    size_t H = s->arch->hidden_size;

    OP(rms_norm, s->s->x, s->s->h + row0 * H, w->norm, (uint32_t)H, (float)s->arch->rms_eps, n);
    OP(matmul_max, logits, top, s->s->x, H, &w->head, n); /* [n, vocab] */
}
