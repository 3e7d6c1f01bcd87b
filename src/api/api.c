/* The parts of the public header that no room owns: defaults, plan, questions about a model and an
 * install, and what needs two rooms. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/forecast.h"
#include "model/model.h"
#include "sample/sampler.h"
#include "session/session.h"

void tt_model_options_default(tt_model_options *o)
{
    *o = (tt_model_options){.kv_bits = 8, .warm_seconds = TT_WARM_AUTO, .governor = true};
}

/* Names the backend and level that an open with these options would get. */
static tt_status plan_backend(const tt_model_options *o, const tt_install *in, tt_plan *p,
                              tt_error *err)
{
    tt_backend *be = NULL;
    tt_backend_limits limits = tt_plan_backend_limits(tt_install_arch(in));
    TT_TRY(tt_backend_create(o->backend != NULL ? o->backend : "cpu", o->cpu_level, 1, &limits, &be,
                             err));
    strncpy(p->backend, be->name, sizeof p->backend - 1);
    strncpy(p->cpu_level, be->level, sizeof p->cpu_level - 1);
    tt_backend_close(&be);
    return TT_OK;
}

/* Reader and heat profile that an open would get, and what to expect of them. */
static tt_status plan_outlook(const tt_model_options *o, const tt_install *in, bool measure,
                              tt_plan *p, tt_error *err)
{
    tt_reader *r = NULL;
    tt_heat heat = {0};
    TT_TRY(tt_forecast_open(in, o, measure, p, &r, &heat, err));
    tt_reader_close(&r);
    tt_heat_close(&heat);
    return TT_OK;
}

tt_status tt_model_plan(const char *path, const tt_model_options *opts, tt_plan *plan,
                        tt_error *err)
{
    tt_model_options defaults;
    tt_model_options_default(&defaults);
    const tt_model_options *o = opts != NULL ? opts : &defaults;
    tt_install *in = NULL;
    TT_TRY(tt_install_open(path, TT_INSTALL_NO_HASH, NULL, NULL, &in, err));
    tt_plan p = {0}, names = {0};
    tt_status st = tt_weights_check(in, err);
    if (st == TT_OK)
        st = plan_backend(o, in, &names, err);
    if (st == TT_OK) {
        st = tt_plan_make(in, o, tt_plan_available(in, o), &p, err);
        memcpy(p.backend, names.backend, sizeof p.backend);
        memcpy(p.cpu_level, names.cpu_level, sizeof p.cpu_level);
        if (st == TT_OK)
            st = plan_outlook(o, in, true, &p, err);
        else if (st == TT_ERR_BUDGET)
            (void)!plan_outlook(o, in, false, &p, NULL);
        if (st == TT_OK || st == TT_ERR_BUDGET)
            *plan = p;
    }
    tt_install_close(&in);
    return st;
}

/* ---- questions ---- */

static uint32_t dtype_bits(tt_dtype t)
{
    return t == TT_DTYPE_Q4 ? 4 : t == TT_DTYPE_Q8 ? 8 : 8 * tt_dtype_bytes(t);
}

/* Of the experts, which are most of a model; of a dense one, of what takes most bytes. */
static uint32_t weight_bits(const tt_install *in)
{
    static const uint32_t widths[] = {4, 8, 16, 32};
    const tt_expert_layout *experts = tt_install_expert_layout(in);
    if (experts != NULL)
        return dtype_bits(experts->gate.dtype);
    const tt_index *ix = tt_install_index(in);
    uint64_t bytes[4] = {0};
    size_t most = 0;
    for (size_t i = 0; i < ix->count; i++)
        for (size_t k = 0; k < 4; k++)
            if (dtype_bits(ix->entries[i].dtype) == widths[k])
                bytes[k] += ix->entries[i].bytes;
    for (size_t k = 1; k < 4; k++)
        if (bytes[k] > bytes[most])
            most = k;
    return widths[most];
}

static int64_t installed_at(const tt_install *in)
{
    char path[TT_MAX_PATH];
    struct stat sb;
    if (tt_install_path(in, TT_MANIFEST_NAME, path, NULL) != TT_OK || stat(path, &sb) != 0)
        return 0;
    return sb.st_mtim.tv_sec;
}

/* Of a dense model whose index cannot be read: the manifest names every affine tensor, and one
 * without any was not quantized. */
static uint32_t manifest_bits(const tt_install *in)
{
    const char *name;
    json_t *entry;
    size_t wide = 0, narrow = 0;
    json_object_foreach(json_object_get(tt_install_manifest(in), "quantization"), name, entry)
    {
        (void)name;
        *(json_integer_value(json_object_get(entry, "bits")) > 4 ? &wide : &narrow) += 1;
    }
    return wide + narrow == 0 ? 16 : wide > narrow ? 8 : 4;
}

