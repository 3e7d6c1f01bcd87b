#include "tokenizer/token_files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "format/install.h"
#include "tokenizer/tok_utf8.h"

static void note_missing(tt_token_files *tf, const char *name)
{
    if (tf->missing.len > 0)
        tt_buf_puts(&tf->missing, ", ");
    tt_buf_puts(&tf->missing, name);
}

/* Reads a JSON object from the folder; *tree stays NULL when the file is missing. `path` receives
 * where it was looked for. */
static tt_status load_optional(tt_token_files *tf, const char *name, char *path, json_t **tree,
                               tt_error *err)
{
    TT_TRY(tt_path_join(path, tf->dir, name, err));
    if (!tt_file_exists(path)) {
        note_missing(tf, name);
        return TT_OK;
    }
    TT_TRY(tt_json_load(path, TT_MAX_CONFIG_JSON, tree, err));
    if (json_is_object(*tree))
        return TT_OK;
    json_decref(*tree);
    *tree = NULL;
    return tt_fail_at(err, TT_ERR_FORMAT, path, -1, "must hold a JSON object");
}

/* ---- chat template ---- */

static tt_status take_template(tt_token_files *tf, const char *text, size_t len, const char *file,
                               tt_error *err)
{
    if (len > TT_MAX_TEMPLATE)
        return tt_fail_at(err, TT_ERR_LIMIT, file, -1,
                          "the chat template has %zu bytes, at most %llu are accepted", len,
                          (unsigned long long)TT_MAX_TEMPLATE);
    if (memchr(text, 0, len) != NULL)
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1, "the chat template holds U+0000");
    size_t bad = tt_utf8_check(text, len);
    if (bad < len)
        return tt_fail_at(err, TT_ERR_FORMAT, file, (int64_t)bad, "the chat template is not UTF-8");
    tf->template_text = tt_copy_text(text, len);
    if (tf->template_text == NULL)
        return tt_fail_at(err, TT_ERR_NOMEM, file, -1, "out of memory for the chat template");
    tf->template_len = len;
    snprintf(tf->template_path, sizeof tf->template_path, "%s", file);
    return TT_OK;
}

/* "chat_template": the text, or a list of {name, template} of which "default" counts. */
static tt_status template_from_json(tt_token_files *tf, const json_t *tree, const char *file,
                                    tt_error *err)
{
    const json_t *v = json_object_get(tree, "chat_template"), *chosen = v;
    if (json_is_array(v)) {
        const json_t *entry;
        size_t i;
        chosen = NULL;
        json_array_foreach(v, i, entry)
        {
            const char *name = json_string_value(json_object_get(entry, "name"));
            if (name != NULL && strcmp(name, "default") == 0)
                chosen = json_object_get(entry, "template");
        }
    }
    v = chosen;
    if (v == NULL || json_is_null(v))
        return TT_OK;
    if (!json_is_string(v))
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                          "key \"chat_template\" must be a string or a list with an entry named "
                          "default");
    return take_template(tf, json_string_value(v), json_string_length(v), file, err);
}

static tt_status load_template(tt_token_files *tf, tt_error *err)
{
    char path[TT_MAX_PATH];
    TT_TRY(tt_path_join(path, tf->dir, "chat_template.jinja", err));
    snprintf(tf->template_path, sizeof tf->template_path, "%s", path);
    if (tt_file_exists(path)) {
        char *text = NULL;
        size_t len = 0;
        TT_TRY(tt_file_read(path, TT_MAX_TEMPLATE, &text, &len, err));
        tt_status st = take_template(tf, text, len, path, err);
        free(text);
        return st;
    }
    note_missing(tf, "chat_template.jinja");
    if (tf->config != NULL)
        TT_TRY(template_from_json(tf, tf->config, tf->config_path, err));
    if (tf->template_text != NULL)
        return TT_OK;
    json_t *tree = NULL;
    TT_TRY(load_optional(tf, "chat_template.json", path, &tree, err));
    tt_status st = tree == NULL ? TT_OK : template_from_json(tf, tree, path, err);
    json_decref(tree);
    return st;
}

/* ---- named tokens ---- */

const char *tt_token_content(const json_t *v)
{
    return json_string_value(json_is_object(v) ? json_object_get(v, "content") : v);
}

