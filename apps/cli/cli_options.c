#include "cli/cli_options.h"

#include <jansson.h>
#include <string.h>

#include "base/limits.h"
#include "base/model_args.h"

#define MAX_ROWS 64

static const char *const thinking_words[] = {"on", "off", NULL};

/* Words that become something else once they are checked. */
typedef struct words {
    int thinking;
    tt_model_words model;
} words;

/* ---- the table ---- */

static size_t add_text_rows(tt_arg *table, tt_cli_options *o, words *w)
{
    const tt_arg rows[] = {
        TT_OPT_HEADING("What to answer (one of --prompt, --messages, --interactive)"),
        TT_OPT_STRING("model", &o->model, "DIR",
                      "the .gturbo install, made by TinyTitanRepack; always needed"),
        TT_OPT_STRING("prompt", &o->prompt, "TEXT",
                      "answer TEXT and end; - reads it from standard input"),
        TT_OPT_STRING("messages", &o->messages, "FILE",
                      "answer a conversation: a JSON array of {\"role\", \"content\"} objects; - "
                      "reads it from standard input"),
        TT_OPT_FLAG("interactive", &o->interactive,
                    "talk: one line a turn, /help lists the commands, Ctrl-C stops an answer"),
        TT_OPT_HEADING("Text"),
        TT_OPT_FLAG("chat", &o->chat,
                    "put the text through the model's chat template (the default when the install "
                    "has one)"),
        TT_OPT_FLAG("raw", &o->raw,
                    "continue the prompt as it stands; special tokens written in it count as such"),
        TT_OPT_STRING("system", &o->system, "TEXT", "system message of the conversation"),
        TT_OPT_STRING("tools", &o->tools, "FILE",
                      "JSON array of tools that the model may call (OpenAI shape)"),
        TT_OPT_STRING("json-schema", &o->json_schema, "FILE",
                      "the answer is JSON that satisfies the schema in FILE; a thought may come "
                      "first"),
        TT_OPT_STRING("grammar", &o->grammar, "FILE",
                      "the answer follows the grammar in FILE (docs/grammar.md)"),
        TT_OPT_ENUM("thinking", &w->thinking, thinking_words,
                    "let the model think before it answers, or not (default: as its template has "
                    "it)"),
        TT_OPT_U32("max-new", &o->max_new, "N", 1, TT_MAX_CONTEXT,
                   "tokens an answer may have (default 512; with --interactive the rest of the "
                   "context)"),
        TT_OPT_LIST("stop", &o->stop, "TEXT", "end the answer before TEXT, which is not printed"),
    };
    memcpy(table, rows, sizeof rows);
    return sizeof rows / sizeof rows[0];
}

static size_t add_sampling_rows(tt_arg *table, tt_cli_options *o)
{
    tt_sampler_options *s = &o->sampling.values;
    const tt_arg rows[] = {
        TT_OPT_HEADING("Sampling (defaults: the model's generation_config.json, else off)"),
        TT_OPT_FLOAT("temperature", &s->temperature, "T", 0, 100,
                     "0 takes the likeliest token every time"),
        TT_OPT_U32("top-k", &s->top_k, "K", 0, TT_MAX_VOCAB, "only the K likeliest; 0 is off"),
        TT_OPT_FLOAT("top-p", &s->top_p, "P", 0, 1,
                     "only the likeliest whose probabilities reach P together; 1 is off"),
        TT_OPT_FLOAT("min-p", &s->min_p, "P", 0, 1,
                     "only those with P times the probability of the likeliest; 0 is off"),
        TT_OPT_FLOAT("repetition-penalty", &s->repetition_penalty, "F", 0, 100,
                     "against tokens of prompt and answer; above 0, 1 is off"),
        TT_OPT_FLOAT("presence-penalty", &s->presence_penalty, "F", -2, 2,
                     "against tokens that the answer has already; 0 is off"),
        TT_OPT_FLOAT("frequency-penalty", &s->frequency_penalty, "F", -2, 2,
                     "the same for every time they came; 0 is off"),
        /* Kept within the integers of JSON readers. */
        TT_OPT_U64("seed", &s->seed, "N", 0, INT64_MAX,
                   "the same seed gives the same answer; random by default, shown by --stats and "
                   "--json"),
    };
    memcpy(table, rows, sizeof rows);
    return sizeof rows / sizeof rows[0];
}

