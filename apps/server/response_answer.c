#include "server/response_answer.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "server/answer.h"
#include "server/reply.h"
#include "server/response_items.h"
#include "server/response_tools.h"

#define MOST_ANSWER (256 * TT_MIB)

void tt_response_writer_init(tt_response_writer *w, const tt_response_plan *plan, bool stream,
                             bool chunked, int64_t created, tt_buf *out, void (*flush)(void *ctx),
                             void *flush_ctx)
{
    *w = (tt_response_writer){.plan = plan,
                              .stream = stream,
                              .chunked = chunked,
                              .created = created,
                              .out = out,
                              .flush = flush,
                              .flush_ctx = flush_ctx};
    tt_buf_init(&w->text, MOST_ANSWER);
    tt_buf_init(&w->logprobs, MOST_ANSWER);
    tt_buf_init(&w->event, MOST_ANSWER);
}

void tt_response_writer_free(tt_response_writer *w)
{
    tt_item_list_free(w->plan->responses, &w->output);
    tt_buf_free(&w->text);
    tt_buf_free(&w->logprobs);
    tt_buf_free(&w->event);
}

/* ---- the object ---- */

static void write_head(tt_buf *b, const tt_response_plan *p, int64_t created, const char *status)
{
    bool completed = strcmp(status, "completed") == 0;
    tt_buf_printf(b,
                  "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\","
                  "\"completed_at\":",
                  p->id, (long long)created, status);
    tt_buf_printf(b, completed ? "%lld" : "null", (long long)time(NULL));
}

static void write_usage(tt_buf *b, const tt_turn_usage *u)
{
    tt_buf_printf(b,
                  ",\"usage\":{\"input_tokens\":%zu,\"input_tokens_details\":{"
                  "\"cached_tokens\":%zu,\"cache_write_tokens\":0},\"output_tokens\":%zu,"
                  "\"output_tokens_details\":{\"reasoning_tokens\":%zu},\"total_tokens\":%zu}",
                  u->prompt, u->cached, u->generated, u->thought, u->prompt + u->generated);
}

/* What follows the items. */
static void write_tail(tt_buf *b, const tt_response_plan *p, const tt_turn_usage *usage,
                       bool stored)
{
    tt_buf_putc(b, ']');
    if (usage != NULL)
        write_usage(b, usage);
    tt_buf_printf(b, ",\"store\":%s,", stored ? "true" : "false");
    tt_buf_append(b, p->echo.data, p->echo.len);
    tt_buf_putc(b, '}');
}

/* Without output. `error` is JSON. */
static void write_empty(tt_buf *b, const tt_response_plan *p, int64_t created, const char *status,
                        const char *error)
{
    write_head(b, p, created, status);
    tt_buf_printf(b, ",\"error\":%s,\"incomplete_details\":null,\"output\":[", error);
    write_tail(b, p, NULL, p->store);
}

/* ---- events ---- */

static void begin_event(tt_buf *b, const char *type, uint64_t sequence)
{
    tt_buf_clear(b);
    tt_buf_printf(b, "{\"type\":\"%s\",\"sequence_number\":%llu", type,
                  (unsigned long long)sequence);
}

static void begin(tt_response_writer *w, const char *type)
{
    begin_event(&w->event, type, w->sequence++);
}

/* The event that was begun, as that type. */
static void send(tt_response_writer *w, const char *type)
{
    tt_buf_putc(&w->event, '}');
    /* What could not be put together is a hole; the buffer of the stream remembers the failure. */
    if (w->event.failed != TT_OK)
        w->failed = w->event.failed;
    else
        tt_sse_write(w->out, w->chunked, type, w->event.data, w->event.len);
}

static void send_now(tt_response_writer *w, const char *type)
{
    send(w, type);
    w->flush(w->flush_ctx);
}

/* The members that say where: `inner` is the name of the index in the item, or NULL. */
static void write_place(tt_response_writer *w, const char *inner)
{
    tt_buf_printf(&w->event, ",\"item_id\":\"%s\",\"output_index\":%zu", w->item, w->output.n);
    if (inner != NULL)
        tt_buf_printf(&w->event, ",\"%s\":0", inner);
}

