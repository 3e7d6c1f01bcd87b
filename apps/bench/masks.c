/* grammar: random walks through grammars, with the cost of every mask, and the documents that come
 * of them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "bench/bench.h"
#include "bench/masks.h"

#define MOST_FILE    (64 * TT_MIB)
#define PLAIN_TOKENS 48u  /* that a document has before its closing tokens are favoured */
#define CLOSING      9.0f /* how much, in logits */
#define TAG          "\n</parameter>\n"
#define MOST_DEAR    5u /* grammars that are named for their cost */

/* What the masks of a grammar cost, in seconds. */
typedef struct cost {
    double mean, most;
    char name[64];
} cost;

typedef struct masks_run {
    bench_options o;
    const char *dir, *file, *output, *check;
    uint32_t documents, most_tokens;
    uint64_t seed;
    tt_tokenizer *tok;
    tt_lexicon *lexicon;
    tt_sampler *sampler;
    uint32_t vocab;
    uint32_t *tag; /* ids of TAG */
    size_t n_tag;
    float *even, *closing; /* logits: all alike; what closes is likelier */
    json_t *cases;
    FILE *out;
    double *costs; /* of each mask, in seconds of the processor */
    size_t n_costs, cap_costs;
    cost dear[MOST_DEAR + 1]; /* by their means, highest first */
    size_t n_dear;
    double lexicon_seconds, compile_seconds, slowest_compile, slowest_refusal;
    size_t most_bytes, cases_done, refused, tokens, done, cut;
    char slowest[64], refusal[64];
} masks_run;

/* Seconds of this thread's processor: others that run beside it do not count. */
static double spent(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static tt_status no_memory(tt_error *err)
{
    return tt_fail(err, TT_ERR_NOMEM, "out of memory for the walks");
}

/* ---- what is walked through ---- */

tt_status masks_grammar(const json_t *entry, tt_grammar **out, char **tools, tt_error *err)
{
    const json_t *ebnf = json_object_get(entry, "ebnf"), *list = json_object_get(entry, "tools");
    const json_t *schema = json_object_get(entry, "schema");
    *tools = NULL;
    if (json_is_string(ebnf))
        return tt_grammar_from_ebnf(json_string_value(ebnf), json_string_length(ebnf), out, err);
    char *text = json_dumps(list != NULL     ? list
                            : schema != NULL ? schema
                                             : entry,
                            JSON_ENCODE_ANY | JSON_COMPACT);
    if (text == NULL)
        return no_memory(err);
    if (list == NULL) {
        tt_status st = tt_grammar_from_schema(text, strlen(text), out, err);
        free(text);
        return st;
    }
    *tools = text;
    return tt_grammar_from_tools(text, NULL, out, err);
}

static const char *name_of(const json_t *entry)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    return name != NULL ? name : "?";
}

/* ---- one walk ---- */

static tt_status note_cost(masks_run *r, double seconds, tt_error *err)
{
    if (r->n_costs == r->cap_costs) {
        size_t want = 2 * r->cap_costs + 4096;
        double *p = realloc(r->costs, want * sizeof *p);
        if (p == NULL)
            return no_memory(err);
        r->costs = p;
        r->cap_costs = want;
    }
    r->costs[r->n_costs++] = seconds;
    return TT_OK;
}

/* Takes a grammar, whose masks are those from `begin` on, into the list of the dearest. */
static void note_dear(masks_run *r, const char *name, size_t begin)
{
    cost c = {0};
    if (begin == r->n_costs)
        return;
    snprintf(c.name, sizeof c.name, "%s", name);
    for (size_t i = begin; i < r->n_costs; i++) {
        c.mean += r->costs[i];
        c.most = r->costs[i] > c.most ? r->costs[i] : c.most;
    }
    c.mean /= (double)(r->n_costs - begin);
    size_t at = r->n_dear < MOST_DEAR ? r->n_dear++ : MOST_DEAR;
    for (; at > 0 && r->dear[at - 1].mean < c.mean; at--)
        r->dear[at] = r->dear[at - 1];
    r->dear[at] = c;
}

