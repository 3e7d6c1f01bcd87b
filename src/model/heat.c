#include "model/heat.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "io/heat_profile.h"

#define AUTO_SECONDS 120.0f

static void describe(const tt_heat *h, const tt_error *e, tt_plan *plan)
{
    if (h->found)
        snprintf(plan->heat, sizeof plan->heat, "%.300s", h->path);
    else if (plan->heat_status == TT_ERR_NOT_FOUND)
        snprintf(plan->heat, sizeof plan->heat, "none yet at %.300s", h->path);
    else
        snprintf(plan->heat, sizeof plan->heat, "%.150s: %.220s", h->path, e->message);
}

tt_status tt_heat_open(tt_heat *h, const tt_install *in, const tt_model_options *o, tt_plan *plan,
                       tt_error *err)
{
    tt_error e = {0};
    *h = (tt_heat){.n_layers = plan->n_moe_layers, .n_experts = plan->experts_per_layer};
    plan->warm_seconds = 0;
    plan->heat[0] = '\0';
    plan->heat_status = TT_OK;
    if (o->heat_profile == NULL || o->warm_seconds == 0.0f || h->n_layers == 0)
        return TT_OK;
    h->path = strdup(o->heat_profile);
    h->values = calloc((size_t)h->n_layers * h->n_experts, sizeof *h->values);
    if (h->path == NULL || h->values == NULL) {
        tt_heat_close(h);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a heat profile");
    }
    snprintf(h->key, sizeof h->key, "manifest %s", tt_install_manifest_sha256(in));
    plan->warm_seconds = o->warm_seconds > 0.0f ? o->warm_seconds : AUTO_SECONDS;
    plan->heat_status =
        tt_heat_profile_load(h->path, h->key, h->n_layers, h->n_experts, h->values, &e);
    h->found = plan->heat_status == TT_OK;
    describe(h, &e, plan);
    return TT_OK;
}

void tt_heat_close(tt_heat *h)
{
    free(h->path);
    free(h->values);
    *h = (tt_heat){0};
}

void tt_heat_use(const tt_heat *h, tt_expert_cache *cache, const tt_plan *plan)
{
    if (!h->found || tt_expert_cache_set_heat(cache, h->values, NULL) != TT_OK)
        return;
    tt_expert_cache_warm(cache, (double)plan->warm_seconds,
                         (uint64_t)plan->slots_total * plan->expert_bytes);
}

tt_status tt_heat_save(tt_heat *h, const tt_expert_cache *cache, tt_error *err)
{
    tt_expert_cache_stats s;
    if (h->path == NULL || cache == NULL)
        return TT_OK;
    tt_expert_cache_get_stats(cache, &s);
    if (s.asks == h->saved)
        return TT_OK;
    h->found = false;
    TT_TRY(tt_expert_cache_get_heat(cache, h->values, err));
    TT_TRY(tt_dir_make_above(h->path, err));
    TT_TRY(tt_heat_profile_save(h->path, h->key, h->n_layers, h->n_experts, h->values, err));
    h->saved = s.asks;
    return TT_OK;
}
