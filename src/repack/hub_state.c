#include "repack/hub_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/install_layout.h"
#include "repack/repack.h"

#define MAX_RANGES ((size_t)1 << 24)

static tt_status corrupt(tt_error *err, const char *what)
{
    return tt_fail(err, TT_ERR_CORRUPT,
                   "the journal of the partial install is damaged (%s): remove it with "
                   "--discard-partial and begin again",
                   what);
}

void tt_hub_state_init(tt_hub_state *s)
{
    *s = (tt_hub_state){.names = json_array(),
                        .sizes = json_object(),
                        .files = json_object(),
                        .shards = json_object()};
}

void tt_hub_state_free(tt_hub_state *s)
{
    json_decref(s->names);
    json_decref(s->sizes);
    json_decref(s->files);
    json_decref(s->shards);
    free(s->ranges);
    free(s->sources);
    *s = (tt_hub_state){0};
}

bool tt_hub_file_name_valid(const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] <= 0x20 || (unsigned char)name[i] >= 0x7f || name[i] == '/')
            return false;
    return n >= 1 && n <= 255 && name[0] != '.';
}

/* A string member that fits, or NULL. */
static const char *member(const json_t *o, const char *key, size_t size)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text != NULL && strlen(text) < size ? text : NULL;
}

static bool commit_valid(const char *s)
{
    return strlen(s) == 40 && strspn(s, "0123456789abcdef") == 40;
}

static tt_status read_policy(const json_t *o, tt_policy *p, tt_error *err)
{
    const json_t *roles = json_object_get(o, "role_bits");
    json_int_t bits = json_integer_value(json_object_get(o, "bits"));
    if ((bits != 0 && bits != 4 && bits != 8 && bits != 16) ||
        json_array_size(roles) != TT_ROLE_COUNT)
        return corrupt(err, "its widths");
    p->build_bits = (uint32_t)bits;
    for (size_t i = 0; i < TT_ROLE_COUNT; i++) {
        bits = json_integer_value(json_array_get(roles, i));
        if (bits != 0 && bits != 4 && bits != 8 && bits != 16)
            return corrupt(err, "its widths");
        p->role_bits[i] = (uint32_t)bits;
    }
    return TT_OK;
}

static tt_status take_begin(tt_hub_state *s, const json_t *o, tt_error *err)
{
    const char *repository = member(o, "repository", sizeof s->repository),
               *requested = member(o, "requested", sizeof s->requested),
               *commit = member(o, "commit", sizeof s->commit),
               *model = member(o, "model_id", sizeof s->model_id);
    json_t *names = json_object_get(o, "names"), *name;
    json_t *sizes = json_object_get(o, "sizes"), *bytes;
    const char *key;
    size_t i;
    json_int_t version = json_integer_value(json_object_get(o, "version"));
    json_int_t range = json_integer_value(json_object_get(o, "range_bytes"));
    if (version != TT_HUB_STATE_VERSION)
        return tt_fail(
            err, TT_ERR_STATE,
            "the partial install was begun by another version of this program (its journal "
            "is of version %lld, this program writes %u): finish it with that, or remove "
            "it with --discard-partial",
            (long long)version, TT_HUB_STATE_VERSION);
    if (s->begun || repository == NULL || requested == NULL || commit == NULL || model == NULL ||
        !tt_hub_repository_valid(repository) || !tt_hub_revision_valid(requested) ||
        !commit_valid(commit) || !tt_model_id_valid(model) || range < 0 || !json_is_array(names) ||
        !json_is_object(sizes))
        return corrupt(err, "its first line");
    json_array_foreach(names, i, name)
    {
        if (!json_is_string(name) || !tt_hub_file_name_valid(json_string_value(name)))
            return corrupt(err, "its list of files");
    }
    json_object_foreach(sizes, key, bytes)
    {
        if (!json_is_integer(bytes) || json_integer_value(bytes) <= 0)
            return corrupt(err, "its list of sizes");
    }
    TT_TRY(read_policy(o, &s->policy, err));
    strcpy(s->repository, repository);
    strcpy(s->requested, requested);
    strcpy(s->commit, commit);
    strcpy(s->model_id, model);
    s->range_bytes = (uint64_t)range;
    json_incref(names);
    json_decref(s->names);
    s->names = names;
    json_incref(sizes);
    json_decref(s->sizes);
    s->sizes = sizes;
    s->begun = true;
    return TT_OK;
}

static tt_status take_file(tt_hub_state *s, json_t *o, tt_error *err)
{
    const char *name = member(o, "name", 256), *sha = member(o, "sha256", TT_SHA256_HEX);
    json_int_t size = json_integer_value(json_object_get(o, "size")),
               total = json_integer_value(json_object_get(o, "total"));
    if (!s->begun || name == NULL || sha == NULL || !tt_hub_file_name_valid(name) ||
        !tt_sha256_hex_valid(sha) || size < 0 || total < size || member(o, "id", 160) == NULL ||
        member(o, "etag", 160) == NULL)
        return corrupt(err, "a file");
    return json_object_set(s->files, name, o) == 0
               ? TT_OK
               : tt_fail(err, TT_ERR_NOMEM, "out of memory for a journal");
}