static tt_status step(masks_run *r, tt_constraint *c, const float *logits, tt_buf *text,
                      tt_error *err)
{
    const uint64_t *mask;
    uint32_t id = 0;
    size_t len = 0;
    bool special = false;
    double begun = spent();
    TT_TRY(tt_constraint_mask(c, &mask, err));
    TT_TRY(note_cost(r, spent() - begun, err));
    TT_TRY(tt_sampler_sample_masked(r->sampler, logits, mask, &id, err));
    TT_TRY(tt_constraint_accept(c, id, err));
    const char *bytes = tt_tokenizer_piece(r->tok, id, &len, &special);
    if (!special)
        tt_buf_append(text, bytes, len);
    r->tokens++;
    return TT_OK;
}

/* The tag that ends a raw text takes several tokens in a row, which chance does not find: it is
 * tried on a copy. */
static tt_status try_tag(masks_run *r, tt_constraint *c, tt_constraint *copy, tt_buf *text,
                         tt_error *err)
{
    TT_TRY(tt_constraint_copy(copy, c, err));
    for (size_t i = 0; i < r->n_tag; i++)
        if (tt_constraint_accept(copy, r->tag[i], NULL) != TT_OK)
            return TT_OK;
    tt_buf_puts(text, TAG);
    r->tokens += r->n_tag;
    return tt_constraint_copy(c, copy, err);
}

/* Until the document is over; *cut when it took too many tokens. */
static tt_status walk(masks_run *r, tt_constraint *c, tt_constraint *copy, tt_buf *text, bool *cut,
                      tt_error *err)
{
    *cut = false;
    for (uint32_t n = 0; tt_constraint_where(c) != TT_PLACE_OVER; n++) {
        bool closing = n >= PLAIN_TOKENS;
        if (n == r->most_tokens) {
            *cut = true;
            return TT_OK;
        }
        if (closing && n % 8 == 0)
            TT_TRY(try_tag(r, c, copy, text, err));
        if (tt_constraint_where(c) != TT_PLACE_OVER)
            TT_TRY(step(r, c, closing ? r->closing : r->even, text, err));
    }
    return tt_buf_status(text, err);
}

/* One line: the case and its document, or the calls that were read from it. */
static tt_status write_document(masks_run *r, size_t at, const char *tools, const tt_buf *text,
                                tt_error *err)
{
    json_t *line = json_pack("{s:I}", "case", (json_int_t)at);
    char *parsed = NULL;
    if (r->out == NULL || line == NULL) {
        json_decref(line);
        return r->out == NULL ? TT_OK : no_memory(err);
    }
    json_t *document = json_stringn(text->len > 0 ? text->data : "", text->len);
    if (document == NULL) {
        json_decref(line);
        return tt_fail(err, TT_ERR_FORMAT, "a document is not valid UTF-8");
    }
    json_object_set_new(line, "document", document);
    tt_status st = TT_OK;
    if (tools != NULL)
        st = tt_chat_parse(text->data, text->len, tools, &parsed, err);
    json_t *tree = NULL;
    if (st == TT_OK && parsed != NULL)
        st = tt_json_parse_deep(parsed, strlen(parsed), 256, "calls", &tree, err);
    if (tree != NULL)
        json_object_set_new(line, "parsed", tree);
    char *out = st == TT_OK ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    if (st == TT_OK && (out == NULL || fprintf(r->out, "%s\n", out) < 0))
        st = tt_fail(err, TT_ERR_IO, "the documents cannot be written");
    free(out);
    tt_free(parsed);
    json_decref(line);
    return st;
}

