#include "repack/hub_source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "format/le.h"
#include "format/safetensors_parse.h"
#include "repack/checkpoint.h"
#include "repack/hub_address.h"
#include "repack/hub_fetch.h"

#define MAX_LISTING (64 * TT_MIB)

/* ---- what a repository has ---- */

tt_status tt_hub_source_list(tt_hub *hub, const char *revision, tt_hub_listing *out, tt_error *err)
{
    char path[TT_HUB_MAX_REPO + 600], escaped[512];
    unsigned char *bytes = NULL;
    size_t len = 0;
    tt_hub_escape_revision(revision, escaped);
    snprintf(path, sizeof path, "/api/models/%s/revision/%s?blobs=true", tt_hub_repository(hub),
             escaped);
    TT_TRY(tt_hub_get(hub, NULL, path, MAX_LISTING, &bytes, &len, err));
    tt_status st =
        tt_hub_listing_parse((char *)bytes, len, tt_hub_repository(hub), revision, out, err);
    free(bytes);
    return st;
}

/* ---- fetching ---- */

static uint64_t most(const char *name)
{
    if (strcmp(name, TT_HUB_INDEX_NAME) == 0)
        return TT_MAX_INDEX_JSON;
    if (strcmp(name, "config.json") == 0)
        return TT_MAX_CONFIG_JSON;
    return TT_MAX_TOKENIZER_JSON;
}

static bool ends_with(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && strcmp(s + n - m, suffix) == 0;
}

/* Whether the directory has the file as it was recorded; `f` is filled from the record then. */
static bool stands(const char *dir, const tt_hub_state *state, tt_hub_file *f)
{
    const json_t *o = json_object_get(state->files, f->name);
    char path[TT_MAX_PATH], hex[TT_SHA256_HEX];
    uint64_t size = 0;
    if (o == NULL || tt_path_join(path, dir, f->name, NULL) != TT_OK ||
        tt_file_sha256(path, hex, &size, NULL, NULL, NULL) != TT_OK ||
        strcmp(hex, json_string_value(json_object_get(o, "sha256"))) != 0 ||
        size != (uint64_t)json_integer_value(json_object_get(o, "size")))
        return false;
    f->size = (uint64_t)json_integer_value(json_object_get(o, "total"));
    strcpy(f->id, json_string_value(json_object_get(o, "id")));
    strcpy(f->etag, json_string_value(json_object_get(o, "etag")));
    return true;
}

static tt_status keep(const char *dir, tt_hub_state *state, tt_journal *journal,
                      const tt_hub_file *f, const void *bytes, size_t n, tt_error *err)
{
    char path[TT_MAX_PATH], hex[TT_SHA256_HEX];
    TT_TRY(tt_path_join(path, dir, f->name, err));
    TT_TRY(tt_file_publish(path, bytes, n, err));
    TT_TRY(tt_sha256_of(bytes, n, hex, err));
    return tt_hub_state_file(state, journal, hex, n, f, err);
}

static tt_status name_file(tt_hub_file *f, const char *name, tt_error *err)
{
    *f = (tt_hub_file){0};
    if (!tt_hub_file_name_valid(name))
        return tt_fail(err, TT_ERR_FORMAT, "\"%.100s\" is not a plain file name", name);
    strcpy(f->name, name);
    return TT_OK;
}

/* Of some small files too the hub names the SHA-256. */
static tt_status check_digest(const tt_hub_file *f, const void *bytes, size_t n, tt_error *err)
{
    char hex[TT_SHA256_HEX];
    if (!tt_sha256_hex_valid(f->id))
        return TT_OK;
    TT_TRY(tt_sha256_of(bytes, n, hex, err));
    if (strcmp(hex, f->id) != 0)
        return tt_fail(err, TT_ERR_CORRUPT,
                       "%s came with the SHA-256 %s, the hub says %s: something on the way changes "
                       "bytes",
                       f->name, hex, f->id);
    return TT_OK;
}

