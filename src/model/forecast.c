#include "model/forecast.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "model/expert_reader.h"
#include "model/plan.h"
#include "model/recurrent.h"

/* ---- hits ---- */

/* Published for top-k routing: where slots stand between a token's experts (0) and all of them (1),
 * by the logarithm, and the share of hits there. */
static const struct {
    double at, hits;
} published[] = {{0, 0.375},    {0.28, 0.556}, {0.47, 0.67}, {0.65, 0.81},
                 {0.74, 0.837}, {0.80, 0.897}, {1, 1}};

double tt_forecast_locality(double slots, uint32_t n_experts, uint32_t top_k)
{
    if (slots >= n_experts)
        return 1.0;
    double held = slots > top_k ? log(slots / top_k) / log((double)n_experts / top_k) : 0.0;
    unsigned i = 1;
    while (published[i].at < held)
        i++;
    double step = (held - published[i - 1].at) / (published[i].at - published[i - 1].at);
    return published[i - 1].hits + step * (published[i].hits - published[i - 1].hits);
}

static int falling(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

double tt_forecast_share(const float *heat, uint32_t n_layers, uint32_t n_experts, uint32_t top_k,
                         uint32_t slots_total, double *tokens)
{
    size_t n = (size_t)n_layers * n_experts;
    double all = 0, held = 0, whole = TT_HEAT_HALF_LIFE / log(2.0); /* of a use a token */
    float *sorted = malloc(n * sizeof *sorted);
    if (sorted == NULL)
        return 0;
    memcpy(sorted, heat, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, falling);
    for (size_t i = 0; i < n; i++) {
        double uses = exp2((double)sorted[i]) * whole;
        all += uses;
        held += i < slots_total && uses > 1.0 ? uses - 1.0 : 0.0;
    }
    free(sorted);
    if (tokens != NULL) {
        double full = all / whole / n_layers / top_k; /* 1 - 2^(-tokens / half-life) */
        *tokens = full < 0.999 ? -TT_HEAT_HALF_LIFE * log2(1.0 - full) : 10 * TT_HEAT_HALF_LIFE;
    }
    if (slots_total >= n)
        return 1.0;
    return all > 0 ? held / all : 0.0;
}

/* ---- bytes and time ---- */

tt_token_bytes tt_forecast_bytes(const tt_install *in)
{
    const tt_index *ix = tt_install_index(in);
    const tt_arch *a = tt_install_arch(in);
    const tt_expert_layout *layout = tt_install_expert_layout(in);
    tt_token_bytes b = {0};
    for (size_t i = 0; i < ix->count; i++) {
        const tt_index_entry *e = &ix->entries[i];
        uint64_t bytes = e->bytes + e->scales_bytes + e->biases_bytes;
        if (strcmp(e->name, "embed_tokens.weight") == 0 && !a->tied_head)
            b.outside += bytes / (a->vocab_size > 0 ? a->vocab_size : 1); /* one row */
        else if (layout != NULL && strstr(e->name, ".mlp.") != NULL)
            b.shared += bytes;
        else
            b.outside += bytes;
    }
    b.outside += 2 * tt_recurrent_bytes(a);
    if (layout != NULL)
        b.experts = (uint64_t)a->n_layers * a->top_k * layout->payload_bytes;
    return b;
}

double tt_forecast_tokens(const tt_token_times *t)
{
    double hits = t->moe * (1.0 - t->miss), layer = hits > t->read ? hits : t->read;
    double all = t->outside + t->n_layers * (layer + t->moe * t->miss);
    return all > 0 ? 1.0 / all : 0.0;
}

/* ---- the plan ---- */

static void put_when(tt_buf *b, bool cached, int64_t time)
{
    struct tm tm;
    time_t when = (time_t)time;
    if (cached && gmtime_r(&when, &tm) != NULL)
        tt_buf_printf(b, "measured on %04d-%02d-%02d", tm.tm_year + 1900, tm.tm_mon + 1,
                      tm.tm_mday);
    else
        tt_buf_puts(b, "measured now");
}

static void expect_hits(tt_plan *p, const tt_heat *heat, tt_buf *b)
{
    double tokens = 0;
    p->hit_rate = 1.0;
    if (p->n_moe_layers == 0)
        return;
    if (p->slots_per_layer >= p->experts_per_layer) {
        tt_buf_puts(b, "all experts fit, hits as once all were used; ");
        return;
    }
    p->hit_rate = tt_forecast_locality((double)p->slots_total / p->n_moe_layers,
                                       p->experts_per_layer, p->top_k);
    if (heat != NULL && heat->found) {
        double share = tt_forecast_share(heat->values, p->n_moe_layers, p->experts_per_layer,
                                         p->top_k, p->slots_total, &tokens);
        if (tokens >= TT_FORECAST_LEAST_TOKENS) {
            p->hit_rate = share;
            tt_buf_printf(b, "hits by the heat profile, of about %.0f tokens; ", tokens);
            return;
        }
    }
    tt_buf_printf(b, "hits by the locality published for top-k routing; ");
}

static void expect_speed(tt_plan *p, const tt_install *in, const tt_memory_rate *memory,
                         const tt_probe *probe, tt_buf *b)
{
    tt_token_bytes bytes = tt_forecast_bytes(in);
    double miss = 1.0 - p->hit_rate;
    p->token_bytes = bytes.outside + bytes.shared + bytes.experts;
    p->memory_rate = memory != NULL ? memory->rate : 0;
    p->disk_rate = probe != NULL && probe->probed ? probe->rate : 0;
    if (strcmp(p->cpu_level, "ref") == 0) {
        tt_buf_puts(b, "no speed: the scalar reference is not made for it");
        return;
    }
    if (p->memory_rate <= 0) {
        tt_buf_puts(b, "no speed: the rate of memory was not measured");
        return;
    }
    if (miss > 0 && p->disk_rate <= 0) {
        tt_buf_puts(b, "no speed: the rate of the disk was not measured");
        return;
    }
    tt_token_times t = {.outside = (double)bytes.outside / p->memory_rate,
                        .miss = miss,
                        .n_layers = p->n_moe_layers};
    if (p->n_moe_layers > 0) {
        t.moe = (double)(bytes.shared + bytes.experts) / p->memory_rate / p->n_moe_layers;
        t.read = miss > 0 ? miss * p->top_k * (double)p->expert_bytes / p->disk_rate : 0;
    }
    p->tokens_per_second = tt_forecast_tokens(&t);
    tt_buf_printf(b, "speed if %.3g GB a token come at the memory's %.3g GB/s (",
                  (double)p->token_bytes / 1e9, p->memory_rate / 1e9);
    put_when(b, memory->cached, memory->time);
    tt_buf_putc(b, ')');
    if (miss > 0) {
        tt_buf_printf(b, " and what is missed at the disk's %.3g GB/s (", p->disk_rate / 1e9);
        put_when(b, probe->cached, probe->time);
        tt_buf_putc(b, ')');
    }
}

void tt_forecast_make(tt_plan *p, const tt_install *in, const tt_memory_rate *memory,
                      const tt_probe *probe, const tt_heat *heat)
{
    tt_buf b;
    tt_buf_init(&b, sizeof p->forecast - 1);
    p->tokens_per_second = 0;
    tt_buf_puts(&b, "estimate: ");
    expect_hits(p, heat, &b);
    expect_speed(p, in, memory, probe, &b);
    snprintf(p->forecast, sizeof p->forecast, "%s", tt_buf_status(&b, NULL) == TT_OK ? b.data : "");
    tt_buf_free(&b);
}

tt_status tt_forecast_open(const tt_install *in, const tt_model_options *o, bool measure,
                           tt_plan *plan, tt_reader **reader, tt_heat *heat, tt_error *err)
{
    tt_probe probe = {0};
    tt_memory_rate memory = {0};
    tt_memory_rate_options mo = {.threads = plan->threads,
                                 .memory = tt_plan_spare(plan),
                                 .file = o->probe_file,
                                 .look_up = !measure};
    tt_reader *r = NULL;
    if (plan->n_moe_layers > 0)
        TT_TRY(tt_expert_reader_open(in, o, plan, &r, &probe, err));
    tt_status st = tt_heat_open(heat, in, o, plan, err);
    if (st != TT_OK) {
        tt_reader_close(&r);
        return st;
    }
    /* A measurement that fails costs its figures. */
    if (o->probe_file != NULL)
        (void)!tt_memory_rate_get(&mo, &memory, NULL);
    tt_forecast_make(plan, in, &memory, &probe, heat);
    *reader = r;
    return TT_OK;
}
