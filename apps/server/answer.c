#include "server/answer.h"

#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "server/reply.h"

#define MOST_ANSWER (256 * TT_MIB)

static const char *const finish_words[] = {
    [TT_TURN_STOP] = "stop", [TT_TURN_LENGTH] = "length", [TT_TURN_CALLS] = "tool_calls"};

void tt_answer_writer_init(tt_answer_writer *w, const tt_answer_request *r, const char *model,
                           int64_t created, bool chunked, tt_buf *out, void (*flush)(void *ctx),
                           void *flush_ctx)
{
    *w = (tt_answer_writer){.r = r,
                            .model = model,
                            .created = created,
                            .chunked = chunked,
                            .out = out,
                            .flush = flush,
                            .flush_ctx = flush_ctx};
    tt_random_id(r->chat ? "chatcmpl-" : "cmpl-", w->id);
    for (uint32_t i = 0; i < TT_CHOICES; i++) {
        tt_buf_init(&w->choices[i].text, MOST_ANSWER);
        tt_buf_init(&w->choices[i].thought, MOST_ANSWER);
        tt_buf_init(&w->choices[i].calls, MOST_ANSWER);
        tt_buf_init(&w->choices[i].logprobs, MOST_ANSWER);
    }
}

void tt_answer_writer_free(tt_answer_writer *w)
{
    for (uint32_t i = 0; i < TT_CHOICES; i++) {
        tt_buf_free(&w->choices[i].text);
        tt_buf_free(&w->choices[i].thought);
        tt_buf_free(&w->choices[i].calls);
        tt_buf_free(&w->choices[i].logprobs);
    }
}

/* ---- log probabilities ---- */

static void write_chance(tt_buf *b, const tt_token_chance *c)
{
    tt_buf_puts(b, "{\"token\":");
    tt_reply_write_text(b, c->text, c->len);
    tt_buf_printf(b, ",\"logprob\":%.7g,\"bytes\":[",
                  isfinite(c->logprob) ? (double)c->logprob : -9999.0);
    for (size_t i = 0; i < c->len; i++)
        tt_buf_printf(b, "%s%u", i > 0 ? "," : "", (unsigned char)c->text[i]);
    tt_buf_puts(b, "]");
}

void tt_answer_write_reports(tt_buf *b, const tt_token_report *r, size_t n, bool first)
{
    for (size_t i = 0; i < n; i++) {
        if (!first || i > 0)
            tt_buf_putc(b, ',');
        write_chance(b, &r[i].token);
        tt_buf_puts(b, ",\"top_logprobs\":[");
        for (uint32_t k = 0; k < r[i].n_top; k++) {
            if (k > 0)
                tt_buf_putc(b, ',');
            write_chance(b, &r[i].top[k]);
            tt_buf_putc(b, '}');
        }
        tt_buf_puts(b, "]}");
    }
}

static double chance(float logprob)
{
    return isfinite(logprob) ? (double)logprob : -9999.0;
}

/* Half a character has no text of its own, and several would have the same. */
static void write_token(tt_buf *b, const tt_token_chance *c)
{
    if (tt_reply_is_text(c->text, c->len)) {
        tt_reply_write_text(b, c->text, c->len);
        return;
    }
    tt_buf_puts(b, "\"bytes:");
    for (size_t i = 0; i < c->len; i++)
        tt_buf_printf(b, "\\\\x%02x", (unsigned char)c->text[i]);
    tt_buf_putc(b, '"');
}

/* Characters that begin in the token. */
static size_t characters(const tt_token_chance *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->len; i++)
        n += ((unsigned char)c->text[i] & 0xc0) != 0x80;
    return n;
}