static tt_status take_plan(tt_hub_state *s, const char *text, tt_error *err)
{
    char sha[TT_SHA256_HEX] = "";
    unsigned long long n = 0;
    int end = 0;
    if (!s->begun || s->ranges != NULL || sscanf(text, "%64[0-9a-f] %llu%n", sha, &n, &end) != 2 ||
        text[end] != '\0' || !tt_sha256_hex_valid(sha) || n < 1 || n > MAX_RANGES)
        return corrupt(err, "its plan");
    s->ranges = calloc(n, sizeof *s->ranges);
    s->sources = calloc(n, sizeof *s->sources);
    if (s->ranges == NULL || s->sources == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a plan of %llu ranges", n);
    s->n_ranges = n;
    strcpy(s->plan, sha);
    return TT_OK;
}

static tt_status take_range(tt_hub_state *s, const char *text, tt_error *err)
{
    char sha[TT_SHA256_HEX] = "", source[TT_SHA256_HEX] = "";
    unsigned long long i = 0;
    int end = 0;
    if (sscanf(text, "%llu %64[0-9a-f] %64[0-9a-f]%n", &i, sha, source, &end) != 3 ||
        text[end] != '\0' || !tt_sha256_hex_valid(sha) || !tt_sha256_hex_valid(source) ||
        i >= s->n_ranges)
        return corrupt(err, "a range");
    s->done += s->ranges[i][0] == '\0';
    strcpy(s->ranges[i], sha);
    strcpy(s->sources[i], source);
    return TT_OK;
}

static tt_status take_shard(tt_hub_state *s, const char *text, tt_error *err)
{
    char sha[TT_SHA256_HEX] = "";
    size_t n = TT_SHA256_HEX; /* digest and the space behind it */
    if (strlen(text) > n)
        memcpy(sha, text, n - 1);
    if (s->n_ranges == 0 || !tt_sha256_hex_valid(sha) || text[n - 1] != ' ' ||
        !tt_hub_file_name_valid(text + n))
        return corrupt(err, "a shard");
    return json_object_set_new(s->shards, text + n, json_string(sha)) == 0
               ? TT_OK
               : tt_fail(err, TT_ERR_NOMEM, "out of memory for a journal");
}

tt_status tt_hub_state_line(void *ctx, char *text, tt_error *err)
{
    tt_hub_state *s = ctx;
    if (strncmp(text, "range ", 6) == 0)
        return take_range(s, text + 6, err);
    if (strncmp(text, "plan ", 5) == 0)
        return take_plan(s, text + 5, err);
    if (strncmp(text, "shard ", 6) == 0)
        return take_shard(s, text + 6, err);
    bool begin = strncmp(text, "begin ", 6) == 0;
    if (!begin && strncmp(text, "file ", 5) != 0)
        return corrupt(err, "a line of no known kind");
    const char *json = text + (begin ? 6 : 5);
    json_t *o = NULL;
    if (tt_json_parse(json, strlen(json), "journal", &o, NULL) != TT_OK || !json_is_object(o)) {
        json_decref(o);
        return corrupt(err, "a line that is not JSON");
    }
    tt_status st = begin ? take_begin(s, o, err) : take_file(s, o, err);
    json_decref(o);
    return st;
}

/* Appends "kind JSON" and takes it in. */
static tt_status add_json(tt_hub_state *s, tt_journal *j, const char *kind, json_t *o,
                          tt_error *err)
{
    char *json =
        o != NULL ? json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII) : NULL;
    tt_status st = json == NULL ? tt_fail(err, TT_ERR_NOMEM, "out of memory for a journal")
                                : tt_journal_append(j, err, "%s %s", kind, json);
    if (st == TT_OK)
        st = strcmp(kind, "begin") == 0 ? take_begin(s, o, err) : take_file(s, o, err);
    free(json);
    json_decref(o);
    return st;
}

tt_status tt_hub_state_begin(tt_hub_state *s, tt_journal *j, tt_error *err)
{
    json_t *roles = json_array();
    for (size_t i = 0; i < TT_ROLE_COUNT; i++)
        json_array_append_new(roles, json_integer(s->policy.role_bits[i]));
    json_t *o =
        json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:i, s:o, s:I, s:O, s:O}", "version",
                  (int)TT_HUB_STATE_VERSION, "tool", TT_REPACK_TOOL, "repository", s->repository,
                  "requested", s->requested, "commit", s->commit, "model_id", s->model_id, "bits",
                  (int)s->policy.build_bits, "role_bits", roles, "range_bytes",
                  (json_int_t)s->range_bytes, "names", s->names, "sizes", s->sizes);
    return add_json(s, j, "begin", o, err);
}

tt_status tt_hub_state_file(tt_hub_state *s, tt_journal *j, const char *sha256, uint64_t size,
                            const tt_hub_file *f, tt_error *err)
{
    json_t *o =
        json_pack("{s:s, s:I, s:s, s:I, s:s, s:s}", "name", f->name, "size", (json_int_t)size,
                  "sha256", sha256, "total", (json_int_t)f->size, "id", f->id, "etag", f->etag);
    return add_json(s, j, "file", o, err);
}

tt_status tt_hub_state_plan(tt_hub_state *s, tt_journal *j, const char *fingerprint,
                            size_t n_ranges, tt_error *err)
{
    char text[128];
    snprintf(text, sizeof text, "%s %zu", fingerprint, n_ranges);
    TT_TRY(tt_journal_append(j, err, "plan %s", text));
    return take_plan(s, text, err);
}

tt_status tt_hub_state_range(tt_hub_state *s, tt_journal *j, size_t i, const char *sha256,
                             const char *source_sha256, tt_error *err)
{
    char text[192];
    snprintf(text, sizeof text, "%zu %s %s", i, sha256, source_sha256);
    TT_TRY(tt_journal_append(j, err, "range %s", text));
    return take_range(s, text, err);
}

tt_status tt_hub_state_shard(tt_hub_state *s, tt_journal *j, const char *name, const char *sha256,
                             tt_error *err)
{
    char text[TT_SHA256_HEX + 256];
    snprintf(text, sizeof text, "%s %s", sha256, name);
    TT_TRY(tt_journal_append(j, err, "shard %s", text));
    return take_shard(s, text, err);
}
