#include "server/server_plan.h"

#include <stdio.h>

#include "base/file.h"
#include "server/server_limits.h"

#define CONNECTION_BYTES (12 * TT_KIB) /* head that is kept, buffers, events */

/* Of the tokens laid out for masks, the masks that are remembered, and the place of one answer: on
 * the safe side of what 151,669 ids of a real tokenizer take (18 MiB, of which 2 MiB while it is
 * made). */
static uint64_t mask_bytes(uint32_t vocab)
{
    return 12 * TT_MIB + (uint64_t)vocab * 64;
}

/* Of the place of one more answer, and its sampler. */
static uint64_t answer_bytes(uint32_t vocab)
{
    return TT_MIB + (uint64_t)vocab * 8;
}

tt_server_memory tt_server_memory_of(uint32_t queue_limit, uint32_t sequences, uint64_t tokenizer,
                                     uint32_t vocab)
{
    tt_server_memory m = {.requests = TT_REQUEST_MEMORY,
                          .connections = TT_CONNECTIONS * CONNECTION_BYTES,
                          .streams = (1 + sequences) * TT_OUTBOX + queue_limit * (16 * TT_KIB),
                          .responses = TT_STORED_BYTES,
                          .rendering = TT_TEMPLATE_MEMORY + TT_TEMPLATE_OUTPUT,
                          .grammars = TT_GRAMMARS + mask_bytes(vocab) +
                                      (sequences - 1) * answer_bytes(vocab),
                          .tokenizers = TT_TOKENIZERS_BESIDES * tokenizer};
    m.total = m.requests + m.connections + m.streams + m.responses + m.rendering + m.grammars +
              m.tokenizers;
    return m;
}

tt_status tt_server_plan(const char *install, uint64_t reserved, tt_model_options *load,
                         tt_plan *plan, tt_error *err)
{
    uint64_t budget = load->ram_budget;
    if (!tt_dir_exists(install) && !tt_file_exists(install))
        return tt_fail_at(err, TT_ERR_NOT_FOUND, install, -1,
                          "no such directory; TinyTitanRepack makes an install from a checkpoint");
    if (budget == 0) { /* what the machine has to spare */
        tt_status st = tt_model_plan(install, load, plan, err);
        if (st != TT_OK)
            return st;
        budget = plan->budget;
    }
    if (budget <= reserved)
        return tt_fail(err, TT_ERR_BUDGET,
                       "the budget has %.1f MiB, the server alone needs %.1f MiB: raise "
                       "--ram-budget",
                       (double)budget / (double)TT_MIB, (double)reserved / (double)TT_MIB);
    load->ram_budget = budget - reserved;
    return tt_model_plan(install, load, plan, err);
}

static void row(tt_buf *b, const char *what, uint64_t bytes, const char *note)
{
    tt_buf_printf(b, "  %-16s %10.1f MiB%s%s\n", what, (double)bytes / (double)TT_MIB,
                  note[0] != '\0' ? "   " : "", note);
}

static void write_memory(const tt_server_options *o, const tt_server_memory *m, const tt_plan *p,
                         tt_buf *b)
{
    tt_buf_puts(b, "memory\n");
    row(b, "weights", p->weights, "resident tensors");
    if (p->experts_per_layer > 0)
        row(b, "expert slots", p->expert_slots, "");
    char of[48] = "";
    if (p->sequences > 1)
        snprintf(of, sizeof of, "of %u answers at once", p->sequences);
    row(b, "KV", p->kv, of);
    row(b, "state", p->state, "recurrent, convolution, checkpoint");
    if (p->prompt_cache > 0)
        row(b, "prompt cache", p->prompt_cache, "state of prompts, for those that begin alike");
    if (p->draft > 0)
        row(b, "guesses", p->draft, "what guessing tokens takes (--draft)");
    row(b, "scratch", p->scratch, "one prefill chunk, logits");
    row(b, "program", p->fixed, "its files, tables, tokenizer, stacks; the kernel's tables");
    row(b, "requests", m->requests, "bodies and JSON trees");
    row(b, "connections", m->connections, "");
    row(b, "streams", m->streams, "what clients have not read yet");
    row(b, "responses", m->responses, "stored ones, for those that continue them");
    row(b, "rendering", m->rendering, "one chat template, or a grammar that is compiled");
    row(b, "grammars", m->grammars, "compiled ones, tokens laid out for them");
    if (m->tokenizers > 0)
        row(b, "tokenizers", m->tokenizers, "of models that are not loaded");
    row(b, "total", p->total + m->total, "");
    row(b, "budget", p->budget + m->total,
        o->load.ram_budget > 0 ? "given by --ram-budget" : "what the machine has to spare");
}