/* Completions' own form: four lists. *offset is that of the first token, and then of the next. */
static void write_lists(tt_buf *b, const tt_token_report *r, size_t n, size_t *offset)
{
    tt_buf_puts(b, "{\"tokens\":[");
    for (size_t i = 0; i < n; i++) {
        tt_buf_puts(b, i > 0 ? "," : "");
        write_token(b, &r[i].token);
    }
    tt_buf_puts(b, "],\"token_logprobs\":[");
    for (size_t i = 0; i < n; i++)
        tt_buf_printf(b, "%s%.7g", i > 0 ? "," : "", chance(r[i].token.logprob));
    tt_buf_puts(b, "],\"top_logprobs\":[");
    for (size_t i = 0; i < n; i++) {
        tt_buf_puts(b, i > 0 ? ",{" : "{");
        for (uint32_t k = 0; k < r[i].n_top; k++) {
            tt_buf_puts(b, k > 0 ? "," : "");
            write_token(b, &r[i].top[k]);
            tt_buf_printf(b, ":%.7g", chance(r[i].top[k].logprob));
        }
        tt_buf_puts(b, "}");
    }
    tt_buf_puts(b, "],\"text_offset\":[");
    for (size_t i = 0; i < n; i++) {
        tt_buf_printf(b, "%s%zu", i > 0 ? "," : "", *offset);
        *offset += characters(&r[i].token);
    }
    tt_buf_puts(b, "]}");
}

/* ---- events ---- */

static void send_event(tt_answer_writer *w, const tt_buf *data)
{
    /* What could not be put together is a hole; the buffer of the stream remembers the failure. */
    if (data->failed != TT_OK)
        w->out->failed = data->failed;
    else
        tt_sse_write(w->out, w->chunked, NULL, data->data, data->len);
    w->flush(w->flush_ctx);
}

static void begin_event(const tt_answer_writer *w, tt_buf *b)
{
    tt_buf_init(b, MOST_ANSWER);
    tt_buf_printf(b, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", w->id,
                  w->r->chat ? "chat.completion.chunk" : "text_completion", (long long)w->created);
    tt_reply_write_text(b, w->model, strlen(w->model));
    tt_buf_puts(b, ",\"choices\":[");
}

static void end_event(tt_answer_writer *w, tt_buf *b)
{
    tt_buf_puts(b, w->r->include_usage ? "],\"usage\":null}" : "]}");
    send_event(w, b);
    tt_buf_free(b);
}

/* One event of Chat Completions; `delta` is an object. */
static void send_delta(tt_answer_writer *w, uint32_t i, const tt_buf *delta,
                       const tt_token_report *reports, size_t n, const char *finish)
{
    tt_buf b;
    begin_event(w, &b);
    tt_buf_printf(&b, "{\"index\":%u,\"delta\":{", i);
    if (delta != NULL)
        tt_buf_append(&b, delta->data, delta->len);
    tt_buf_puts(&b, "},\"logprobs\":");
    if (n > 0) {
        tt_buf_puts(&b, "{\"content\":[");
        tt_answer_write_reports(&b, reports, n, true);
        tt_buf_puts(&b, "],\"refusal\":null}");
    } else {
        tt_buf_puts(&b, "null");
    }
    tt_buf_puts(&b, ",\"finish_reason\":");
    tt_buf_printf(&b, finish != NULL ? "\"%s\"}" : "null}", finish);
    if (delta != NULL && delta->failed != TT_OK)
        b.failed = delta->failed;
    end_event(w, &b);
}

static void send_text(tt_answer_writer *w, uint32_t i, const char *text, size_t len,
                      const tt_token_report *reports, size_t n, const char *finish)
{
    tt_buf b;
    begin_event(w, &b);
    tt_buf_printf(&b, "{\"index\":%u,\"text\":", i);
    tt_reply_write_text(&b, text, len);
    tt_buf_puts(&b, ",\"logprobs\":");
    if (n > 0)
        write_lists(&b, reports, n, &w->offset[i]);
    else
        tt_buf_puts(&b, "null");
    tt_buf_puts(&b, ",\"finish_reason\":");
    tt_buf_printf(&b, finish != NULL ? "\"%s\"}" : "null}", finish);
    end_event(w, &b);
}

static void send_named(tt_answer_writer *w, uint32_t i, const char *name, const char *text,
                       size_t len, const tt_token_report *reports, size_t n)
{
    tt_buf delta;
    tt_buf_init(&delta, MOST_ANSWER);
    tt_buf_printf(&delta, "\"%s\":", name);
    tt_reply_write_text(&delta, text, len);
    send_delta(w, i, &delta, reports, n, NULL);
    tt_buf_free(&delta);
}

