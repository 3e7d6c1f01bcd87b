#include "tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tokenizer/nfc.h"
#include "tokenizer/tok_utf8.h"
#include "tokenizer/tokenizer_impl.h"

/* ---- opening ---- */

/* Ends that the files name by text or not at all. */
static tt_status complete_stops(tt_tokenizer *tok, tt_error *err)
{
    const char *eos = tok->files.named[TT_TOKEN_EOS];
    int64_t ids[3] = {eos == NULL ? -1 : tt_tokenizer_special_id(tok, eos), -1, -1};
    if (!tok->files.has_generation) {
        /* Some published checkpoints ship without generation_config.json; config.json then names
         * only one of the two. */
        int64_t turn = tt_tokenizer_special_id(tok, "<|im_end|>");
        int64_t text = tt_tokenizer_special_id(tok, "<|endoftext|>");
        if (turn >= 0 && text >= 0) {
            ids[1] = turn;
            ids[2] = text;
        }
    }
    for (size_t i = 0; i < 3; i++)
        if (ids[i] >= 0 && !tt_token_files_add_stop(&tok->files, (uint32_t)ids[i]))
            return tt_fail_at(err, TT_ERR_LIMIT, tok->files.dir, -1, "more than %u end ids",
                              TT_MAX_STOP_IDS);
    return TT_OK;
}

static tt_status open_files(tt_token_files *files, tt_tokenizer **tok, tt_error *err)
{
    char *json = NULL;
    size_t len = 0;
    TT_TRY(tt_file_read(files->tokenizer_json, TT_MAX_TOKENIZER_JSON, &json, &len, err));
    tt_status st = tt_tokenizer_build(json, len, files->tokenizer_json, files->config,
                                      files->config_path, tok, err);
    free(json);
    return st;
}