static uint32_t described_bits(const char *path, const tt_install *manifest)
{
    tt_install *whole = NULL;
    uint32_t bits;
    if (tt_install_expert_layout(manifest) != NULL)
        return weight_bits(manifest);
    if (tt_install_open(path, TT_INSTALL_NO_RECEIPT | TT_INSTALL_NO_HASH, NULL, NULL, &whole,
                        NULL) != TT_OK)
        return manifest_bits(manifest);
    bits = weight_bits(whole);
    tt_install_close(&whole);
    return bits;
}

tt_status tt_install_describe(const char *path, tt_install_info *info, tt_error *err)
{
    char receipt[TT_MAX_PATH];
    tt_install *in = NULL;
    TT_TRY(tt_install_open(path, TT_INSTALL_MANIFEST, NULL, NULL, &in, err));
    tt_install_info d = {.weight_bits = described_bits(path, in),
                         .model_context = tt_install_arch(in)->max_position,
                         .vocab_size = tt_install_arch(in)->vocab_size,
                         .installed_at = installed_at(in)};
    snprintf(d.model_id, sizeof d.model_id, "%.*s", (int)sizeof d.model_id - 1,
             tt_install_model_id(in));
    snprintf(d.family, sizeof d.family, "%s", tt_family_name(tt_install_arch(in)->family));
    for (size_t i = 0; i < tt_install_file_count(in); i++) {
        const tt_install_file *f = tt_install_file_at(in, i);
        d.bytes += f->size;
        if (strcmp(f->rel, TT_TOKENIZER_DIR "/tokenizer.json") == 0)
            d.tokenizer_bytes = TT_TOKENIZER_COST(f->size);
    }
    d.has_receipt =
        tt_install_path(in, TT_RECEIPT_NAME, receipt, NULL) == TT_OK && access(receipt, F_OK) == 0;
    tt_install_close(&in);
    *info = d;
    return TT_OK;
}

void tt_model_get_info(const tt_model *m, tt_model_info *info)
{
    *info = (tt_model_info){.model_id = tt_install_model_id(m->install),
                            .family = tt_family_name(m->arch.family),
                            .backend = m->be->name,
                            .cpu_level = m->be->level,
                            .vocab_size = m->arch.vocab_size,
                            .hidden_size = m->arch.hidden_size,
                            .n_layers = m->arch.n_layers,
                            .n_experts = m->arch.n_experts,
                            .top_k = m->arch.top_k,
                            .max_context = m->plan.max_context,
                            .model_context = tt_install_arch(m->install)->max_position,
                            .threads = m->plan.threads,
                            .kv_bits = m->plan.kv_bits,
                            .prefill_chunk = m->plan.prefill_chunk,
                            .weight_bits = weight_bits(m->install),
                            .installed_at = installed_at(m->install)};
}

const tt_plan *tt_model_get_plan(const tt_model *m)
{
    return &m->plan;
}

tt_status tt_session_sample(const tt_session *s, tt_sampler *sampler, uint32_t *id, tt_error *err)
{
    uint32_t vocab = tt_sampler_vocab(sampler);
    if (!s->logits_valid)
        return tt_fail(err, TT_ERR_STATE,
                       "the session has no logits: bring it to a prompt or decode a token first");
    if (vocab != s->model->arch.vocab_size)
        return tt_fail(err, TT_ERR_INVALID,
                       "the sampler was made for %u ids, the model's vocabulary has %u", vocab,
                       s->model->arch.vocab_size);
    return tt_sampler_choose(sampler, s->logits, s->top, id, err);
}

void tt_model_get_stats(const tt_model *m, tt_model_stats *out)
{
    *out = (tt_model_stats){
        .load_seconds = m->load_seconds, .draft_guessed = m->guessed, .draft_right = m->right};
    if (m->cache == NULL)
        return;
    tt_reader_stats r;
    tt_reader_get_stats(m->reader, &r);
    out->expert_bytes_disk = r.bytes_disk;
    out->expert_bytes_cached = r.bytes_cached;
    out->expert_bytes_mirror = r.bytes_mirror;
    out->expert_mirror_lost = r.mirror_lost;
    tt_expert_cache_stats c;
    tt_expert_cache_get_stats(m->cache, &c);
    out->expert_asks = c.asks;
    out->expert_hits = c.hits;
    out->expert_misses = c.misses;
    out->expert_joins = c.joins;
    out->expert_evictions = c.evictions;
    out->expert_bytes_read = c.bytes_read;
    out->expert_wait_seconds = c.wait_seconds;
    out->expert_slots = c.slots_total;
    out->slabs = c.slabs;
    out->slabs_retired = c.slabs_retired;
    out->warm_bytes = c.warm_bytes;
    snprintf(out->pressure, sizeof out->pressure, "%s", m->governor.cause);
}