/* ---- the sink ---- */

static void on_begin(void *ctx, uint32_t i)
{
    tt_answer_writer *w = ctx;
    tt_buf delta;
    if (!w->r->stream || !w->r->chat)
        return;
    tt_buf_init(&delta, 256);
    tt_buf_puts(&delta, "\"role\":\"assistant\",\"content\":\"\"");
    send_delta(w, i, &delta, NULL, 0, NULL);
    tt_buf_free(&delta);
}

static void on_thought(void *ctx, uint32_t i, const char *text, size_t len)
{
    tt_answer_writer *w = ctx;
    if (w->r->stream)
        send_named(w, i, "reasoning_content", text, len, NULL, 0);
    else
        tt_buf_append(&w->choices[i].thought, text, len);
}

static void on_text(void *ctx, uint32_t i, const char *text, size_t len,
                    const tt_token_report *reports, size_t n)
{
    tt_answer_writer *w = ctx;
    tt_answer_choice *c = &w->choices[i];
    if (w->r->stream) {
        if (w->r->chat)
            send_named(w, i, "content", text, len, reports, n);
        else
            send_text(w, i, text, len, reports, n, NULL);
        return;
    }
    tt_buf_append(&c->text, text, len);
    if (w->r->chat)
        tt_answer_write_reports(&c->logprobs, reports, n, c->n_logprobs == 0);
    else
        tt_buf_append(&c->logprobs, reports, n * sizeof *reports);
    c->n_logprobs += n;
}

