#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/forecast.h"
#include "model/forward.h"

/* Seconds until tt_model_idle wants to be called again. */
#define IDLE_WARMING  0.002
#define IDLE_WATCHING 1.0

void tt_model_forward(tt_step *s)
{
    bool outer = s->model->reading;
    s->model->reading = outer || s->prefill;
    s->be->prompt = s->prefill;
    if (s->arch->family == TT_FAMILY_QWEN4_EXP)
        tt_forward_qwen4_exp(s);
    else
        tt_forward_qwen3_5(s);
    s->model->reading = outer;
    s->be->prompt = outer;
}

void tt_model_head(tt_step *s, float *logits, float *top, uint32_t row0, uint32_t n)
{
    s->be->prompt = false; /* logits are what everything else is for */
    if (s->arch->family == TT_FAMILY_QWEN4_EXP)
        tt_head_qwen4_exp(s, logits, top, row0, n);
    else
        tt_head_qwen3_5(s, logits, top, row0, n);
    s->be->prompt = s->model->reading;
}

bool tt_model_can_decode(const tt_model *m)
{
    if (!m->reading)
        return true;
    return m->beside.scratch.block != NULL &&
           (m->cache == NULL || tt_expert_cache_slots(m->cache) >= m->arch.top_k);
}

void tt_model_tick(tt_model *m)
{
    if (m->cache == NULL)
        return;
    (void)tt_governor_check(&m->governor);
    tt_expert_cache_poll(m->cache);
}

double tt_model_idle(tt_model *m)
{
    tt_model_tick(m);
    if (m->cache != NULL && tt_expert_cache_warming(m->cache))
        return IDLE_WARMING;
    return m->governor.source != NULL ? IDLE_WATCHING : -1.0;
}

tt_status tt_model_save_heat(tt_model *m, tt_error *err)
{
    return tt_heat_save(&m->heat, m->cache, err);
}

static tt_status make_backend(tt_model *m, const tt_model_options *o, tt_error *err)
{
    tt_backend_limits limits = tt_plan_backend_limits(&m->arch);
    const char *name = o->backend != NULL ? o->backend : "cpu";
    TT_TRY(tt_backend_create(name, o->cpu_level, m->plan.threads, &limits, &m->be, err));
    snprintf(m->plan.backend, sizeof m->plan.backend, "%s", m->be->name);
    snprintf(m->plan.cpu_level, sizeof m->plan.cpu_level, "%s", m->be->level);
    return TT_OK;
}

static tt_status make_cache(tt_model *m, const tt_model_options *o, tt_error *err)
{
    const tt_expert_layout *layout = tt_install_expert_layout(m->install);
    uint32_t L = m->plan.n_moe_layers, E = layout->n_experts;
    if (o->verify_reads) {
        m->crc = malloc((size_t)L * E * sizeof *m->crc);
        if (m->crc == NULL)
            return tt_fail(err, TT_ERR_NOMEM, "out of memory for %u expert checksums", L * E);
        for (uint32_t i = 0; i < L * E; i++)
            m->crc[i] = tt_install_expert_crc(m->install, i / E, i % E, false);
    }
    tt_expert_cache_options co = {.n_layers = L,
                                  .n_experts = E,
                                  .top_k = m->arch.top_k,
                                  .slots_total = m->plan.slots_total,
                                  .stride = layout->stride,
                                  .payload_bytes = layout->payload_bytes,
                                  .split = layout->down.words_offset,
                                  .reader = m->reader,
                                  .crc = m->crc};
    TT_TRY(tt_expert_cache_create(&co, &m->cache, err));
    TT_TRY(tt_governor_init(&m->governor, &m->plan, m->cache, err));
    tt_heat_use(&m->heat, m->cache, &m->plan);
    TT_TRY(tt_moe_init(&m->moe, &m->arch, m->plan.prefill_chunk, m->cache, layout, err));
    if (m->plan.sequences == 1)
        return TT_OK;
    return tt_moe_init(&m->beside.moe, &m->arch, TT_DECODE_ROWS, m->cache, layout, err);
}

