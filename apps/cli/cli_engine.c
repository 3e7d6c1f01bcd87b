#include "cli/cli_engine.h"

#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "cli/interrupt.h"
#include "cli/prompt_text.h"
#include "cli/text_out.h"

#define SEED_BITS      53  /* exact in every JSON reader */
#define QUIET_SECONDS  0.3 /* work shorter than this shows no progress */
#define PROGRESS_EVERY 0.1

void tt_engine_init(tt_engine *e, const tt_cli_options *o, double started)
{
    *e = (tt_engine){.o = o, .load = o->load, .started = started};
}

/* A profile that cannot be kept is told and nothing more. */
static void save_heat(tt_engine *e)
{
    tt_error err = {.offset = -1};
    if (e->model != NULL && tt_model_save_heat(e->model, &err) != TT_OK)
        tt_out_notice("the heat profile was not kept: %s%s%s", err.file,
                      err.file[0] != '\0' ? ": " : "", err.message);
}

void tt_engine_close(tt_engine *e)
{
    save_heat(e);
    tt_constraint_close(&e->constraint);
    tt_lexicon_close(&e->lexicon);
    tt_grammar_close(&e->grammar);
    tt_sampler_close(&e->sampler);
    tt_session_close(&e->session);
    tt_state_cache_close(&e->cache);
    tt_model_close(&e->model);
    tt_tokenizer_close(&e->tok);
    tt_free(e->tools);
    e->tools = NULL;
}

tt_status tt_engine_plan(tt_engine *e, tt_error *err)
{
    if (!tt_dir_exists(e->o->model) && !tt_file_exists(e->o->model))
        return tt_fail_at(err, TT_ERR_NOT_FOUND, e->o->model, -1,
                          "no such directory; TinyTitanRepack makes an install from a checkpoint");
    tt_status st = tt_model_plan(e->o->model, &e->load, &e->plan, err);
    if (st == TT_OK && e->o->cache_given && e->plan.experts_per_layer == 0)
        return tt_fail(err, TT_ERR_INVALID,
                       "options of the expert cache were given, but this is a dense model");
    return st;
}

/* ---- text ---- */

static tt_status choose_seed(tt_engine *e, tt_error *err)
{
    if (e->o->seed_given)
        return TT_OK;
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        return tt_fail(err, TT_ERR_IO, "no random seed from the system: give --seed N");
    e->sampling.seed = seed >> (64 - SEED_BITS);
    return TT_OK;
}

static tt_status choose_mode(tt_engine *e, tt_error *err)
{
    const tt_cli_options *o = e->o;
    bool has = tt_tokenizer_has_template(e->tok);
    bool needs = o->chat || o->messages != NULL || o->interactive || o->system != NULL ||
                 o->tools != NULL || o->thinking != TT_THINKING_DEFAULT;
    e->chat = has && !o->raw;
    if (has || !needs)
        return TT_OK;
    /* The library knows which file it would have read. */
    char *text = NULL;
    size_t len;
    tt_status st = tt_chat_render(e->tok, "[]", NULL, &text, &len, err);
    tt_free(text);
    return st != TT_OK ? st
                       : tt_fail_at(err, TT_ERR_NOT_FOUND, o->model, -1, "has no chat template");
}

/* A special token never shows in the text, so it is looked for by its id. */
static void sort_stops(tt_engine *e)
{
    const tt_arg_list *stop = &e->o->stop;
    for (uint32_t i = 0; i < stop->n; i++) {
        int64_t id = tt_tokenizer_special_id(e->tok, stop->items[i]);
        bool special = false;
        size_t len;
        if (id >= 0 && tt_tokenizer_piece(e->tok, (uint32_t)id, &len, &special) != NULL && special)
            e->stop_ids[e->n_stop_ids++] = (uint32_t)id;
        else
            e->stop_texts[e->n_stop_texts++] = stop->items[i];
    }
}

static tt_status set_up_text(tt_engine *e, tt_error *err)
{
    e->sampling_from_file = tt_tokenizer_sampling_defaults(e->tok, &e->sampling);
    sort_stops(e);
    TT_TRY(choose_mode(e, err));
    if (e->o->tools != NULL)
        TT_TRY(tt_prompt_tools(e->o->tools, &e->tools, err));
    return TT_OK;
}

static tt_status open_text(tt_engine *e, bool optional, tt_error *err)
{
    tt_sampler_options_default(&e->sampling);
    tt_status st = tt_tokenizer_open(e->o->model, &e->tok, err);
    if (st == TT_OK)
        st = set_up_text(e, err);
    else if (st == TT_ERR_NOT_FOUND && optional)
        st = TT_OK;
    if (st != TT_OK)
        return st;
    tt_cli_sampling_apply(e->o, &e->sampling);
    return choose_seed(e, err);
}

