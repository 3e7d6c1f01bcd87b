#include <stdlib.h>
#include <string.h>

#include "tokenizer/nfc.h"
#include "tokenizer/tok_utf8.h"
#include "tokenizer/tokenizer_impl.h"

typedef struct build {
    tt_tokenizer *tok;
    tt_tokenizer_json json;
    tt_token_def *defs;
    size_t n_defs;
    const char *file;
    tt_error *err;
} build;

static const char *type_of(const json_t *node)
{
    const char *type = json_string_value(json_object_get(node, "type"));
    return type == NULL ? "of no type" : type;
}

static bool is_type(const json_t *node, const char *type)
{
    return !strcmp(type_of(node), type);
}

static tt_status unsupported(const build *b, const char *key, const char *what, const char *only)
{
    return tt_fail_at(b->err, TT_ERR_UNSUPPORTED, b->file, -1, "%s %s is not supported, only %s is",
                      key, what, only);
}

/* ---- normalizer, post_processor, decoder ---- */

static tt_status normalizer(build *b, const json_t *node, bool nested)
{
    if (node == NULL || json_is_null(node))
        return TT_OK;
    if (is_type(node, "NFC")) {
        b->tok->nfc = true;
        return TT_OK;
    }
    const json_t *list = json_object_get(node, "normalizers"), *one;
    size_t i;
    if (!is_type(node, "Sequence") || nested || !json_is_array(list))
        return unsupported(b, "normalizer", type_of(node), "NFC");
    json_array_foreach(list, i, one)
    {
        TT_TRY(normalizer(b, one, true));
    }
    return TT_OK;
}

/* ByteLevel here only shapes offsets; anything else would change ids or text. */
static tt_status only_byte_level(const build *b, const char *key, const char *list_key, bool needed)
{
    const json_t *node = json_object_get(b->json.tree, key), *one;
    const json_t *list = json_object_get(node, list_key);
    size_t i, n = 0;
    if (!needed && (node == NULL || json_is_null(node)))
        return TT_OK;
    if (is_type(node, "ByteLevel"))
        return TT_OK;
    if (!is_type(node, "Sequence") || !json_is_array(list))
        return unsupported(b, key, type_of(node), "ByteLevel");
    json_array_foreach(list, i, one)
    {
        if (!is_type(one, "ByteLevel"))
            return unsupported(b, key, type_of(one), "ByteLevel");
        n++;
    }
    return needed && n == 0 ? unsupported(b, key, "(empty)", "ByteLevel") : TT_OK;
}

/* ---- model ---- */

/* A setting that must be off: absent, null, false, zero or empty. */
static tt_status must_be_off(const build *b, const json_t *model, const char *key)
{
    const json_t *v = json_object_get(model, key);
    bool off = v == NULL || json_is_null(v) || json_is_false(v) ||
               (json_is_number(v) && json_number_value(v) == 0) ||
               (json_is_string(v) && json_string_length(v) == 0);
    if (off)
        return TT_OK;
    return tt_fail_at(b->err, TT_ERR_UNSUPPORTED, b->file, -1, "model.%s is set, not supported",
                      key);
}

static tt_status model_settings(const build *b, bool *ignore_merges)
{
    static const char *const off[] = {"dropout", "unk_token", "byte_fallback",
                                      "continuing_subword_prefix", "end_of_word_suffix"};
    json_t *model;
    TT_TRY(tt_json_get_object(b->json.tree, "model", b->file, &model, b->err));
    if (json_object_get(model, "type") != NULL && !is_type(model, "BPE"))
        return unsupported(b, "model", type_of(model), "BPE");
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++)
        TT_TRY(must_be_off(b, model, off[i]));
    return tt_json_opt_bool(model, "ignore_merges", b->file, ignore_merges, b->err);
}

/* ---- added tokens ---- */

static tt_status added_flags(const json_t *entry, const char *file, tt_added_token *t,
                             tt_error *err)
{
    TT_TRY(tt_json_opt_bool(entry, "special", file, &t->special, err));
    t->normalized = !t->special;
    TT_TRY(tt_json_opt_bool(entry, "normalized", file, &t->normalized, err));
    TT_TRY(tt_json_opt_bool(entry, "single_word", file, &t->single_word, err));
    TT_TRY(tt_json_opt_bool(entry, "lstrip", file, &t->lstrip, err));
    return tt_json_opt_bool(entry, "rstrip", file, &t->rstrip, err);
}

static tt_status make_pattern(const build *b, tt_added_token *t)
{
    t->pattern = t->content;
    t->pattern_len = t->len;
    if (!t->normalized || !b->tok->nfc)
        return TT_OK;
    tt_buf out;
    bool same = false;
    tt_buf_init(&out, 4 * t->len + 64);
    tt_status st = tt_nfc(t->content, t->len, &out, &same, b->err);
    if (st == TT_OK && !same) {
        t->pattern = tt_buf_steal(&out, &t->pattern_len);
        if (t->pattern == NULL) {
            t->pattern = t->content;
            st = tt_fail(b->err, TT_ERR_NOMEM, "out of memory for an added token");
        }
    }
    tt_buf_free(&out);
    return st;
}

