#include "format/safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "format/safetensors_parse.h"

#define INDEX_NAME  "model.safetensors.index.json"
#define SINGLE_NAME "model.safetensors"

typedef struct shard {
    char *path;
    int fd; /* -1 before it is open */
    uint64_t data, size;
} shard;

struct tt_safetensors {
    tt_st_tensor *tensors; /* by shard, then offset */
    size_t count, cap;
    shard *shards;
    uint32_t n_shards;
    char *index_path;
    tt_st_names names;
    tt_st_table by_name;
    tt_st_remote remote; /* read NULL: the data is in the files */
    uint32_t open_shard; /* while headers are read: the shard of the next tensor */
};

static tt_status nomem(const char *path, tt_error *err)
{
    return tt_fail_at(err, TT_ERR_NOMEM, path, -1, "out of memory while reading headers");
}

/* ---- one shard ---- */

static tt_status keep_tensor(void *ctx, const tt_st_tensor *t, tt_error *err)
{
    tt_safetensors *st = ctx;
    const char *path = st->shards[st->open_shard].path;
    if (st->count == TT_MAX_TENSORS)
        return tt_fail_at(err, TT_ERR_LIMIT, path, (int64_t)t->offset,
                          "more than %u tensors, at tensor %s", TT_MAX_TENSORS, t->name);
    if (st->count == st->cap) {
        size_t cap = st->cap == 0 ? 256 : st->cap * 2;
        tt_st_tensor *grown = realloc(st->tensors, cap * sizeof *grown);
        if (grown == NULL)
            return nomem(path, err);
        st->tensors = grown;
        st->cap = cap;
    }
    st->tensors[st->count] = *t;
    st->tensors[st->count++].shard = st->open_shard;
    return TT_OK;
}

