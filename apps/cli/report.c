#include "cli/report.h"

#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/machine.h"
#include "cli/interrupt.h"
#include "cli/text_out.h"

#define DIGITS 6 /* of the numbers in JSON */

const char *tt_bytes_text(uint64_t bytes, char out[32])
{
    double v = (double)bytes;
    if (bytes >= TT_GIB)
        snprintf(out, 32, "%.2f GiB", v / (double)TT_GIB);
    else if (bytes >= TT_MIB)
        snprintf(out, 32, "%.1f MiB", v / (double)TT_MIB);
    else
        snprintf(out, 32, "%.1f KiB", v / (double)TT_KIB);
    return out;
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static tt_status print_json(json_t *root, tt_error *err)
{
    char *text = root != NULL ? json_dumps(root, JSON_REAL_PRECISION(DIGITS)) : NULL;
    json_decref(root);
    if (text == NULL)
        return tt_fail(err, TT_ERR_INTERNAL, "the JSON object cannot be written");
    bool ok = tt_out_end_line() && tt_out_puts(text) && tt_out_puts("\n");
    tt_free(text);
    return ok ? TT_OK : tt_fail(err, TT_ERR_IO, "standard output cannot be written");
}

/* ---- the plan as a table ---- */

static const char *draft_name(const tt_plan *p)
{
    static const char *const names[] = {"off", "lookup", "mtp"};
    return names[p->draft_kind];
}

static void plan_head(const tt_engine *e, tt_buf *b)
{
    const tt_plan *p = &e->plan;
    const tt_cli_options *o = e->o;
    char size[32];
    tt_buf_printf(b, "model      %s (%s, %u layers", p->model_id, p->family, p->n_layers);
    if (p->experts_per_layer > 0)
        tt_buf_printf(b, ", %u experts a layer, %u a token", p->experts_per_layer, p->top_k);
    tt_buf_printf(b, ", %s on disk)\n", tt_bytes_text(p->weights_on_disk, size));
    tt_buf_printf(b, "compute    backend %s, level %s, %u threads\n", p->backend, p->cpu_level,
                  p->threads);
    if (p->experts_per_layer > 0)
        tt_buf_printf(b, "experts    reader %s, checksums %s\n", p->reader,
                      o->load.verify_reads ? "on every read" : "when verified only");
    if (p->ngram_table > 0)
        tt_buf_printf(b, "n-grams    table of %s on disk, %llu rows a token\n",
                      tt_bytes_text(p->ngram_table, size), (unsigned long long)p->ngram_rows);
    tt_buf_printf(b, "context    %u tokens, KV %u bits, rope scaling ", p->max_context, p->kv_bits);
    if (p->yarn_factor > 1.0f)
        tt_buf_printf(b, "yarn:%g", (double)p->yarn_factor);
    else
        tt_buf_puts(b, "none");
    tt_buf_printf(b, ", prefill chunk %u\n", p->prefill_chunk);
    if (p->draft_kind == TT_DRAFT_OFF)
        return;
    tt_buf_printf(b, "guesses    by %s, ", draft_name(p));
    if (p->draft_width > 0)
        tt_buf_printf(b, "%u tokens a step (--draft-width)\n", p->draft_width);
    else
        tt_buf_printf(b, "up to %u tokens a step, as far as that pays\n", TT_DRAFT_ROWS);
}

static void plan_cache(const tt_engine *e, tt_buf *b)
{
    const tt_plan *p = &e->plan;
    if (p->experts_per_layer == 0)
        return;
    if (p->warm_seconds <= 0)
        tt_buf_puts(b, "cache      begins cold (--warm off)");
    else if (p->heat_status == TT_OK)
        tt_buf_printf(b, "cache      warmed for %g s at most from %s", (double)p->warm_seconds,
                      p->heat);
    else
        tt_buf_printf(b, "cache      begins cold, %s", p->heat);
    tt_buf_printf(b, "; governor %s\n", p->governor ? "on" : "off");
}

static void plan_expected(const tt_plan *p, tt_buf *b)
{
    tt_buf_puts(b, "expected   ");
    if (p->experts_per_layer > 0)
        tt_buf_printf(b, "%.1f %% of expert uses in memory%s", 100 * p->hit_rate,
                      p->tokens_per_second > 0 ? ", " : "");
    if (p->tokens_per_second > 0)
        tt_buf_printf(b, "up to %.3g tokens/s", p->tokens_per_second);
    tt_buf_printf(b, "%s%s\n", p->experts_per_layer > 0 || p->tokens_per_second > 0 ? "\n  " : "",
                  p->forecast);
}

static const char *thinking_word(tt_thinking t)
{
    return t == TT_THINKING_ON ? "on" : t == TT_THINKING_OFF ? "off" : "as the template has it";
}

static void plan_answer(const tt_engine *e, tt_buf *b)
{
    const tt_sampler_options *s = &e->sampling;
    const tt_cli_options *o = e->o;
    if (e->tok == NULL) {
        tt_buf_puts(b, "text       the install has no tokenizer: no prompts, no answers\n");
        return;
    }
    tt_buf_printf(b, "text       %s", e->chat ? "chat" : "raw");
    if (e->chat)
        tt_buf_printf(b, ", thinking %s%s%s", thinking_word(o->thinking),
                      o->tools != NULL ? ", tools from " : "", o->tools != NULL ? o->tools : "");
    if (o->max_new > 0)
        tt_buf_printf(b, ", at most %u new tokens", o->max_new);
    if (o->stop.n > 0)
        tt_buf_printf(b, ", %u stop strings", o->stop.n);
    if (o->json_schema != NULL || o->grammar != NULL)
        tt_buf_printf(b, ", held to the %s in %s", o->grammar != NULL ? "grammar" : "schema",
                      o->grammar != NULL ? o->grammar : o->json_schema);
    tt_buf_printf(
        b,
        "\nsampling   temperature %g, top-k %u, top-p %g, min-p %g, penalties: repetition "
        "%g, presence %g, frequency %g; seed ",
        (double)s->temperature, s->top_k, (double)s->top_p, (double)s->min_p,
        (double)s->repetition_penalty, (double)s->presence_penalty, (double)s->frequency_penalty);
    if (o->seed_given)
        tt_buf_printf(b, "%llu\n", (unsigned long long)s->seed);
    else
        tt_buf_puts(b, "random\n");
}

static void plan_row(tt_buf *b, const char *what, uint64_t bytes, const char *note)
{
    char size[32];
    tt_buf_printf(b, "  %-16s %12s%s%s\n", what, tt_bytes_text(bytes, size),
                  note[0] != '\0' ? "   " : "", note);
}

static void plan_memory(const tt_engine *e, tt_buf *b)
{
    const tt_plan *p = &e->plan;
    uint32_t asked = e->o->load.expert_slots;
    char note[160] = "", size[32];
    tt_buf_puts(b, "memory\n");
    plan_row(b, "weights", p->weights, "resident tensors");
    if (p->experts_per_layer > 0) {
        snprintf(note, sizeof note, "%u a layer of %u, %u in all, %s each", p->slots_per_layer,
                 p->experts_per_layer, p->slots_total, tt_bytes_text(p->expert_bytes, size));
        plan_row(b, "expert slots", p->expert_slots, note);
        if (asked > p->experts_per_layer)
            tt_buf_printf(b, "  %-16s %12s   %u asked (--expert-cache-slots), a layer has %u\n", "",
                          "", asked, p->experts_per_layer);
    }
    snprintf(note, sizeof note, "rows of %u tokens", p->max_context);
    plan_row(b, "KV", p->kv, note);
    plan_row(b, "state", p->state, "recurrent, convolution, checkpoint");
    if (p->prompt_cache > 0)
        plan_row(b, "prompt cache", p->prompt_cache,
                 "state of prompts, for those that begin alike");
    if (p->draft > 0)
        plan_row(b, "guesses", p->draft,
                 p->draft_kind == TT_DRAFT_MTP ? "the draft, its experts and rows; undoing"
                                               : "undoing those that were wrong, logits");
    plan_row(b, "scratch", p->scratch, "one prefill chunk, logits");
    plan_row(b, "program", p->fixed, "its files, tables, tokenizer, stacks; the kernel's tables");
    if (e->grammar_bytes > 0)
        plan_row(b, "grammar", e->grammar_bytes, "tokens laid out, masks, states");
    plan_row(b, "total", p->total, "");
    plan_row(b, "budget", p->budget,
             p->budget_given ? "given by --ram-budget" : "what the machine has to spare");
    if (p->machine_available != UINT64_MAX)
        plan_row(b, "machine", p->machine_available, "available now");
}

/* ---- the plan as JSON ---- */

static json_t *sampling_json(const tt_engine *e)
{
    const tt_sampler_options *s = &e->sampling;
    return json_pack("{s:f, s:I, s:f, s:f, s:f, s:f, s:f, s:o}", "temperature",
                     (double)s->temperature, "top_k", (json_int_t)s->top_k, "top_p",
                     (double)s->top_p, "min_p", (double)s->min_p, "repetition_penalty",
                     (double)s->repetition_penalty, "presence_penalty", (double)s->presence_penalty,
                     "frequency_penalty", (double)s->frequency_penalty, "seed",
                     e->o->seed_given ? json_integer((json_int_t)s->seed) : json_null());
}

static json_t *plan_memory_json(const tt_engine *e)
{
    const tt_plan *p = &e->plan;
    uint64_t machine = p->machine_available > INT64_MAX ? INT64_MAX : p->machine_available;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:I}", "weights",
                     (json_int_t)p->weights, "expert_slots", (json_int_t)p->expert_slots, "kv",
                     (json_int_t)p->kv, "state", (json_int_t)p->state, "prompt_cache",
                     (json_int_t)p->prompt_cache, "draft", (json_int_t)p->draft, "scratch",
                     (json_int_t)p->scratch, "program", (json_int_t)p->fixed, "grammar",
                     (json_int_t)e->grammar_bytes, "total", (json_int_t)p->total, "budget",
                     (json_int_t)p->budget, "budget_given", (int)p->budget_given,
                     "machine_available", (json_int_t)machine);
}