static tt_status fetch_small(tt_hub *hub, const char *dir, tt_hub_state *state, tt_journal *journal,
                             const char *name, tt_error *err)
{
    tt_hub_file *f = malloc(sizeof *f);
    unsigned char *bytes = NULL;
    size_t n = 0;
    if (f == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %s", name);
    tt_status st = name_file(f, name, err);
    if (st == TT_OK && !stands(dir, state, f)) {
        f->size = (uint64_t)json_integer_value(json_object_get(state->sizes, name));
        st = tt_hub_get(hub, f, NULL, most(name), &bytes, &n, err);
        if (st == TT_OK)
            st = check_digest(f, bytes, n, err);
        if (st == TT_OK)
            st = keep(dir, state, journal, f, bytes, n, err);
    }
    free(bytes);
    free(f);
    return st;
}

/* ---- shards ---- */

static tt_status add_shard(tt_hub_source *s, const char *name, tt_error *err)
{
    for (uint32_t i = s->n_shards; i > 0; i--)
        if (strcmp(s->shards[i - 1].name, name) == 0)
            return TT_OK;
    if (s->n_shards == TT_MAX_SHARDS)
        return tt_fail(err, TT_ERR_LIMIT, "more than %u shards", TT_MAX_SHARDS);
    tt_hub_file *grown = realloc(s->shards, (s->n_shards + 1) * sizeof *grown);
    if (grown == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a list of shards");
    s->shards = grown;
    TT_TRY(name_file(&grown[s->n_shards], name, err));
    s->n_shards++;
    return TT_OK;
}

static tt_status on_pair(void *ctx, const char *name, const char *shard, tt_error *err)
{
    return add_shard(ctx, shard, err);
}

static tt_status list_shards(tt_hub_source *s, const tt_hub_state *state, tt_error *err)
{
    char path[TT_MAX_PATH];
    tt_st_names names = {0};
    uint64_t size = 0;
    size_t i;
    json_t *name;
    int fd = -1;
    if (!tt_hub_listing_has(state->names, TT_HUB_INDEX_NAME)) {
        TT_TRY(add_shard(s, TT_HUB_SINGLE_NAME, err));
    } else {
        TT_TRY(tt_path_join(path, s->dir, TT_HUB_INDEX_NAME, err));
        TT_TRY(tt_file_open(path, &fd, &size, err));
        tt_status st = tt_st_parse_index(fd, path, size, &names, on_pair, s, err);
        close(fd);
        tt_st_names_free(&names);
        TT_TRY(st);
    }
    json_array_foreach(state->names, i, name)
    {
        if (tt_st_is_extra_shard(json_string_value(name)))
            TT_TRY(add_shard(s, json_string_value(name), err));
    }
    return TT_OK;
}

/* ---- headers ---- */

/* Headers that are fetched: the length in front of each, then the rest, several at once. */
typedef struct headers {
    const char *dir;
    tt_hub_state *state;
    tt_journal *journal;
    tt_hub_part *parts;
    unsigned char (*heads)[8];
} headers;

static tt_status take_length(void *ctx, size_t i, const unsigned char *bytes, tt_error *err)
{
    headers *h = ctx;
    const tt_hub_file *f = h->parts[i].file;
    const size_t head = sizeof h->heads[i];
    uint64_t n = tt_get_u64(bytes);
    if (n > TT_MAX_SAFETENSORS_HEADER || n > f->size - head || n == 0)
        return tt_fail_at(err, TT_ERR_FORMAT, f->name, 0,
                          "%s is not a safetensors file: its header would have %llu bytes of %llu",
                          f->name, (unsigned long long)n, (unsigned long long)f->size);
    memcpy(h->heads[i], bytes, head);
    return TT_OK;
}

static tt_status take_header(void *ctx, size_t i, const unsigned char *bytes, tt_error *err)
{
    headers *h = ctx;
    const size_t head = sizeof h->heads[i], n = (size_t)tt_get_u64(h->heads[i]);
    unsigned char *whole = malloc(head + n);
    if (whole == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a header of %zu bytes", n);
    memcpy(whole, h->heads[i], head);
    memcpy(whole + head, bytes, n);
    tt_status st = keep(h->dir, h->state, h->journal, h->parts[i].file, whole, head + n, err);
    free(whole);
    return st;
}

static tt_status fetch_headers(tt_hub *hub, headers *h, const tt_repack_events *ev,
                               tt_hub_source *s, tt_error *err)
{
    size_t n = 0;
    h->parts = calloc(s->n_shards, sizeof *h->parts);
    h->heads = calloc(s->n_shards, sizeof *h->heads);
    if (h->parts == NULL || h->heads == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %u headers", s->n_shards);
    for (uint32_t k = 0; k < s->n_shards; k++) {
        tt_hub_file *f = &s->shards[k];
        if (stands(h->dir, h->state, f))
            continue;
        f->id[0] = f->etag[0] = '\0';
        f->size = 0;
        h->parts[n++] = (tt_hub_part){f, 0, sizeof *h->heads};
    }
    if (n == 0)
        return TT_OK;
    tt_note(ev, TT_NOTE_STAGE, "reading the headers of %zu files", n);
    TT_TRY(tt_hub_fetch_all(hub, h->parts, n, ev, take_length, h, err));
    for (size_t i = 0; i < n; i++) {
        h->parts[i].begin = sizeof *h->heads;
        h->parts[i].end = sizeof *h->heads + tt_get_u64(h->heads[i]);
    }
    return tt_hub_fetch_all(hub, h->parts, n, ev, take_header, h, err);
}

static tt_status fetch_all(tt_hub *hub, tt_hub_state *state, tt_journal *journal,
                           const tt_repack_events *ev, tt_hub_source *s, tt_error *err)
{
    size_t i;
    json_t *name;
    json_array_foreach(state->names, i, name)
    {
        const char *text = json_string_value(name);
        if (ends_with(text, ".safetensors"))
            continue;
        tt_note(ev, TT_NOTE_STAGE, "reading %s", text);
        TT_TRY(fetch_small(hub, s->dir, state, journal, text, err));
    }
    TT_TRY(list_shards(s, state, err));
    headers h = {s->dir, state, journal, NULL, NULL};
    tt_status st = fetch_headers(hub, &h, ev, s, err);
    free(h.parts);
    free(h.heads);
    return st == TT_OK ? tt_journal_sync(journal, err) : st;
}

tt_status tt_hub_source_fetch(tt_hub *hub, const char *dir, tt_hub_state *state,
                              tt_journal *journal, const tt_repack_events *ev, tt_hub_source *out,
                              tt_error *err)
{
    tt_hub_source s = {0};
    if (snprintf(s.dir, sizeof s.dir, "%s", dir) >= (int)sizeof s.dir)
        return tt_fail_at(err, TT_ERR_LIMIT, dir, -1, "path is longer than %u bytes",
                          TT_MAX_PATH - 1);
    TT_TRY(tt_dir_make(dir, err));
    tt_status st = fetch_all(hub, state, journal, ev, &s, err);
    if (st == TT_OK)
        *out = s;
    else
        tt_hub_source_free(&s);
    return st;
}

void tt_hub_source_free(tt_hub_source *s)
{
    free(s->shards);
    s->shards = NULL;
    s->n_shards = 0;
}

tt_status tt_hub_source_size(void *ctx, const char *shard, uint64_t *bytes, tt_error *err)
{
    const tt_hub_source *s = ctx;
    for (uint32_t i = 0; i < s->n_shards; i++) {
        if (strcmp(s->shards[i].name, shard) == 0) {
            *bytes = s->shards[i].size;
            return TT_OK;
        }
    }
    return tt_fail(err, TT_ERR_INTERNAL, "nothing is known of the shard %s", shard);
}