static void send_text(tt_response_writer *w, const char *type, const char *inner, const char *name,
                      const char *text, size_t len)
{
    begin(w, type);
    write_place(w, inner);
    tt_buf_printf(&w->event, ",\"%s\":", name);
    tt_reply_write_text(&w->event, text, len);
    send_now(w, type);
}

/* ---- parts ---- */

typedef struct part_words {
    const char *inner, *added, *delta, *done, *part_done;
    const char *type; /* of the part */
} part_words;

static const part_words message_words = {"content_index",
                                         "response.content_part.added",
                                         "response.output_text.delta",
                                         "response.output_text.done",
                                         "response.content_part.done",
                                         "output_text"};
static const part_words thought_words = {"content_index",
                                         "response.content_part.added",
                                         "response.reasoning_text.delta",
                                         "response.reasoning_text.done",
                                         "response.content_part.done",
                                         "reasoning_text"};
static const part_words summary_words = {"summary_index",
                                         "response.reasoning_summary_part.added",
                                         "response.reasoning_summary_text.delta",
                                         "response.reasoning_summary_text.done",
                                         "response.reasoning_summary_part.done",
                                         "summary_text"};

static const part_words *words_of(const tt_response_writer *w)
{
    return w->open == TT_OPEN_MESSAGE ? &message_words
           : w->plan->summary         ? &summary_words
                                      : &thought_words;
}

static void write_part(tt_response_writer *w, tt_buf *b, bool whole)
{
    tt_buf_printf(b, "{\"type\":\"%s\",\"text\":", words_of(w)->type);
    tt_reply_write_text(b, whole && w->text.len > 0 ? w->text.data : "", whole ? w->text.len : 0);
    if (w->open == TT_OPEN_MESSAGE) {
        tt_buf_puts(b, ",\"annotations\":[],\"logprobs\":[");
        if (whole && w->logprobs.len > 0)
            tt_buf_append(b, w->logprobs.data, w->logprobs.len);
        tt_buf_putc(b, ']');
    }
    tt_buf_putc(b, '}');
}

static void send_part(tt_response_writer *w, const char *type, bool whole)
{
    begin(w, type);
    write_place(w, words_of(w)->inner);
    tt_buf_puts(&w->event, ",\"part\":");
    write_part(w, &w->event, whole);
    send_now(w, type);
}

/* ---- items ---- */

/* The message or thought in work; `whole`: with its text. */
static void write_item(tt_response_writer *w, tt_buf *b, const char *status, bool whole)
{
    bool thought = w->open == TT_OPEN_THOUGHT, summary = thought && w->plan->summary;
    tt_buf_printf(b, "{\"id\":\"%s\",\"type\":\"%s\",\"status\":\"%s\",%s", w->item,
                  thought ? "reasoning" : "message", status,
                  thought ? "" : "\"role\":\"assistant\",");
    tt_buf_puts(b, thought ? "\"summary\":[" : "\"content\":[");
    if (whole && (summary || !thought))
        write_part(w, b, true);
    tt_buf_putc(b, ']');
    if (thought && !summary) {
        tt_buf_puts(b, ",\"content\":[");
        if (whole)
            write_part(w, b, true);
        tt_buf_putc(b, ']');
    }
    if (thought && whole && w->plan->carried) {
        tt_buf_puts(b, ",\"encrypted_content\":\"");
        tt_carried_write(b, TT_CARRIED_THOUGHT, w->text.data, w->text.len);
        tt_buf_putc(b, '"');
    }
    tt_buf_putc(b, '}');
}

/* `item` is whole: it goes out as done, and into the output. */
static void add_item(tt_response_writer *w, const tt_buf *item)
{
    static const char type[] = "response.output_item.done";
    if (item->failed != TT_OK) {
        w->failed = item->failed;
        return;
    }
    if (w->stream) {
        begin(w, type);
        tt_buf_printf(&w->event, ",\"output_index\":%zu,\"item\":", w->output.n);
        tt_buf_append(&w->event, item->data, item->len);
        send_now(w, type);
    }
    if (!tt_item_list_add(w->plan->responses, &w->output,
                          tt_stored_item_new(w->item, item->data, item->len)))
        w->failed = TT_ERR_NOMEM;
}

