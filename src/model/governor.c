#include "model/governor.h"

#define LEAST_RESERVE   TT_MIB
#define DEFAULT_RESERVE (64 * TT_MIB)

static tt_pressure_level ask_machine(void *ctx, tt_pressure_report *report)
{
    return tt_pressure_poll(ctx, report);
}

/* What pressure.h would keep free, but no more than half of what the plan leaves free: a budget
 * that takes all there is was given on purpose. */
static uint64_t reserve(const tt_plan *p)
{
    uint64_t have = p->machine_available, most = have / 32, rest = have - p->total;
    if (have == UINT64_MAX)
        return 0;
    if (most < DEFAULT_RESERVE)
        most = DEFAULT_RESERVE;
    if (most > rest / 2)
        most = rest / 2;
    return most > LEAST_RESERVE ? most : LEAST_RESERVE;
}

tt_status tt_governor_init(tt_governor *g, const tt_plan *plan, tt_expert_cache *cache,
                           tt_error *err)
{
    *g = (tt_governor){.cache = cache, .expert_bytes = plan->expert_bytes, .cause = ""};
    if (!plan->governor || cache == NULL)
        return TT_OK;
    g->floor = plan->n_moe_layers * plan->top_k;
    tt_pressure_options o = {.interval = TT_GOVERNOR_INTERVAL, .reserve = reserve(plan)};
    TT_TRY(tt_pressure_open(&o, &g->pressure, err));
    tt_governor_set_source(g, ask_machine, g->pressure);
    return TT_OK;
}

void tt_governor_free(tt_governor *g)
{
    tt_pressure_close(&g->pressure);
    *g = (tt_governor){.cause = ""};
}

void tt_governor_set_source(tt_governor *g, tt_pressure_fn source, void *ctx)
{
    g->source = source;
    g->ctx = ctx;
}

/* Slots of the slab that goes next are not known here, so the largest is reckoned with. */
static bool give_one(tt_governor *g)
{
    tt_expert_cache_stats s;
    tt_expert_cache_get_stats(g->cache, &s);
    if (s.slots_total < g->floor + tt_expert_cache_slab_slots(g->cache))
        return false;
    return tt_expert_cache_retire_slab(g->cache, NULL) == TT_OK;
}

bool tt_governor_check(tt_governor *g)
{
    tt_pressure_report r = {.cause = ""};
    bool gave = false;
    if (g->source == NULL || g->source(g->ctx, &r) != TT_PRESSURE_TIGHT)
        return false;
    /* One at least, and as many as fill the reserve again. */
    uint64_t missing = r.left < r.reserve ? r.reserve - r.left : 1;
    uint64_t slab = (uint64_t)tt_expert_cache_slab_slots(g->cache) * g->expert_bytes;
    for (uint64_t given = 0; given < missing; given += slab) {
        if (!give_one(g)) {
            g->refused++;
            break;
        }
        gave = true;
        g->cause = r.cause;
    }
    return gave;
}
