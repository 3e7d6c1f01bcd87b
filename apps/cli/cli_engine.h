/* cli_engine.h: the parts that every answer uses, opened in the order in which they can fail
 * cheaply.
 *
 * Owns:      tokenizer, model, session and sampler, the tools' text, the choice of chat or raw, the
 * sampling that is in force, the grammar of answers.
 * Not here:  the loop of one answer (generate.c).
 * Laws:      (1) everything that can be refused without weights is refused before they are loaded;
 * (2) a seed that was not given is drawn once and can be read back.
 * Threads:   one.
 */
#ifndef TT_CLI_CLI_ENGINE_H
#define TT_CLI_CLI_ENGINE_H

#include "cli/cli_options.h"

typedef struct tt_engine {
    const tt_cli_options *o;
    tt_plan plan;
    tt_tokenizer *tok;
    tt_model *model;
    tt_state_cache *cache; /* of --interactive and --prompt-cache-disk; NULL: none */
    tt_session *session;
    tt_sampler *sampler;
    tt_sampler_options sampling;
    bool chat;
    bool sampling_from_file; /* defaults came from generation_config.json */
    char *tools;             /* JSON, or NULL */
    tt_model_options load;   /* the model's share of the budget */
    tt_grammar *grammar;     /* of answers, or NULL; then the next two are NULL as well */
    tt_lexicon *lexicon;
    tt_constraint *constraint;
    uint64_t grammar_bytes; /* what they take of the budget */
    /* --stop: special tokens by id, everything else by text */
    uint32_t stop_ids[TT_ARG_LIST_MAX], n_stop_ids;
    const char *stop_texts[TT_ARG_LIST_MAX];
    uint32_t n_stop_texts;
    double started, load_s; /* from the start of the program until ready */
} tt_engine;

/* `started` is the time at which the program began. */
void tt_engine_init(tt_engine *e, const tt_cli_options *o, double started);
void tt_engine_close(tt_engine *e);
/* The plan; TT_ERR_BUDGET fills it too. */
TT_MUST_CHECK tt_status tt_engine_plan(tt_engine *e, tt_error *err);
/* Tokenizer, template, tools and sampling defaults. */
TT_MUST_CHECK tt_status tt_engine_text(tt_engine *e, tt_error *err);
/* Grammar of answers, if there is one, and room for it in the plan. After tt_engine_text. */
TT_MUST_CHECK tt_status tt_engine_grammar(tt_engine *e, tt_error *err);
/* Sampling and mode for --plan: an install without a tokenizer is fine. */
TT_MUST_CHECK tt_status tt_engine_text_optional(tt_engine *e, tt_error *err);
/* Weights, session and sampler, with progress on a terminal. TT_ERR_ABORTED after Ctrl-C. */
TT_MUST_CHECK tt_status tt_engine_load(tt_engine *e, tt_error *err);

#endif