/* Empty tensors come before the one that begins where they stand. */
static int compare_places(const void *pa, const void *pb)
{
    const tt_st_tensor *a = pa, *b = pb;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* The tensors of a shard, sorted, must cover its data section once. */
static tt_status check_cover(const shard *s, const tt_st_tensor *t, size_t n, tt_error *err)
{
    uint64_t at = s->data;
    for (size_t i = 0; i < n; at = t[i].offset + t[i].bytes, i++) {
        if (t[i].offset < at)
            return tt_fail_at(err, TT_ERR_FORMAT, s->path, (int64_t)t[i].offset,
                              "tensors %s and %s overlap by %llu bytes", t[i - 1].name, t[i].name,
                              (unsigned long long)(at - t[i].offset));
        if (t[i].offset > at)
            return tt_fail_at(err, TT_ERR_FORMAT, s->path, (int64_t)at,
                              "%llu bytes before tensor %s belong to no tensor",
                              (unsigned long long)(t[i].offset - at), t[i].name);
    }
    if (at != s->size)
        return tt_fail_at(err, TT_ERR_FORMAT, s->path, (int64_t)at,
                          "%llu bytes at the end belong to no tensor",
                          (unsigned long long)(s->size - at));
    return TT_OK;
}

static tt_status read_shard(tt_safetensors *st, uint32_t i, const tt_st_table *known, tt_error *err)
{
    shard *s = &st->shards[i];
    size_t first = st->count;
    st->open_shard = i;
    TT_TRY(tt_file_open(s->path, &s->fd, &s->size, err));
    if (st->remote.read != NULL)
        TT_TRY(st->remote.size(st->remote.ctx, strrchr(s->path, '/') + 1, &s->size, err));
    TT_TRY(tt_st_parse_header(s->fd, s->path, s->size, known, &st->names, keep_tensor, st, &s->data,
                              err));
    if (st->count == first)
        return check_cover(s, NULL, 0, err);
    qsort(st->tensors + first, st->count - first, sizeof *st->tensors, compare_places);
    return check_cover(s, st->tensors + first, st->count - first, err);
}

/* Names to positions; the last step of opening. */
static tt_status index_names(tt_safetensors *st, tt_error *err)
{
    for (size_t i = 0; i < st->count; i++)
        if (!tt_st_table_add(&st->by_name, st->tensors[i].name, (uint32_t)i))
            return nomem(st->shards[0].path, err);
    size_t twice = tt_st_table_sort(&st->by_name);
    if (twice == 0)
        return TT_OK;
    uint32_t va = st->by_name.slots[twice - 1].value, vb = st->by_name.slots[twice].value;
    const tt_st_tensor *a = &st->tensors[va < vb ? va : vb], *b = &st->tensors[va < vb ? vb : va];
    return tt_fail_at(err, TT_ERR_FORMAT, st->shards[b->shard].path, (int64_t)b->offset,
                      "tensor %s stands twice: at offset %llu of %s and at offset %llu of %s",
                      a->name, (unsigned long long)a->offset, st->shards[a->shard].path,
                      (unsigned long long)b->offset, st->shards[b->shard].path);
}

/* ---- index ---- */

/* What the index said, until the shards have been held against it. */
typedef struct named_shard {
    const char *name;
    uint32_t id; /* in order of appearance */
} named_shard;

typedef struct weight_map {
    tt_st_table shard_of; /* tensor name -> id of its shard */
    named_shard *shards;  /* sorted by name */
    uint32_t n_shards, cap;
    uint32_t *place; /* id -> position in `shards`; made when all are known */
    tt_st_names names;
    const char *path;
} weight_map;

static void weight_map_free(weight_map *m)
{
    tt_st_table_free(&m->shard_of);
    tt_st_names_free(&m->names);
    free(m->shards);
    free(m->place);
}

/* Position of a shard in the sorted list, or where it belongs. */
static bool find_shard(const weight_map *m, const char *name, uint32_t *at)
{
    uint32_t lo = 0, hi = m->n_shards;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        int c = strcmp(m->shards[mid].name, name);
        if (c == 0) {
            *at = mid;
            return true;
        }
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    *at = lo;
    return false;
}

static tt_status add_shard(weight_map *m, const char *name, uint32_t at, tt_error *err)
{
    if (m->n_shards == TT_MAX_SHARDS)
        return tt_fail_at(err, TT_ERR_LIMIT, m->path, -1, "more than %u shards, at shard %s",
                          TT_MAX_SHARDS, name);
    if (m->n_shards == m->cap) {
        uint32_t cap = m->cap == 0 ? 32 : m->cap * 2;
        named_shard *grown = realloc(m->shards, cap * sizeof *grown);
        if (grown == NULL)
            return nomem(m->path, err);
        m->shards = grown;
        m->cap = cap;
    }
    const char *copy = tt_st_names_add(&m->names, name, strlen(name));
    if (copy == NULL)
        return nomem(m->path, err);
    memmove(&m->shards[at + 1], &m->shards[at], (m->n_shards - at) * sizeof *m->shards);
    m->shards[at] = (named_shard){.name = copy, .id = m->n_shards++};
    return TT_OK;
}

static tt_status keep_pair(void *ctx, const char *name, const char *shard_name, tt_error *err)
{
    weight_map *m = ctx;
    uint32_t at;
    if (m->shard_of.count == TT_MAX_TENSORS)
        return tt_fail_at(err, TT_ERR_LIMIT, m->path, -1, "more than %u tensors, at tensor %s",
                          TT_MAX_TENSORS, name);
    if (!find_shard(m, shard_name, &at))
        TT_TRY(add_shard(m, shard_name, at, err));
    return tt_st_table_add(&m->shard_of, name, m->shards[at].id) ? TT_OK : nomem(m->path, err);
}

static tt_status read_index(weight_map *m, tt_st_names *names, tt_error *err)
{
    int fd = -1;
    uint64_t size = 0;
    TT_TRY(tt_file_open(m->path, &fd, &size, err));
    tt_status st = tt_st_parse_index(fd, m->path, size, names, keep_pair, m, err);
    close(fd);
    TT_TRY(st);
    size_t twice = tt_st_table_sort(&m->shard_of);
    if (twice != 0)
        return tt_fail_at(err, TT_ERR_FORMAT, m->path, -1, "weight_map has tensor %s twice",
                          m->shard_of.slots[twice].name);
    if (m->n_shards == 0)
        return tt_fail_at(err, TT_ERR_FORMAT, m->path, -1, "weight_map is empty");
    m->place = calloc(m->n_shards, sizeof *m->place);
    if (m->place == NULL)
        return nomem(m->path, err);
    for (uint32_t i = 0; i < m->n_shards; i++)
        m->place[m->shards[i].id] = i;
    return TT_OK;
}

/* Every tensor of shard `i` must be where the index says. */
static tt_status check_shard(const tt_safetensors *st, uint32_t i, size_t first,
                             const weight_map *m, tt_error *err)
{
    for (size_t k = first; k < st->count; k++) {
        const tt_st_tensor *t = &st->tensors[k];
        const tt_st_slot *slot = tt_st_table_find(&m->shard_of, t->name);
        if (slot == NULL)
            return tt_fail_at(err, TT_ERR_FORMAT, st->shards[i].path, (int64_t)t->offset,
                              "tensor %s is not in %s", t->name, m->path);
        if (m->place[slot->value] != i)
            return tt_fail_at(err, TT_ERR_FORMAT, st->shards[i].path, (int64_t)t->offset,
                              "tensor %s is here, but %s has it in %s", t->name, m->path,
                              m->shards[m->place[slot->value]].name);
    }
    return TT_OK;
}

static tt_status check_complete(const tt_safetensors *st, size_t indexed, const weight_map *m,
                                tt_error *err)
{
    for (size_t k = 0; indexed != m->shard_of.count && k < m->shard_of.count; k++) {
        const tt_st_slot *slot = &m->shard_of.slots[k];
        if (tt_st_table_find(&st->by_name, slot->name) == NULL)
            return tt_fail_at(err, TT_ERR_FORMAT, m->path, -1,
                              "tensor %s should be in %s, which does not have it", slot->name,
                              m->shards[m->place[slot->value]].name);
    }
    return TT_OK;
}

/* ---- opening and closing ---- */

/* Appends a shard. */
static tt_status name_shard(tt_safetensors *st, const char *path, tt_error *err)
{
    shard *grown = realloc(st->shards, (st->n_shards + 1) * sizeof *grown);
    if (grown == NULL)
        return nomem(path, err);
    st->shards = grown;
    grown[st->n_shards] = (shard){.path = strdup(path), .fd = -1};
    if (grown[st->n_shards].path == NULL)
        return nomem(path, err);
    st->n_shards++;
    return TT_OK;
}

bool tt_st_is_extra_shard(const char *name)
{
    size_t n = strlen(name), tail = strlen(".safetensors");
    return n > tail && name[0] != '.' && strcmp(name + n - tail, ".safetensors") == 0 &&
           strcasestr(name, "mtp") != NULL;
}

static int extra_only(const struct dirent *d)
{
    return tt_st_is_extra_shard(d->d_name);
}

/* Files of a draft that no index names, in the order of their names. */
static tt_status open_extra(tt_safetensors *st, const char *dir, const weight_map *m, tt_error *err)
{
    struct dirent **found = NULL;
    char path[TT_MAX_PATH];
    uint32_t at;
    int n = scandir(dir, &found, extra_only, alphasort);
    if (n < 0)
        return tt_fail_errno(err, errno, dir, "cannot list %s", dir);
    tt_status rc = TT_OK;
    for (int i = 0; i < n; i++) {
        if (rc == TT_OK && (m == NULL || !find_shard(m, found[i]->d_name, &at))) {
            rc = tt_path_join(path, dir, found[i]->d_name, err);
            if (rc == TT_OK)
                rc = name_shard(st, path, err);
            if (rc == TT_OK)
                rc = read_shard(st, st->n_shards - 1, NULL, err);
        }
        free(found[i]);
    }
    free(found);
    return rc;
}

/* `dir` NULL: the file alone. */
static tt_status open_single(tt_safetensors *st, const char *path, const char *dir, tt_error *err)
{
    TT_TRY(name_shard(st, path, err));
    TT_TRY(read_shard(st, 0, NULL, err));
    if (dir != NULL)
        TT_TRY(open_extra(st, dir, NULL, err));
    return index_names(st, err);
}

static tt_status open_indexed(tt_safetensors *ck, const char *dir, const weight_map *m,
                              tt_error *err)
{
    for (uint32_t i = 0; i < m->n_shards; i++) {
        char path[TT_MAX_PATH];
        size_t first = ck->count;
        TT_TRY(tt_path_join(path, dir, m->shards[i].name, err));
        TT_TRY(name_shard(ck, path, err));
        tt_status st = read_shard(ck, i, &m->shard_of, err);
        if (st != TT_OK)
            return tt_fail_context(err, st, "shard %u of %u", i + 1, m->n_shards);
        TT_TRY(check_shard(ck, i, first, m, err));
    }
    return TT_OK;
}

static tt_status open_sharded(tt_safetensors *ck, const char *dir, const char *index, tt_error *err)
{
    weight_map m = {.path = index};
    tt_status st;
    size_t indexed;
    if ((ck->index_path = strdup(index)) == NULL)
        return nomem(index, err);
    TT_GOTO(read_index(&m, &ck->names, err), out);
    TT_GOTO(open_indexed(ck, dir, &m, err), out);
    indexed = ck->count;
    TT_GOTO(open_extra(ck, dir, &m, err), out);
    TT_GOTO(index_names(ck, err), out);
    st = check_complete(ck, indexed, &m, err);
out:
    weight_map_free(&m);
    return st;
}

static bool stands_there(const char *path)
{
    struct stat sb;
    return lstat(path, &sb) == 0; /* a dangling link is there, and opening it says what is wrong */
}

static tt_status open_dir(const char *dir, const tt_st_remote *remote, tt_safetensors **out,
                          tt_error *err)
{
    char index[TT_MAX_PATH], single[TT_MAX_PATH];
    TT_TRY(tt_path_join(index, dir, INDEX_NAME, err));
    TT_TRY(tt_path_join(single, dir, SINGLE_NAME, err));
    bool sharded = stands_there(index);
    if (!sharded && !stands_there(single))
        return tt_fail_at(err, TT_ERR_NOT_FOUND, dir, -1,
                          "no " INDEX_NAME " and no " SINGLE_NAME " in %s: not a checkpoint", dir);
    tt_safetensors *st = calloc(1, sizeof *st);
    if (st == NULL)
        return nomem(dir, err);
    if (remote != NULL)
        st->remote = *remote;
    tt_status rc = sharded ? open_sharded(st, dir, index, err) : open_single(st, single, dir, err);
    if (rc != TT_OK)
        tt_safetensors_close(&st);
    else
        *out = st;
    return rc;
}

tt_status tt_safetensors_open_dir(const char *dir, tt_safetensors **out, tt_error *err)
{
    return open_dir(dir, NULL, out, err);
}

tt_status tt_safetensors_open_remote(const char *dir, const tt_st_remote *remote,
                                     tt_safetensors **out, tt_error *err)
{
    return open_dir(dir, remote, out, err);
}

tt_status tt_safetensors_open_file(const char *path, tt_safetensors **out, tt_error *err)
{
    tt_safetensors *st = calloc(1, sizeof *st);
    if (st == NULL)
        return nomem(path, err);
    tt_status rc = open_single(st, path, NULL, err);
    if (rc != TT_OK)
        tt_safetensors_close(&st);
    else
        *out = st;
    return rc;
}

void tt_safetensors_close(tt_safetensors **pst)
{
    if (pst == NULL || *pst == NULL)
        return;
    tt_safetensors *st = *pst;
    for (uint32_t i = 0; i < st->n_shards; i++) {
        if (st->shards[i].fd >= 0)
            close(st->shards[i].fd);
        free(st->shards[i].path);
    }
    free(st->shards);
    free(st->tensors);
    free(st->index_path);
    tt_st_table_free(&st->by_name);
    tt_st_names_free(&st->names);
    free(st);
    *pst = NULL;
}

/* ---- asking ---- */

size_t tt_safetensors_count(const tt_safetensors *st)
{
    return st->count;
}

const tt_st_tensor *tt_safetensors_at(const tt_safetensors *st, size_t i)
{
    return i < st->count ? &st->tensors[i] : NULL;
}

const tt_st_tensor *tt_safetensors_find(const tt_safetensors *st, const char *name)
{
    const tt_st_slot *slot = tt_st_table_find(&st->by_name, name);
    return slot != NULL ? &st->tensors[slot->value] : NULL;
}

uint32_t tt_safetensors_shards(const tt_safetensors *st)
{
    return st->n_shards;
}

const char *tt_safetensors_shard_path(const tt_safetensors *st, uint32_t i)
{
    return i < st->n_shards ? st->shards[i].path : NULL;
}

uint64_t tt_safetensors_shard_size(const tt_safetensors *st, uint32_t i)
{
    return i < st->n_shards ? st->shards[i].size : 0;
}

bool tt_safetensors_is_remote(const tt_safetensors *st)
{
    return st->remote.read != NULL;
}

const char *tt_safetensors_index_path(const tt_safetensors *st)
{
    return st->index_path;
}

void tt_safetensors_expect(const tt_safetensors *st, const tt_st_tensor *t, uint64_t begin,
                           uint64_t n)
{
    if (t->shard >= st->n_shards || st->remote.read != NULL || begin >= t->bytes)
        return;
    if (n > t->bytes - begin)
        n = t->bytes - begin;
    posix_fadvise(st->shards[t->shard].fd, (off_t)(t->offset + begin), (off_t)n,
                  POSIX_FADV_WILLNEED);
}

tt_status tt_safetensors_read(const tt_safetensors *st, const tt_st_tensor *t, uint64_t begin,
                              void *buf, size_t n, tt_error *err)
{
    if (t->shard >= st->n_shards)
        return tt_fail(err, TT_ERR_INVALID, "tensor %s belongs to another checkpoint", t->name);
    const shard *s = &st->shards[t->shard];
    if (begin > t->bytes || n > t->bytes - begin)
        return tt_fail_at(err, TT_ERR_INVALID, s->path, (int64_t)t->offset,
                          "bytes %llu to %llu asked of tensor %s, which has %llu",
                          (unsigned long long)begin, (unsigned long long)(begin + n), t->name,
                          (unsigned long long)t->bytes);
    tt_status rc = st->remote.read != NULL
                       ? st->remote.read(st->remote.ctx, t->shard, t->offset + begin, buf, n, err)
                       : tt_file_pread(s->fd, s->path, buf, n, t->offset + begin, err);
    return rc == TT_OK ? TT_OK : tt_fail_context(err, rc, "tensor %s", t->name);
}
