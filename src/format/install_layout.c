#include "format/install_layout.h"

#include <stdio.h>
#include <string.h>

#include "format/le.h"
#include "format/quant.h"

#define MAX_FILE_BYTES ((uint64_t)1 << 62)

bool tt_tensor_name_valid(const char *name, size_t len)
{
    if (len < 1 || len > TT_MAX_NAME)
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = name[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '_'))
            return false;
    }
    return true;
}

bool tt_tensor_sizes(tt_dtype dtype, uint32_t rank, const uint64_t *shape, uint64_t *bytes,
                     uint64_t *scales_bytes, uint64_t *biases_bytes)
{
    uint32_t bits = tt_dtype_bits(dtype);
    uint32_t each = tt_dtype_bytes(dtype);
    if ((bits == 0 && each == 0) || rank < 1 || rank > TT_MAX_TENSOR_RANK)
        return false;
    if (bits != 0 && (rank < 2 || shape[rank - 1] % TT_GROUP != 0))
        return false;
    uint64_t count = 1;
    for (uint32_t i = 0; i < TT_MAX_TENSOR_RANK; i++) {
        if (i >= rank ? shape[i] != 0 : shape[i] == 0)
            return false;
        if (i < rank && __builtin_mul_overflow(count, shape[i], &count))
            return false;
    }
    if (count > MAX_FILE_BYTES / 8)
        return false;
    *bytes = count * each;
    *scales_bytes = *biases_bytes = 0;
    if (bits == 0)
        return true;
    uint64_t cols = shape[rank - 1], rows = tt_quant_stored_rows(count / cols);
    if (__builtin_mul_overflow(rows, cols, &count) || count > MAX_FILE_BYTES / 8)
        return false;
    *bytes = count / 8 * bits;
    *scales_bytes = *biases_bytes = count / TT_GROUP * 2;
    return true;
}

/* Places a part of n bytes at the next aligned offset after *end; nothing for n = 0. */
static bool place(uint64_t *end, uint64_t n, uint64_t *offset)
{
    if (n == 0) {
        *offset = 0;
        return true;
    }
    *offset = tt_round_up(*end, TT_TENSOR_ALIGN);
    if (n > MAX_FILE_BYTES || *offset > MAX_FILE_BYTES - n)
        return false;
    *end = *offset + n;
    return true;
}

tt_status tt_index_layout(tt_index *ix, const char *file, tt_error *err)
{
    uint64_t names = 0;
    if (ix->count < 1 || ix->count > TT_MAX_TENSORS)
        return tt_fail_at(err, TT_ERR_LIMIT, file, 40, "index has %zu tensors, must be 1 to %u",
                          ix->count, TT_MAX_TENSORS);
    for (size_t i = 0; i < ix->count; i++) {
        size_t len = strlen(ix->entries[i].name);
        if (!tt_tensor_name_valid(ix->entries[i].name, len))
            return tt_fail_at(err, TT_ERR_FORMAT, file, -1, "tensor %zu has an invalid name", i);
        names += len;
        if (i > 0 && strcmp(ix->entries[i - 1].name, ix->entries[i].name) >= 0)
            return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                              "tensors \"%.200s\" and \"%.200s\" are not in order of their names",
                              ix->entries[i - 1].name, ix->entries[i].name);
    }
    ix->index_bytes = tt_round_up(
        TT_INDEX_HEADER_BYTES + (uint64_t)TT_INDEX_ENTRY_BYTES * ix->count + names, TT_PAGE_ALIGN);
    if (ix->index_bytes > TT_MAX_WEIGHTS_INDEX)
        return tt_fail_at(err, TT_ERR_LIMIT, file, -1, "index would have %llu bytes, at most %llu",
                          (unsigned long long)ix->index_bytes,
                          (unsigned long long)TT_MAX_WEIGHTS_INDEX);
    uint64_t end = ix->index_bytes;
    for (size_t i = 0; i < ix->count; i++) {
        tt_index_entry *e = &ix->entries[i];
        if (!tt_tensor_sizes(e->dtype, e->rank, e->shape, &e->bytes, &e->scales_bytes,
                             &e->biases_bytes) ||
            !place(&end, e->bytes, &e->offset) ||
            !place(&end, e->scales_bytes, &e->scales_offset) ||
            !place(&end, e->biases_bytes, &e->biases_offset))
            return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                              "tensor \"%.200s\" has an impossible type, rank or shape", e->name);
    }
    ix->file_bytes = tt_round_up(end, TT_PAGE_ALIGN);
    return TT_OK;
}

