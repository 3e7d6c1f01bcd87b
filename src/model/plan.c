#include "model/plan.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/machine.h"
#include "io/expert_cache.h"
#include "model/expert_reader.h"
#include "model/kv_cache.h"
#include "model/moe.h"
#include "model/recurrent.h"
#include "model/step.h"
#include "model/weights.h"

#define DEFAULT_CONTEXT 32768u
#define CHUNK_MAX       512u
#define MIB(x)          ((double)(x) / (double)TT_MIB)

tt_status tt_plan_arch(const tt_install *in, const tt_model_options *o, tt_arch *arch,
                       tt_error *err)
{
    *arch = *tt_install_arch(in);
    if (o->yarn_factor == 0.0f)
        return TT_OK;
    if (!(o->yarn_factor >= 1.0f && o->yarn_factor <= 64.0f))
        return tt_fail(err, TT_ERR_INVALID,
                       "YaRN factor %g is out of range, must be 1 (none) to 64",
                       (double)o->yarn_factor);
    if (o->yarn_factor > 1.0f && arch->yarn_factor <= 1.0)
        arch->yarn_original_context = arch->max_position;
    arch->yarn_factor = o->yarn_factor;
    return TT_OK;
}

static tt_status check_options(const tt_model_options *o, const tt_arch *a, tt_error *err)
{
    for (size_t i = 0; i < sizeof o->reserved / sizeof o->reserved[0]; i++)
        if (o->reserved[i] != 0)
            return tt_fail(err, TT_ERR_INVALID,
                           "a reserved field of tt_model_options is not zero: start from "
                           "tt_model_options_default");
    if (o->kv_bits != 32 && o->kv_bits != 16 && o->kv_bits != 8 && o->kv_bits != 4)
        return tt_fail(err, TT_ERR_INVALID, "KV width %u is not known, choose 32, 16, 8 or 4 bits",
                       o->kv_bits);
    if (o->kv_bits < 16 && a->head_dim % TT_GROUP != 0)
        return tt_fail(
            err, TT_ERR_UNSUPPORTED,
            "KV rows of %u bits need a head width that 64 divides, this model has %u: use 16 bits",
            o->kv_bits, a->head_dim);
    if (o->prefill_chunk % TT_BLOCK != 0 || o->prefill_chunk > 65536)
        return tt_fail(err, TT_ERR_INVALID, "prefill chunk %u must be a multiple of %u up to 65536",
                       o->prefill_chunk, TT_BLOCK);
    if (o->threads > TT_MAX_THREADS)
        return tt_fail(err, TT_ERR_INVALID, "%u threads asked, at most %u", o->threads,
                       TT_MAX_THREADS);
    return tt_expert_reader_check(o, tt_arch_is_moe(a), err);
}

/* The model's own maximum, stretched by YaRN. */
static uint32_t context_limit(const tt_arch *a)
{
    double base =
        a->yarn_factor > 1.0 ? a->yarn_original_context * a->yarn_factor : a->max_position;
    if (base < a->max_position)
        base = a->max_position;
    return base > TT_MAX_CONTEXT ? TT_MAX_CONTEXT : (uint32_t)base;
}

static tt_status plan_context(tt_plan *p, const tt_model_options *o, const tt_arch *a,
                              tt_error *err)
{
    uint32_t most = context_limit(a);
    if (o->max_context > most)
        return tt_fail(err, TT_ERR_INVALID, "a context of %u tokens is more than the model's %u",
                       o->max_context, most);
    p->max_context = o->max_context > 0       ? o->max_context
                     : most < DEFAULT_CONTEXT ? most
                                              : DEFAULT_CONTEXT;
    return TT_OK;
}

/* Program text, libraries, malloc'ed tables, thread stacks that get touched, and the tokenizer,
 * whose tables take a few times the size of its file (measured: docs/bench.md). */
static uint64_t fixed_cost(const tt_install *in, uint32_t threads)
{
    char dir[TT_MAX_PATH], path[TT_MAX_PATH];
    struct stat sb;
    uint64_t tokenizer = 0;
    if (tt_install_path(in, TT_TOKENIZER_DIR, dir, NULL) == TT_OK &&
        tt_path_join(path, dir, "tokenizer.json", NULL) == TT_OK && stat(path, &sb) == 0)
        tokenizer = (uint64_t)sb.st_size;
    return 24 * TT_MIB + 6 * tokenizer + 2 * tt_install_index(in)->index_bytes +
           (uint64_t)threads * TT_MIB;
}

static void describe(tt_plan *p, const tt_install *in, const tt_model_options *o, const tt_arch *a)
{
    uint32_t threads = o->threads > 0 ? o->threads : tt_physical_cores();
    p->threads = threads > TT_MAX_THREADS ? TT_MAX_THREADS : threads;
    p->kv_bits = o->kv_bits;
    p->n_layers = a->n_layers;
    p->n_moe_layers = tt_arch_is_moe(a) ? a->n_layers : 0;
    p->experts_per_layer = a->n_experts;
    p->top_k = a->top_k;
    p->yarn_factor = (float)(a->yarn_factor > 1.0 ? a->yarn_factor : 1.0);
    snprintf(p->family, sizeof p->family, "%s", tt_family_name(a->family));
    snprintf(p->model_id, sizeof p->model_id, "%.*s", (int)sizeof p->model_id - 1,
             tt_install_model_id(in));
    p->weights_on_disk = tt_install_index(in)->file_bytes;
    const tt_expert_layout *layout = tt_install_expert_layout(in);
    if (layout != NULL) {
        p->expert_bytes = layout->stride;
        p->weights_on_disk += (uint64_t)p->n_moe_layers * layout->n_experts * layout->stride;
    }
}

