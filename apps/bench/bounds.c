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

/* Of a row's keys and values; index keys are read of all rows, the others of no more than sparse
 * attention chooses. */
static double row_bytes(const tt_model *m, double rows)
{
    const tt_arch *a = &m->arch;
    double all = (double)tt_kv_token_bytes(a, m->plan.kv_bits), index = 0;
    for (uint32_t l = 0; a->indexer_budget > 0 && l < a->n_layers; l++)
        if (a->layer_kind[l] == TT_LAYER_FULL)
            index += (double)a->indexer_dim / a->indexer_block * sizeof(float);
    double seen = a->indexer_budget > 0 && rows > a->indexer_budget ? a->indexer_budget : rows;
    return rows * index + seen * (all - index);
}

double bench_token_bytes(const tt_model *m, double rows)
{
    tt_token_bytes b = tt_forecast_bytes(m->install);
    return (double)(b.outside + b.shared + b.experts) + row_bytes(m, rows);
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