static size_t add_report_rows(tt_arg *table, tt_cli_options *o)
{
    const tt_arg rows[] = {
        TT_OPT_HEADING("Reports"),
        TT_OPT_FLAG("plan", &o->plan, "print what would run and the memory it takes; load nothing"),
        TT_OPT_FLAG("stats", &o->stats,
                    "speed, expert cache, waiting and peak memory to standard error at the end"),
        TT_OPT_FLAG("json", &o->json,
                    "print one JSON object instead of text, on the last line of standard output"),
        TT_OPT_FLAG("quiet", &o->quiet, "nothing on standard error but errors"),
        TT_OPT_STOP("version", &o->version, "print the version"),
        TT_OPT_STOP("help", &o->help, "print this"),
        TT_OPT_END,
    };
    memcpy(table, rows, sizeof rows);
    return sizeof rows / sizeof rows[0];
}

static void fill_table(tt_arg table[MAX_ROWS], tt_cli_options *o, words *w)
{
    size_t n = add_text_rows(table, o, w);
    n += add_sampling_rows(table + n, o);
    n += tt_model_args_rows(table + n, &o->load, &w->model);
    add_report_rows(table + n, o);
}

/* ---- what goes together ---- */

static void apply_words(tt_cli_options *o, const words *w)
{
    o->thinking = w->thinking < 0    ? TT_THINKING_DEFAULT
                  : w->thinking == 0 ? TT_THINKING_ON
                                     : TT_THINKING_OFF;
}

static tt_status check_input(const tt_cli_options *o, tt_error *err)
{
    int inputs = (o->prompt != NULL) + (o->messages != NULL) + o->interactive;
    if (inputs > 1)
        return tt_fail(err, TT_ERR_INVALID,
                       "--prompt, --messages and --interactive exclude each other: give one");
    if (inputs == 0 && !o->plan)
        return tt_fail(err, TT_ERR_INVALID,
                       "nothing to answer: give --prompt TEXT, --messages FILE or --interactive");
    if (o->prompt != NULL && o->prompt[0] == '\0')
        return tt_fail(err, TT_ERR_INVALID, "--prompt is empty");
    if (o->chat && o->raw)
        return tt_fail(err, TT_ERR_INVALID, "--chat and --raw exclude each other: give one");
    const char *chat_only = o->messages != NULL                  ? "--messages"
                            : o->interactive                     ? "--interactive"
                            : o->system != NULL                  ? "--system"
                            : o->tools != NULL                   ? "--tools"
                            : o->thinking != TT_THINKING_DEFAULT ? "--thinking"
                                                                 : NULL;
    if (o->raw && chat_only != NULL)
        return tt_fail(err, TT_ERR_INVALID,
                       "%s needs the chat template, which --raw leaves out: drop one of them",
                       chat_only);
    return TT_OK;
}

static tt_status check_grammar(const tt_cli_options *o, tt_error *err)
{
    if (o->json_schema != NULL && o->grammar != NULL)
        return tt_fail(err, TT_ERR_INVALID,
                       "--json-schema and --grammar exclude each other: give one");
    return TT_OK;
}

static tt_status check_reports(const tt_cli_options *o, tt_error *err)
{
    if (o->json && o->interactive && !o->plan)
        return tt_fail(err, TT_ERR_INVALID,
                       "--json describes one answer and does not go with --interactive");
    if (o->quiet && o->stats)
        return tt_fail(err, TT_ERR_INVALID, "--quiet and --stats exclude each other: give one");
    return TT_OK;
}

/* jansson's own check is the cheapest judge of UTF-8 at hand. */
static bool is_utf8(const char *text)
{
    json_t *string = json_string(text);
    json_decref(string);
    return string != NULL;
}

static tt_status check_text(const tt_cli_options *o, tt_error *err)
{
    for (uint32_t i = 0; i < o->stop.n; i++) {
        if (o->stop.items[i][0] == '\0')
            return tt_fail(err, TT_ERR_INVALID, "--stop is empty");
        if (!is_utf8(o->stop.items[i]))
            return tt_fail(err, TT_ERR_INVALID, "--stop is not valid UTF-8");
    }
    if (o->prompt != NULL && !is_utf8(o->prompt))
        return tt_fail(err, TT_ERR_INVALID, "--prompt is not valid UTF-8");
    if (o->system != NULL && !is_utf8(o->system))
        return tt_fail(err, TT_ERR_INVALID, "--system is not valid UTF-8");
    return TT_OK;
}

static tt_status check_numbers(const tt_cli_options *o, tt_error *err)
{
    const tt_cli_sampling *s = &o->sampling;
    if (s->top_p && !(s->values.top_p > 0.0f))
        return tt_fail(err, TT_ERR_INVALID, "--top-p is 0, must be above 0 (1 is off)");
    if (s->repetition_penalty && !(s->values.repetition_penalty > 0.0f))
        return tt_fail(err, TT_ERR_INVALID,
                       "--repetition-penalty is 0, must be above 0 (1 is off)");
    return TT_OK;
}

