/* Proves that no bytes, however they are cut and however their client leaves, bring the server down
 * or get anything but well-formed answers: whole heads, refusals in an envelope, streams with an
 * end. WIRE_FUZZ_REQUESTS (2000) requests from WIRE_FUZZ_SEED (1); WIRE_FUZZ_ONLY repeats one
 * connection, whose number a failure names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <sys/epoll.h>

#include "base/json.h"
#include "wire.h"

#define TOGETHER 48
#define MOST     (1 << 20)

static const char script[] =
    "[{\"match\":\"broken\",\"steps\":[{\"text\":\"a\"},{\"fail\":\"the disk is gone\"}]},"
    "{\"match\":\"call\",\"steps\":[{\"thought\":\"hm\"},{\"text\":\"I "
    "look.\"},{\"bad_call\":true},"
    "{\"call\":{\"name\":\"look\",\"arguments\":{\"at\":1}}}]},"
    "{\"match\":\"flood\",\"steps\":[{\"text\":\"0123456789012345678901234567890123456789\"},"
    "{\"times\":800}]},"
    "{\"steps\":[{\"prefill\":[1,2]},{\"text\":\"Once \"},{\"text\":\"upon\"}]}]";

static const char last[] = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/* ---- numbers that a seed gives ---- */

static uint64_t state_of_chance;

static uint32_t chance(uint32_t below)
{
    state_of_chance ^= state_of_chance << 13;
    state_of_chance ^= state_of_chance >> 7;
    state_of_chance ^= state_of_chance << 17;
    return (uint32_t)((state_of_chance * 0x2545f4914f6cdd1dull) >> 33) % below;
}

static void begin_chance(uint64_t seed, uint64_t connection)
{
    state_of_chance = (seed + 1) * 0x9e3779b97f4a7c15ull ^ (connection + 1) * 0xd1b54a32d192ed03ull;
    for (int i = 0; i < 8; i++)
        (void)chance(2);
}

#define ONE_OF(list) list[chance((uint32_t)(sizeof(list) / sizeof(list)[0]))]

/* ---- valid requests ---- */

#define MODEL      "\"model\":\"scripted_4-Bit\","
#define USER(text) MODEL "\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}]"
#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"look\",\"description\":\"d\","     \
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"at\":{\"type\":\"integer\"}}}}}]"

