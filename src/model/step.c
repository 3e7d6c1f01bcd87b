#include "model/step.h"

#include <string.h>

#include "base/mem.h"

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + TT_TENSOR_ALIGN - 1) / TT_TENSOR_ALIGN * TT_TENSOR_ALIGN;
}

/* Lays the buffers out in list order, those of one kind of block over those of another; with s NULL
 * only the size is wanted. */
static uint64_t lay_out(tt_scratch *s, const tt_arch *a, uint64_t step_rows, uint64_t logits_rows,
                        char *base)
{
    uint64_t at = 0, most, rows = step_rows;
#define PLACE(type, name, width)                                                                   \
    do {                                                                                           \
        if (s != NULL)                                                                             \
            s->name = (type *)(base + at);                                                         \
        at += aligned(rows * (uint64_t)(width) * sizeof(type));                                    \
    } while (0);
    TT_SCRATCH_STEP(PLACE)
    uint64_t shared = at;
    rows = step_rows < TT_SPAN_ROWS ? step_rows : TT_SPAN_ROWS;
    TT_SCRATCH_ATTENTION(PLACE)
    most = at;
    at = shared;
    TT_SCRATCH_DELTA(PLACE)
    most = at > most ? at : most;
    at = shared;
    TT_SCRATCH_FFN(PLACE)
    most = at > most ? at : most;
    at = shared;
    TT_SCRATCH_MIX(PLACE)
    most = at > most ? at : most;
    at = shared;
    TT_SCRATCH_NGRAM(PLACE)
    most = at > most ? at : most;
    at = most;
    rows = logits_rows;
    PLACE(float, logits, a->vocab_size)
    PLACE(float, top, tt_block_count(a->vocab_size))
#undef PLACE
    return at;
}

uint64_t tt_scratch_cost(const tt_arch *a, uint32_t rows)
{
    return lay_out(NULL, a, rows, TT_LOGITS_ROWS, NULL);
}

uint64_t tt_scratch_cost_beside(const tt_arch *a)
{
    return lay_out(NULL, a, TT_DECODE_ROWS, 0, NULL);
}

static tt_status init(tt_scratch *s, const tt_arch *a, uint32_t rows, uint32_t logits_rows,
                      tt_error *err)
{
    *s = (tt_scratch){.bytes = lay_out(NULL, a, rows, logits_rows, NULL)};
    tt_status st = tt_mem_alloc(s->bytes, "step scratch", &s->block, err);
    if (st == TT_OK)
        (void)lay_out(s, a, rows, logits_rows, s->block);
    return st;
}

tt_status tt_scratch_init(tt_scratch *s, const tt_arch *a, uint32_t rows, tt_error *err)
{
    return init(s, a, rows, TT_LOGITS_ROWS, err);
}

tt_status tt_scratch_init_beside(tt_scratch *s, const tt_arch *a, const tt_scratch *other,
                                 tt_error *err)
{
    TT_TRY(init(s, a, TT_DECODE_ROWS, 0, err));
    s->logits = other->logits;
    s->top = other->top;
    return TT_OK;
}

void tt_scratch_free(tt_scratch *s)
{
    tt_mem_free(s->block, s->bytes);
    *s = (tt_scratch){0};
}

/* ---- spans ---- */

static void set_span(tt_span *p, const tt_step *s, uint32_t row0)
{
    if (s->status != TT_OK) { /* nothing of a step that failed is worth computing */
        p->step.T = 0;
        return;
    }
    const tt_arch *a = s->arch;
    uint32_t room = TT_SPAN_ROWS - (s->pos0 + row0) % TT_SPAN_ROWS, left = s->T - row0;
    for (uint32_t i = 0; i < s->n_marks; i++) {
        uint32_t pos = s->pos0 + row0, at = s->marks[i].at;
        if (at > pos && at - pos < room)
            room = at - pos;
    }
    p->row0 = row0;
    p->step.T = left < room ? left : room;
    p->step.pos0 = s->pos0 + row0;
    p->step.tokens = s->tokens + row0;
#define MOVE(type, name, width) p->view.name = s->s->name + (size_t)row0 * (width);
    TT_SCRATCH_STEP(MOVE)
#undef MOVE
}

void tt_span_first(tt_span *p, const tt_step *s)
{
    p->step = *s;
    p->view = *s->s;
    p->step.s = &p->view;
    set_span(p, s, 0);
}

void tt_span_next(tt_span *p, tt_step *s, uint32_t layer)
{
    uint32_t row0 = p->row0 + p->step.T;
    if (row0 < s->T)
        (void)tt_step_goes_on(s, layer);
    set_span(p, s, row0);
}

void tt_step_mark(const tt_step *s, uint32_t i)
{
    const tt_recurrent *r = s->recurrent;
    if (s->n_marks > 0) /* else there may be several timelines, and no state of the step's own */
        tt_step_mark_values(s, tt_recurrent_state(r, i), r->layer_floats);
}

void tt_step_mark_values(const tt_step *s, const float *at, uint64_t n)
{
    for (uint32_t k = 0; k < s->n_marks; k++)
        if (s->marks[k].at == s->pos0 + s->T)
            memcpy(s->marks[k].block + (at - s->recurrent->block), at, n * sizeof(float));
}

void tt_step_keep(const tt_step *s, uint32_t i)
{
    if (s->undo != NULL)
        tt_undo_before(s->undo, i, s->recurrent);
}

void tt_step_added(const tt_step *s, uint32_t i)
{
    const tt_scratch *b = s->s;
    if (s->undo != NULL)
        tt_undo_added(s->undo, i, b->u, b->c, b->g, b->beta, s->T);
}

bool tt_step_goes_on(tt_step *s, uint32_t layer)
{
    if (s->status == TT_OK && s->go_on != NULL && !s->go_on(s->go_on_ctx, layer))
        s->status =
            tt_fail(s->err, TT_ERR_ABORTED, "stopped at position %u in layer %u", s->pos0, layer);
    return s->status == TT_OK;
}