static json_t *plan_text_json(const tt_engine *e)
{
    const tt_cli_options *o = e->o;
    json_t *stop = json_array();
    for (uint32_t i = 0; i < o->stop.n; i++)
        json_array_append_new(stop, json_string(o->stop.items[i]));
    return json_pack(
        "{s:s?, s:s?, s:s?, s:s?, s:s?, s:o, s:o}", "mode",
        e->tok == NULL ? NULL
        : e->chat      ? "chat"
                       : "raw",
        "thinking", o->thinking == TT_THINKING_DEFAULT ? NULL : thinking_word(o->thinking), "tools",
        o->tools, "json_schema", o->json_schema, "grammar", o->grammar, "max_new",
        o->max_new > 0 ? json_integer(o->max_new) : json_null(), "stop", stop);
}

static json_t *plan_cache_json(const tt_plan *p)
{
    return json_pack("{s:f, s:s, s:s, s:b}", "warm_seconds", (double)p->warm_seconds,
                     "heat_profile", p->heat, "heat_status", tt_status_name(p->heat_status),
                     "governor", (int)p->governor);
}

static json_t *known(double v)
{
    return v > 0 ? json_real(v) : json_null();
}

static json_t *plan_expected_json(const tt_plan *p)
{
    return json_pack("{s:f, s:o, s:o, s:o, s:I, s:s}", "hit_rate", p->hit_rate, "tokens_per_second",
                     known(p->tokens_per_second), "memory_bytes_per_second", known(p->memory_rate),
                     "disk_bytes_per_second", known(p->disk_rate), "bytes_per_token",
                     (json_int_t)p->token_bytes, "basis", p->forecast);
}