static tt_status load_named(tt_token_files *tf, tt_error *err)
{
    static const char *const keys[TT_NAMED_TOKENS] = {"bos_token", "eos_token", "pad_token",
                                                      "unk_token"};
    for (size_t i = 0; i < TT_NAMED_TOKENS && tf->config != NULL; i++) {
        const json_t *v = json_object_get(tf->config, keys[i]);
        if (v == NULL || json_is_null(v))
            continue;
        const char *content = tt_token_content(v);
        if (content == NULL)
            return tt_fail_at(err, TT_ERR_FORMAT, tf->config_path, -1,
                              "key \"%s\" must be a string or an object with \"content\"", keys[i]);
        tf->named[i] = strdup(content);
        if (tf->named[i] == NULL)
            return tt_fail(err, TT_ERR_NOMEM, "out of memory for a token's name");
    }
    return TT_OK;
}

/* ---- end-of-generation ids ---- */

bool tt_token_files_add_stop(tt_token_files *tf, uint32_t id)
{
    for (size_t i = 0; i < tf->n_stops; i++)
        if (tf->stops[i] == id)
            return true;
    if (tf->n_stops == TT_MAX_STOP_IDS)
        return false;
    tf->stops[tf->n_stops++] = id;
    return true;
}

/* "eos_token_id": absent, null, an id or a list of ids. */
static tt_status stops_from(tt_token_files *tf, const json_t *obj, const char *file, tt_error *err)
{
    const json_t *v = json_object_get(obj, "eos_token_id");
    if (v == NULL || json_is_null(v))
        return TT_OK;
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(v) ? json_array_get(v, i) : v;
        json_int_t id = json_integer_value(one);
        if (!json_is_integer(one))
            return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                              "key \"eos_token_id\" must be an id or a list of ids, null says "
                              "that there is none");
        if (id < 0 || id >= (json_int_t)tf->vocab)
            return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                              "key \"eos_token_id\" names id %lld, %s has the ids 0 to %u",
                              (long long)id,
                              tf->vocab < TT_MAX_VOCAB ? "the model's vocabulary" : "a vocabulary",
                              tf->vocab - 1);
        if (!tt_token_files_add_stop(tf, (uint32_t)id))
            return tt_fail_at(err, TT_ERR_LIMIT, file, -1,
                              "key \"eos_token_id\" makes more than %u end ids", TT_MAX_STOP_IDS);
    }
    return TT_OK;
}

/* Ids that the model computes logits for; what config.json lacks or has wrong bounds nothing. */
static void note_vocab(tt_token_files *tf, const json_t *config)
{
    const json_t *v = json_object_get(json_object_get(config, "text_config"), "vocab_size");
    if (v == NULL)
        v = json_object_get(config, "vocab_size");
    json_int_t n = json_integer_value(v);
    tf->vocab = n > 0 && n < (json_int_t)TT_MAX_VOCAB ? (uint32_t)n : TT_MAX_VOCAB;
}

/* ---- sampling defaults ---- */

tt_sampler_options tt_plain_sampling(void)
{
    return (tt_sampler_options){.top_p = 1, .repetition_penalty = 1};
}

static tt_status opt_float(const json_t *tree, const char *key, const char *file, double min,
                           double max, float *out, tt_error *err)
{
    double v = *out;
    TT_TRY(tt_json_opt_number(tree, key, file, min, max, &v, err));
    *out = (float)v;
    return TT_OK;
}

static tt_status read_sampling(const json_t *tree, const char *file, tt_sampler_options *o,
                               tt_error *err)
{
    bool sample = json_object_get(tree, "temperature") != NULL;
    /* Minus one says "off" in some files, as zero does. */
    const json_t *top_k = json_object_get(tree, "top_k");
    TT_TRY(tt_json_opt_bool(tree, "do_sample", file, &sample, err));
    if (sample)
        o->temperature = 1;
    TT_TRY(opt_float(tree, "temperature", file, 0, 100, &o->temperature, err));
    if (!json_is_integer(top_k) || json_integer_value(top_k) != -1)
        TT_TRY(tt_json_opt_u32(tree, "top_k", file, 0, TT_MAX_VOCAB, &o->top_k, err));
    TT_TRY(opt_float(tree, "top_p", file, 1e-6, 1, &o->top_p, err));
    TT_TRY(opt_float(tree, "min_p", file, 0, 1, &o->min_p, err));
    TT_TRY(opt_float(tree, "repetition_penalty", file, 1e-3, 1e3, &o->repetition_penalty, err));
    TT_TRY(opt_float(tree, "presence_penalty", file, -2, 2, &o->presence_penalty, err));
    TT_TRY(opt_float(tree, "frequency_penalty", file, -2, 2, &o->frequency_penalty, err));
    if (!sample)
        o->temperature = 0;
    return TT_OK;
}