static tt_status walk_case(masks_run *r, size_t at, tt_grammar *g, const char *tools, tt_error *err)
{
    tt_constraint *c = NULL, *copy = NULL;
    tt_buf text;
    tt_buf_init(&text, MASKS_MOST_TEXT);
    tt_status st = tt_constraint_create(g, r->lexicon, TT_START_ANSWER, &c, err);
    if (st == TT_OK)
        st = tt_constraint_create(g, r->lexicon, TT_START_ANSWER, &copy, err);
    for (uint32_t d = 0; st == TT_OK && d < r->documents && bench_goes_on(NULL); d++) {
        bool cut = false;
        tt_buf_clear(&text);
        tt_constraint_reset(c, TT_START_ANSWER);
        st = walk(r, c, copy, &text, &cut, err);
        r->cut += cut;
        r->done += st == TT_OK && !cut;
        if (st == TT_OK && !cut)
            st = write_document(r, at, tools, &text, err);
    }
    tt_constraint_close(&c);
    tt_constraint_close(&copy);
    tt_buf_free(&text);
    return st;
}

/* One with "refusable": true is left out when it cannot be compiled. */
static tt_status run_case(masks_run *r, size_t at, tt_error *err)
{
    const json_t *entry = json_array_get(r->cases, at);
    tt_grammar *g = NULL;
    char *tools = NULL;
    tt_grammar_info info;
    size_t costs = r->n_costs;
    double begun = spent();
    tt_status st = masks_grammar(entry, &g, &tools, err);
    double seconds = spent() - begun;
    if (st != TT_OK && json_is_true(json_object_get(entry, "refusable"))) {
        fprintf(stderr, "case %zu, %s, is refused: %s\n", at, name_of(entry), err->message);
        free(tools);
        r->refused++;
        if (seconds > r->slowest_refusal) {
            r->slowest_refusal = seconds;
            snprintf(r->refusal, sizeof r->refusal, "%s", name_of(entry));
        }
        return TT_OK;
    }
    if (st == TT_OK) {
        tt_grammar_get_info(g, &info);
        r->compile_seconds += seconds;
        r->most_bytes = info.bytes > r->most_bytes ? info.bytes : r->most_bytes;
        if (seconds > r->slowest_compile) {
            r->slowest_compile = seconds;
            snprintf(r->slowest, sizeof r->slowest, "%s", name_of(entry));
        }
        st = walk_case(r, at, g, tools, err);
        r->cases_done++;
        note_dear(r, name_of(entry), costs);
    }
    free(tools);
    tt_grammar_close(&g);
    return st == TT_OK ? st : tt_fail_context(err, st, "case %zu, %s", at, name_of(entry));
}

/* ---- setting up ---- */

/* Tokens of closing marks and spaces alone. */
static bool closes(const char *bytes, size_t len)
{
    bool some = false;
    for (size_t i = 0; i < len; i++) {
        if (strchr("\"]})>", bytes[i]) != NULL)
            some = true;
        else if (bytes[i] != ' ' && bytes[i] != '\n')
            return false;
    }
    return some;
}

static tt_status make_logits(masks_run *r, tt_error *err)
{
    size_t n_stops;
    const uint32_t *stops = tt_tokenizer_stop_ids(r->tok, &n_stops);
    r->even = calloc(r->vocab, sizeof *r->even);
    r->closing = calloc(r->vocab, sizeof *r->closing);
    if (r->even == NULL || r->closing == NULL)
        return no_memory(err);
    for (uint32_t id = 0; id < r->vocab; id++) {
        size_t len = 0;
        bool special = false;
        const char *bytes = tt_tokenizer_piece(r->tok, id, &len, &special);
        if (bytes != NULL && !special && closes(bytes, len))
            r->closing[id] = CLOSING;
    }
    for (size_t i = 0; i < n_stops; i++)
        if (stops[i] < r->vocab)
            r->closing[stops[i]] = CLOSING;
    return TT_OK;
}