static unsigned long long mib(uint64_t bytes)
{
    return bytes / TT_MIB;
}

static void write_limits(const tt_server_options *o, const tt_plan *p, tt_buf *b)
{
    tt_buf_puts(b, "limits\n");
    tt_buf_printf(b, "  body %llu MiB; first line %u bytes; header block %u KiB, %u fields\n",
                  mib(tt_body_limit(p->max_context)), TT_HTTP1_LINE_MAX, TT_HTTP1_HEAD_MAX >> 10,
                  TT_HTTP1_FIELDS);
    tt_buf_printf(b,
                  "  deadlines: header %d s, body %d s without a byte, keep-alive %d s, drained "
                  "%d s and %llu MiB, shutdown %d s\n",
                  TT_HEADER_SECONDS, TT_BODY_SECONDS, TT_KEEP_ALIVE, TT_DRAINED_SECONDS,
                  mib(TT_DRAINED_BYTES), TT_SHUTDOWN_SECONDS);
    tt_buf_printf(b,
                  "  connections %u, or RLIMIT_NOFILE less %u; answers at once %u, queue %u; "
                  "pipelined ahead %llu "
                  "KiB; unread of a stream %llu MiB; heartbeat %d s\n",
                  TT_CONNECTIONS, TT_DESCRIPTORS_SPARE, p->sequences, o->queue_limit,
                  (unsigned long long)(TT_PIPELINED_AHEAD / TT_KIB), mib(TT_OUTBOX),
                  TT_HEARTBEAT_SECONDS);
    tt_buf_printf(b,
                  "  JSON depth %u; messages %u; tools %u, schemas %llu KiB each and %llu MiB "
                  "together; compiled grammars %llu MiB; stop strings %u of %u bytes; tool call "
                  "%llu KiB; stored responses %u, "
                  "%llu MiB\n",
                  TT_REQUEST_DEPTH, TT_MESSAGES, TT_TOOLS, (unsigned long long)(TT_SCHEMA / TT_KIB),
                  mib(TT_SCHEMAS), mib(TT_GRAMMARS), TT_STOP_STRINGS, TT_STOP_BYTES,
                  (unsigned long long)(TT_TOOL_CALL / TT_KIB), TT_STORED_RESPONSES,
                  mib(TT_STORED_BYTES));
}

void tt_server_plan_write(const tt_server_options *o, const tt_server_memory *m, const tt_plan *p,
                          tt_buf *b)
{
    tt_buf_printf(b, "model      %s (%s, %u layers)\n", p->model_id, p->family, p->n_layers);
    tt_buf_printf(b, "compute    backend %s, level %s, %u threads\n", p->backend, p->cpu_level,
                  p->threads);
    if (p->experts_per_layer > 0)
        tt_buf_printf(b, "experts    %u a layer of %u in memory, reader %s\n", p->slots_per_layer,
                      p->experts_per_layer, p->reader);
    tt_buf_printf(b, "context    %u tokens, KV %u bits, prefill chunk %u\n", p->max_context,
                  p->kv_bits, p->prefill_chunk);
    tt_buf_printf(b, "listens    127.0.0.1:%u%s%s\n", o->port,
                  o->unix_socket != NULL ? " and " : "",
                  o->unix_socket != NULL ? o->unix_socket : "");
    write_memory(o, m, p, b);
    write_limits(o, p, b);
}