static void send_added(tt_response_writer *w, const tt_buf *item)
{
    static const char type[] = "response.output_item.added";
    begin(w, type);
    tt_buf_printf(&w->event, ",\"output_index\":%zu,\"item\":", w->output.n);
    if (item->failed != TT_OK)
        w->failed = item->failed;
    tt_buf_append(&w->event, item->data, item->len);
    send_now(w, type);
}

static void close_item(tt_response_writer *w, const char *status)
{
    const part_words *words = words_of(w);
    tt_buf item;
    if (w->open == TT_OPEN_NONE)
        return;
    if (w->text.failed != TT_OK || w->logprobs.failed != TT_OK)
        w->failed = TT_ERR_NOMEM;
    if (w->stream) {
        begin(w, words->done);
        write_place(w, words->inner);
        tt_buf_puts(&w->event, ",\"text\":");
        tt_reply_write_text(&w->event, w->text.len > 0 ? w->text.data : "", w->text.len);
        if (w->open == TT_OPEN_MESSAGE) {
            tt_buf_puts(&w->event, ",\"logprobs\":[");
            tt_buf_append(&w->event, w->logprobs.data, w->logprobs.len);
            tt_buf_putc(&w->event, ']');
        }
        send_now(w, words->done);
        send_part(w, words->part_done, true);
    }
    tt_buf_init(&item, MOST_ANSWER);
    write_item(w, &item, status, true);
    add_item(w, &item);
    tt_buf_free(&item);
    tt_buf_clear(&w->text);
    tt_buf_clear(&w->logprobs);
    w->n_logprobs = 0;
    w->open = TT_OPEN_NONE;
}

static void open_item(tt_response_writer *w, tt_open_item kind)
{
    tt_buf item;
    if (w->open == kind)
        return;
    close_item(w, "completed");
    w->open = kind;
    w->answered |= kind == TT_OPEN_MESSAGE;
    tt_random_id(kind == TT_OPEN_MESSAGE ? "msg_" : "rs_", w->item);
    if (!w->stream)
        return;
    tt_buf_init(&item, MOST_ANSWER);
    write_item(w, &item, "in_progress", false);
    send_added(w, &item);
    tt_buf_free(&item);
    send_part(w, words_of(w)->added, false);
}

/* ---- calls ---- */

typedef struct call {
    tt_called_tool tool;
    const char *id;   /* call_id */
    const char *text; /* arguments or input */
    size_t len;
} call;

static void write_call(tt_response_writer *w, tt_buf *b, const call *c, bool whole)
{
    tt_buf_printf(b, "{\"id\":\"%s\",\"type\":\"%s\",\"status\":\"%s\",\"call_id\":\"%s\",",
                  w->item, c->tool.custom ? "custom_tool_call" : "function_call",
                  whole ? "completed" : "in_progress", c->id);
    if (c->tool.space != NULL) {
        tt_buf_puts(b, "\"namespace\":");
        tt_reply_write_text(b, c->tool.space, c->tool.space_len);
        tt_buf_putc(b, ',');
    }
    tt_buf_puts(b, "\"name\":");
    tt_reply_write_text(b, c->tool.name, strlen(c->tool.name));
    tt_buf_puts(b, c->tool.custom ? ",\"input\":" : ",\"arguments\":");
    tt_reply_write_text(b, c->text, whole ? c->len : 0);
    tt_buf_putc(b, '}');
}

static void send_call(tt_response_writer *w, const call *c)
{
    const char *delta = c->tool.custom ? "response.custom_tool_call_input.delta"
                                       : "response.function_call_arguments.delta";
    const char *done = c->tool.custom ? "response.custom_tool_call_input.done"
                                      : "response.function_call_arguments.done";
    tt_buf item;
    tt_buf_init(&item, MOST_ANSWER);
    write_call(w, &item, c, false);
    send_added(w, &item);
    tt_buf_free(&item);
    for (size_t at = 0, n; at < c->len; at += n) {
        n = tt_reply_piece(c->text + at, c->len - at, TT_ARGUMENTS_PIECE);
        send_text(w, delta, NULL, "delta", c->text + at, n);
    }
    begin(w, done);
    write_place(w, NULL);
    if (!c->tool.custom) {
        tt_buf_puts(&w->event, ",\"name\":");
        tt_reply_write_text(&w->event, c->tool.name, strlen(c->tool.name));
    }
    tt_buf_puts(&w->event, c->tool.custom ? ",\"input\":" : ",\"arguments\":");
    tt_reply_write_text(&w->event, c->text, c->len);
    send_now(w, done);
}