/* One entry with its id; `file` and `place` name it in errors. */
static tt_status add_token(build *b, const json_t *entry, uint32_t id, const char *file,
                           size_t place)
{
    const json_t *content = json_object_get(entry, "content");
    if (!json_is_string(content))
        return tt_fail_at(b->err, TT_ERR_FORMAT, file, -1, "added token %zu has no \"content\"",
                          place);
    if (json_string_length(content) == 0) /* the reference implementation passes over these */
        return TT_OK;
    tt_added_token t = {.id = id, .len = json_string_length(content)};
    TT_TRY(added_flags(entry, file, &t, b->err));
    t.content = malloc(t.len + 1);
    if (t.content == NULL)
        return tt_fail(b->err, TT_ERR_NOMEM, "out of memory for an added token");
    memcpy(t.content, json_string_value(content), t.len + 1);
    tt_status st = make_pattern(b, &t);
    if (st != TT_OK) {
        free(t.content);
        return st;
    }
    b->tok->added[b->tok->n_added++] = t;
    return TT_OK;
}

static tt_status make_room(build *b, size_t n)
{
    if (n > TT_MAX_ADDED)
        return tt_fail_at(b->err, TT_ERR_LIMIT, b->file, -1,
                          "%zu added tokens, at most %u are accepted", n, TT_MAX_ADDED);
    b->tok->added = calloc(n + 1, sizeof *b->tok->added);
    if (b->tok->added == NULL)
        return tt_fail(b->err, TT_ERR_NOMEM, "out of memory for %zu added tokens", n);
    return TT_OK;
}

static int by_content(const void *x, const void *y)
{
    const tt_added_token *const *pa = x, *const *pb = y;
    const tt_added_token *a = *pa, *b = *pb;
    size_t n = a->len < b->len ? a->len : b->len;
    int c = memcmp(a->content, b->content, n);
    return c != 0 ? c : (a->len > b->len) - (a->len < b->len);
}

static tt_status refuse_repeats(const build *b)
{
    size_t n = b->tok->n_added;
    const tt_added_token **order = malloc((n + 1) * sizeof *order);
    tt_status st = TT_OK;
    if (order == NULL)
        return tt_fail(b->err, TT_ERR_NOMEM, "out of memory for %zu added tokens", n);
    for (size_t i = 0; i < n; i++)
        order[i] = &b->tok->added[i];
    qsort(order, n, sizeof *order, by_content);
    for (size_t i = 1; i < n && st == TT_OK; i++)
        if (by_content(&order[i - 1], &order[i]) == 0) {
            char shown[80];
            st = tt_fail_at(b->err, TT_ERR_FORMAT, b->file, -1,
                            "added token \"%s\" stands twice, with ids %u and %u",
                            tt_show_bytes(order[i]->content, order[i]->len, shown),
                            order[i - 1]->id, order[i]->id);
        }
    free(order);
    return st;
}

/* tokenizer_config.json repeats the added tokens under their ids and may have more of them. Those
 * whose id is taken are left to tokenizer.json. */
static tt_status tokens_from_config(build *b, const json_t *more, const char *file)
{
    const char *key;
    json_t *entry;
    size_t known = b->tok->n_added, place = 0;
    uint8_t *taken = calloc(TT_MAX_VOCAB, 1);
    tt_status st = TT_OK;
    if (taken == NULL)
        return tt_fail(b->err, TT_ERR_NOMEM, "out of memory for added tokens");
    for (size_t i = 0; i < known; i++)
        taken[b->tok->added[i].id] = 1;
    json_object_foreach((json_t *)more, key, entry)
    {
        char *end = NULL;
        unsigned long id = strtoul(key, &end, 10);
        if (key[0] < '0' || key[0] > '9' || *end != '\0' || id >= TT_MAX_VOCAB) {
            st = tt_fail_at(b->err, TT_ERR_FORMAT, file, -1,
                            "added_tokens_decoder: \"%.32s\" is not an id of 0 to %u", key,
                            TT_MAX_VOCAB - 1);
            break;
        }
        st = taken[id] ? TT_OK : add_token(b, entry, (uint32_t)id, file, place++);
        if (st != TT_OK)
            break;
        taken[id] = 1;
    }
    free(taken);
    return st;
}