/* What only qwen4_exp has. */
static tt_status make_qwen4(tt_model *m, const tt_model_options *o, tt_error *err)
{
    const tt_plan *p = &m->plan;
    if (m->arch.family != TT_FAMILY_QWEN4_EXP)
        return TT_OK;
    TT_TRY(
        tt_indexer_init(&m->indexer, &m->arch, p->kv_bits, p->max_context, p->prefill_chunk, err));
    return tt_ngram_init(&m->ngram, m->install, o, err);
}

static void make_key(tt_model *m)
{
    snprintf(m->key, sizeof m->key, "manifest %s backend %s level %s kv %u yarn %.9g",
             tt_install_manifest_sha256(m->install), m->be->name, m->be->level, m->plan.kv_bits,
             m->plan.yarn_factor);
}

tt_status tt_model_open(const char *path, const tt_model_options *opts, tt_progress_fn progress,
                        void *ctx, tt_model **out, tt_error *err)
{
    tt_model_options defaults;
    tt_model_options_default(&defaults);
    const tt_model_options *o = opts != NULL ? opts : &defaults;
    double start = tt_now();
    tt_status st = TT_OK;
    tt_model *m = calloc(1, sizeof *m);
    if (m == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a model");
    TT_GOTO(tt_install_open(path, 0, progress, ctx, &m->install, err), fail);
    TT_GOTO(tt_weights_check(m->install, err), fail);
    TT_GOTO(tt_plan_arch(m->install, o, &m->arch, err), fail);
    TT_GOTO(tt_plan_make(m->install, o, tt_plan_available(m->install, o), &m->plan, err), fail);
    TT_GOTO(make_backend(m, o, err), fail);
    make_key(m);
    tt_rope_init(&m->rope, &m->arch);
    TT_GOTO(tt_scratch_init(&m->scratch, &m->arch, m->plan.prefill_chunk, err), fail);
    if (m->plan.sequences > 1)
        TT_GOTO(tt_scratch_init_beside(&m->beside.scratch, &m->arch, &m->scratch, err), fail);
    TT_GOTO(make_qwen4(m, o, err), fail);
    TT_GOTO(tt_forecast_open(m->install, o, false, &m->plan, &m->reader, &m->heat, err), fail);
    if (tt_arch_is_moe(&m->arch))
        TT_GOTO(make_cache(m, o, err), fail);
    TT_GOTO(tt_weights_load(&m->weights, m->install, m->be->pool, progress, ctx, err), fail);
    if (o->draft == TT_DRAFT_MTP)
        TT_GOTO(tt_draft_open(m->install, &m->arch, o, &m->scratch, m->be->pool, &m->draft, err),
                fail);
    m->load_seconds = tt_now() - start;
    *out = m;
    return TT_OK;
fail:
    tt_model_close(&m);
    return st;
}

void tt_model_close(tt_model **model)
{
    if (model == NULL || *model == NULL)
        return;
    tt_model *m = *model;
    (void)!tt_heat_save(&m->heat, m->cache, NULL);
    tt_heat_close(&m->heat);
    tt_governor_free(&m->governor);
    tt_draft_close(&m->draft);
    tt_weights_free(&m->weights);
    tt_moe_free(&m->moe);
    tt_moe_free(&m->beside.moe);
    tt_expert_cache_close(&m->cache);
    tt_reader_close(&m->reader);
    free(m->crc);
    tt_ngram_free(&m->ngram);
    tt_indexer_free(&m->indexer);
    tt_scratch_free(&m->scratch);
    tt_scratch_free(&m->beside.scratch);
    tt_backend_close(&m->be);
    tt_install_close(&m->install);
    free(m);
    *model = NULL;
}
