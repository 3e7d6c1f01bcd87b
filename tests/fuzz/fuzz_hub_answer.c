/* Header lines of an answer, and how many bytes came with it, through the judgement of a request:
 * bytes count only when they are those that were asked for, a failure has a sentence, and no hub
 * can make us wait for ever or ask for ever. */
#include <stdlib.h>
#include <string.h>

#include "repack/hub_client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BEGIN = 8, END = 72 };

static void must(bool truth)
{
    if (!truth)
        abort();
}

static tt_hub *hub(void)
{
    static tt_hub *h;
    static const tt_hub_options o = {.endpoint = "https://hub.example",
                                     .token = "hf_x",
                                     .repository = "a/b",
                                     .revision = "main"};
    if (h == NULL) {
        must(tt_hub_open(&o, NULL, &h, NULL) == TT_OK);
        tt_hub_pin(h, "0123456789abcdef0123456789abcdef01234567");
    }
    return h;
}

/* Bytes of a body as the client takes them in. */
static void take_body(tt_hub_request *r, const uint8_t *body, size_t n)
{
    for (size_t at = 0; at < n; at += 16)
        if (tt_hub_request_body(r, body + at, n - at < 16 ? n - at : 16) !=
            (n - at < 16 ? n - at : 16))
            return;
}

static void one_answer(tt_hub_request *r, const uint8_t *lines, size_t n, size_t body)
{
    uint8_t bytes[128] = {1};
    for (size_t at = 0; at < n;) {
        const uint8_t *end = memchr(lines + at, '\n', n - at);
        size_t len = end != NULL ? (size_t)(end - (lines + at)) + 1 : n - at;
        tt_hub_response_line(&r->response, (const char *)lines + at, len);
        at += len;
    }
    take_body(r, bytes, body);
    must(r->got <= r->max);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char room[END - BEGIN];
    tt_hub_file file = {.name = "model.safetensors", .size = 4096, .id = "feed"};
    tt_hub_request r;
    CURL *easy = curl_easy_init();
    tt_hub_verdict v = TT_HUB_AGAIN;
    unsigned rounds = 0;
    if (easy == NULL || size < 2)
        goto out;
    tt_hub_request_init(&r, hub(), &file, BEGIN, END, room);
    /* Answers are separated by a NUL. */
    for (size_t at = 2; (v == TT_HUB_AGAIN || v == TT_HUB_PUSHED_BACK) && rounds < 400; rounds++) {
        tt_error err = {0};
        const uint8_t *end = at < size ? memchr(data + at, 0, size - at) : NULL;
        size_t n = end != NULL ? (size_t)(end - (data + at)) : size - at;
        CURLcode code = data[1] & 1 ? CURLE_OK : CURLE_PARTIAL_FILE;
        must(tt_hub_request_begin(&r, easy, &err) == TT_OK);
        one_answer(&r, data + at, n, data[0] % 128);
        v = tt_hub_request_judge(&r, easy, code, &err);
        must(v != TT_HUB_FAILED || (err.message[0] != '\0' && err.status != TT_OK));
        must(v != TT_HUB_DONE || (r.got == END - BEGIN && r.response.status == 206 &&
                                  r.response.last == END - 1 && file.size == 4096));
        must((v != TT_HUB_AGAIN && v != TT_HUB_PUSHED_BACK) || r.wait_ms <= 300000);
        at = at + n < size ? at + n + 1 : 2;
    }
    must(rounds < 400);
    tt_hub_request_free(&r);
out:
    curl_easy_cleanup(easy);
    return 0;
}
