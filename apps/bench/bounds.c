#include "bench/bounds.h"

#include <string.h>

#include "base/mem.h"
#include "model/forecast.h"

#define BLOCK (256 * TT_MIB)

tt_status bench_bounds_open(bench_bounds *b, tt_error *err)
{
    *b = (bench_bounds){0};
    TT_TRY(tt_mem_alloc(BLOCK, "measuring memory", &b->block, err));
    memset(b->block, 1, BLOCK);
    return TT_OK;
}

void bench_bounds_close(bench_bounds *b)
{
    tt_mem_free(b->block, BLOCK);
    b->block = NULL;
}

void bench_bounds_measure(const bench_bounds *b, tt_backend *be, ceilings *c)
{
    *c = (ceilings){0};
    for (unsigned p = 0; p < CEILING_PATTERNS; p++)
        ceiling_read(c, be->pool, b->block, BLOCK, p);
    ceiling_arithmetic(c, be);
}

double bench_token_bytes(const tt_model *m, double rows)
{
    tt_token_bytes b = tt_forecast_bytes(m->install);
    return (double)(b.outside + b.shared + b.experts) +
           rows * (double)tt_kv_token_bytes(&m->arch, m->plan.kv_bits);
}

/* Multiply-adds of a product with this tensor; 0 for vectors and tables. */
static double products(const tt_index_entry *e)
{
    if (e->rank != 2 || strstr(e->name, "conv") != NULL)
        return 0;
    return (double)e->shape[0] * (double)e->shape[1];
}

double bench_token_operations(const tt_model *m, uint32_t n)
{
    const tt_index *ix = tt_install_index(m->install);
    const tt_arch *a = &m->arch;
    double macs = 0;
    for (size_t i = 0; i < ix->count; i++) {
        const tt_index_entry *e = &ix->entries[i];
        bool embedding = strcmp(e->name, "embed_tokens.weight") == 0;
        bool head = embedding ? a->tied_head : strcmp(e->name, "lm_head.weight") == 0;
        if (head)
            macs += products(e) / n;
        else if (!embedding)
            macs += products(e);
    }
    if (tt_arch_is_moe(a))
        macs += 3.0 * a->n_layers * a->top_k * a->hidden_size * a->moe_intermediate;
    return 2 * macs;
}