tt_backend_limits tt_plan_backend_limits(const tt_arch *a)
{
    return (tt_backend_limits){
        .head_dim = a->head_dim,
        .delta = {a->lin_key_heads, a->lin_value_heads, a->lin_key_dim, a->lin_value_dim}};
}

static uint64_t slots_cost(const tt_plan *p, const tt_expert_layout *layout, uint32_t slots)
{
    if (layout == NULL)
        return 0;
    tt_expert_cache_options o = {.n_layers = p->n_moe_layers,
                                 .n_experts = layout->n_experts,
                                 .top_k = p->top_k,
                                 .slots_per_layer = slots,
                                 .stride = layout->stride,
                                 .payload_bytes = layout->payload_bytes};
    return tt_expert_cache_cost(&o);
}

/* Everything that depends on the chunk and on the slots. */
static void add_up(tt_plan *p, const tt_arch *a, const tt_expert_layout *layout, uint32_t chunk,
                   uint32_t slots)
{
    tt_backend_limits limits = tt_plan_backend_limits(a);
    p->prefill_chunk = chunk;
    p->slots_per_layer = layout != NULL ? slots : 0;
    p->slots_total = p->slots_per_layer * p->n_moe_layers;
    p->expert_slots = slots_cost(p, layout, slots);
    p->scratch = tt_scratch_cost(a, chunk) + tt_moe_cost(a, chunk, slots) +
                 tt_backend_cost(p->threads, &limits);
    p->total = p->weights + p->expert_slots + p->kv + p->state + p->scratch + p->fixed;
}

/* The most slots a layer that fit, never under top-k; the caller checks the sum. */
static uint32_t fitting_slots(tt_plan *p, const tt_arch *a, const tt_expert_layout *layout,
                              uint32_t chunk)
{
    if (layout == NULL)
        return 0;
    uint32_t low = a->top_k, high = layout->n_experts;
    while (low < high) {
        uint32_t mid = low + (high - low + 1) / 2;
        add_up(p, a, layout, chunk, mid);
        if (p->total <= p->budget)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

static tt_status refuse(const tt_plan *p, const tt_model_options *o, const tt_arch *a,
                        const tt_expert_layout *layout, tt_error *err)
{
    char slots[160] = "", what[64];
    if (layout != NULL)
        snprintf(slots, sizeof slots, ", %u expert slots a layer %.1f MiB", p->slots_per_layer,
                 MIB(p->expert_slots));
    snprintf(what, sizeof what, "%s",
             p->budget_given ? "the budget given" : "the memory this machine can spare");
    return tt_fail(err, TT_ERR_BUDGET,
                   "the model needs %.1f MiB, %s is %.1f MiB (weights %.1f MiB, KV for %u tokens "
                   "%.1f MiB, state %.1f "
                   "MiB, scratch %.1f MiB, program %.1f MiB%s): %s",
                   MIB(p->total), what, MIB(p->budget), MIB(p->weights), p->max_context, MIB(p->kv),
                   MIB(p->state), MIB(p->scratch), MIB(p->fixed), slots,
                   o->expert_slots > a->top_k
                       ? "ask for fewer expert slots, a shorter context or a larger budget"
                       : "ask for a shorter context, fewer KV bits or a larger budget");
}

tt_status tt_plan_make(const tt_install *in, const tt_model_options *o, uint64_t available,
                       tt_plan *plan, tt_error *err)
{
    tt_arch a;
    tt_plan p = {0};
    const tt_expert_layout *layout = tt_install_expert_layout(in);
    TT_TRY(tt_plan_arch(in, o, &a, err));
    TT_TRY(check_options(o, &a, err));
    TT_TRY(plan_context(&p, o, &a, err));
    if (o->expert_slots > 0 && layout == NULL)
        return tt_fail(err, TT_ERR_INVALID, "expert slots were given, but this is a dense model");
    if (layout != NULL && o->expert_slots > 0 && o->expert_slots < a.top_k)
        return tt_fail(err, TT_ERR_INVALID,
                       "%u expert slots a layer are fewer than the %u experts a token uses",
                       o->expert_slots, a.top_k);
    describe(&p, in, o, &a);
    uint64_t headroom = available / 16 > 256 * TT_MIB ? available / 16 : 256 * TT_MIB;
    p.machine_available = available;
    p.budget_given = o->ram_budget > 0;
    p.budget = p.budget_given ? o->ram_budget : available > headroom ? available - headroom : 0;
    p.weights = tt_weights_cost(in);
    p.kv = (uint64_t)p.max_context * tt_kv_token_bytes(&a, o->kv_bits);
    p.state = 2 * tt_recurrent_bytes(&a) + (uint64_t)a.vocab_size * sizeof(float) * 2 +
              (uint64_t)p.max_context * sizeof(uint32_t);
    p.fixed = fixed_cost(in, p.threads);

    /* The largest chunk whose scratch leaves the slots at least seven eighths of what is left. */
    uint32_t chunk = o->prefill_chunk > 0 ? o->prefill_chunk : CHUNK_MAX;
    uint64_t base = p.weights + p.kv + p.state + p.fixed;
    uint64_t left = p.budget > base ? p.budget - base : 0;
    while (o->prefill_chunk == 0 && chunk > TT_BLOCK && tt_scratch_cost(&a, chunk) > left / 8)
        chunk /= 2;
    uint32_t wanted = o->expert_slots;
    if (layout != NULL && wanted > layout->n_experts)
        wanted = layout->n_experts;
    add_up(&p, &a, layout, chunk, wanted > 0 ? wanted : fitting_slots(&p, &a, layout, chunk));
    *plan = p;
    if (p.total > p.budget)
        return refuse(&p, o, &a, layout, err);
    return TT_OK;
}