static void on_call(void *ctx, uint32_t i, uint32_t k, const char *id, const char *name,
                    const char *arguments, size_t len)
{
    tt_answer_writer *w = ctx;
    tt_answer_choice *c = &w->choices[i];
    tt_buf delta, *b = w->r->stream ? &delta : &c->calls;
    tt_buf_init(&delta, MOST_ANSWER);
    if (w->r->stream)
        tt_buf_printf(b, "\"tool_calls\":[{\"index\":%u,", k);
    else
        tt_buf_puts(b, k > 0 ? ",{" : "{");
    tt_buf_printf(b, "\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":", id);
    tt_reply_write_text(b, name, strlen(name));
    tt_buf_puts(b, ",\"arguments\":");
    tt_reply_write_text(b, arguments, w->r->stream ? 0 : len);
    tt_buf_puts(b, "}}");
    c->n_calls++;
    if (w->r->stream) {
        tt_buf_puts(b, "]");
        send_delta(w, i, b, NULL, 0, NULL);
    }
    for (size_t at = 0, n; w->r->stream && at < len; at += n) {
        n = tt_reply_piece(arguments + at, len - at, TT_ARGUMENTS_PIECE);
        tt_buf_clear(b);
        tt_buf_printf(b, "\"tool_calls\":[{\"index\":%u,\"function\":{\"arguments\":", k);
        tt_reply_write_text(b, arguments + at, n);
        tt_buf_puts(b, "}}]");
        send_delta(w, i, b, NULL, 0, NULL);
    }
    tt_buf_free(&delta);
}

static void on_end(void *ctx, uint32_t i, tt_turn_finish finish)
{
    tt_answer_writer *w = ctx;
    w->choices[i].finish = finish;
    w->choices[i].ended = true;
    if (!w->r->stream)
        return;
    if (w->r->chat)
        send_delta(w, i, NULL, NULL, 0, finish_words[finish]);
    else
        send_text(w, i, "", 0, NULL, 0, finish_words[finish]);
}

static void on_prefill(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    (void)done;
    (void)total;
}

tt_turn_sink tt_answer_writer_sink(tt_answer_writer *w)
{
    return (tt_turn_sink){.ctx = w,
                          .begin = on_begin,
                          .thought = on_thought,
                          .text = on_text,
                          .call = on_call,
                          .end = on_end,
                          .prefill = on_prefill};
}

/* ---- the end ---- */

static void write_usage(tt_buf *b, const tt_turn_usage *u)
{
    tt_buf_printf(b,
                  "\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,"
                  "\"total_tokens\":%zu,\"prompt_tokens_details\":{\"cached_tokens\":%zu},"
                  "\"completion_tokens_details\":{\"reasoning_tokens\":%zu}}",
                  u->prompt, u->generated, u->prompt + u->generated, u->cached, u->thought);
}

static void write_message(tt_buf *b, const tt_answer_choice *c)
{
    tt_buf_puts(b, "\"message\":{\"role\":\"assistant\",\"content\":");
    if (c->text.len == 0 && c->n_calls > 0)
        tt_buf_puts(b, "null");
    else
        tt_reply_write_text(b, c->text.len > 0 ? c->text.data : "", c->text.len);
    if (c->thought.len > 0) {
        tt_buf_puts(b, ",\"reasoning_content\":");
        tt_reply_write_text(b, c->thought.data, c->thought.len);
    }
    if (c->n_calls > 0) {
        tt_buf_puts(b, ",\"tool_calls\":[");
        tt_buf_append(b, c->calls.data, c->calls.len);
        tt_buf_putc(b, ']');
    }
    tt_buf_puts(b, ",\"refusal\":null},\"logprobs\":");
}

static void write_choice(tt_answer_writer *w, tt_buf *b, uint32_t i)
{
    const tt_answer_choice *c = &w->choices[i];
    tt_buf_printf(b, "%s{\"index\":%u,", i > 0 ? "," : "", i);
    if (w->r->chat) {
        write_message(b, c);
        if (w->r->turn.logprobs) {
            tt_buf_puts(b, "{\"content\":[");
            tt_buf_append(b, c->logprobs.data, c->logprobs.len);
            tt_buf_puts(b, "],\"refusal\":null}");
        }
    } else {
        tt_buf_puts(b, "\"text\":");
        tt_reply_write_text(b, c->text.len > 0 ? c->text.data : "", c->text.len);
        tt_buf_puts(b, ",\"logprobs\":");
        if (w->r->turn.logprobs)
            write_lists(b, (const tt_token_report *)c->logprobs.data, c->n_logprobs, &w->offset[i]);
    }
    if (!w->r->turn.logprobs)
        tt_buf_puts(b, "null");
    tt_buf_printf(b, ",\"finish_reason\":\"%s\"}", finish_words[c->finish]);
    const tt_buf *parts[] = {&c->text, &c->thought, &c->calls, &c->logprobs};
    for (size_t k = 0; k < 4; k++)
        if (parts[k]->failed != TT_OK)
            b->failed = parts[k]->failed;
}

static void write_object(tt_answer_writer *w, const tt_turn_usage *usage)
{
    tt_buf *b = w->out;
    tt_buf_printf(b, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", w->id,
                  w->r->chat ? "chat.completion" : "text_completion", (long long)w->created);
    tt_reply_write_text(b, w->model, strlen(w->model));
    tt_buf_puts(b, ",\"choices\":[");
    for (uint32_t i = 0; i < w->r->turn.n; i++)
        write_choice(w, b, i);
    tt_buf_puts(b, "],");
    write_usage(b, usage);
    tt_buf_putc(b, '}');
}

void tt_answer_writer_end(tt_answer_writer *w, const tt_turn_usage *usage)
{
    tt_buf b;
    if (!w->r->stream) {
        write_object(w, usage);
        return;
    }
    if (w->r->include_usage) {
        begin_event(w, &b);
        tt_buf_puts(&b, "],");
        write_usage(&b, usage);
        tt_buf_putc(&b, '}');
        send_event(w, &b);
        tt_buf_free(&b);
    }
    tt_sse_write(w->out, w->chunked, NULL, "[DONE]", 6);
    tt_sse_write_end(w->out, w->chunked);
}

void tt_answer_write_failure(tt_buf *out, bool chunked, int status, const char *code,
                             const char *message)
{
    tt_buf b;
    tt_buf_init(&b, 1 << 16);
    tt_reply_write_error(&b, TT_ENVELOPE_OPENAI,
                         &(tt_reply_error){.status = status, .code = code, .message = message},
                         NULL);
    tt_sse_write(out, chunked, NULL, b.data, b.len);
    tt_sse_write(out, chunked, NULL, "[DONE]", 6);
    tt_sse_write_end(out, chunked);
    tt_buf_free(&b);
}
