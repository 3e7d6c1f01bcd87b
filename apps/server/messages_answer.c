#include "server/messages_answer.h"

#include <string.h>

#include "base/limits.h"
#include "server/reply.h"

#define MOST_ANSWER (256 * TT_MIB)
#define CALL_PREFIX "call_"

void tt_messages_writer_init(tt_messages_writer *w, const tt_answer_request *r, const char *model,
                             bool chunked, tt_buf *out, void (*flush)(void *ctx), void *flush_ctx)
{
    *w = (tt_messages_writer){.r = r,
                              .model = model,
                              .chunked = chunked,
                              .out = out,
                              .flush = flush,
                              .flush_ctx = flush_ctx};
    tt_random_id("msg_", w->id);
    tt_buf_init(&w->blocks, MOST_ANSWER);
    tt_buf_init(&w->words, MOST_ANSWER);
}

void tt_messages_writer_free(tt_messages_writer *w)
{
    tt_buf_free(&w->blocks);
    tt_buf_free(&w->words);
}

/* ---- events ---- */

static void begin_event(tt_buf *b, const char *name)
{
    tt_buf_init(b, MOST_ANSWER);
    tt_buf_printf(b, "{\"type\":\"%s\"", name);
}

static void end_event(tt_messages_writer *w, tt_buf *b, const char *name)
{
    tt_buf_putc(b, '}');
    /* What could not be put together is a hole; the buffer of the stream remembers the failure. */
    if (b->failed != TT_OK)
        w->out->failed = b->failed;
    else
        tt_sse_write(w->out, w->chunked, name, b->data, b->len);
    tt_buf_free(b);
    w->flush(w->flush_ctx);
}

static void send_start(tt_messages_writer *w, const tt_buf *block)
{
    static const char name[] = "content_block_start";
    tt_buf b;
    begin_event(&b, name);
    tt_buf_printf(&b, ",\"index\":%u,\"content_block\":", w->n_blocks);
    tt_buf_append(&b, block->data, block->len);
    if (block->failed != TT_OK)
        b.failed = block->failed;
    end_event(w, &b, name);
}

static void send_delta(tt_messages_writer *w, const char *type, const char *key, const char *text,
                       size_t len)
{
    static const char name[] = "content_block_delta";
    tt_buf b;
    begin_event(&b, name);
    tt_buf_printf(&b, ",\"index\":%u,\"delta\":{\"type\":\"%s\",\"%s\":", w->n_blocks, type, key);
    tt_reply_write_text(&b, text, len);
    tt_buf_putc(&b, '}');
    end_event(w, &b, name);
}

static void send_stop(tt_messages_writer *w)
{
    static const char name[] = "content_block_stop";
    tt_buf b;
    begin_event(&b, name);
    tt_buf_printf(&b, ",\"index\":%u", w->n_blocks);
    end_event(w, &b, name);
}

/* ---- blocks ---- */

/* A block with words in it, or without any as a stream begins it. */
static void write_words(tt_buf *b, tt_messages_block kind, const char *text, size_t len)
{
    tt_buf_puts(b, kind == TT_BLOCK_TEXT ? "{\"type\":\"text\",\"text\":"
                                         : "{\"type\":\"thinking\",\"thinking\":");
    tt_reply_write_text(b, text, len);
    tt_buf_puts(b, kind == TT_BLOCK_TEXT ? "}" : ",\"signature\":\"\"}");
}

static void write_call(tt_buf *b, const char *id, const char *name, const char *input, size_t len)
{
    tt_buf_printf(b,
                  "{\"type\":\"tool_use\",\"id\":\"toolu_%s\",\"name\":", id + strlen(CALL_PREFIX));
    tt_reply_write_text(b, name, strlen(name));
    tt_buf_puts(b, ",\"input\":");
    tt_buf_append(b, input, len);
    tt_buf_puts(b, ",\"caller\":{\"type\":\"direct\"}}");
}

static void separate(tt_messages_writer *w)
{
    if (w->n_blocks > 0)
        tt_buf_putc(&w->blocks, ',');
}