static json_t *plan_json(const tt_engine *e, const tt_error *refused)
{
    const tt_plan *p = &e->plan;
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
        "s:I, s:s, s:b, s:s, s:I, "
        "s:o, s:o, s:o, s:o, s:o, s:s?}",
        "model", p->model_id, "family", p->family, "backend", p->backend, "cpu_level", p->cpu_level,
        "threads", (json_int_t)p->threads, "max_context", (json_int_t)p->max_context, "kv_bits",
        (json_int_t)p->kv_bits, "yarn_factor", (double)p->yarn_factor, "prefill_chunk",
        (json_int_t)p->prefill_chunk, "layers", (json_int_t)p->n_layers, "experts_per_layer",
        (json_int_t)p->experts_per_layer, "experts_per_token", (json_int_t)p->top_k,
        "slots_per_layer", (json_int_t)p->slots_per_layer, "slots_total",
        (json_int_t)p->slots_total, "expert_bytes", (json_int_t)p->expert_bytes, "weights_on_disk",
        (json_int_t)p->weights_on_disk, "ngram_table", (json_int_t)p->ngram_table,
        "ngram_rows_per_token", (json_int_t)p->ngram_rows, "reader", p->reader, "verify_reads",
        (int)e->o->load.verify_reads, "draft", draft_name(p), "draft_width",
        (json_int_t)p->draft_width, "memory", plan_memory_json(e), "cache", plan_cache_json(p),
        "expected", plan_expected_json(p), "text", plan_text_json(e), "sampling", sampling_json(e),
        "refused", refused != NULL ? refused->message : NULL);
}

