/* perplexity: mean negative log-likelihood of a text in nats per token.
 *
 * Window i covers ids[i*w : i*w + w + 1], starts with fresh state, and predicts all of its ids but
 * the first; so every id of the text except the very first is predicted once. The last window may
 * be shorter. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "bench/bench.h"

#define MOST_TEXT (256 * TT_MIB)

typedef struct perplexity_run {
    bench_options o;
    const char *text_file;
    uint32_t window, tokens; /* tokens 0: the whole text */
    uint32_t *ids;
    size_t n;
    tt_model *model;
    tt_session *session;
    uint32_t vocab;
    const uint32_t *next; /* ids[1..] of the present window */
    double sum;
    size_t predicted;
} perplexity_run;

static tt_status read_text(perplexity_run *r, tt_error *err)
{
    char *text = NULL;
    size_t len = 0;
    tt_tokenizer *tok = NULL;
    TT_TRY(tt_file_read(r->text_file, MOST_TEXT, &text, &len, err));
    tt_status st = tt_tokenizer_open(r->o.model, &tok, err);
    if (st == TT_OK)
        st = tt_tokenizer_encode(tok, text, len, true, &r->ids, &r->n, err);
    tt_tokenizer_close(&tok);
    free(text);
    TT_TRY(st);
    if (r->n < 2)
        return tt_fail_at(err, TT_ERR_INVALID, r->text_file, -1,
                          "the text has %zu tokens, at least 2 are needed", r->n);
    if (r->tokens > r->n)
        return tt_fail_at(err, TT_ERR_INVALID, r->text_file, -1,
                          "--tokens is %u, the text has only %zu", r->tokens, r->n);
    if (r->tokens > 0)
        r->n = r->tokens;
    return TT_OK;
}

/* -log softmax(logits)[id] */
static double nats(const float *logits, uint32_t vocab, uint32_t id)
{
    double best = logits[0], sum = 0;
    for (uint32_t i = 1; i < vocab; i++)
        best = logits[i] > best ? logits[i] : best;
    for (uint32_t i = 0; i < vocab; i++)
        sum += exp(logits[i] - best);
    return best + log(sum) - logits[id];
}

static bool score(void *ctx, uint32_t position, const float *logits)
{
    perplexity_run *r = ctx;
    r->sum += nats(logits, r->vocab, r->next[position]);
    r->predicted++;
    return true;
}

static tt_status compute(perplexity_run *r, tt_error *err)
{
    tt_model_info info;
    tt_model_get_info(r->model, &info);
    r->vocab = info.vocab_size;
    for (size_t i = 0; i < r->n; i++)
        if (r->ids[i] >= r->vocab)
            return tt_fail(err, TT_ERR_FORMAT, "the tokenizer gives id %u, the model has %u",
                           r->ids[i], r->vocab);
    for (size_t begin = 0; begin + 1 < r->n; begin += r->window) {
        size_t n = r->n - 1 - begin < r->window ? r->n - 1 - begin : r->window;
        const tt_prefill_options po = {.logits = score, .logits_ctx = r, .go_on = bench_goes_on};
        r->next = r->ids + begin + 1;
        TT_TRY(tt_session_rewind(r->session, 0, err));
        TT_TRY(tt_session_sync(r->session, r->ids + begin, n, &po, NULL, err));
    }
    if (!isfinite(r->sum))
        return tt_fail(err, TT_ERR_NUMERIC, "the sum of log-likelihoods is %g", r->sum);
    return TT_OK;
}

int bench_perplexity(int argc, char **argv)
{
    perplexity_run r = {.o.kv = BENCH_KV_32, .o.context_flag = "--window"};
    tt_arg table[] = {
        BENCH_MODEL_ROWS(&r.o, "(32)"),
        TT_OPT_HEADING("Perplexity:"),
        TT_OPT_STRING("text", &r.text_file, "FILE", "UTF-8 text to score (required)",
                      .required = true),
        TT_OPT_U32("window", &r.window, "N", 1, TT_MAX_CONTEXT,
                   "tokens a window; each starts with fresh state (required)", .required = true),
        /* No text has more tokens than bytes. */
        TT_OPT_U32("tokens", &r.tokens, "N", 2, MOST_TEXT, "only the first N tokens of the text"),
        BENCH_OTHER_ROWS(&r.o),
        TT_OPT_END,
    };
    int rc = bench_parse("perplexity",
                         "Scores a text: the mean negative log-likelihood in nats per token.",
                         table, &r.o, argc, argv);
    if (rc != BENCH_GO_ON)
        return rc;
    tt_error err = {0};
    if (read_text(&r, &err) != TT_OK)
        rc = bench_fail(&err);
    if (rc == BENCH_GO_ON)
        rc = bench_open(&r.o, r.window, &r.model, &r.session);
    if (rc == BENCH_GO_ON && compute(&r, &err) != TT_OK)
        rc = bench_fail(&err);
    if (rc == BENCH_GO_ON) {
        double mean = r.sum / (double)r.predicted;
        json_t *obj = bench_context("perplexity", r.model);
        bench_set(obj, "nats_per_token", json_real(mean));
        bench_set(obj, "tokens", json_integer((json_int_t)r.n));
        bench_set(obj, "predicted", json_integer((json_int_t)r.predicted));
        bench_set(obj, "window", json_integer(r.window));
        printf("%.6f nats per token over %zu tokens (%zu predicted) in windows of %u\n", mean, r.n,
               r.predicted, r.window);
        rc = bench_finish(&r.o, obj);
    }
    tt_session_close(&r.session);
    tt_model_close(&r.model);
    tt_free(r.ids);
    return rc;
}
