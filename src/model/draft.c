#include "model/draft.h"

#include <stdlib.h>

#include "base/mem.h"
#include "model/expert_reader.h"

/* Slots: experts of so many tokens. */
#define SLOT_TOKENS 8u

tt_arch tt_draft_arch(const tt_arch *target)
{
    tt_arch a = *target;
    a.n_layers = 1;
    a.layer_kind[0] = TT_LAYER_FULL;
    a.norm_offset = target->mtp_norm_offset;
    a.n_mtp_layers = 0;
    return a;
}

static uint64_t pair_bytes(const tt_arch *a)
{
    return (uint64_t)TT_DECODE_ROWS * 2 * a->hidden_size * sizeof(float);
}

static tt_expert_cache_options cache_options(const tt_install *in, const tt_arch *a)
{
    const tt_expert_layout *l = tt_install_mtp_expert_layout(in);
    uint32_t slots = SLOT_TOKENS * a->top_k;
    return (tt_expert_cache_options){.n_layers = 1,
                                     .n_experts = l->n_experts,
                                     .top_k = a->top_k,
                                     .slots_total = slots < l->n_experts ? slots : l->n_experts,
                                     .stride = l->stride,
                                     .payload_bytes = l->payload_bytes,
                                     .split = l->down.words_offset};
}

uint64_t tt_draft_cost(const tt_install *in, const tt_arch *target)
{
    tt_arch a = tt_draft_arch(target);
    if (tt_install_mtp_index(in) == NULL)
        return 0;
    uint64_t sum = tt_draft_weights_cost(in, &a) + tt_scratch_cost_beside(&a) + pair_bytes(&a);
    if (!tt_arch_is_moe(&a))
        return sum;
    tt_expert_cache_options co = cache_options(in, &a);
    return sum + tt_expert_cache_cost(&co) + tt_moe_cost(&a, TT_DECODE_ROWS);
}

static tt_status open_experts(tt_draft *d, const tt_install *in, const tt_model_options *o,
                              tt_error *err)
{
    tt_expert_cache_options co = cache_options(in, &d->arch);
    TT_TRY(tt_expert_reader_open_draft(in, o, &d->reader, err));
    co.reader = d->reader;
    if (o->verify_reads) {
        d->crc = malloc(co.n_experts * sizeof *d->crc);
        if (d->crc == NULL)
            return tt_fail(err, TT_ERR_NOMEM, "out of memory for %u expert checksums",
                           co.n_experts);
        for (uint32_t e = 0; e < co.n_experts; e++)
            d->crc[e] = tt_install_expert_crc(in, 0, e, true);
        co.crc = d->crc;
    }
    TT_TRY(tt_expert_cache_create(&co, &d->cache, err));
    return tt_moe_init(&d->moe, &d->arch, TT_DECODE_ROWS, d->cache,
                       tt_install_mtp_expert_layout(in), err);
}

tt_status tt_draft_open(const tt_install *in, const tt_arch *target, const tt_model_options *o,
                        const tt_scratch *scratch, tt_pool *pool, tt_draft **out, tt_error *err)
{
    tt_status st = TT_OK;
    void *pair = NULL;
    tt_draft *d = calloc(1, sizeof *d);
    if (d == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a draft");
    d->arch = tt_draft_arch(target);
    TT_GOTO(tt_draft_weights_load(&d->weights, in, &d->arch, pool, err), fail);
    TT_GOTO(tt_scratch_init_beside(&d->scratch, &d->arch, scratch, err), fail);
    TT_GOTO(tt_mem_alloc(pair_bytes(&d->arch), "draft rows", &pair, err), fail);
    d->pair = pair;
    if (tt_arch_is_moe(&d->arch))
        TT_GOTO(open_experts(d, in, o, err), fail);
    *out = d;
    return TT_OK;
fail:
    tt_draft_close(&d);
    return st;
}

void tt_draft_close(tt_draft **draft)
{
    if (draft == NULL || *draft == NULL)
        return;
    tt_draft *d = *draft;
    tt_weights_free(&d->weights);
    tt_moe_free(&d->moe);
    tt_expert_cache_close(&d->cache);
    tt_reader_close(&d->reader);
    free(d->crc);
    tt_scratch_free(&d->scratch);
    tt_mem_free(d->pair, pair_bytes(&d->arch));
    free(d);
    *draft = NULL;
}