tt_status tt_report_plan(const tt_engine *e, const tt_error *refused, tt_error *err)
{
    if (e->o->json)
        return print_json(plan_json(e, refused), err);
    tt_buf b;
    tt_buf_init(&b, TT_MIB);
    plan_head(e, &b);
    plan_cache(e, &b);
    plan_answer(e, &b);
    plan_memory(e, &b);
    plan_expected(&e->plan, &b);
    tt_status st = tt_buf_status(&b, err);
    if (st == TT_OK && !tt_out_text(b.data, b.len))
        st = tt_fail(err, TT_ERR_IO, "standard output cannot be written");
    tt_buf_free(&b);
    return st;
}

/* ---- notices ---- */

void tt_report_finish(const tt_engine *e, const tt_answer *a)
{
    if (a->finish == TT_FINISH_INTERRUPTED)
        tt_out_notice("%s", tt_interrupt_words());
    else if (a->context_full)
        tt_out_notice("the context of %u tokens is full, so the answer ends here",
                      e->plan.max_context);
    else if (a->finish == TT_FINISH_LENGTH)
        tt_out_notice("the answer ends after %zu tokens (--max-new)", a->completion_tokens);
}

static double prefill_rate(const tt_answer *a)
{
    return ratio((double)(a->prompt_tokens - a->reused_tokens), a->prefill_s);
}

static double decode_rate(const tt_answer *a)
{
    return ratio((double)a->decoded_tokens, a->decode_s);
}

void tt_report_timing(const tt_engine *e, const tt_answer *a)
{
    tt_out_notice("load %.2f s; prompt %zu tokens in %.2f s, %.1f tokens/s; answer %zu tokens in "
                  "%.2f s, %.1f tokens/s",
                  e->load_s, a->prompt_tokens, a->prefill_s, prefill_rate(a), a->completion_tokens,
                  a->decode_s, decode_rate(a));
}

