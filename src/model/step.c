#include "model/step.h"

#include "base/mem.h"

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + TT_TENSOR_ALIGN - 1) / TT_TENSOR_ALIGN * TT_TENSOR_ALIGN;
}

/* Lays the buffers out in list order, those of one kind of block over those of another; with s NULL
 * only the size is wanted. */
static uint64_t lay_out(tt_scratch *s, const tt_arch *a, uint64_t rows, char *base)
{
    uint64_t at = 0, most;
#define PLACE(type, name, width)                                                                   \
    do {                                                                                           \
        if (s != NULL)                                                                             \
            s->name = (type *)(base + at);                                                         \
        at += aligned(rows * (uint64_t)(width) * sizeof(type));                                    \
    } while (0);
    TT_SCRATCH_COMMON(PLACE)
    uint64_t shared = at;
    TT_SCRATCH_ATTENTION(PLACE)
    most = at;
    at = shared;
    TT_SCRATCH_DELTA(PLACE)
    most = at > most ? at : most;
    at = shared;
    TT_SCRATCH_FFN(PLACE)
    most = at > most ? at : most;
    if (s != NULL)
        s->logits = (float *)(base + most);
    return most + aligned((uint64_t)TT_LOGITS_ROWS * a->vocab_size * sizeof(float));
}

uint64_t tt_scratch_cost(const tt_arch *a, uint32_t rows)
{
    return lay_out(NULL, a, rows, NULL);
}

tt_status tt_scratch_init(tt_scratch *s, const tt_arch *a, uint32_t rows, tt_error *err)
{
    *s = (tt_scratch){.bytes = tt_scratch_cost(a, rows)};
    tt_status st = tt_mem_alloc(s->bytes, "step scratch", &s->block, err);
    if (st == TT_OK)
        (void)lay_out(s, a, rows, s->block);
    return st;
}

void tt_scratch_free(tt_scratch *s)
{
    tt_mem_free(s->block, s->bytes);
    *s = (tt_scratch){0};
}