tt_status tt_engine_text(tt_engine *e, tt_error *err)
{
    return open_text(e, false, err);
}

tt_status tt_engine_text_optional(tt_engine *e, tt_error *err)
{
    return open_text(e, true, err);
}

/* ---- grammar ---- */

static tt_status compile_grammar(tt_engine *e, tt_error *err)
{
    const char *schema = e->o->json_schema, *path = schema != NULL ? schema : e->o->grammar;
    char *text = NULL;
    size_t len = 0;
    TT_TRY(tt_prompt_read(path, &text, &len, err));
    tt_status st = schema != NULL ? tt_grammar_from_schema(text, len, &e->grammar, err)
                                  : tt_grammar_from_ebnf(text, len, &e->grammar, err);
    tt_free(text);
    if (st != TT_OK && err != NULL && err->file[0] == '\0')
        tt_error_set_file(err, path);
    return st;
}

/* The plan again, with less for the model; then its sums cover the grammar too. */
static tt_status plan_beside_grammar(tt_engine *e, tt_error *err)
{
    uint64_t budget = e->plan.budget, own = e->grammar_bytes;
    bool given = e->plan.budget_given;
    if (budget <= own)
        return tt_fail(err, TT_ERR_BUDGET,
                       "the budget has %.1f MiB, the grammar alone needs %.1f MiB: raise "
                       "--ram-budget",
                       (double)budget / (double)TT_MIB, (double)own / (double)TT_MIB);
    e->load.ram_budget = budget - own;
    tt_status st = tt_model_plan(e->o->model, &e->load, &e->plan, err);
    e->plan.total += own;
    e->plan.budget += own;
    e->plan.budget_given = given;
    return st;
}

tt_status tt_engine_grammar(tt_engine *e, tt_error *err)
{
    tt_grammar_info info;
    if (e->o->json_schema == NULL && e->o->grammar == NULL)
        return TT_OK;
    TT_TRY(compile_grammar(e, err));
    TT_TRY(tt_lexicon_create(e->tok, e->plan.vocab_size, &e->lexicon, err));
    TT_TRY(tt_constraint_create(e->grammar, e->lexicon, TT_START_ANSWER, &e->constraint, err));
    tt_grammar_get_info(e->grammar, &info);
    e->grammar_bytes = info.bytes + tt_lexicon_bytes(e->lexicon) + tt_constraint_bytes(e->lexicon);
    return plan_beside_grammar(e, err);
}

/* ---- weights ---- */

typedef struct load_progress {
    double begun, shown;
} load_progress;

static bool on_load(void *ctx, uint64_t done, uint64_t total)
{
    load_progress *p = ctx;
    double now = tt_now();
    if (now - p->begun > QUIET_SECONDS && now - p->shown > PROGRESS_EVERY && total > 0) {
        p->shown = now;
        tt_out_progress("loading weights %3.0f %% of %.1f MiB",
                        100.0 * (double)done / (double)total, (double)total / (double)TT_MIB);
    }
    return !tt_interrupted();
}

static tt_status use_cache(tt_engine *e, tt_error *err)
{
    if (tt_model_get_plan(e->model)->prompt_cache == 0)
        return TT_OK;
    TT_TRY(tt_state_cache_create(e->model, &e->cache, err));
    if (e->o->disk.dir != NULL) {
        tt_state_disk_options disk = e->o->disk;
        disk.render = e->chat ? "chat" : "raw";
        TT_TRY(tt_state_cache_use_disk(e->cache, &disk, err));
        if (tt_state_cache_disk_note(e->cache)[0] != '\0')
            tt_out_notice("prompt cache: %s", tt_state_cache_disk_note(e->cache));
    }
    return tt_session_use_cache(e->session, e->cache, err);
}

tt_status tt_engine_load(tt_engine *e, tt_error *err)
{
    load_progress p = {.begun = tt_now()};
    tt_status st = tt_model_open(e->o->model, &e->load, on_load, &p, &e->model, err);
    tt_out_progress_end();
    if (st == TT_OK)
        st = tt_session_create(e->model, &e->session, err);
    if (st == TT_OK)
        st = use_cache(e, err);
    tt_model_info info;
    if (st == TT_OK) {
        bool given = e->plan.budget_given;
        e->plan = *tt_model_get_plan(e->model);
        e->plan.total += e->grammar_bytes;
        e->plan.budget += e->grammar_bytes;
        e->plan.budget_given = given;
        tt_model_get_info(e->model, &info);
        st = tt_sampler_create(&e->sampling, info.vocab_size, &e->sampler, err);
        if (e->plan.heat_status != TT_OK && e->plan.heat_status != TT_ERR_NOT_FOUND)
            tt_out_notice("the heat profile is not used: %s", e->plan.heat);
    }
    e->load_s = tt_now() - e->started;
    return st;
}