void tt_report_calls(const json_t *parsed)
{
    const json_t *calls = json_object_get(parsed, "tool_calls");
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i);
        const char *name = json_string_value(json_object_get(call, "name"));
        char *arguments = json_dumps(json_object_get(call, "arguments"),
                                     JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        tt_out_notice("tool call: %s %s", name != NULL ? name : "?",
                      arguments != NULL ? arguments : "{}");
        tt_free(arguments);
    }
}

/* ---- stats ---- */

typedef struct cache_use {
    uint64_t asks, hits, misses, joins, evictions, bytes, disk, cached, mirror;
    double wait;
} cache_use;

static cache_use between(const tt_model_stats *a, const tt_model_stats *b)
{
    return (cache_use){.asks = b->expert_asks - a->expert_asks,
                       .hits = b->expert_hits - a->expert_hits,
                       .misses = b->expert_misses - a->expert_misses,
                       .joins = b->expert_joins - a->expert_joins,
                       .evictions = b->expert_evictions - a->expert_evictions,
                       .bytes = b->expert_bytes_read - a->expert_bytes_read,
                       .disk = b->expert_bytes_disk - a->expert_bytes_disk,
                       .cached = b->expert_bytes_cached - a->expert_bytes_cached,
                       .mirror = b->expert_bytes_mirror - a->expert_bytes_mirror,
                       .wait = b->expert_wait_seconds - a->expert_wait_seconds};
}

static void cache_line(tt_buf *b, const char *what, const cache_use *u, size_t tokens)
{
    char per[32], all[32];
    tt_buf_printf(b, "%s  hits %.1f %% of %llu, read %s (%s a token), waited %.3f s\n", what,
                  100 * ratio((double)u->hits, (double)u->asks), (unsigned long long)u->asks,
                  tt_bytes_text(u->bytes, all),
                  tt_bytes_text((uint64_t)ratio((double)u->bytes, (double)tokens), per), u->wait);
}

static void source_line(tt_buf *b, const tt_engine *e, const tt_answer *a)
{
    char disk[32], cached[32], mirror[32];
    cache_use u = between(&a->at_start, &a->at_end);
    tt_buf_printf(b, "         from the disk %s, from the page cache %s",
                  tt_bytes_text(u.disk, disk), tt_bytes_text(u.cached, cached));
    if (e->o->load.expert_mirror != NULL)
        tt_buf_printf(b, ", from the mirror %s%s", tt_bytes_text(u.mirror, mirror),
                      a->at_end.expert_mirror_lost ? " until it failed" : "");
    tt_buf_putc(b, '\n');
}

static void answer_lines(const tt_engine *e, const tt_answer *a, tt_buf *b)
{
    size_t computed = a->prompt_tokens - a->reused_tokens;
    tt_buf_printf(b, "prompt    %zu tokens, %zu reused", a->prompt_tokens, a->reused_tokens);
    if (a->reused_tokens > 0)
        tt_buf_printf(b, " (%s, %s)", tt_state_tier_name(a->reuse.tier),
                      tt_checkpoint_name(a->reuse.kind));
    tt_buf_printf(b, ", %zu computed in %.3f s, %.1f tokens/s\n", computed, a->prefill_s,
                  prefill_rate(a));
    tt_buf_printf(b, "answer    %zu tokens in %.3f s, %.1f tokens/s, ended by %s",
                  a->completion_tokens, a->decode_s, decode_rate(a), tt_finish_word(a->finish));
    if (a->first_text_s >= 0)
        tt_buf_printf(b, ", first text after %.3f s", a->first_text_s);
    tt_buf_putc(b, '\n');
    if (e->plan.experts_per_layer == 0)
        return;
    cache_use prompt = between(&a->at_start, &a->at_decode),
              answer = between(&a->at_decode, &a->at_end);
    cache_line(b, "experts  prompt:", &prompt, computed);
    cache_line(b, "         answer:", &answer, a->decoded_tokens);
    source_line(b, e, a);
}