tt_status tt_tokenizer_open(const char *dir, tt_tokenizer **out, tt_error *err)
{
    if (dir == NULL || out == NULL)
        return tt_fail(err, TT_ERR_INVALID, "a tokenizer needs a directory and a place to go");
    tt_token_files *files = malloc(sizeof *files);
    tt_tokenizer *tok = NULL;
    if (files == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the tokenizer");
    tt_status st = tt_token_files_load(dir, files, err);
    if (st == TT_OK) {
        st = open_files(files, &tok, err);
        if (st == TT_OK) {
            tok->files = *files;
            st = complete_stops(tok, err);
        } else {
            tt_token_files_free(files);
        }
    }
    free(files);
    if (st != TT_OK) {
        tt_tokenizer_close(&tok);
        return st;
    }
    json_decref(tok->files.config); /* its tokens are taken over, nobody asks again */
    tok->files.config = NULL;
    *out = tok;
    return TT_OK;
}

void tt_tokenizer_close(tt_tokenizer **handle)
{
    if (handle == NULL || *handle == NULL)
        return;
    tt_tokenizer *tok = *handle;
    for (size_t i = 0; i < tok->n_added; i++) {
        if (tok->added[i].pattern != tok->added[i].content)
            free(tok->added[i].pattern);
        free(tok->added[i].content);
    }
    free(tok->added);
    tt_matcher_free(&tok->raw);
    tt_matcher_free(&tok->normalized);
    tt_pretokenizer_free(&tok->pretokenizer);
    tt_bpe_free(&tok->bpe);
    tt_vocab_free(&tok->vocab);
    tt_token_files_free(&tok->files);
    free(tok);
    *handle = NULL;
}

/* ---- encoding ---- */

typedef struct encoding {
    const tt_tokenizer *tok;
    tt_ids ids;
    tt_bpe_scratch scratch;
    bool special;
} encoding;

static tt_status piece(void *ctx, const char *text, size_t n, tt_error *err)
{
    encoding *e = ctx;
    return tt_bpe_encode(&e->tok->bpe, &e->scratch, text, n, &e->ids, err);
}

/* After normalisation: between added tokens that are searched in normalised text. */
static tt_status normalized_segment(void *ctx, const char *text, size_t n,
                                    const tt_added_token *token, tt_error *err)
{
    encoding *e = ctx;
    if (token != NULL)
        return tt_ids_push(&e->ids, token->id, err);
    return tt_pretokenizer_split(e->tok->pretokenizer, text, n, piece, e, err);
}

static tt_status plain(encoding *e, const char *text, size_t n, tt_error *err)
{
    if (e->special)
        return tt_matcher_split(&e->tok->normalized, text, n, normalized_segment, e, err);
    return normalized_segment(e, text, n, NULL, err);
}

/* Before normalisation: between added tokens that are searched in the text as it came. */
static tt_status raw_segment(void *ctx, const char *text, size_t n, const tt_added_token *token,
                             tt_error *err)
{
    encoding *e = ctx;
    if (token != NULL)
        return tt_ids_push(&e->ids, token->id, err);
    if (!e->tok->nfc)
        return plain(e, text, n, err);
    tt_buf out;
    bool same = false;
    tt_buf_init(&out, 4 * n + 64); /* no text grows by more than three under NFC */
    tt_status st = tt_nfc(text, n, &out, &same, err);
    if (st == TT_OK)
        st = same ? plain(e, text, n, err) : plain(e, out.data, out.len, err);
    tt_buf_free(&out);
    return st;
}

tt_status tt_tokenizer_encode(const tt_tokenizer *tok, const char *text, size_t len, bool special,
                              uint32_t **ids, size_t *n, tt_error *err)
{
    if (tok == NULL || (text == NULL && len > 0) || ids == NULL || n == NULL)
        return tt_fail(err, TT_ERR_INVALID, "encoding needs a tokenizer, a text and two outputs");
    if (len > TT_MAX_TEXT)
        return tt_fail(err, TT_ERR_LIMIT, "a text of %zu bytes is too long, at most %llu", len,
                       (unsigned long long)TT_MAX_TEXT);
    size_t bad = tt_utf8_check(text, len);
    if (bad < len)
        return tt_fail_at(err, TT_ERR_FORMAT, NULL, (int64_t)bad,
                          "the text is not UTF-8 at byte %zu (0x%02x)", bad,
                          (unsigned char)text[bad]);
    encoding e = {.tok = tok, .special = special};
    tt_status st = TT_OK;
    if (special)
        st = tt_matcher_split(&tok->raw, text, len, raw_segment, &e, err);
    else if (len > 0)
        st = raw_segment(&e, text, len, NULL, err);
    tt_bpe_scratch_free(&e.scratch);
    if (st == TT_OK && e.ids.v == NULL && (e.ids.v = malloc(sizeof *e.ids.v)) == NULL)
        st = tt_fail(err, TT_ERR_NOMEM, "out of memory for ids");
    if (st != TT_OK) {
        free(e.ids.v);
        return st;
    }
    *ids = e.ids.v;
    *n = e.ids.n;
    return TT_OK;
}

/* ---- looking things up ---- */

const char *tt_tokenizer_piece(const tt_tokenizer *tok, uint32_t id, size_t *len, bool *special)
{
    const char *bytes = tt_vocab_bytes(&tok->vocab, id, len);
    if (bytes != NULL && special != NULL)
        *special = (tok->vocab.flags[id] & TT_TOKEN_SPECIAL) != 0;
    return bytes;
}

int64_t tt_tokenizer_special_id(const tt_tokenizer *tok, const char *content)
{
    size_t len = strlen(content);
    for (size_t i = 0; i < tok->n_added; i++)
        if (tok->added[i].len == len && memcmp(tok->added[i].content, content, len) == 0)
            return tok->added[i].id;
    return -1;
}

uint32_t tt_tokenizer_vocab_size(const tt_tokenizer *tok)
{
    return tok->vocab.n;
}

const uint32_t *tt_tokenizer_stop_ids(const tt_tokenizer *tok, size_t *n)
{
    *n = tok->files.n_stops;
    return tok->files.stops;
}

bool tt_tokenizer_sampling_defaults(const tt_tokenizer *tok, tt_sampler_options *opts)
{
    *opts = tok->files.sampling;
    return tok->files.has_generation;
}

bool tt_tokenizer_has_template(const tt_tokenizer *tok)
{
    return tok->files.template_text != NULL;
}

const char *tt_tokenizer_dir(const tt_tokenizer *tok)
{
    return tok->files.dir;
}

const char *tt_tokenizer_template(const tt_tokenizer *tok, size_t *len)
{
    if (len != NULL)
        *len = tok->files.template_len;
    return tok->files.template_text;
}

const char *tt_tokenizer_template_file(const tt_tokenizer *tok)
{
    return tok->files.template_path;
}

const char *tt_tokenizer_named_token(const tt_tokenizer *tok, tt_named_token which)
{
    return (unsigned)which < TT_NAMED_TOKENS ? tok->files.named[which] : NULL;
}

const char *tt_tokenizer_missing(const tt_tokenizer *tok)
{
    return tok->files.missing.data == NULL ? "" : tok->files.missing.data;
}