static void close_block(tt_messages_writer *w)
{
    tt_messages_block kind = w->open;
    if (kind == TT_BLOCK_NONE)
        return;
    if (!w->r->stream) {
        separate(w);
        write_words(&w->blocks, kind, w->words.data, w->words.len);
        if (w->words.failed != TT_OK)
            w->blocks.failed = w->words.failed;
        tt_buf_clear(&w->words);
    } else {
        if (kind == TT_BLOCK_THOUGHT)
            send_delta(w, "signature_delta", "signature", "", 0);
        send_stop(w);
    }
    w->open = TT_BLOCK_NONE;
    w->n_blocks++;
}

static void open_block(tt_messages_writer *w, tt_messages_block kind)
{
    tt_buf block;
    if (w->open == kind)
        return;
    close_block(w);
    w->open = kind;
    if (!w->r->stream)
        return;
    tt_buf_init(&block, 256);
    write_words(&block, kind, "", 0);
    send_start(w, &block);
    tt_buf_free(&block);
}

/* ---- the sink ---- */

/* What changes while a message is made. */
static void write_counts(tt_buf *b, const tt_turn_usage *u)
{
    tt_buf_printf(b,
                  "\"usage\":{\"input_tokens\":%zu,\"cache_creation_input_tokens\":0,"
                  "\"cache_read_input_tokens\":%zu,\"output_tokens\":%zu,"
                  "\"output_tokens_details\":{\"thinking_tokens\":%zu},\"server_tool_use\":null",
                  u->prompt - u->cached, u->cached, u->generated, u->thought);
}

static void write_usage(tt_buf *b, const tt_turn_usage *u)
{
    write_counts(b, u);
    tt_buf_puts(b, ",\"cache_creation\":null,\"service_tier\":null,\"inference_geo\":null,"
                   "\"speed\":null}");
}

/* The message up to its content. */
static void begin_message(const tt_messages_writer *w, tt_buf *b)
{
    tt_buf_printf(b,
                  "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", w->id);
    tt_reply_write_text(b, w->model, strlen(w->model));
    tt_buf_puts(b, ",\"content\":[");
}

static void on_begin(void *ctx, uint32_t i)
{
    (void)ctx;
    (void)i;
}

static void on_start(void *ctx, uint64_t cached, uint64_t total)
{
    static const char name[] = "message_start";
    tt_messages_writer *w = ctx;
    const tt_turn_usage usage = {.prompt = (size_t)total, .cached = (size_t)cached};
    tt_buf b;
    if (!w->r->stream)
        return;
    begin_event(&b, name);
    tt_buf_puts(&b, ",\"message\":");
    begin_message(w, &b);
    tt_buf_puts(&b, "],\"stop_reason\":null,\"stop_sequence\":null,\"stop_details\":null,"
                    "\"container\":null,\"diagnostics\":null,");
    write_usage(&b, &usage);
    tt_buf_putc(&b, '}');
    end_event(w, &b, name);
}

static void add_words(tt_messages_writer *w, tt_messages_block kind, const char *text, size_t len)
{
    open_block(w, kind);
    if (!w->r->stream)
        tt_buf_append(&w->words, text, len);
    else if (kind == TT_BLOCK_TEXT)
        send_delta(w, "text_delta", "text", text, len);
    else
        send_delta(w, "thinking_delta", "thinking", text, len);
}

static void on_thought(void *ctx, uint32_t i, const char *text, size_t len)
{
    (void)i;
    add_words(ctx, TT_BLOCK_THOUGHT, text, len);
}

static void on_text(void *ctx, uint32_t i, const char *text, size_t len,
                    const tt_token_report *reports, size_t n)
{
    tt_messages_writer *w = ctx;
    (void)i;
    (void)reports;
    (void)n;
    /* None is open behind a call, and what keeps text apart from it is the block here. */
    for (; w->n_blocks > 0 && w->open == TT_BLOCK_NONE && len > 0 && *text == '\n'; len--)
        text++;
    if (len > 0)
        add_words(w, TT_BLOCK_TEXT, text, len);
}

