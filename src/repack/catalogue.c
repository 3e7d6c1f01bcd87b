#include "repack/catalogue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "repack/hub_client.h"

/* The data file as it lies in the tree; builds run from the root of it. */
__asm__(".section .rodata\n"
        ".global tt_catalogue_json\n"
        ".hidden tt_catalogue_json\n"
        "tt_catalogue_json:\n"
        ".incbin \"src/repack/catalogue.json\"\n"
        ".byte 0\n"
        ".previous\n");
extern const char tt_catalogue_json[] __attribute__((visibility("hidden")));

static const char *text_or(const json_t *o, const char *key, const char *other)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text != NULL ? text : other;
}

static tt_status read_model(const json_t *o, const char *file, tt_catalogue_model *m, tt_error *err)
{
    TT_TRY(tt_json_get_string(o, "name", file, &m->name, err));
    TT_TRY(tt_json_get_string(o, "title", file, &m->title, err));
    TT_TRY(tt_json_get_string(o, "repository", file, &m->repository, err));
    TT_TRY(tt_json_get_string(o, "family", file, &m->family, err));
    TT_TRY(tt_json_get_bool(o, "mtp", file, &m->mtp, err));
    m->revision = text_or(o, "revision", "");
    m->licence = text_or(o, "licence", "");
    m->index_sha256 = text_or(o, "index_sha256", NULL);
    json_int_t bytes = json_integer_value(json_object_get(o, "checkpoint_bytes"));
    m->checkpoint_bytes = bytes > 0 ? (uint64_t)bytes : 0;
    size_t digits = strlen(m->revision);
    if (!tt_hub_repository_valid(m->repository) || digits > 40 ||
        strspn(m->revision, "0123456789abcdef") != digits ||
        (m->index_sha256 != NULL && !tt_sha256_hex_valid(m->index_sha256)))
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                          "model \"%.60s\" has a repository, revision or digest that is none",
                          m->name);
    return TT_OK;
}

tt_status tt_catalogue_parse(const char *text, size_t len, const char *file, tt_catalogue *out,
                             tt_error *err)
{
    tt_catalogue c = {0};
    json_t *list = NULL;
    tt_status st = tt_json_parse(text, len, file, &c.tree, err);
    if (st == TT_OK)
        st = tt_json_get_array(c.tree, "models", file, &list, err);
    if (st == TT_OK && (c.models = calloc(json_array_size(list) + 1, sizeof *c.models)) == NULL)
        st = tt_fail(err, TT_ERR_NOMEM, "out of memory for the catalogue");
    for (size_t i = 0; st == TT_OK && i < json_array_size(list); i++)
        st = read_model(json_array_get(list, i), file, &c.models[c.count++], err);
    if (st == TT_OK)
        *out = c;
    else
        tt_catalogue_free(&c);
    return st;
}

tt_status tt_catalogue_open(tt_catalogue *out, tt_error *err)
{
    return tt_catalogue_parse(tt_catalogue_json, strlen(tt_catalogue_json), "catalogue.json", out,
                              err);
}

void tt_catalogue_free(tt_catalogue *c)
{
    json_decref(c->tree);
    free(c->models);
    *c = (tt_catalogue){0};
}

tt_status tt_catalogue_find(const tt_catalogue *c, const char *name, const tt_catalogue_model **out,
                            tt_error *err)
{
    char names[1024] = "";
    size_t n = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (strcmp(c->models[i].name, name) == 0) {
            *out = &c->models[i];
            return TT_OK;
        }
        if (n < sizeof names)
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i > 0 ? ", " : "",
                                  c->models[i].name);
    }
    return tt_fail(err, TT_ERR_NOT_FOUND,
                   "no model is called \"%.100s\"; there are %s. Others: --repo ORG/NAME", name,
                   names);
}
