#include "model/undo.h"

#include <string.h>

#include "base/mem.h"

static uint64_t row_floats(const tt_undo *u) /* of a layer */
{
    return 2 * ((uint64_t)u->conv + u->heads);
}

static tt_undo shape_of(const tt_arch *a, uint32_t rows)
{
    tt_undo u = {.most = rows,
                 .shape = {a->lin_key_heads, a->lin_value_heads, a->lin_key_dim, a->lin_value_dim},
                 .conv = tt_arch_conv_dim(a),
                 .heads = a->lin_value_heads};
    for (uint32_t l = 0; l < a->n_layers; l++)
        u.layers += a->layer_kind[l] == TT_LAYER_LINEAR;
    if (u.layers > 0)
        u.bytes = rows * (u.layers * row_floats(&u) + (uint64_t)u.heads * a->lin_value_dim) *
                  sizeof(float);
    return u;
}

uint64_t tt_undo_cost(const tt_arch *a, uint32_t rows)
{
    return shape_of(a, rows).bytes + tt_recurrent_bytes(a);
}

tt_status tt_undo_init(tt_undo *out, const tt_arch *a, uint32_t rows, tt_error *err)
{
    tt_undo u = shape_of(a, rows);
    void *block = NULL;
    TT_TRY(tt_recurrent_init(&u.before, a, err));
    if (u.bytes > 0) {
        tt_status st = tt_mem_alloc(u.bytes, "rows to undo", &block, err);
        if (st != TT_OK) {
            tt_recurrent_free(&u.before);
            return st;
        }
        /* Touched now: the first step with guesses is what decides whether others follow. */
        memset(block, 0, u.bytes);
        memset(u.before.block, 0, u.before.bytes);
        u.rows = block;
        u.out = u.rows + rows * u.layers * row_floats(&u);
    }
    *out = u;
    return TT_OK;
}

void tt_undo_free(tt_undo *u)
{
    tt_recurrent_free(&u->before);
    tt_mem_free(u->rows, u->bytes);
    *u = (tt_undo){0};
}

/* Rows of layer i: u, c, g, beta. */
static void parts(const tt_undo *u, uint32_t i, float *out[4])
{
    out[0] = u->rows + i * u->most * row_floats(u);
    out[1] = out[0] + (uint64_t)u->most * u->conv;
    out[2] = out[1] + (uint64_t)u->most * u->conv;
    out[3] = out[2] + (uint64_t)u->most * u->heads;
}

void tt_undo_before(tt_undo *u, uint32_t i, const tt_recurrent *r)
{
    memcpy(tt_recurrent_state(&u->before, i), tt_recurrent_state(r, i),
           r->layer_floats * sizeof(float));
}

void tt_undo_added(tt_undo *u, uint32_t i, const float *raw, const float *c, const float *g,
                   const float *beta, uint32_t T)
{
    float *to[4];
    parts(u, i, to);
    u->T = T;
    memcpy(to[0], raw, (size_t)T * u->conv * sizeof *raw);
    memcpy(to[1], c, (size_t)T * u->conv * sizeof *c);
    memcpy(to[2], g, (size_t)T * u->heads * sizeof *g);
    memcpy(to[3], beta, (size_t)T * u->heads * sizeof *beta);
}

/* The last raw rows of those before the step and `rows` of its own. */
static void convolution_to(const tt_undo *u, uint32_t i, const float *raw, uint32_t rows,
                           float *state)
{
    size_t C = u->conv, row = C * sizeof *raw;
    for (uint32_t k = 0; k < TT_CONV_ROWS; k++) {
        uint32_t at = rows + k; /* among both */
        const float *from = at < TT_CONV_ROWS ? tt_recurrent_conv(&u->before, i) + at * C
                                              : raw + (at - TT_CONV_ROWS) * C;
        memcpy(state + k * C, from, row);
    }
}

void tt_undo_to(const tt_undo *u, tt_backend *be, uint32_t rows, tt_recurrent *r)
{
    for (uint32_t i = 0; i < u->layers; i++) {
        float *part[4], *S = tt_recurrent_state(r, i);
        parts(u, i, part);
        memcpy(S, tt_recurrent_state(&u->before, i), u->before.layer_floats * sizeof *S);
        convolution_to(u, i, part[0], rows, tt_recurrent_conv(r, i));
        be->ops->delta_recurrent(be, u->out, S, part[1], u->conv, part[2], part[3], &u->shape,
                                 rows);
    }
}