static const char *const bodies[] = {
    "{" USER("plain") "}",
    "{" USER("plain") ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
    "{" USER("broken") ",\"stream\":true}",
    "{" USER("broken") "}",
    "{" USER("call") "," TOOLS ",\"stream\":true,\"parallel_tool_calls\":false}",
    "{" USER("call") "," TOOLS ",\"tool_choice\":\"auto\",\"n\":3}",
    "{" USER("flood") ",\"stream\":true,\"logprobs\":true,\"top_logprobs\":3}",
    "{" USER("plain") ",\"temperature\":0.5,\"top_p\":0.9,\"top_k\":40,\"min_p\":0.1,\"seed\":7,"
                      "\"stop\":[\"upon\",\"zz\"],\"max_tokens\":5,\"presence_penalty\":1.5,"
                      "\"frequency_penalty\":-1,\"repetition_penalty\":1.1,\"logit_bias\":{}}",
    "{" USER("plain") ",\"reasoning_effort\":\"high\",\"chat_template_kwargs\":{\"x\":[1,{}]},"
                      "\"response_format\":{\"type\":\"text\"},\"metadata\":{\"a\":\"b\"}}",
    "{" MODEL
    "\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":"
    "[{\"type\":\"text\",\"text\":\"\\u00e9\\ud83d\\ude00\"}]},{\"role\":\"assistant\","
    "\"content\":null,\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":{"
    "\"name\":\"look\",\"arguments\":\"{\\\"at\\\":1}\"}}]},{\"role\":\"tool\","
    "\"tool_call_id\":\"c\",\"content\":\"r\"},{\"role\":\"system\",\"content\":\"t\"}]}",
};
/* Of Anthropic's Messages. */
#define ASK(text) "\"max_tokens\":9," USER(text)
#define LOOK      "\"tools\":[{\"name\":\"look\",\"input_schema\":{\"type\":\"object\"}}]"
static const char *const asks[] = {
    "{" ASK("plain") ",\"stream\":true,\"stop_sequences\":[\"upon\"]}",
    "{" ASK("broken") ",\"stream\":true}",
    "{" ASK("call") "," LOOK ",\"stream\":true,\"thinking\":{\"type\":\"adaptive\"}}",
    "{" ASK("flood") ",\"stream\":true}",
    "{" MODEL "\"max_tokens\":0,\"system\":[{\"type\":\"text\",\"text\":\"s\"}],"
    "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"\\u00e9\"}]},"
    "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"t\","
    "\"signature\":\"\"},{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"look\",\"input\":{}}]},"
    "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"c\","
    "\"content\":\"r\",\"is_error\":true}]},{\"role\":\"system\",\"content\":\"u\"}]}",
};
static const char *const texts[] = {
    "{" MODEL "\"prompt\":\"plain\",\"logprobs\":2,\"max_tokens\":3}",
    "{" MODEL "\"prompt\":[1,2,3],\"stream\":true,\"echo\":false,\"best_of\":1}",
    "{" MODEL "\"prompt\":[\"plain\"],\"n\":2,\"stop\":\"x\"}",
};
static const char *const responses[] = {
    "{" MODEL "\"input\":\"plain\"}",
    "{" MODEL "\"input\":\"plain\",\"stream\":true,\"store\":false}",
    "{" MODEL "\"input\":\"broken\",\"stream\":true}",
    "{" MODEL "\"input\":\"call\",\"stream\":true,\"tools\":[{\"type\":\"custom\",\"name\":"
    "\"look\"},{\"type\":\"namespace\",\"name\":\"n\",\"tools\":[{\"type\":\"function\","
    "\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}]}]}",
    "{" MODEL "\"input\":\"flood\",\"stream\":true,\"top_logprobs\":3}",
    "{" MODEL "\"instructions\":\"s\",\"metadata\":{\"a\":\"b\"},\"reasoning\":{\"effort\":"
    "\"high\",\"summary\":\"auto\"},\"include\":[\"reasoning.encrypted_content\"],\"input\":["
    "{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"\\u00e9\"}]},"
    "{\"type\":\"reasoning\",\"summary\":[],\"content\":[{\"type\":\"reasoning_text\",\"text\":"
    "\"hm\"}]},{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"look\",\"arguments\":"
    "\"{}\"},{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"r\"},{\"type\":"
    "\"custom_tool_call\",\"call_id\":\"d\",\"name\":\"p\",\"input\":\"i\"},{\"type\":"
    "\"custom_tool_call_output\",\"call_id\":\"d\",\"output\":\"q\"}]}",
    "{" MODEL "\"input\":\"x\",\"previous_response_id\":\"resp_1\"}",
};
static const char *const counts[] = {
    "{" MODEL "\"content\":\"Once upon a time\",\"special\":false}",
    "{" USER("plain") "," TOOLS "}",
};
static const char *const gets[] = {"/",
                                   "/health",
                                   "/metrics",
                                   "/v1/status",
                                   "/v1/models",
                                   "/v1/models/scripted%5f4-Bit",
                                   "/none?x=1",
                                   "/v1/messages",
                                   "/v1/responses/resp_1",
                                   "/v1/responses/r/input_items?limit=3"};
static const char *const more_fields[] = {
    "",
    "",
    "",
    "Expect: 100-continue\r\n",
    "anthropic-version: 2023-06-01\r\n",
    "Authorization: Bearer x\r\n",
    "x-api-key: \t k \t\r\n",
    "Connection: keep-alive\r\n",
    "Accept: */*\r\nAccept-Encoding: gzip\r\nUser-Agent: f\r\n",
    "Origin: http://localhost:1\r\n",
    "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n",
    "X: \xc3\xa9\r\n",
    "Content-Encoding: identity\r\n"};
/* Every one of these is wrong somewhere. */
static const char *const bad_fields[] = {"Host: localhost\r\n",
                                         "Content-Length: 5\r\n",
                                         "Transfer-Encoding: chunked\r\n",
                                         "Transfer-Encoding: gzip, chunked\r\n",
                                         "A b: c\r\n",
                                         ": empty\r\n",
                                         " folded\r\n",
                                         "Content-Length: 99999999999999999999\r\n",
                                         "Content-Length: -1\r\n",
                                         "Expect: tea\r\n",
                                         "Content-Type: text/plain\r\n",
                                         "N: \001\r\n",
                                         "Connection: close, upgrade\r\n",
                                         "X:y\n",
                                         "Host: evil.example\r\n",
                                         "Content-Length: 70000000\r\n",
                                         "Origin: null\r\n"};

typedef struct text {
    char bytes[MOST];
    size_t n;
} text;

static void add(text *t, const char *bytes, size_t n)
{
    n = n < MOST - t->n ? n : MOST - t->n;
    memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
}

static void say(text *t, const char *words)
{
    add(t, words, strlen(words));
}

/* ---- harm ---- */

/* Replaces [at, at + old) by n bytes. */
static void replace(text *t, size_t at, size_t old, const char *bytes, size_t n)
{
    if (at + old > t->n || t->n - old + n > MOST)
        return;
    memmove(t->bytes + at + n, t->bytes + at + old, t->n - at - old);
    memcpy(t->bytes + at, bytes, n);
    t->n += n - old;
}

static void harm_bytes(text *t)
{
    static const char odd[] = "\0\r\n\t \"\\{}[]:,%#;x\x7f\x80\xc0\xed\xff";
    size_t at = chance((uint32_t)t->n), n = 1 + chance(16);
    char piece[16];
    n = n < t->n - at ? n : t->n - at;
    memcpy(piece, t->bytes + at, n);
    switch (chance(5)) {
    case 0:
        t->bytes[at] ^= (char)(1u << chance(8));
        break;
    case 1:
        replace(t, at, n, "", 0);
        break;
    case 2:
        replace(t, at, 0, piece, n);
        break;
    case 3:
        replace(t, at, 0, odd + chance(sizeof odd - 1), 1);
        break;
    default:
        replace(t, at, 1, odd + chance(sizeof odd - 1), 1);
    }
}

static void harm_json(text *t)
{
    static const char *const values[] = {"null",
                                         "true",
                                         "-1",
                                         "0",
                                         "1e999",
                                         "1e-999",
                                         "9223372036854775808",
                                         "0.5",
                                         "\"\"",
                                         "{}",
                                         "[]",
                                         "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]",
                                         "\"\\u0000\"",
                                         "\"\\ud800\"",
                                         "\"\xed\xa0\x80\"",
                                         "{\"a\":1,\"a\":2}",
                                         "\"<tool_call>\"",
                                         "\"</think>\"",
                                         "\"user\"",
                                         "\"assistant\"",
                                         "{\"type\":\"image_url\"}"};
    static char deep[400], wide[70000];
    size_t at = chance((uint32_t)t->n), from = at;
    memset(deep, '[', sizeof deep);
    memset(wide, 'w', sizeof wide);
    /* A value begins behind a colon, a comma or a bracket. */
    while (from < t->n && strchr(":,[", t->bytes[from]) == NULL)
        from++;
    if (from++ >= t->n)
        return;
    size_t end = from;
    while (end < t->n && strchr(",}]", t->bytes[end]) == NULL)
        end++;
    uint32_t what = chance(20);
    const char *value = ONE_OF(values);
    if (what == 0)
        replace(t, from, 0, deep, sizeof deep);
    else if (what == 1)
        replace(t, from, 0, wide, sizeof wide);
    else if (what == 2)
        t->n = at;
    else
        replace(t, from, end - from, value, strlen(value));
}

/* ---- requests ---- */

static void add_chunked(text *t, const text *body)
{
    char line[64];
    size_t at = 0;
    while (at < body->n) {
        size_t n = 1 + chance(64);
        n = n < body->n - at ? n : body->n - at;
        snprintf(line, sizeof line, chance(4) > 0 ? "%zx\r\n" : "%04zX;ext=\"v\"\r\n", n);
        say(t, line);
        add(t, body->bytes + at, n);
        say(t, chance(50) > 0 ? "\r\n" : "\r");
        at += n;
    }
    say(t, chance(20) > 0 ? "0\r\n" : "00000000000000000\r\n");
    say(t, chance(8) > 0 ? "\r\n" : "X-Trailer: t\r\n\r\n");
}

static void add_post(text *t, const char *path, const char *content)
{
    static text body;
    char line[128];
    body.n = 0;
    say(&body, content);
    for (uint32_t k = chance(3) == 0 ? 1 + chance(4) : 0; k > 0 && body.n > 0; k--)
        harm_json(&body);
    bool chunked = chance(4) == 0;
    long long said = (long long)body.n + (chance(40) == 0 ? (long long)chance(40) - 20 : 0);
    snprintf(line, sizeof line, "POST %s HTTP/1.%c\r\nHost: 127.0.0.1:80\r\n", path,
             chance(12) > 0 ? '1' : '0');
    say(t, line);
    say(t, "Content-Type: application/json; charset=utf-8\r\n");
    if (chunked)
        snprintf(line, sizeof line, "Transfer-Encoding: chunked\r\n");
    else
        snprintf(line, sizeof line, "Content-Length: %lld\r\n", said);
    say(t, line);
    say(t, ONE_OF(more_fields));
    if (chance(12) == 0)
        say(t, ONE_OF(bad_fields));
    say(t, "\r\n");
    if (chunked)
        add_chunked(t, &body);
    else
        add(t, body.bytes, body.n);
}

static void add_get(text *t)
{
    static const char *const methods[] = {"GET", "GET", "GET", "HEAD", "OPTIONS", "DELETE", "BREW"};
    char line[256];
    snprintf(line, sizeof line, "%s %s HTTP/1.1\r\nHost: localhost:8080\r\n", ONE_OF(methods),
             ONE_OF(gets));
    say(t, line);
    say(t, ONE_OF(more_fields));
    if (chance(8) == 0)
        say(t, ONE_OF(bad_fields));
    say(t, "\r\n");
}

/* Bytes of one connection; how many requests went into them. */
static unsigned make(text *t)
{
    unsigned n = chance(3) > 0 ? 1 : 2 + chance(4);
    t->n = 0;
    for (unsigned i = 0; i < n; i++) {
        uint32_t kind = chance(13);
        if (kind < 3)
            add_post(t, "/v1/chat/completions", ONE_OF(bodies));
        else if (kind < 5)
            add_post(t, chance(4) > 0 ? "/v1/messages" : "/v1/messages/count_tokens", ONE_OF(asks));
        else if (kind < 6)
            add_post(t, "/v1/completions", ONE_OF(texts));
        else if (kind < 7)
            add_post(t, "/tokenize", ONE_OF(counts));
        else if (kind < 9)
            add_post(t, chance(8) > 0 ? "/v1/responses" : "/v1/responses/compact",
                     ONE_OF(responses));
        else
            add_get(t);
    }
    for (uint32_t k = chance(3) == 0 ? 1 + chance(6) : 0; k > 0 && t->n > 0; k--)
        harm_bytes(t);
    say(t, last);
    return n;
}

/* ---- connections ---- */

enum way { STAY, HALF, FIN, RST };

typedef struct conn {
    int fd;
    uint64_t number;
    enum way way;
    text out;
    size_t sent, leave_at;
    unsigned pieces; /* 0: all at once */
    uint64_t chance; /* of this connection */
    char *in;
    size_t n, cap;
    bool broken; /* reset under us */
} conn;

static conn conns[TOGETHER];
static uint64_t seed = 1, next_number, only = UINT64_MAX, made, wanted = 2000, answers, resets;

static void give_up(const conn *c, const char *why, const char *at)
{
    fail_msg("WIRE_FUZZ_SEED=%llu WIRE_FUZZ_ONLY=%llu: %s\nat: %.2000s\nsent (%zu bytes): %.2000s",
             (unsigned long long)seed, (unsigned long long)c->number, why, at, c->out.n,
             c->out.bytes);
}

/* ---- answers ---- */

static bool is_text(const json_t *o, const char *key)
{
    return json_string_length(json_object_get(o, key)) > 0;
}

static void check_refusal(const conn *c, const json_t *body, const char *head)
{
    const json_t *error = json_object_get(body, "error");
    bool anthropic = json_object_get(body, "type") != NULL;
    if (!is_text(error, "type") || !is_text(error, "message"))
        give_up(c, "a refusal without an envelope", head);
    if (anthropic ? !is_text(body, "request_id") : !is_text(error, "code"))
        give_up(c, "an envelope that lacks something", head);
}

static void check_event(const conn *c, const char *at, size_t n)
{
    json_t *v = json_loadb(at, n, 0, NULL);
    if (v == NULL)
        give_up(c, "an event that is no JSON", at);
    if (json_object_get(v, "error") != NULL)
        check_refusal(c, v, at);
    json_decref(v);
}

/* As strstr(at, "\n\n"), which under a sanitizer looks through all that follows every time. */
static const char *event_end(const char *at)
{
    while (*at != '\0' && (at[0] != '\n' || at[1] != '\n'))
        at++;
    return *at != '\0' ? at : NULL;
}

/* Whether an event is the last of Messages or of a response; *at is moved behind its name, which is
 * its type. */
static bool take_name(const conn *c, const char **at)
{
    const char *name = *at + 7, *line = strchr(name, '\n');
    size_t n = line != NULL ? (size_t)(line - name) : 0;
    static const char begin[] = "\ndata: {\"type\":\"";
    if (n == 0 || strncmp(line, begin, sizeof begin - 1) != 0 ||
        strncmp(line + sizeof begin - 1, name, n) != 0)
        give_up(c, "a name that is not the type", *at);
    *at = line + 1;
    static const char *const lasts[] = {"message_stop\n", "error\n", "response.completed\n",
                                        "response.incomplete\n", "response.failed\n"};
    for (size_t i = 0; i < sizeof lasts / sizeof *lasts; i++)
        if (strncmp(name, lasts[i], strlen(lasts[i])) == 0)
            return true;
    return false;
}

/* Events until [DONE], or the last of Messages or of a response. */
static void check_events(const conn *c, const char *events)
{
    bool done = false;
    for (const char *at = events, *end; *at != '\0'; at = end + 2) {
        end = event_end(at);
        if (end == NULL || done)
            give_up(c, "a stream without its end, or something behind it", at);
        if (strncmp(at, "event: ", 7) == 0) {
            done = take_name(c, &at);
            check_event(c, at + 6, (size_t)(end - at) - 6);
            continue;
        }
        done = strncmp(at, "data: [DONE]\n\n", 14) == 0;
        if (!done && strncmp(at, "data: ", 6) == 0)
            check_event(c, at + 6, (size_t)(end - at) - 6);
        else if (!done && strncmp(at, ": ping\n\n", 8) != 0)
            give_up(c, "what is no event", at);
    }
    if (!done)
        give_up(c, "a stream without its last event", events);
}

static void check_json(const conn *c, const char *head, const char *body, size_t n, int status)
{
    json_t *v = json_loadb(body, n, 0, NULL);
    if (v == NULL)
        give_up(c, "a body that is no JSON", head);
    if (status >= 400 && json_object_get(v, "status") == NULL)
        check_refusal(c, v, head);
    json_decref(v);
}

static int status_of(const conn *c, const char *at)
{
    if (strncmp(at, "HTTP/1.1 ", 9) != 0 || strspn(at + 9, "0123456789") != 3 || at[12] != ' ')
        give_up(c, "no status line", at);
    return atoi(at + 9);
}

static const char *field(const char *head, const char *end, const char *name)
{
    const char *at = strstr(head, name);
    return at != NULL && at < end ? at + strlen(name) : NULL;
}

/* Where the chunks at `at` end, and what they hold; NULL when they do not. */
static const char *chunks_end(const char *at, char **held)
{
    size_t n = 0, all = strlen(at);
    const char *stop = at + all;
    char *out = calloc(1, all + 1), *end;
    *held = out;
    assert_non_null(out);
    for (;;) {
        size_t k = strtoul(at, &end, 16);
        if (end == at || strncmp(end, "\r\n", 2) != 0 || (size_t)(stop - end) < k + 4)
            return NULL;
        memcpy(out + n, end + 2, k);
        n += k;
        at = end + 4 + k;
        if (k == 0)
            return at;
    }
}

/* One answer; where it ends. */
static const char *check_answer(const conn *c, const char *at)
{
    int status = status_of(c, at);
    const char *end = strstr(at, "\r\n\r\n");
    if (end == NULL)
        give_up(c, "a head without an end", at);
    const char *body = end + 4, *length = field(at, end, "\r\nContent-Length: ");
    if (status == 100 || status == 204)
        return body;
    const char *id = field(at, end, "request-id: req_");
    if (id == NULL || strspn(id, "0123456789abcdef") != 24 || field(at, end, "\r\nDate: ") == NULL)
        give_up(c, "a head without its fields", at);
    if (length != NULL) {
        size_t n = strtoul(length, NULL, 10);
        /* To HEAD nothing comes behind the head. */
        if (*body == '\0' || strncmp(body, "HTTP/1.1 ", 9) == 0)
            return memmem(c->out.bytes, c->out.n, "HEAD", 4) != NULL
                       ? body
                       : (give_up(c, "no body", at), body);
        if (strlen(body) < n)
            give_up(c, "a body that is cut off", at);
        if (field(at, end, "\r\nContent-Type: application/json") != NULL)
            check_json(c, at, body, n, status);
        return body + n;
    }
    char *held = NULL;
    if (field(at, end, "\r\nTransfer-Encoding: chunked") == NULL) {
        check_events(c, body);
        return body + strlen(body);
    }
    const char *rest = chunks_end(body, &held);
    if (rest == NULL)
        give_up(c, "chunks without an end", at);
    check_events(c, held);
    free(held);
    return rest;
}

/* What a client that stayed got is whole; of one that left, it begins like an answer. */
static void check_all(conn *c)
{
    const char *at = c->n > 0 ? c->in : "";
    if (c->way == STAY && c->broken)
        give_up(c, "reset", at);
    if (c->way != STAY) {
        resets += c->broken;
        if (c->n >= 13)
            (void)status_of(c, at);
        return;
    }
    if (*at == '\0')
        give_up(c, "no answer", "");
    for (; *at != '\0'; answers++)
        at = check_answer(c, at);
}

/* ---- driving ---- */

static void open_next(conn *c)
{
    c->number = only != UINT64_MAX ? only : next_number++;
    begin_chance(seed, c->number);
    made += make(&c->out);
    uint32_t way = chance(20);
    c->way = way < 16 ? STAY : way == 16 ? HALF : way < 18 ? FIN : RST;
    c->leave_at = c->way == STAY ? c->out.n : chance((uint32_t)c->out.n + 1);
    c->pieces = chance(3);
    c->chance = state_of_chance;
    c->sent = c->n = 0;
    c->broken = false;
    c->fd = dial();
}

static void leave(conn *c)
{
    struct linger now = {.l_onoff = c->way == RST, .l_linger = 0};
    if (c->way == RST)
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(c->fd);
    c->fd = -1;
}

/* False: nothing more is to be sent. */
static bool send_some(conn *c)
{
    size_t n = c->leave_at - c->sent;
    state_of_chance = c->chance;
    if (c->pieces > 0 && n > 1)
        n = 1 + chance((uint32_t)(c->pieces > 1 && n > 40 ? 40 : n));
    c->chance = state_of_chance;
    ssize_t k = n > 0 ? send(c->fd, c->out.bytes + c->sent, n, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
    if (k < 0 && errno != EAGAIN) {
        c->broken = errno == ECONNRESET;
        c->sent = c->leave_at;
    }
    c->sent += k > 0 ? (size_t)k : 0;
    if (c->sent < c->leave_at)
        return true;
    if (c->way == HALF)
        shutdown(c->fd, SHUT_WR);
    else if (c->way != STAY)
        leave(c);
    return false;
}

/* False: the connection is over. */
static bool receive(conn *c)
{
    if (c->cap < c->n + 65537) {
        c->cap = c->cap * 2 + 65537;
        c->in = realloc(c->in, c->cap);
        assert_non_null(c->in);
    }
    ssize_t k = recv(c->fd, c->in + c->n, 65536, MSG_DONTWAIT);
    if (k < 0 && errno == EAGAIN)
        return true;
    c->broken |= k < 0;
    c->n += k > 0 ? (size_t)k : 0;
    c->in[c->n] = '\0';
    return k > 0;
}

static void watch(int ep, conn *c, int op, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = c};
    assert_int_equal(epoll_ctl(ep, op, c->fd, &e), 0);
}

static bool over(const conn *c)
{
    return c->fd < 0;
}

static void turn(int ep, conn *c, uint32_t events)
{
    if ((events & EPOLLOUT) && !send_some(c) && !over(c))
        watch(ep, c, EPOLL_CTL_MOD, EPOLLIN);
    if (!over(c) && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && !receive(c)) {
        close(c->fd);
        c->fd = -1;
    }
    if (!over(c))
        return;
    check_all(c);
    if (only == UINT64_MAX && made < wanted) {
        open_next(c);
        watch(ep, c, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT);
    }
}

static unsigned open_now(void)
{
    unsigned n = 0;
    for (unsigned i = 0; i < TOGETHER; i++)
        n += !over(&conns[i]);
    return n;
}

static long resident_kib(void)
{
    long kib = 0;
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, "VmRSS:", 6) == 0)
            kib = atol(line + 6);
    if (f != NULL)
        fclose(f);
    return kib;
}

