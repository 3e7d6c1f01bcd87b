/* The binary index of a weights file: bytes to entries and back. */
#include <stdlib.h>
#include <string.h>

#include "format/install_layout.h"
#include "format/install_writer.h"
#include "format/le.h"

#define MAGIC         "GTWEIGHT"
#define VERSION       1u
#define KNOWN_INTEGER 0x0A0B0C0Du
#define KNOWN_FLOAT   0xC2ED4000u /* -118.625 */

typedef struct header {
    uint64_t index_bytes, file_bytes, count, entries_offset, names_offset, names_bytes;
} header;

static bool all_zero(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != 0)
            return false;
    return true;
}

static tt_status bad(tt_error *err, const char *file, size_t offset, const char *what)
{
    return tt_fail_at(err, TT_ERR_FORMAT, file, (int64_t)offset, "index of %s is damaged: %s", file,
                      what);
}

static tt_status parse_header(const unsigned char *p, size_t n, uint64_t file_bytes,
                              const char *file, header *h, tt_error *err)
{
    if (n < TT_INDEX_HEADER_BYTES || n > TT_MAX_WEIGHTS_INDEX || n % TT_PAGE_ALIGN != 0)
        return bad(err, file, 24, "its size is not a multiple of 16384 within the limit");
    if (memcmp(p, MAGIC, 8) != 0)
        return bad(err, file, 0, "it does not begin with " MAGIC);
    if (tt_get_u32(p + 8) != VERSION)
        return tt_fail_at(err, TT_ERR_UNSUPPORTED, file, 8,
                          "index version %u is not known, only %u is", tt_get_u32(p + 8), VERSION);
    if (tt_get_u32(p + 12) != KNOWN_INTEGER || tt_get_u32(p + 16) != KNOWN_FLOAT ||
        tt_get_u32(p + 20) != 0)
        return bad(err, file, 12, "the known numbers are wrong");
    *h = (header){tt_get_u64(p + 24), tt_get_u64(p + 32), tt_get_u64(p + 40),
                  tt_get_u64(p + 48), tt_get_u64(p + 56), tt_get_u64(p + 64)};
    if (h->index_bytes != n)
        return bad(err, file, 24, "index_bytes is not the size of the index region");
    if (h->file_bytes != file_bytes)
        return bad(err, file, 32, "file_bytes is not the size of the file");
    if (h->count < 1 || h->count > TT_MAX_TENSORS)
        return bad(err, file, 40, "the number of tensors is out of range");
    if (h->entries_offset != TT_INDEX_HEADER_BYTES)
        return bad(err, file, 48, "entries_offset is not 128");
    if (h->names_offset != h->entries_offset + h->count * TT_INDEX_ENTRY_BYTES)
        return bad(err, file, 56, "names do not follow the entries");
    if (h->names_offset > n || h->names_bytes > n - h->names_offset)
        return bad(err, file, 64, "names reach beyond the index region");
    if (!all_zero(p + 72, TT_INDEX_HEADER_BYTES - 72))
        return bad(err, file, 72, "reserved bytes are not zero");
    if (!all_zero(p + h->names_offset + h->names_bytes, n - h->names_offset - h->names_bytes))
        return bad(err, file, h->names_offset + h->names_bytes, "padding is not zero");
    return TT_OK;
}

/* Reads what the layout is computed from; *name_end runs along the names. */
static tt_status parse_entry(const unsigned char *p, const header *h, size_t i, uint64_t *name_end,
                             char **names, const char *file, tt_index_entry *e, tt_error *err)
{
    size_t at = h->entries_offset + i * TT_INDEX_ENTRY_BYTES;
    const unsigned char *q = p + at;
    uint64_t name_offset = tt_get_u64(q), len = tt_get_u32(q + 8);
    if (name_offset != *name_end || len > h->names_offset + h->names_bytes - *name_end)
        return bad(err, file, at, "a name is out of place");
    if (!tt_tensor_name_valid((const char *)p + name_offset, len))
        return bad(err, file, at + 8, "a name is not valid");
    *name_end += len;
    memcpy(*names, p + name_offset, len);
    (*names)[len] = '\0';
    *e = (tt_index_entry){.name = *names, .rank = tt_get_u32(q + 16)};
    *names += len + 1;
    uint32_t dtype = tt_get_u32(q + 12);
    if (dtype >= TT_DTYPE_COUNT)
        return tt_fail_at(err, TT_ERR_UNSUPPORTED, file, (int64_t)at + 12,
                          "tensor \"%.200s\" has the unknown type number %u", e->name, dtype);
    e->dtype = (tt_dtype)dtype;
    if (tt_get_u32(q + 20) != 0 || !all_zero(q + 104, TT_INDEX_ENTRY_BYTES - 104))
        return bad(err, file, at + 20, "reserved bytes are not zero");
    for (uint32_t d = 0; d < TT_MAX_TENSOR_RANK; d++)
        e->shape[d] = tt_get_u64(q + 24 + (size_t)8 * d);
    return TT_OK;
}