static bool place_mat(tt_expert_mat *m, tt_dtype dtype, uint32_t rows, uint32_t cols, uint64_t *end)
{
    uint64_t shape[TT_MAX_TENSOR_RANK] = {rows, cols};
    if (dtype == TT_DTYPE_I64)
        return false;
    *m = (tt_expert_mat){.dtype = dtype, .rows = rows, .cols = cols};
    return tt_tensor_sizes(dtype, 2, shape, &m->words_bytes, &m->scales_bytes, &m->biases_bytes) &&
           place(end, m->words_bytes, &m->words_offset) &&
           place(end, m->scales_bytes, &m->scales_offset) &&
           place(end, m->biases_bytes, &m->biases_offset);
}

tt_status tt_expert_layout_init(tt_expert_layout *out, uint32_t n_experts, uint32_t hidden,
                                uint32_t intermediate, tt_dtype gate, tt_dtype up, tt_dtype down,
                                const char *file, tt_error *err)
{
    tt_expert_layout l = {.n_experts = n_experts};
    uint64_t end = 0;
    if (n_experts < 1 || n_experts > TT_MAX_EXPERTS)
        return tt_fail_at(err, TT_ERR_LIMIT, file, -1, "%u experts a layer, must be 1 to %u",
                          n_experts, TT_MAX_EXPERTS);
    if (!place_mat(&l.gate, gate, intermediate, hidden, &end) ||
        !place_mat(&l.up, up, intermediate, hidden, &end) ||
        !place_mat(&l.down, down, hidden, intermediate, &end))
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                          "experts of %s, %s, %s with hidden %u and intermediate %u are impossible",
                          tt_dtype_name(gate), tt_dtype_name(up), tt_dtype_name(down), hidden,
                          intermediate);
    if (end > TT_MAX_EXPERT_BYTES)
        return tt_fail_at(err, TT_ERR_LIMIT, file, -1, "an expert has %llu bytes, at most %llu",
                          (unsigned long long)end, (unsigned long long)TT_MAX_EXPERT_BYTES);
    l.payload_bytes = end;
    l.stride = tt_round_up(end, TT_PAGE_ALIGN);
    *out = l;
    return TT_OK;
}

void tt_ngram_layout_init(tt_ngram_layout *out, const tt_arch *a, tt_dtype dtype)
{
    uint64_t row = (uint64_t)tt_arch_ngram_cols(a) * tt_dtype_bytes(dtype);
    *out = (tt_ngram_layout){.dtype = dtype,
                             .rows = a->ngram_rows,
                             .cols = tt_arch_ngram_cols(a),
                             .row_bytes = row,
                             .file_bytes = tt_round_up(row * a->ngram_rows, TT_PAGE_ALIGN)};
}

void tt_expert_file_name(char out[64], uint32_t layer, bool mtp)
{
    snprintf(out, 64, TT_EXPERTS_DIR "/%s_%02u.bin", mtp ? "mtp" : "layer", layer);
}

uint64_t tt_crc_table_bytes(uint32_t n_experts, uint32_t n_layers, uint32_t n_mtp_layers)
{
    return TT_CRC_HEADER_BYTES + (uint64_t)4 * n_experts * ((uint64_t)n_layers + n_mtp_layers);
}

void tt_crc_header(char out[TT_CRC_HEADER_BYTES], uint32_t n_experts, uint32_t n_layers,
                   uint32_t n_mtp_layers)
{
    memset(out, 0, TT_CRC_HEADER_BYTES);
    memcpy(out, "GTCRC32C", 8);
    tt_put_u32(out + 8, 1);
    tt_put_u32(out + 12, n_layers);
    tt_put_u32(out + 16, n_mtp_layers);
    tt_put_u32(out + 20, n_experts);
}

bool tt_install_rel_valid(const char *rel)
{
    size_t len = strlen(rel);
    if (len < 1 || len > TT_MAX_INSTALL_REL)
        return false;
    char before = '/';
    for (size_t i = 0; i < len; i++) {
        char c = rel[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
        if (!plain && c != '.' && c != '/')
            return false;
        /* A component is not empty and begins with neither "." nor, through it, "..". */
        if (before == '/' && !plain)
            return false;
        before = c;
    }
    return before != '/';
}

bool tt_model_id_valid(const char *id)
{
    size_t len = strlen(id);
    return len >= 1 && len <= TT_MAX_MODEL_ID &&
           strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/+@-") ==
               len;
}

void tt_shell_quote(tt_buf *out, const char *path)
{
    size_t harmless = strspn(path, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                   "0123456789_@%+=:,./-");
    if (path[0] != '\0' && path[harmless] == '\0') {
        tt_buf_puts(out, path);
        return;
    }
    tt_buf_putc(out, '\'');
    for (const char *p = path; *p != '\0'; p++) {
        if (*p == '\'')
            tt_buf_puts(out, "'\\''");
        else
            tt_buf_putc(out, *p);
    }
    tt_buf_putc(out, '\'');
}