static void send_call(tt_messages_writer *w, const char *id, const char *name,
                      const char *arguments, size_t len)
{
    tt_buf block;
    tt_buf_init(&block, MOST_ANSWER);
    write_call(&block, id, name, "{}", 2);
    send_start(w, &block);
    tt_buf_free(&block);
    for (size_t at = 0, n; at < len; at += n) {
        n = tt_reply_piece(arguments + at, len - at, TT_ARGUMENTS_PIECE);
        send_delta(w, "input_json_delta", "partial_json", arguments + at, n);
    }
    send_stop(w);
}

static void on_call(void *ctx, uint32_t i, uint32_t k, const char *id, const char *name,
                    const char *arguments, size_t len)
{
    tt_messages_writer *w = ctx;
    (void)i;
    (void)k;
    close_block(w);
    if (w->r->stream) {
        send_call(w, id, name, arguments, len);
    } else {
        separate(w);
        write_call(&w->blocks, id, name, arguments, len);
    }
    w->n_blocks++;
}

static void on_end(void *ctx, uint32_t i, tt_turn_finish finish)
{
    tt_messages_writer *w = ctx;
    (void)i;
    close_block(w);
    w->finish = finish;
}

static void on_prefill(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    (void)done;
    (void)total;
}

tt_turn_sink tt_messages_writer_sink(tt_messages_writer *w)
{
    return (tt_turn_sink){.ctx = w,
                          .begin = on_begin,
                          .thought = on_thought,
                          .text = on_text,
                          .call = on_call,
                          .end = on_end,
                          .prefill = on_prefill,
                          .start = on_start};
}

/* ---- the end ---- */

static void write_reason(const tt_messages_writer *w, tt_buf *b, const tt_turn_usage *u)
{
    const char *stop = w->finish == TT_TURN_STOP ? u->stopped_by : NULL;
    tt_buf_printf(b, "\"stop_reason\":\"%s\",\"stop_sequence\":",
                  w->finish == TT_TURN_CALLS    ? "tool_use"
                  : w->finish == TT_TURN_LENGTH ? "max_tokens"
                  : stop != NULL                ? "stop_sequence"
                                                : "end_turn");
    if (stop != NULL)
        tt_reply_write_text(b, stop, strlen(stop));
    else
        tt_buf_puts(b, "null");
    tt_buf_puts(b, ",\"stop_details\":null,\"container\":null");
}

static void write_object(tt_messages_writer *w, const tt_turn_usage *usage)
{
    tt_buf *b = w->out;
    begin_message(w, b);
    tt_buf_append(b, w->blocks.data, w->blocks.len);
    tt_buf_puts(b, "],");
    write_reason(w, b, usage);
    tt_buf_puts(b, ",\"diagnostics\":null,");
    write_usage(b, usage);
    tt_buf_putc(b, '}');
    if (w->blocks.failed != TT_OK)
        b->failed = w->blocks.failed;
}

void tt_messages_writer_end(tt_messages_writer *w, const tt_turn_usage *usage)
{
    tt_buf b;
    if (!w->r->stream) {
        write_object(w, usage);
        return;
    }
    begin_event(&b, "message_delta");
    tt_buf_puts(&b, ",\"delta\":{");
    write_reason(w, &b, usage);
    tt_buf_puts(&b, "},");
    write_counts(&b, usage);
    tt_buf_putc(&b, '}');
    end_event(w, &b, "message_delta");
    begin_event(&b, "message_stop");
    end_event(w, &b, "message_stop");
    tt_sse_write_end(w->out, w->chunked);
}

void tt_messages_write_failure(tt_buf *out, bool chunked, int status, const char *code,
                               const char *message, const char *request_id)
{
    tt_buf b;
    tt_buf_init(&b, 1 << 16);
    tt_reply_write_error(&b, TT_ENVELOPE_ANTHROPIC,
                         &(tt_reply_error){.status = status, .code = code, .message = message},
                         request_id);
    tt_sse_write(out, chunked, "error", b.data, b.len);
    tt_sse_write_end(out, chunked);
    tt_buf_free(&b);
}

void tt_messages_write_ping(tt_buf *out, bool chunked)
{
    static const char data[] = "{\"type\":\"ping\"}";
    tt_sse_write(out, chunked, "ping", data, sizeof data - 1);
}
