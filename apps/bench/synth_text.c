#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "bench/synth_text.h"

static const char *const names[SYNTH_TEXT_FILES] = {
    "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"};

/* Marks the id of a word. */
static tt_status take_id(const json_t *id, const char *word, const char *file, uint32_t limit,
                         bool *taken, tt_error *err)
{
    json_int_t i = json_is_integer(id) ? json_integer_value(id) : -1;
    if (i < 0 || i >= limit)
        return tt_fail(err, TT_ERR_FORMAT,
                       "%s: \"%s\" has no id below %u, which is all that the geometry has: take a "
                       "smaller tokenizer or another --preset",
                       file, word, limit);
    taken[i] = true;
    return TT_OK;
}

/* Which ids have text already. */
static tt_status take_ids(json_t *vocab, const json_t *added, const char *file, uint32_t limit,
                          bool *taken, tt_error *err)
{
    const char *word;
    size_t i;
    json_t *v;
    json_object_foreach(vocab, word, v)
    {
        TT_TRY(take_id(v, word, file, limit, taken, err));
    }
    json_array_foreach(added, i, v)
    {
        word = json_string_value(json_object_get(v, "content"));
        TT_TRY(
            take_id(json_object_get(v, "id"), word != NULL ? word : "", file, limit, taken, err));
    }
    return TT_OK;
}

/* A space and the id in letters, as the byte alphabet writes a space. */
static void name_id(char out[16], uint32_t id)
{
    char *p = out;
    *p++ = (char)0xc4;
    *p++ = (char)0xa0;
    for (uint32_t rest = id; p < out + 10; rest /= 26)
        *p++ = (char)('a' + rest % 26);
    *p = 0;
}

static tt_status fill_up(json_t *root, const char *file, uint32_t limit, tt_error *err)
{
    json_t *model, *vocab, *added;
    TT_TRY(tt_json_get_object(root, "model", file, &model, err));
    TT_TRY(tt_json_get_object(model, "vocab", file, &vocab, err));
    TT_TRY(tt_json_get_array(root, "added_tokens", file, &added, err));
    bool *taken = calloc(limit, sizeof *taken);
    if (taken == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %u ids", limit);
    tt_status st = take_ids(vocab, added, file, limit, taken, err);
    for (uint32_t id = 0; st == TT_OK && id < limit; id++) {
        char word[16];
        name_id(word, id);
        if (!taken[id] && json_object_get(vocab, word) != NULL)
            st = tt_fail(err, TT_ERR_FORMAT,
                         "%s: \"%s\", which is to stand for id %u, is a word of it already", file,
                         word, id);
        else if (!taken[id] && json_object_set_new(vocab, word, json_integer(id)) != 0)
            st = tt_fail(err, TT_ERR_NOMEM, "out of memory for %u ids", limit);
    }
    free(taken);
    return st;
}

/* tokenizer.json with a word for every id. */
static tt_status filled(const char *path, uint32_t limit, char **text, size_t *len, tt_error *err)
{
    json_t *root = NULL;
    TT_TRY(tt_json_load(path, TT_MAX_TOKENIZER_JSON, &root, err));
    tt_status st = fill_up(root, path, limit, err);
    if (st == TT_OK) {
        *text = json_dumps(root, JSON_COMPACT);
        *len = *text == NULL ? 0 : strlen(*text);
        if (*text == NULL)
            st = tt_fail(err, TT_ERR_NOMEM, "out of memory for the vocabulary");
    }
    json_decref(root);
    return st;
}

static tt_status write_one(synth_text *out, const char *into, const char *text, size_t len,
                           tt_error *err)
{
    char path[TT_MAX_PATH];
    synth_file f;
    TT_TRY(tt_path_join(path, into, out->rel[out->n], err));
    TT_TRY(synth_file_create(&f, path, NULL, NULL, err));
    tt_status st = synth_file_append(&f, text, len, err);
    if (st == TT_OK)
        st = synth_file_finish(&f, &out->written[out->n], err);
    synth_file_drop(&f);
    out->n += st == TT_OK;
    return st;
}

tt_status synth_write_text(synth_text *out, const char *from, const char *into, const char *below,
                           uint32_t vocab, tt_error *err)
{
    char path[TT_MAX_PATH];
    out->n = 0;
    TT_TRY(tt_path_join(path, into, below, err));
    if (*below != 0)
        TT_TRY(tt_dir_make(path, err));
    for (size_t i = 0; i < SYNTH_TEXT_FILES; i++) {
        char *text = NULL;
        size_t len = 0;
        TT_TRY(tt_path_join(path, from, names[i], err));
        if (i > 0 && access(path, F_OK) != 0)
            continue; /* the tokenizer alone is enough */
        snprintf(out->rel[out->n], sizeof out->rel[0], "%s%s%s", below, *below != 0 ? "/" : "",
                 names[i]);
        tt_status st = i == 0 ? filled(path, vocab, &text, &len, err)
                              : tt_file_read(path, TT_MAX_TOKENIZER_JSON, &text, &len, err);
        if (st == TT_OK)
            st = write_one(out, into, text, len, err);
        free(text);
        TT_TRY(st);
    }
    return TT_OK;
}