static void nothing_is_left(void)
{
    bool left = true;
    while (left) {
        char *a = once("GET", "/v1/status", "", NULL);
        left = strstr(a, "\"connections\":1,\"request_memory_bytes\":0,") == NULL ||
               strstr(a, "\"queue\":{\"running\":0,\"waiting\":0,") == NULL;
        free(a);
    }
    char *a = once("POST", "/v1/chat/completions", "", "{" USER("plain") "}");
    expect(a, "\"content\":\"Once upon\"");
    free(a);
}

static void any_bytes(void **state)
{
    (void)state;
    int ep = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e[TOGETHER];
    long early = 0;
    for (unsigned i = 0; i < TOGETHER; i++)
        conns[i].fd = -1;
    for (unsigned i = 0; i < (only != UINT64_MAX ? 1 : TOGETHER); i++) {
        open_next(&conns[i]);
        watch(ep, &conns[i], EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT);
    }
    while (open_now() > 0) {
        int n = epoll_wait(ep, e, TOGETHER, LONG_ENOUGH);
        if (n == 0 || (n < 0 && errno != EINTR))
            fail_msg("nothing comes: the server stands still");
        for (int i = 0; i < n; i++)
            turn(ep, e[i].data.ptr, e[i].events);
        if (early == 0 && made * 10 > wanted)
            early = resident_kib();
    }
    for (unsigned i = 0; i < TOGETHER; i++) {
        free(conns[i].in);
        conns[i].in = NULL;
    }
    close(ep);
    nothing_is_left();
    printf("# seed %llu: %llu requests on %llu connections, %llu whole answers, %llu resets; "
           "resident %ld KiB after a tenth, %ld at the end\n",
           (unsigned long long)seed, (unsigned long long)made, (unsigned long long)next_number,
           (unsigned long long)answers, (unsigned long long)resets, early, resident_kib());
#ifndef __SANITIZE_ADDRESS__
    assert_true(resident_kib() - early < (long)(w.config.bounds.request_memory >> 10));
#endif
}

static int set_up(void **state)
{
    static const char *const origins[] = {"https://app.example", "http://localhost:1"};
    (void)state;
    wire_prepare(script);
    w.config.origins = origins;
    w.config.n_origins = 2;
    w.config.queue_limit = 16;
    w.config.bounds.header = w.config.bounds.body = 0.2;
    w.config.bounds.drained = LONG_ENOUGH / 1e3;
    wire_start();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    wire_end();
    return 0;
}

static void read_number(const char *name, uint64_t *n)
{
    const char *value = getenv(name);
    if (value != NULL)
        *n = strtoull(value, NULL, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_bytes, set_up, tear_down)};
    read_number("WIRE_FUZZ_REQUESTS", &wanted);
    read_number("WIRE_FUZZ_SEED", &seed);
    read_number("WIRE_FUZZ_ONLY", &only);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