static void note_given(tt_cli_options *o, const tt_arg *table)
{
    tt_cli_sampling *s = &o->sampling;
    s->temperature = tt_args_given(table, "temperature");
    s->top_k = tt_args_given(table, "top-k");
    s->top_p = tt_args_given(table, "top-p");
    s->min_p = tt_args_given(table, "min-p");
    s->repetition_penalty = tt_args_given(table, "repetition-penalty");
    s->presence_penalty = tt_args_given(table, "presence-penalty");
    s->frequency_penalty = tt_args_given(table, "frequency-penalty");
    o->seed_given = tt_args_given(table, "seed");
    o->cache_given = tt_args_given(table, "warm") || tt_args_given(table, "heat-profile") ||
                     tt_args_given(table, "governor");
    if (!tt_args_given(table, "max-new"))
        o->max_new = o->interactive ? 0 : TT_CLI_MAX_NEW;
}

/* One answer has no earlier prompt to go on from, but for those in a directory. */
static tt_status check_prompt_cache(tt_cli_options *o, const tt_arg *table, tt_error *err)
{
    if (o->interactive || o->disk.dir != NULL)
        return TT_OK;
    if (tt_args_given(table, "prompt-cache-memory"))
        return tt_fail(err, TT_ERR_INVALID,
                       "--prompt-cache-memory is for --interactive and --prompt-cache-disk: one "
                       "answer leaves no prompt to another");
    o->load.prompt_cache = 0;
    return TT_OK;
}

/* ---- the door ---- */

static void set_defaults(tt_cli_options *o, words *w)
{
    memset(o, 0, sizeof *o);
    tt_model_args_default(&o->load, &w->model);
    tt_sampler_options_default(&o->sampling.values);
    w->thinking = -1;
}

tt_status tt_cli_options_parse(tt_cli_options *out, int argc, char *const *argv, tt_error *err)
{
    tt_arg table[MAX_ROWS];
    tt_cli_options o;
    words w;
    set_defaults(&o, &w);
    fill_table(table, &o, &w);
    TT_TRY(tt_args_parse(table, argc, argv, err));
    if (!o.help && !o.version) {
        if (o.model == NULL)
            return tt_fail(err, TT_ERR_INVALID,
                           "--model DIR is required; --help lists the options");
        note_given(&o, table);
        apply_words(&o, &w);
        TT_TRY(check_input(&o, err));
        TT_TRY(check_grammar(&o, err));
        TT_TRY(check_reports(&o, err));
        TT_TRY(check_text(&o, err));
        TT_TRY(check_numbers(&o, err));
        TT_TRY(tt_model_args_apply(&o.load, &w.model, err));
        o.disk = w.model.disk;
        TT_TRY(check_prompt_cache(&o, table, err));
    }
    *out = o;
    return TT_OK;
}

void tt_cli_options_help(tt_buf *out)
{
    tt_arg table[MAX_ROWS];
    tt_cli_options o;
    words w;
    set_defaults(&o, &w);
    fill_table(table, &o, &w);
    tt_buf_puts(out, "TinyTitanCLI: generation and chat in one process.\n\n"
                     "  TinyTitanCLI --model DIR --prompt TEXT [options]\n"
                     "  TinyTitanCLI --model DIR --messages FILE [options]\n"
                     "  TinyTitanCLI --model DIR --interactive [options]\n"
                     "  TinyTitanCLI --model DIR --plan [options]\n\n");
    tt_args_help(table, out);
    tt_buf_puts(
        out, "\nText goes to standard output as it comes, everything else to standard error.\n"
             "Environment: XDG_STATE_HOME (else HOME/.local/state) is where --interactive keeps\n"
             "its history, in tinytitan/history; XDG_CACHE_HOME (else HOME/.cache) is where the\n"
             "speed of disks and memory is kept, in tinytitan/disks.json, and, of installs that\n"
             "cannot be written to, which experts were used, in tinytitan/heat.\n"
             "Exit: 0 answered, 1 failed, 2 wrong command line, 130 interrupted with Ctrl-C, 128\n"
             "and the number of any other signal that ended it.\n");
}

void tt_cli_sampling_apply(const tt_cli_options *o, tt_sampler_options *d)
{
    const tt_cli_sampling *s = &o->sampling;
    if (s->temperature)
        d->temperature = s->values.temperature;
    if (s->top_k)
        d->top_k = s->values.top_k;
    if (s->top_p)
        d->top_p = s->values.top_p;
    if (s->min_p)
        d->min_p = s->values.min_p;
    if (s->repetition_penalty)
        d->repetition_penalty = s->values.repetition_penalty;
    if (s->presence_penalty)
        d->presence_penalty = s->values.presence_penalty;
    if (s->frequency_penalty)
        d->frequency_penalty = s->values.frequency_penalty;
    d->seed = s->values.seed;
}
