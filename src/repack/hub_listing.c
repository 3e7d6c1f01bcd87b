#include "repack/hub_listing.h"

#include <stdio.h>
#include <string.h>

#include "format/safetensors_parse.h"
#include "repack/checkpoint.h"
#include "repack/hub_client.h"
#include "repack/hub_state.h"

bool tt_hub_listing_has(const json_t *names, const char *name)
{
    size_t i;
    json_t *is;
    json_array_foreach(names, i, is)
    {
        if (strcmp(json_string_value(is), name) == 0)
            return true;
    }
    return false;
}

static bool ends_with(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && strcmp(s + n - m, suffix) == 0;
}

static bool wanted(const char *name)
{
    if (strcmp(name, TT_HUB_INDEX_NAME) == 0 || strcmp(name, TT_HUB_SINGLE_NAME) == 0 ||
        tt_st_is_extra_shard(name))
        return true;
    for (size_t i = 0; i < TT_SNAPSHOT_TOKENIZER_FILES; i++)
        if (strcmp(name, tt_snapshot_tokenizer_names[i]) == 0)
            return true;
    return false;
}

/* Where a GGUF repository says that its weights come from, or NULL. */
static const char *base_model(const json_t *tree)
{
    const json_t *card = json_object_get(tree, "cardData"), *base;
    base = json_object_get(card, "base_model");
    if (json_is_array(base))
        base = json_array_get(base, 0);
    const char *name = json_string_value(base);
    return name != NULL && tt_hub_repository_valid(name) ? name : NULL;
}

static tt_status refuse_gguf(const char *repository, const json_t *tree, tt_error *err)
{
    char guess[TT_HUB_MAX_REPO + 8];
    const char *from = base_model(tree);
    snprintf(guess, sizeof guess, "%s", repository);
    if (from == NULL && (ends_with(guess, "-GGUF") || ends_with(guess, "-gguf"))) {
        guess[strlen(guess) - 5] = '\0';
        from = guess;
    }
    return tt_fail(
        err, TT_ERR_UNSUPPORTED,
        "%s holds GGUF files. Their super-blocks cannot be carried over into groups of 64 "
        "with scale and bias: they would have to be quantized a second time, which loses "
        "twice. Install from the original weights%s%s",
        repository, from != NULL ? ", probably " : "", from != NULL ? from : "");
}

static tt_status choose(const char *repository, const json_t *tree, tt_hub_listing *l,
                        tt_error *err)
{
    const json_t *siblings = json_object_get(tree, "siblings"), *one;
    bool gguf = false;
    size_t i;
    json_array_foreach(siblings, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "rfilename"));
        if (name == NULL)
            continue;
        gguf |= ends_with(name, ".gguf");
        if (!tt_hub_file_name_valid(name) || !wanted(name) || tt_hub_listing_has(l->names, name))
            continue;
        const json_t *size = json_object_get(one, "size");
        if (json_array_append_new(l->names, json_string(name)) != 0 ||
            (json_is_integer(size) && json_integer_value(size) > 0 &&
             json_object_set_new(l->sizes, name, json_integer(json_integer_value(size))) != 0))
            return tt_fail(err, TT_ERR_NOMEM, "out of memory for a list of files");
    }
    bool weights = tt_hub_listing_has(l->names, TT_HUB_INDEX_NAME) ||
                   tt_hub_listing_has(l->names, TT_HUB_SINGLE_NAME);
    if (!weights && gguf)
        return refuse_gguf(repository, tree, err);
    if (!weights || !tt_hub_listing_has(l->names, "config.json"))
        return tt_fail(err, TT_ERR_UNSUPPORTED,
                       "%s is not a checkpoint in safetensors: it has no %s", repository,
                       weights ? "config.json" : TT_HUB_SINGLE_NAME " and no " TT_HUB_INDEX_NAME);
    return TT_OK;
}

tt_status tt_hub_listing_parse(const char *text, size_t len, const char *repository,
                               const char *revision, tt_hub_listing *out, tt_error *err)
{
    tt_hub_listing l = {.names = json_array(), .sizes = json_object()};
    json_t *tree = NULL;
    tt_status st = l.names == NULL || l.sizes == NULL
                       ? tt_fail(err, TT_ERR_NOMEM, "out of memory for a list of files")
                       : tt_json_parse(text, len, "the hub's description", &tree, err);
    const char *sha = json_string_value(json_object_get(tree, "sha"));
    if (st == TT_OK && (sha == NULL || strlen(sha) != 40 || strspn(sha, "0123456789abcdef") != 40))
        st = tt_fail(err, TT_ERR_FORMAT, "the hub does not say which commit %s of %s is", revision,
                     repository);
    if (st == TT_OK)
        st = choose(repository, tree, &l, err);
    if (st == TT_OK) {
        strcpy(l.commit, sha);
        *out = l;
    } else {
        tt_hub_listing_free(&l);
    }
    json_decref(tree);
    return st;
}

void tt_hub_listing_free(tt_hub_listing *l)
{
    json_decref(l->names);
    json_decref(l->sizes);
    *l = (tt_hub_listing){0};
}
