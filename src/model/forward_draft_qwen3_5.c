/* The page of the draft of Qwen 3.5, 3.6 and Ornith (MTP), docs/model.md 10: from the hidden state
 * that the target left at a token and the token after it to the logits of the one after that.
 *
 * T pairs, H width. Row i of a timeline's draft rows is the pair (h_i, x_{i+1}). */
#include <string.h>

#include "model/draft.h"
#include "model/forward.h"
#include "model/model.h"

#define OP(name, ...) s->be->ops->name(s->be, __VA_ARGS__)

static void norm(tt_step *s, float *y, const float *x, const float *w)
{
    OP(rms_norm, y, x, w, s->arch->hidden_size, (float)s->arch->rms_eps, 1);
}

/* h = W_fc [N(E x_{t+1}) ; N(h_t)], and positions */
static void enter(tt_step *s, const float *hidden)
{
    const tt_draft *d = s->model->draft;
    const tt_weights *w = &d->weights;
    size_t H = s->arch->hidden_size;
    tt_scratch *b = s->s;

    tt_rope_rows(&s->model->rope, b->cosine, b->sine, s->pos0, s->T);
    OP(embed, b->x, &s->model->weights.embed, s->tokens, s->T); /* [T, H] */
    for (size_t t = 0; t < s->T; t++) {
        norm(s, d->pair + 2 * t * H, b->x + t * H, w->norm_embed);
        norm(s, d->pair + (2 * t + 1) * H, hidden + t * H, w->norm_hidden);
    }
    OP(matmul, b->h, H, d->pair, 2 * H, &w->fc, s->T); /* [T, H] */
}

void tt_draft_hidden_qwen3_5(tt_step *s, float *hidden, const float *h)
{
    const tt_model *m = s->model;
    size_t H = s->arch->hidden_size;

    for (size_t t = 0; t < s->T; t++)
        if (m->draft->pre_norm)
            memcpy(hidden + t * H, h + t * H, H * sizeof *h);
        else
            norm(s, hidden + t * H, h + t * H, m->weights.norm);
}

void tt_draft_rows_qwen3_5(tt_step *s, const float *hidden)
{
    const tt_layer_weights *w = &s->model->draft->weights.layer[0];
    const tt_arch *a = s->arch;
    tt_scratch *b = s->s;
    uint32_t Hkv = a->n_kv_heads, d = a->head_dim;

    enter(s, hidden);
    for (size_t t = 0; t < s->T; t++)
        norm(s, b->x + t * a->hidden_size, b->h + t * a->hidden_size, w->norm_in);
    OP(matmul_many,
       (tt_product[]){{b->k, &w->attn.k},  /* [T, Hkv, d] */
                      {b->v, &w->attn.v}}, /* [T, Hkv, d] */
       2, b->x, a->hidden_size, s->T);
    OP(norm_rope, b->kr, b->k, (size_t)Hkv * d, d, w->attn.k_norm, Hkv, d, (float)a->rms_eps,
       b->cosine, b->sine, s->model->rope.rotary, s->T);
    OP(kv_append, &s->kv->layer[0], b->kr, b->v, s->pos0, s->T);
}

void tt_draft_qwen3_5(tt_step *s, float *y, const float *hidden)
{
    const tt_weights *w = &s->model->draft->weights;
    size_t H = s->arch->hidden_size;

    enter(s, hidden);
    tt_layer_qwen3_5(s, &w->layer[0], 0);
    tt_moe_end(s);
    for (size_t t = 0; t < s->T; t++)
        norm(s, y + t * H, s->s->h + t * H, w->norm); /* [T, H] */
}

void tt_draft_head_qwen3_5(tt_step *s, float *logits, float *top, const float *y)
{
    OP(matmul_max, logits, top, y, s->arch->hidden_size, &s->model->weights.head, s->T);
}