/* What was guessed since the session began, and what that says of guessing. */
static void draft_lines(const tt_engine *e, tt_buf *b)
{
    const tt_plan *p = &e->plan;
    tt_draft_stats d;
    if (p->draft_kind == TT_DRAFT_OFF || e->session == NULL)
        return;
    tt_session_get_draft_stats(e->session, &d);
    tt_buf_printf(b, "guesses   %s: %llu, %llu right; steps", draft_name(p),
                  (unsigned long long)d.guessed, (unsigned long long)d.right);
    for (uint32_t w = 1; w <= TT_DRAFT_ROWS; w++)
        if (d.steps[w] > 0)
            tt_buf_printf(b, " %llu of %u (%.3g ms)", (unsigned long long)d.steps[w], w,
                          1000 * d.seconds[w] / (double)d.steps[w]);
    if (d.failure[0] != '\0')
        tt_buf_printf(b, "; given up: %s\n", d.failure);
    else if (d.rows > 1)
        tt_buf_printf(b, "; %u tokens a step pay, %.2f times plain speed\n", d.rows, d.gain);
    else
        tt_buf_puts(b, "; guesses do not pay here\n");
}

static void slots_lines(const tt_engine *e, tt_buf *b)
{
    const tt_plan *p = &e->plan;
    tt_model_stats s;
    char warm[32];
    tt_model_get_stats(e->model, &s);
    tt_buf_printf(b, "slots     %u, %u a layer of %u; slabs retired %u of %u%s%s\n", s.expert_slots,
                  s.expert_slots / p->n_moe_layers, p->experts_per_layer, s.slabs_retired, s.slabs,
                  s.pressure[0] != '\0' ? ": " : "", s.pressure);
    tt_buf_printf(b, "warm      read ahead %s%s%s\n", tt_bytes_text(s.warm_bytes, warm),
                  p->heat[0] != '\0' ? ", profile " : "", p->heat);
}

void tt_report_stats(const tt_engine *e, const tt_answer *a)
{
    const tt_plan *p = &e->plan;
    char peak[32], budget[32];
    tt_buf b;
    tt_buf_init(&b, TT_MIB);
    tt_buf_printf(&b, "model     %s on %s %s, %u threads, ready after %.3f s\n", p->model_id,
                  p->backend, p->cpu_level, p->threads, e->load_s);
    if (a != NULL)
        answer_lines(e, a, &b);
    draft_lines(e, &b);
    if (p->experts_per_layer > 0)
        slots_lines(e, &b);
    tt_buf_printf(&b, "seed      %llu\n", (unsigned long long)e->sampling.seed);
    tt_buf_printf(&b, "memory    peak %s of a budget of %s\n",
                  tt_bytes_text(tt_machine_peak_rss(), peak), tt_bytes_text(p->budget, budget));
    if (tt_buf_status(&b, NULL) == TT_OK)
        tt_out_report(b.data);
    tt_buf_free(&b);
}

/* ---- the answer as JSON ---- */

static json_t *timings_json(const tt_engine *e, const tt_answer *a)
{
    return json_pack("{s:f, s:f, s:f, s:o, s:f, s:f}", "load_s", e->load_s, "prefill_s",
                     a->prefill_s, "prefill_tokens_per_second", prefill_rate(a), "first_text_s",
                     a->first_text_s >= 0 ? json_real(a->first_text_s) : json_null(), "decode_s",
                     a->decode_s, "decode_tokens_per_second", decode_rate(a));
}

static json_t *draft_json(const tt_engine *e)
{
    tt_draft_stats d = {.rows = 1, .gain = 1};
    json_t *steps = json_array(), *seconds = json_array();
    if (e->session != NULL)
        tt_session_get_draft_stats(e->session, &d);
    for (uint32_t w = 1; w <= TT_DRAFT_ROWS; w++) {
        json_array_append_new(steps, json_integer((json_int_t)d.steps[w]));
        json_array_append_new(seconds, json_real(d.seconds[w]));
    }
    return json_pack("{s:s, s:I, s:I, s:o, s:o, s:I, s:f, s:s}", "kind", draft_name(&e->plan),
                     "guessed", (json_int_t)d.guessed, "right", (json_int_t)d.right,
                     "steps_by_rows", steps, "seconds_by_rows", seconds, "rows_that_pay",
                     (json_int_t)d.rows, "gain", d.gain, "failure", d.failure);
}