/* ---- the sink ---- */

static void on_begin(void *ctx, uint32_t i)
{
    static const char *const types[] = {"response.created", "response.in_progress"};
    tt_response_writer *w = ctx;
    (void)i;
    if (!w->stream)
        return;
    /* Handed over together: what is told back of a request may be long. */
    for (size_t k = 0; k < 2; k++) {
        begin(w, types[k]);
        tt_buf_puts(&w->event, ",\"response\":");
        write_empty(&w->event, w->plan, w->created, "in_progress", "null");
        send(w, types[k]);
    }
    w->flush(w->flush_ctx);
}

static void on_thought(void *ctx, uint32_t i, const char *text, size_t len)
{
    tt_response_writer *w = ctx;
    (void)i;
    if (w->plan->compact)
        return;
    open_item(w, TT_OPEN_THOUGHT);
    tt_buf_append(&w->text, text, len);
    if (w->stream)
        send_text(w, words_of(w)->delta, words_of(w)->inner, "delta", text, len);
}

static void on_text(void *ctx, uint32_t i, const char *text, size_t len,
                    const tt_token_report *reports, size_t n)
{
    tt_response_writer *w = ctx;
    (void)i;
    if (!w->plan->compact)
        open_item(w, TT_OPEN_MESSAGE);
    tt_buf_append(&w->text, text, len);
    tt_answer_write_reports(&w->logprobs, reports, n, w->n_logprobs == 0);
    w->n_logprobs += n;
    if (!w->stream)
        return;
    begin(w, message_words.delta);
    write_place(w, message_words.inner);
    tt_buf_puts(&w->event, ",\"delta\":");
    tt_reply_write_text(&w->event, text, len);
    tt_buf_puts(&w->event, ",\"logprobs\":[");
    tt_answer_write_reports(&w->event, reports, n, true);
    tt_buf_putc(&w->event, ']');
    send_now(w, message_words.delta);
}

static void on_call(void *ctx, uint32_t i, uint32_t k, const char *id, const char *name,
                    const char *arguments, size_t len)
{
    tt_response_writer *w = ctx;
    call c = {tt_response_tools_find(w->plan->given, name), id, arguments, len};
    json_t *tree = NULL;
    tt_error ignored;
    tt_buf item;
    (void)i;
    (void)k;
    close_item(w, "completed");
    tt_random_id(c.tool.custom ? "ctc_" : "fc_", w->item);
    w->answered = true;
    if (c.tool.custom && tt_json_parse_deep(arguments, len, TT_REQUEST_DEPTH, "arguments", &tree,
                                            &ignored) == TT_OK) {
        const json_t *input = json_object_get(tree, "input");
        if (json_is_string(input)) {
            c.text = json_string_value(input);
            c.len = json_string_length(input);
        }
    }
    if (w->stream)
        send_call(w, &c);
    tt_buf_init(&item, MOST_ANSWER);
    write_call(w, &item, &c, true);
    add_item(w, &item);
    tt_buf_free(&item);
    json_decref(tree);
}

static void on_end(void *ctx, uint32_t i, tt_turn_finish finish)
{
    tt_response_writer *w = ctx;
    (void)i;
    w->finish = finish;
    if (w->plan->compact)
        return;
    if (!w->answered && finish != TT_TURN_LENGTH)
        open_item(w, TT_OPEN_MESSAGE);
    close_item(w, finish == TT_TURN_LENGTH ? "incomplete" : "completed");
}

static void on_prefill(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    (void)done;
    (void)total;
}

tt_turn_sink tt_response_writer_sink(tt_response_writer *w)
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

static void write_output(const tt_response_writer *w, tt_buf *b)
{
    for (size_t i = 0; i < w->output.n; i++) {
        tt_buf_puts(b, i > 0 ? "," : "");
        tt_buf_append(b, w->output.items[i]->text, w->output.items[i]->len);
    }
}

