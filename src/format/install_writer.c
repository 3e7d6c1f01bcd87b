#include "format/install_writer.h"

#include <stdlib.h>
#include <string.h>

#include "format/install_layout.h"
#include "format/install_manifest.h"
#include "format/le.h"
#include "format/quant.h"

static tt_status no_memory(tt_error *err)
{
    return tt_fail(err, TT_ERR_NOMEM, "out of memory for JSON");
}

tt_status tt_crc_table_encode(const uint32_t *crc, uint32_t n_experts, uint32_t n_layers,
                              uint32_t n_mtp_layers, void **bytes, size_t *len, tt_error *err)
{
    size_t n = tt_crc_table_bytes(n_experts, n_layers, n_mtp_layers);
    char *p = malloc(n);
    if (p == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %zu bytes of checksums", n);
    tt_crc_header(p, n_experts, n_layers, n_mtp_layers);
    for (size_t i = 0; i < (n - TT_CRC_HEADER_BYTES) / 4; i++)
        tt_put_u32(p + TT_CRC_HEADER_BYTES + 4 * i, crc[i]);
    *bytes = p;
    *len = n;
    return TT_OK;
}

tt_status tt_install_json(const json_t *tree, char **text, size_t *len, tt_error *err)
{
    const size_t flags = JSON_INDENT(1) | JSON_SORT_KEYS | JSON_REAL_PRECISION(17);
    size_t n = json_dumpb(tree, NULL, 0, flags);
    char *p = n > 0 ? malloc(n + 2) : NULL;
    if (p == NULL || json_dumpb(tree, p, n, flags) != n) {
        free(p);
        return no_memory(err);
    }
    memcpy(p + n, "\n", 2);
    *text = p;
    *len = n + 1;
    return TT_OK;
}

static json_t *mat_json(const tt_expert_mat *m)
{
    return json_pack("{s:s, s:I, s:I, s:[I,I], s:[I,I], s:[I,I]}", "dtype", tt_dtype_name(m->dtype),
                     "rows", (json_int_t)m->rows, "cols", (json_int_t)m->cols, "words",
                     (json_int_t)m->words_offset, (json_int_t)m->words_bytes, "scales",
                     (json_int_t)m->scales_offset, (json_int_t)m->scales_bytes, "biases",
                     (json_int_t)m->biases_offset, (json_int_t)m->biases_bytes);
}

static json_t *layout_json(const tt_expert_layout *l)
{
    return json_pack("{s:I, s:I, s:I, s:o, s:o, s:o}", "n_experts", (json_int_t)l->n_experts,
                     "stride", (json_int_t)l->stride, "payload_bytes", (json_int_t)l->payload_bytes,
                     "gate", mat_json(&l->gate), "up", mat_json(&l->up), "down",
                     mat_json(&l->down));
}

static json_t *weights_json(const char *file, const tt_index *ix, const char *sha256, bool must)
{
    return json_pack("{s:b, s:s, s:I, s:s}", "must_understand", must, "file", file, "index_bytes",
                     (json_int_t)ix->index_bytes, "index_sha256", sha256);
}

static json_t *sections_json(const tt_manifest_content *c)
{
    json_t *all = json_object();
    int rc = json_object_set_new(
        all, "weights", weights_json(TT_WEIGHTS_NAME, c->weights, c->weights_index_sha256, true));
    if (c->experts != NULL)
        rc |= json_object_set_new(all, "experts",
                                  json_pack("{s:b, s:s, s:o}", "must_understand", 1, "crc_file",
                                            TT_CRC_NAME, "layout", layout_json(c->experts)));
    if (c->ngrams != NULL)
        rc |= json_object_set_new(
            all, "ngrams",
            json_pack("{s:b, s:s, s:s, s:I, s:I}", "must_understand", 1, "file", TT_NGRAM_NAME,
                      "dtype", tt_dtype_name(c->ngrams->dtype), "rows", (json_int_t)c->ngrams->rows,
                      "cols", (json_int_t)c->ngrams->cols));
    if (c->mtp != NULL) {
        json_t *mtp = weights_json(TT_MTP_WEIGHTS_NAME, c->mtp, c->mtp_index_sha256, false);
        if (c->mtp_experts != NULL)
            rc |= json_object_set_new(mtp, "layout", layout_json(c->mtp_experts));
        rc |= json_object_set_new(all, "mtp", mtp);
    }
    if (c->tokenizer)
        rc |= json_object_set_new(all, "tokenizer", json_pack("{s:b}", "must_understand", 0));
    if (rc != 0) {
        json_decref(all);
        return NULL;
    }
    return all;
}

static int add_quantization(json_t *all, const tt_index *ix)
{
    int rc = 0;
    for (size_t i = 0; ix != NULL && i < ix->count; i++) {
        uint32_t bits = tt_dtype_bits(ix->entries[i].dtype);
        if (bits != 0)
            rc |= json_object_set_new(all, ix->entries[i].name,
                                      json_pack("{s:i, s:i, s:s}", "bits", (int)bits, "group_size",
                                                (int)TT_GROUP, "mode", "affine"));
    }
    return rc;
}

static json_t *files_json(const tt_install_file *files, size_t n, bool with_time)
{
    json_t *all = json_object();
    int rc = 0;
    for (size_t i = 0; i < n; i++) {
        json_t *f =
            json_pack("{s:I, s:s}", "size", (json_int_t)files[i].size, "sha256", files[i].sha256);
        if (with_time)
            rc |= json_object_set_new(f, "mtime_ns", json_integer(files[i].mtime_ns));
        rc |= json_object_set_new(all, files[i].rel, f);
    }
    if (rc != 0) {
        json_decref(all);
        return NULL;
    }
    return all;
}

tt_status tt_manifest_encode(const tt_manifest_content *c, char **text, size_t *len, tt_error *err)
{
    json_t *arch = NULL, *tree = NULL;
    char *p = NULL;
    size_t n = 0;
    tt_manifest check = {0};
    TT_TRY(tt_arch_to_json(c->arch, &arch, err));
    json_t *quantization = json_object();
    int rc = add_quantization(quantization, c->weights) | add_quantization(quantization, c->mtp);
    /* json_pack takes the new trees over even when it fails. */
    tree = json_pack("{s:s, s:i, s:i, s:s, s:s, s:s, s:o, s:O, s:o, s:o, s:o}", "magic",
                     TT_INSTALL_MAGIC, "version", (int)TT_INSTALL_VERSION, "min_reader",
                     (int)TT_INSTALL_VERSION, "writer", c->writer, "model_id", c->model_id,
                     "family", tt_family_name(c->arch->family), "arch", arch, "source", c->source,
                     "quantization", quantization, "sections", sections_json(c), "files",
                     files_json(c->files, c->n_files, false));
    tt_status st = tree == NULL || rc != 0 ? no_memory(err) : tt_install_json(tree, &p, &n, err);
    if (st == TT_OK)
        st = tt_manifest_parse(p, n, TT_MANIFEST_NAME, &check, err);
    if (st == TT_OK)
        st = tt_manifest_check_quantization(&check, c->weights, c->mtp, TT_MANIFEST_NAME, err);
    tt_manifest_free(&check);
    json_decref(tree);
    if (st != TT_OK) {
        free(p);
        return st;
    }
    *text = p;
    *len = n;
    return TT_OK;
}

tt_status tt_receipt_encode(const char *manifest_sha256, const char *path,
                            const tt_install_file *files, size_t n_files, const char *tool,
                            const char *time, char **text, size_t *len, tt_error *err)
{
    json_t *tree =
        json_pack("{s:s, s:i, s:s, s:s, s:s, s:s, s:o}", "magic", TT_RECEIPT_MAGIC, "version",
                  (int)TT_RECEIPT_VERSION, "manifest_sha256", manifest_sha256, "path", path, "tool",
                  tool, "time", time, "files", files_json(files, n_files, true));
    if (tree == NULL)
        return tt_fail_at(err, TT_ERR_INVALID, path, -1,
                          "no receipt can be written for %s: the path is not UTF-8", path);
    tt_status st = tt_install_json(tree, text, len, err);
    json_decref(tree);
    return st;
}