/* generation_config.json first: its end ids lead the list. */
static tt_status load_generation(tt_token_files *tf, tt_error *err)
{
    char path[TT_MAX_PATH];
    json_t *tree = NULL;
    tf->sampling = tt_plain_sampling();
    TT_TRY(load_optional(tf, "generation_config.json", path, &tree, err));
    if (tree == NULL)
        return TT_OK;
    tf->has_generation = true;
    tt_status st = read_sampling(tree, path, &tf->sampling, err);
    if (st == TT_OK)
        st = stops_from(tf, tree, path, err);
    json_decref(tree);
    return st;
}

/* ---- all of them ---- */

static tt_status find_dir(const char *dir, tt_token_files *tf, tt_error *err)
{
    char path[TT_MAX_PATH];
    if (!tt_dir_exists(dir))
        return tt_fail_at(err, TT_ERR_NOT_FOUND, dir, -1, "there is no directory %s", dir);
    TT_TRY(tt_path_join(path, dir, TT_MANIFEST_NAME, err));
    bool install = tt_file_exists(path);
    TT_TRY(tt_path_join(path, dir, "tokenizer.json", err));
    /* A checkpoint may have such a folder too; its own files are those at the top. */
    if (!install && tt_file_exists(path))
        snprintf(tf->dir, sizeof tf->dir, "%s", dir);
    else
        TT_TRY(tt_path_join(tf->dir, dir, TT_TOKENIZER_DIR, err));
    TT_TRY(tt_path_join(tf->tokenizer_json, tf->dir, "tokenizer.json", err));
    if (tt_file_exists(tf->tokenizer_json))
        return TT_OK;
    return tt_fail_at(err, TT_ERR_NOT_FOUND, tf->tokenizer_json, -1,
                      "tokenizer.json is missing, so %s takes no text%s", dir,
                      install ? ": convert the checkpoint again with the file beside its "
                                "config.json"
                              : "");
}

static tt_status load_ends_and_sampling(tt_token_files *tf, tt_error *err)
{
    char path[TT_MAX_PATH];
    json_t *config = NULL;
    TT_TRY(load_optional(tf, "config.json", path, &config, err));
    note_vocab(tf, config);
    tt_status st = load_generation(tf, err);
    if (st == TT_OK)
        st = stops_from(tf, config, path, err);
    if (st == TT_OK)
        st = stops_from(tf, json_object_get(config, "text_config"), path, err);
    json_decref(config);
    return st;
}

static tt_status load(const char *dir, tt_token_files *tf, tt_error *err)
{
    TT_TRY(find_dir(dir, tf, err));
    TT_TRY(load_optional(tf, "tokenizer_config.json", tf->config_path, &tf->config, err));
    TT_TRY(load_named(tf, err));
    TT_TRY(load_ends_and_sampling(tf, err));
    TT_TRY(load_template(tf, err));
    return tt_buf_status(&tf->missing, err);
}

tt_status tt_token_files_load(const char *dir, tt_token_files *out, tt_error *err)
{
    tt_token_files *tf = calloc(1, sizeof *tf);
    if (tf == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the tokenizer's settings");
    tt_buf_init(&tf->missing, 1024);
    tt_status st = load(dir, tf, err);
    if (st == TT_OK)
        *out = *tf;
    else
        tt_token_files_free(tf);
    free(tf);
    return st;
}

void tt_token_files_free(tt_token_files *tf)
{
    free(tf->template_text);
    json_decref(tf->config);
    for (size_t i = 0; i < TT_NAMED_TOKENS; i++)
        free(tf->named[i]);
    tt_buf_free(&tf->missing);
    *tf = (tt_token_files){0};
}
