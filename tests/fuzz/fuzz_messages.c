/* Proves that no conversation and no list of tools does harm: the input is the JSON of --messages
 * and, behind a NUL byte, that of --tools. What passes the checks is rendered through the template
 * of the shipped model, or refused in words. */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "cli/prompt_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static tt_tokenizer *tok;

static void close_tok(void)
{
    tt_tokenizer_close(&tok);
}

static void said(tt_status st, const tt_error *err)
{
    if (st != TT_OK && (err->message[0] == '\0' || err->status != st))
        abort();
}

static void render(const char *messages, const char *tools)
{
    for (int thinking = TT_THINKING_DEFAULT; thinking <= TT_THINKING_OFF; thinking++) {
        tt_prompt p = {0};
        tt_error err = {0};
        tt_status st = tt_prompt_chat(tok, messages, tools, (tt_thinking)thinking, &p, &err);
        said(st, &err);
        for (size_t i = 0; i < p.n; i++)
            if (p.ids[i] >= tt_tokenizer_vocab_size(tok))
                abort();
        tt_prompt_free(&p);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tt_error err = {0};
    bool system = false;
    if (tok == NULL) {
        if (tt_tokenizer_open("models/tales", &tok, &err) != TT_OK)
            abort();
        atexit(close_tok);
    }
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    size_t n = strlen(text);
    const char *tools = n < size ? text + n + 1 : NULL;
    tt_status st = tt_prompt_check_messages(text, n, "messages.json", &system, &err);
    said(st, &err);
    if (tools != NULL && st == TT_OK) {
        st = tt_prompt_check_tools(tools, strlen(tools), "tools.json", &err);
        said(st, &err);
    }
    if (st == TT_OK)
        render(text, tools);
    free(text);
    return 0;
}
