#include "server/prompt_render.h"

#include <stdio.h>
#include <string.h>

const char *const tt_effort_words[TT_EFFORTS + 1] = {"none", "minimal", "low", "medium",
                                                     "high", "xhigh",   "max", NULL};

static bool ends_in(const char *text, size_t len, const char *tag)
{
    size_t n = strlen(tag);
    while (len > 0 && text[len - 1] == '\n')
        len--;
    return len >= n && memcmp(text + len - n, tag, n) == 0;
}

tt_status tt_prompt_render(const tt_tokenizer *tok, const tt_engine_render *r,
                           tt_engine_prompt *out, tt_error *err)
{
    tt_engine_prompt p = {0};
    if (r->text != NULL) {
        TT_TRY(tt_tokenizer_encode(tok, r->text, r->len, r->special, &p.ids, &p.n, err));
        *out = p;
        return TT_OK;
    }
    tt_chat_options chat = {
        .tools_json = r->tools, .thinking = r->thinking, .extra_json = r->extra};
    char *text = NULL;
    size_t len = 0;
    TT_TRY(tt_chat_render(tok, r->messages, &chat, &text, &len, err));
    p.in_thought = ends_in(text, len, "<think>");
    p.may_think = !p.in_thought && r->thinking != TT_THINKING_OFF &&
                  !ends_in(text, len, "</think>") && tt_tokenizer_special_id(tok, "<think>") >= 0;
    tt_status st = tt_tokenizer_encode(tok, text, len, true, &p.ids, &p.n, err);
    tt_free(text);
    if (st == TT_OK)
        *out = p;
    return st;
}

/* What the template makes of a short conversation; NULL when it refuses it. */
static char *render_short(const tt_tokenizer *tok, tt_thinking thinking, const char *extra,
                          size_t *len)
{
    char *text = NULL;
    tt_chat_options chat = {.thinking = thinking, .extra_json = extra};
    tt_error ignored;
    return tt_chat_render(tok, "[{\"role\":\"user\",\"content\":\"?\"}]", &chat, &text, len,
                          &ignored) == TT_OK
               ? text
               : NULL;
}

static char *with_effort(const tt_tokenizer *tok, const char *word, size_t *len)
{
    char extra[64];
    snprintf(extra, sizeof extra, "{\"reasoning_effort\":\"%s\"}", word);
    return render_short(tok, TT_THINKING_ON, extra, len);
}

void tt_prompt_levels(const tt_tokenizer *tok, bool efforts[TT_EFFORTS], bool *thinks)
{
    size_t n_other = 0, n_on = 0, n_off = 0, n;
    memset(efforts, 0, TT_EFFORTS * sizeof efforts[0]);
    *thinks = false;
    if (!tt_tokenizer_has_template(tok))
        return;
    char *on = render_short(tok, TT_THINKING_ON, NULL, &n_on);
    char *off = render_short(tok, TT_THINKING_OFF, NULL, &n_off);
    *thinks = on != NULL && off != NULL && (n_on != n_off || memcmp(on, off, n_on) != 0);
    tt_free(on);
    tt_free(off);
    /* A word that no template knows: what renders as this does is not known either. */
    char *other = with_effort(tok, "another", &n_other);
    for (int i = TT_EFFORT_MINIMAL; i < TT_EFFORTS; i++) {
        char *text = with_effort(tok, tt_effort_words[i], &n);
        efforts[i] = text != NULL && (other == NULL || n != n_other || memcmp(text, other, n) != 0);
        tt_free(text);
    }
    tt_free(other);
}