static tt_status set_up(masks_run *r, tt_error *err)
{
    TT_TRY(tt_json_load(r->file, MOST_FILE, &r->cases, err));
    if (!json_is_array(r->cases) || json_array_size(r->cases) == 0)
        return tt_fail_at(err, TT_ERR_FORMAT, r->file, -1, "must be a JSON array of grammars");
    TT_TRY(tt_tokenizer_open(r->dir, &r->tok, err));
    r->vocab = tt_tokenizer_vocab_size(r->tok);
    double begun = spent();
    TT_TRY(tt_lexicon_create(r->tok, r->vocab, &r->lexicon, err));
    r->lexicon_seconds = spent() - begun;
    tt_sampler_options so;
    tt_sampler_options_default(&so);
    so.temperature = 1;
    so.seed = r->seed;
    TT_TRY(tt_sampler_create(&so, r->vocab, &r->sampler, err));
    TT_TRY(make_logits(r, err));
    TT_TRY(tt_tokenizer_encode(r->tok, TAG, strlen(TAG), false, &r->tag, &r->n_tag, err));
    if (r->output != NULL && (r->out = fopen(r->output, "w")) == NULL)
        return tt_fail_errno(err, errno, r->output, "cannot be written");
    return TT_OK;
}

static void tear_down(masks_run *r)
{
    tt_sampler_close(&r->sampler);
    tt_lexicon_close(&r->lexicon);
    tt_tokenizer_close(&r->tok);
    json_decref(r->cases);
    tt_free(r->tag);
    free(r->even);
    free(r->closing);
    free(r->costs);
}

/* ---- results ---- */