/* The stated places must be those of the canonical layout. */
static tt_status check_entry(const unsigned char *p, size_t i, const tt_index_entry *e,
                             const char *file, tt_error *err)
{
    static const char *const what[6] = {"offset",       "bytes",         "scales_offset",
                                        "scales_bytes", "biases_offset", "biases_bytes"};
    const uint64_t want[6] = {e->offset,       e->bytes,         e->scales_offset,
                              e->scales_bytes, e->biases_offset, e->biases_bytes};
    size_t at = TT_INDEX_HEADER_BYTES + i * TT_INDEX_ENTRY_BYTES + 56;
    for (size_t k = 0; k < 6; k++) {
        uint64_t is = tt_get_u64(p + at + 8 * k);
        if (is != want[k])
            return tt_fail_at(err, TT_ERR_FORMAT, file, (int64_t)(at + 8 * k),
                              "tensor \"%.200s\" has %s %llu, its type and shape call for %llu",
                              e->name, what[k], (unsigned long long)is,
                              (unsigned long long)want[k]);
    }
    return TT_OK;
}

tt_status tt_index_parse(const void *bytes, size_t n, uint64_t file_bytes, const char *file,
                         tt_index *out, tt_error *err)
{
    const unsigned char *p = bytes;
    header h = {0};
    TT_TRY(parse_header(p, n, file_bytes, file, &h, err));
    tt_index ix = {.count = h.count};
    tt_status st = TT_OK;
    ix.entries = calloc(h.count, sizeof *ix.entries);
    ix.names = malloc(h.names_bytes + h.count);
    if (ix.entries == NULL || ix.names == NULL) {
        st = tt_fail_at(err, TT_ERR_NOMEM, file, -1, "out of memory for an index of %zu tensors",
                        ix.count);
        goto fail;
    }
    char *names = ix.names;
    uint64_t name_end = h.names_offset;
    for (size_t i = 0; i < ix.count; i++)
        TT_GOTO(parse_entry(p, &h, i, &name_end, &names, file, &ix.entries[i], err), fail);
    if (name_end != h.names_offset + h.names_bytes) {
        st = bad(err, file, 64, "names_bytes is not the sum of the names");
        goto fail;
    }
    TT_GOTO(tt_index_layout(&ix, file, err), fail);
    if (ix.index_bytes != n || ix.file_bytes != file_bytes) {
        st = bad(err, file, 24, "sizes are not those that the tensors call for");
        goto fail;
    }
    for (size_t i = 0; i < ix.count; i++)
        TT_GOTO(check_entry(p, i, &ix.entries[i], file, err), fail);
    *out = ix;
    return TT_OK;
fail:
    tt_index_free(&ix);
    return st;
}

void tt_index_free(tt_index *ix)
{
    if (ix == NULL)
        return;
    free(ix->entries);
    free(ix->names);
    *ix = (tt_index){0};
}

static int by_name(const void *key, const void *entry)
{
    return strcmp(key, ((const tt_index_entry *)entry)->name);
}

const tt_index_entry *tt_index_find(const tt_index *ix, const char *name)
{
    if (ix == NULL || ix->count == 0)
        return NULL;
    return bsearch(name, ix->entries, ix->count, sizeof *ix->entries, by_name);
}

tt_status tt_index_encode(const tt_index *ix, void **bytes, tt_error *err)
{
    unsigned char *p = calloc(1, ix->index_bytes);
    if (p == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for an index of %llu bytes",
                       (unsigned long long)ix->index_bytes);
    uint64_t names_offset = TT_INDEX_HEADER_BYTES + (uint64_t)TT_INDEX_ENTRY_BYTES * ix->count;
    uint64_t name_at = names_offset;
    for (size_t i = 0; i < ix->count; i++) {
        const tt_index_entry *e = &ix->entries[i];
        unsigned char *q = p + TT_INDEX_HEADER_BYTES + i * TT_INDEX_ENTRY_BYTES;
        size_t len = strlen(e->name);
        memcpy(p + name_at, e->name, len);
        tt_put_u64(q, name_at);
        tt_put_u32(q + 8, (uint32_t)len);
        tt_put_u32(q + 12, (uint32_t)e->dtype);
        tt_put_u32(q + 16, e->rank);
        for (uint32_t d = 0; d < TT_MAX_TENSOR_RANK; d++)
            tt_put_u64(q + 24 + (size_t)8 * d, e->shape[d]);
        const uint64_t place[6] = {e->offset,       e->bytes,         e->scales_offset,
                                   e->scales_bytes, e->biases_offset, e->biases_bytes};
        for (size_t k = 0; k < 6; k++)
            tt_put_u64(q + 56 + 8 * k, place[k]);
        name_at += len;
    }
    memcpy(p, MAGIC, 8);
    tt_put_u32(p + 8, VERSION);
    tt_put_u32(p + 12, KNOWN_INTEGER);
    tt_put_u32(p + 16, KNOWN_FLOAT);
    const uint64_t numbers[6] = {ix->index_bytes,       ix->file_bytes, ix->count,
                                 TT_INDEX_HEADER_BYTES, names_offset,   name_at - names_offset};
    for (size_t k = 0; k < 6; k++)
        tt_put_u64(p + 24 + 8 * k, numbers[k]);
    *bytes = p;
    return TT_OK;
}