static tt_status added_tokens(build *b, const json_t *config, const char *config_file)
{
    const json_t *list = json_object_get(b->json.tree, "added_tokens"), *entry;
    const json_t *more = json_object_get(config, "added_tokens_decoder");
    size_t i;
    if (list != NULL && !json_is_null(list) && !json_is_array(list))
        return tt_fail_at(b->err, TT_ERR_FORMAT, b->file, -1,
                          "key \"added_tokens\" must be a list");
    TT_TRY(make_room(b, json_array_size(list) + json_object_size(more)));
    json_array_foreach(list, i, entry)
    {
        uint32_t id = 0;
        TT_TRY(tt_json_get_u32(entry, "id", b->file, 0, TT_MAX_VOCAB - 1, &id, b->err));
        TT_TRY(add_token(b, entry, id, b->file, i));
    }
    if (json_is_object(more))
        TT_TRY(tokens_from_config(b, more, config_file));
    return refuse_repeats(b);
}

/* ---- vocabulary ---- */

/* An added token may stand in the vocabulary under the same id, not under another. */
static tt_status check_added_ids(const build *b)
{
    char shown[80];
    for (size_t i = 0; i < b->tok->n_added; i++) {
        const tt_added_token *t = &b->tok->added[i];
        uint32_t id = TT_NO_TOKEN;
        size_t n = 0;
        char *bytes = malloc(t->len + 1);
        if (bytes == NULL)
            return tt_fail(b->err, TT_ERR_NOMEM, "out of memory for an added token");
        if (tt_bytes_from_alphabet(t->content, t->len, bytes, &n))
            id = tt_vocab_find(&b->tok->vocab, bytes, n);
        free(bytes);
        if (id != TT_NO_TOKEN && id != t->id)
            return tt_fail_at(b->err, TT_ERR_FORMAT, b->file, -1,
                              "token \"%s\" has id %u in model.vocab and %u in added_tokens",
                              tt_show_bytes(t->content, t->len, shown), id, t->id);
    }
    return TT_OK;
}

static tt_status vocabulary(build *b)
{
    const tt_tokenizer_json *tj = &b->json;
    size_t n = 0;
    if (tj->n_tokens == 0)
        return tt_fail_at(b->err, TT_ERR_FORMAT, b->file, -1, "model.vocab is missing or empty");
    b->defs = malloc((tj->n_tokens + b->tok->n_added) * sizeof *b->defs);
    if (b->defs == NULL)
        return tt_fail(b->err, TT_ERR_NOMEM, "out of memory for %zu tokens", tj->n_tokens);
    for (size_t i = 0; i < tj->n_tokens; i++) {
        const tt_json_token *t = &tj->tokens[i];
        b->defs[n++] = (tt_token_def){.bytes = tj->blob + t->start,
                                      .len = t->len,
                                      .id = t->id,
                                      .flags = t->raw ? 0 : TT_TOKEN_MODEL};
    }
    for (size_t i = 0; i < b->tok->n_added; i++) {
        const tt_added_token *t = &b->tok->added[i];
        b->defs[n++] = (tt_token_def){
            .bytes = t->content,
            .len = (uint32_t)t->len,
            .id = t->id,
            .flags = (uint8_t)(TT_TOKEN_ADDED | (t->special ? TT_TOKEN_SPECIAL : 0))};
    }
    TT_TRY(tt_vocab_build(b->defs, n, b->file, &b->tok->vocab, b->err));
    return check_added_ids(b);
}

/* ---- all of it ---- */

static tt_status build_all(build *b, const json_t *config, const char *config_file)
{
    tt_tokenizer *tok = b->tok;
    bool ignore_merges = false;
    TT_TRY(model_settings(b, &ignore_merges));
    TT_TRY(normalizer(b, json_object_get(b->json.tree, "normalizer"), false));
    TT_TRY(only_byte_level(b, "post_processor", "processors", false));
    TT_TRY(only_byte_level(b, "decoder", "decoders", true));
    TT_TRY(tt_pretokenizer_build(json_object_get(b->json.tree, "pre_tokenizer"), b->file,
                                 &tok->pretokenizer, b->err));
    TT_TRY(added_tokens(b, config, config_file));
    TT_TRY(vocabulary(b));
    TT_TRY(tt_bpe_build(&tok->vocab, &b->json, ignore_merges, b->file, &tok->bpe, b->err));
    TT_TRY(tt_matcher_build(tok->added, tok->n_added, false, &tok->raw, b->err));
    return tt_matcher_build(tok->added, tok->n_added, true, &tok->normalized, b->err);
}

tt_status tt_tokenizer_build(const char *json, size_t len, const char *file, const json_t *config,
                             const char *config_file, tt_tokenizer **out, tt_error *err)
{
    build b = {.file = file, .err = err};
    TT_TRY(tt_tokenizer_json_parse(json, len, file, &b.json, err));
    b.tok = calloc(1, sizeof *b.tok);
    tt_status st = b.tok == NULL ? tt_fail(err, TT_ERR_NOMEM, "out of memory for the tokenizer")
                                 : build_all(&b, config, config_file);
    free(b.defs);
    tt_tokenizer_json_free(&b.json);
    if (st != TT_OK) {
        tt_tokenizer_close(&b.tok);
        return st;
    }
    *out = b.tok;
    return TT_OK;
}