static json_t *cache_json(const tt_engine *e, const tt_answer *a)
{
    cache_use u = between(&a->at_start, &a->at_end), d = between(&a->at_decode, &a->at_end);
    const tt_model_stats *s = &a->at_end;
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:f, s:f, s:s, s:I, s:I, s:I, s:b, s:I, s:I, "
        "s:I, s:s, s:I}",
        "slots", (json_int_t)e->plan.slots_total, "asks", (json_int_t)u.asks, "hits",
        (json_int_t)u.hits, "misses", (json_int_t)u.misses, "joins", (json_int_t)u.joins,
        "evictions", (json_int_t)u.evictions, "hit_rate", ratio((double)u.hits, (double)u.asks),
        "bytes_read", (json_int_t)u.bytes, "bytes_read_per_decoded_token",
        ratio((double)d.bytes, (double)a->decoded_tokens), "wait_s", u.wait, "reader",
        e->plan.reader, "bytes_disk", (json_int_t)u.disk, "bytes_page_cache", (json_int_t)u.cached,
        "bytes_mirror", (json_int_t)u.mirror, "mirror_lost", (int)s->expert_mirror_lost,
        "slots_in_service", (json_int_t)s->expert_slots, "slabs", (json_int_t)s->slabs,
        "slabs_retired", (json_int_t)s->slabs_retired, "pressure", s->pressure, "bytes_warm",
        (json_int_t)s->warm_bytes);
}

/* Text, thoughts and calls: taken apart when the answer came through a template. */
static int add_content(json_t *root, const tt_answer *a, const json_t *parsed)
{
    if (parsed == NULL) {
        const char *text = a->text.len > 0 ? a->text.data : "";
        return json_object_set_new(root, "text", json_stringn(text, a->text.len)) +
               json_object_set_new(root, "reasoning", json_string("")) +
               json_object_set_new(root, "tool_calls", json_array());
    }
    return json_object_set(root, "text", json_object_get(parsed, "content")) +
           json_object_set(root, "reasoning", json_object_get(parsed, "reasoning")) +
           json_object_set(root, "tool_calls", json_object_get(parsed, "tool_calls"));
}

tt_status tt_report_json(const tt_engine *e, const tt_answer *a, const json_t *parsed,
                         tt_error *err)
{
    json_t *root = json_object();
    json_t *rest = json_pack(
        "{s:s, s:I, s:I, s:I, s:s, s:s, s:o, s:s, s:s, s:s, s:I, s:o, s:o, s:I}", "finish_reason",
        tt_finish_word(a->finish), "prompt_tokens", (json_int_t)a->prompt_tokens,
        "completion_tokens", (json_int_t)a->completion_tokens, "reused_tokens",
        (json_int_t)a->reused_tokens, "reused_from", tt_state_tier_name(a->reuse.tier),
        "reused_kind", tt_checkpoint_name(a->reuse.kind), "timings", timings_json(e, a), "model",
        e->plan.model_id, "backend", e->plan.backend, "cpu_level", e->plan.cpu_level, "seed",
        (json_int_t)e->sampling.seed, "expert_cache", cache_json(e, a), "draft", draft_json(e),
        "peak_rss_bytes", (json_int_t)tt_machine_peak_rss());
    int bad = root == NULL || rest == NULL ? -1 : add_content(root, a, parsed);
    if (bad == 0)
        bad = json_object_update_missing(root, rest);
    json_decref(rest);
    if (bad != 0) {
        json_decref(root);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the JSON object");
    }
    return print_json(root, err);
}
