/* Where later conversations may go on from a rendered one, told from its ids: messages begin with
 * <|im_start|> and a role. */
#include <string.h>

#include "tokenizer/tokenizer.h"

#define TEXT_AHEAD 64u /* bytes that tell a role and what it begins with */

/* The text after position i, special tokens included. */
static void text_after(const tt_tokenizer *tok, const uint32_t *ids, size_t n, size_t i,
                       char out[TEXT_AHEAD])
{
    size_t at = 0, len;
    for (i++; i < n && at < TEXT_AHEAD - 1; i++) {
        const char *piece = tt_tokenizer_piece(tok, ids[i], &len, NULL);
        if (piece == NULL)
            break;
        len = len < TEXT_AHEAD - 1 - at ? len : TEXT_AHEAD - 1 - at;
        memcpy(out + at, piece, len);
        at += len;
    }
    out[at] = '\0';
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

size_t tt_chat_checkpoints(const tt_tokenizer *tok, const uint32_t *ids, size_t n,
                           tt_checkpoint *out)
{
    int64_t start = tt_tokenizer_special_id(tok, "<|im_start|>");
    size_t first = 0, system = 0, turn = 0, last = 0, messages = 0, k = 0;
    char text[TEXT_AHEAD];
    for (size_t i = 0; start >= 0 && i < n; i++) {
        if (ids[i] != (uint32_t)start)
            continue;
        text_after(tok, ids, n, i, text);
        if (messages++ == 0)
            first = begins(text, "system\n");
        else if (first && system == 0)
            system = i;
        /* Answers of tools come in the user's name. */
        if (begins(text, "user\n") && !begins(text, "user\n<tool_response>"))
            turn = i;
        last = i;
    }
    if (system > 0)
        out[k++] = (tt_checkpoint){system, TT_CHECKPOINT_SYSTEM};
    if (turn > system)
        out[k++] = (tt_checkpoint){turn, TT_CHECKPOINT_TURN};
    if (last > turn && last > system)
        out[k++] = (tt_checkpoint){last, TT_CHECKPOINT_MESSAGE};
    return k;
}