static void write_compaction(tt_response_writer *w, tt_buf *b, const tt_turn_usage *usage)
{
    char id[TT_ITEM_ID];
    tt_random_id("cmp_", id);
    tt_buf_printf(b,
                  "{\"id\":\"%s\",\"object\":\"response.compaction\",\"created_at\":%lld,"
                  "\"output\":[{\"id\":\"%s\",\"type\":\"compaction\",\"encrypted_content\":\"",
                  w->plan->id, (long long)w->created, id);
    tt_carried_write(b, TT_CARRIED_SUMMARY, w->text.data, w->text.len);
    tt_buf_puts(b, "\"}]");
    write_usage(b, usage);
    tt_buf_putc(b, '}');
    if (w->text.failed != TT_OK)
        b->failed = w->text.failed;
}

/* Keeps it if that was asked for; `head` and `tail` are what stands around the items. */
static void keep(tt_response_writer *w, const tt_turn_usage *usage, tt_buf *head, tt_buf *tail)
{
    const tt_response_plan *p = w->plan;
    bool cut = w->finish == TT_TURN_LENGTH;
    write_head(head, p, w->created, cut ? "incomplete" : "completed");
    tt_buf_printf(head, ",\"error\":null,\"incomplete_details\":%s,\"output\":[",
                  cut ? "{\"reason\":\"max_output_tokens\"}" : "null");
    write_tail(tail, p, usage, p->store);
    if (w->failed == TT_OK)
        w->failed = head->failed != TT_OK ? head->failed : tail->failed;
    if (!p->store || w->failed != TT_OK ||
        tt_response_store_put(p->responses, p->id, head, tail, &p->context, &w->output))
        return;
    tt_buf_clear(tail);
    write_tail(tail, p, usage, false);
}

void tt_response_writer_end(tt_response_writer *w, const tt_turn_usage *usage)
{
    const char *type = w->finish == TT_TURN_LENGTH ? "response.incomplete" : "response.completed";
    tt_buf head, tail, *b = w->stream ? &w->event : w->out;
    if (w->plan->compact) {
        write_compaction(w, w->out, usage);
        return;
    }
    tt_buf_init(&head, MOST_ANSWER);
    tt_buf_init(&tail, MOST_ANSWER);
    keep(w, usage, &head, &tail);
    if (w->stream) {
        begin(w, type);
        tt_buf_puts(b, ",\"response\":");
    }
    tt_buf_append(b, head.data, head.len);
    write_output(w, b);
    tt_buf_append(b, tail.data, tail.len);
    if (w->stream) {
        send(w, type);
        tt_sse_write_end(w->out, w->chunked);
    }
    if (w->failed != TT_OK)
        w->out->failed = w->failed;
    tt_buf_free(&head);
    tt_buf_free(&tail);
}

/* ---- failures ---- */

static void write_failure(tt_buf *b, const tt_response_plan *plan, int64_t created,
                          const char *code, const char *message)
{
    tt_buf error, words;
    tt_buf_init(&error, 1 << 16);
    tt_buf_init(&words, 1 << 16);
    tt_buf_printf(&words, "%s (%s)", message, code);
    tt_buf_puts(&error, "{\"code\":\"server_error\",\"message\":");
    tt_reply_write_text(&error, words.len > 0 ? words.data : "", words.len);
    tt_buf_putc(&error, '}');
    write_empty(b, plan, created, "failed", error.failed == TT_OK ? error.data : "null");
    tt_buf_free(&error);
    tt_buf_free(&words);
}

void tt_response_write_failure(tt_buf *out, bool chunked, const tt_response_plan *plan,
                               int64_t created, uint64_t sequence, const char *code,
                               const char *message)
{
    static const char *const types[] = {"response.created", "response.failed"};
    tt_buf b;
    tt_buf_init(&b, MOST_ANSWER);
    for (int k = sequence == 0 ? 0 : 1; k < 2; k++) {
        begin_event(&b, types[k], sequence++);
        tt_buf_puts(&b, ",\"response\":");
        if (k == 0)
            write_empty(&b, plan, created, "in_progress", "null");
        else
            write_failure(&b, plan, created, code, message);
        tt_buf_putc(&b, '}');
        if (b.failed == TT_OK)
            tt_sse_write(out, chunked, types[k], b.data, b.len);
    }
    tt_sse_write_end(out, chunked);
    tt_buf_free(&b);
}
