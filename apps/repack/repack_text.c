#include "repack/repack_text.h"

#include <string.h>

#include "tinytitan/tinytitan.h"

static bool named(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    return strcmp(slash != NULL ? slash + 1 : path, name) == 0;
}

/* Names the file and what the install would be without it. */
static tt_status refuse(tt_error *err)
{
    tt_error old = *err;
    const char *slash = strrchr(old.file, '/'), *remedy;
    if (named(old.file, "config.json"))
        remedy = "mend it";
    else if (named(old.file, "tokenizer.json"))
        remedy = "mend it, or take it away: the install then computes logits and refuses text";
    else if (strstr(old.message, "template") != NULL)
        remedy = "mend it, or take the template away: the install then completes text and refuses "
                 "chat";
    else
        remedy = "mend it, or take it away: the install then goes by defaults";
    return tt_fail_at(err, old.status, old.file, old.offset, "%.100s cannot be used, %s (%.400s)",
                      slash != NULL ? slash + 1 : old.file, remedy, old.message);
}

/* Ids that no row of logits has an entry for come from tokens that were added and never trained. */
static tt_status compare_vocab(const tt_tokenizer *tok, uint32_t vocab, const tt_repack_events *ev,
                               const char *dir, tt_error *err)
{
    size_t n = 0;
    const uint32_t *ends = tt_tokenizer_stop_ids(tok, &n);
    for (size_t i = 0; i < n; i++)
        if (ends[i] >= vocab)
            return tt_fail_at(err, TT_ERR_FORMAT, dir, -1,
                              "the end token %u is beyond the model's vocabulary of %u: mend "
                              "\"eos_token\" or \"eos_token_id\" in the checkpoint's configs",
                              ends[i], vocab);
    if (tt_tokenizer_vocab_size(tok) > vocab)
        tt_note(ev, TT_NOTE_WARNING,
                "tokenizer.json has ids up to %u, the model %u: text with tokens beyond will be "
                "refused",
                tt_tokenizer_vocab_size(tok) - 1, vocab - 1);
    return TT_OK;
}

tt_status repack_check_text(void *ctx, const char *dir, uint32_t vocab, bool *has_template,
                            tt_error *err)
{
    tt_tokenizer *tok = NULL;
    tt_status st = tt_tokenizer_open(dir, &tok, err);
    if (st == TT_ERR_NOMEM)
        return st;
    if (st != TT_OK)
        return refuse(err);
    bool template = tt_tokenizer_has_template(tok);
    st = tt_chat_check_template(tok, err);
    if (st != TT_OK && st != TT_ERR_NOMEM)
        st = refuse(err);
    if (st == TT_OK)
        st = compare_vocab(tok, vocab, ctx, dir, err);
    tt_tokenizer_close(&tok);
    if (st == TT_OK)
        *has_template = template;
    return st;
}