static int by_cost(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

static double share(const masks_run *r, double p)
{
    size_t i = (size_t)(p * (double)r->n_costs);
    return r->n_costs == 0 ? 0 : r->costs[i < r->n_costs ? i : r->n_costs - 1];
}

static void report(masks_run *r)
{
    double sum = 0;
    for (size_t i = 0; i < r->n_costs; i++)
        sum += r->costs[i];
    double mean = r->n_costs == 0 ? 0 : sum / (double)r->n_costs;
    qsort(r->costs, r->n_costs, sizeof *r->costs, by_cost);
    size_t lexicon = tt_lexicon_bytes(r->lexicon);
    printf("vocabulary   %u ids, tables of %.1f MiB, made in %.0f ms\n", r->vocab,
           (double)lexicon / (double)TT_MIB, 1e3 * r->lexicon_seconds);
    printf("compiling    %zu grammars, mean %.2f ms, slowest %.2f ms (%s), largest %.2f MiB\n",
           r->cases_done,
           1e3 * r->compile_seconds / (double)(r->cases_done > 0 ? r->cases_done : 1),
           1e3 * r->slowest_compile, r->slowest, (double)r->most_bytes / (double)TT_MIB);
    if (r->refused > 0)
        printf("refused      %zu of those that may be, slowest %.2f ms (%s)\n", r->refused,
               1e3 * r->slowest_refusal, r->refusal);
    printf("documents    %zu, and %zu cut after %u tokens; %zu tokens\n", r->done, r->cut,
           r->most_tokens, r->tokens);
    printf("masks        mean %.4f ms, p50 %.4f, p90 %.4f, p99 %.4f, most %.4f\n", 1e3 * mean,
           1e3 * share(r, 0.5), 1e3 * share(r, 0.9), 1e3 * share(r, 0.99), 1e3 * share(r, 1));
    for (size_t i = 0; i < r->n_dear; i++)
        printf("  %-36s mean %.4f ms, most %.4f\n", r->dear[i].name, 1e3 * r->dear[i].mean,
               1e3 * r->dear[i].most);
}

/* Documents of a file against the grammars, instead of walks. */
static tt_status check_file(masks_run *r, json_t **result, tt_error *err)
{
    masks_tally t = {0};
    TT_TRY(masks_check(r->check, r->cases, r->tok, r->lexicon, r->out, &t, err));
    printf("documents    %zu, %zu of them whole, %zu with every token in its mask\n", t.documents,
           t.whole, t.masked);
    *result = json_object();
    bench_set(*result, "command", json_string("grammar"));
    bench_set(*result, "documents", json_integer((json_int_t)t.documents));
    bench_set(*result, "whole", json_integer((json_int_t)t.whole));
    bench_set(*result, "masked", json_integer((json_int_t)t.masked));
    return TT_OK;
}

static json_t *result(const masks_run *r)
{
    double sum = 0;
    for (size_t i = 0; i < r->n_costs; i++)
        sum += r->costs[i];
    json_t *obj = json_object();
    bench_set(obj, "command", json_string("grammar"));
    bench_set(obj, "version", json_string(tt_version()));
    bench_set(obj, "vocab_size", json_integer(r->vocab));
    bench_set(obj, "lexicon_bytes", json_integer((json_int_t)tt_lexicon_bytes(r->lexicon)));
    bench_set(obj, "lexicon_ms", json_real(1e3 * r->lexicon_seconds));
    bench_set(obj, "grammars", json_integer((json_int_t)r->cases_done));
    bench_set(
        obj, "compile_mean_ms",
        json_real(1e3 * r->compile_seconds / (double)(r->cases_done > 0 ? r->cases_done : 1)));
    bench_set(obj, "compile_most_ms", json_real(1e3 * r->slowest_compile));
    bench_set(obj, "grammar_most_bytes", json_integer((json_int_t)r->most_bytes));
    bench_set(obj, "documents", json_integer((json_int_t)r->done));
    bench_set(obj, "cut", json_integer((json_int_t)r->cut));
    bench_set(obj, "tokens", json_integer((json_int_t)r->tokens));
    bench_set(obj, "mask_mean_ms", json_real(r->n_costs == 0 ? 0 : 1e3 * sum / (double)r->n_costs));
    bench_set(obj, "mask_p50_ms", json_real(1e3 * share(r, 0.5)));
    bench_set(obj, "mask_p99_ms", json_real(1e3 * share(r, 0.99)));
    bench_set(obj, "mask_most_ms", json_real(1e3 * share(r, 1)));
    return obj;
}

int bench_grammar(int argc, char **argv)
{
    masks_run r = {.documents = 10, .most_tokens = 4000, .seed = 1};
    tt_error err = {.offset = -1};
    tt_arg table[] = {
        TT_OPT_HEADING("What to walk through:"),
        TT_OPT_STRING("tokenizer", &r.dir, "DIR",
                      "install or folder with tokenizer.json (required)", .required = true),
        TT_OPT_STRING("grammars", &r.file, "FILE",
                      "JSON array of schemas, or of objects with \"schema\", \"ebnf\" or \"tools\" "
                      "(required)",
                      .required = true),
        TT_OPT_U32("documents", &r.documents, "N", 1, 10000000, "documents of each (10)"),
        TT_OPT_U32("most-tokens", &r.most_tokens, "N", 1, 1000000,
                   "tokens after which a document is cut (4000)"),
        TT_OPT_U64("seed", &r.seed, "N", 0, INT64_MAX, "of the walks (1)"),
        TT_OPT_STRING("check", &r.check, "FILE",
                      "hold documents against the grammars instead, one {\"case\", \"document\"} a "
                      "line"),
        TT_OPT_STRING("output", &r.output, "FILE",
                      "write the documents, or how far each was taken, one JSON object a line"),
        BENCH_OTHER_ROWS(&r.o),
        TT_OPT_END,
    };
    int rc = bench_parse("grammar",
                         "Walks at random through grammars, token by token, as the masks allow.",
                         table, &r.o, argc, argv);
    if (rc != BENCH_GO_ON)
        return rc;
    json_t *obj = NULL;
    tt_status st = set_up(&r, &err);
    if (st == TT_OK && r.check != NULL)
        st = check_file(&r, &obj, &err);
    for (size_t i = 0; st == TT_OK && r.check == NULL && i < json_array_size(r.cases); i++)
        st = run_case(&r, i, &err);
    if (r.out != NULL && fclose(r.out) != 0 && st == TT_OK)
        st = tt_fail_errno(&err, errno, r.output, "cannot be written");
    if (st == TT_OK && r.check == NULL) {
        report(&r);
        obj = result(&r);
    }
    rc = st == TT_OK ? bench_finish(&r.o, obj) : bench_fail(&err);
    tear_down(&r);
    return rc;
}
