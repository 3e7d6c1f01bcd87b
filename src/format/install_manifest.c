#include "format/install_manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "format/install_layout.h"
#include "format/quant.h"

/* What the checks of one manifest share. */
typedef struct parse {
    const char *file; /* for errors */
    tt_manifest *m;
    const char **owner; /* section of each listed file, NULL: none yet */
} parse;

static const uint64_t max_file_bytes = (uint64_t)1 << 62;

tt_status tt_manifest_keys(const json_t *obj, const char *const *known, const char *where,
                           const char *file, tt_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)obj, key, value)
    {
        size_t i = 0;
        while (known[i] != NULL && strcmp(known[i], key) != 0)
            i++;
        if (known[i] == NULL)
            return tt_fail_at(err, TT_ERR_FORMAT, file, -1, "%s has the unknown key \"%.100s\"",
                              where, key);
    }
    return TT_OK;
}

static tt_status get_exact(const json_t *obj, const char *key, const char *want, const char *file,
                           tt_error *err)
{
    const char *is = NULL;
    TT_TRY(tt_json_get_string(obj, key, file, &is, err));
    if (strcmp(is, want) != 0)
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1, "key \"%s\" is \"%.100s\", must be \"%s\"",
                          key, is, want);
    return TT_OK;
}

static tt_status get_digest(const json_t *obj, const char *key, const char *file, const char **out,
                            tt_error *err)
{
    const char *hex = NULL;
    TT_TRY(tt_json_get_string(obj, key, file, &hex, err));
    if (!tt_sha256_hex_valid(hex))
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                          "key \"%s\" is not 64 lower-case hexadecimal digits", key);
    *out = hex;
    return TT_OK;
}

static tt_status check_identity(parse *p, tt_error *err)
{
    static const char *const known[] = {"magic",    "version",      "min_reader", "writer",
                                        "model_id", "family",       "arch",       "source",
                                        "files",    "quantization", "sections",   NULL};
    const json_t *t = p->m->tree;
    const char *writer = NULL;
    uint32_t version = 0, min_reader = 0;
    if (!json_is_object(t))
        return tt_fail_at(err, TT_ERR_FORMAT, p->file, -1, "the manifest is not a JSON object");
    TT_TRY(get_exact(t, "magic", TT_INSTALL_MAGIC, p->file, err));
    TT_TRY(tt_json_get_u32(t, "min_reader", p->file, 1, UINT32_MAX, &min_reader, err));
    if (min_reader > TT_INSTALL_VERSION)
        return tt_fail_at(err, TT_ERR_UNSUPPORTED, p->file, -1,
                          "the install needs a reader of format version %u, this one reads up to "
                          "%u: a newer TinyTitan is needed",
                          min_reader, TT_INSTALL_VERSION);
    if (min_reader < TT_INSTALL_VERSION)
        return tt_fail_at(err, TT_ERR_UNSUPPORTED, p->file, -1,
                          "the install has format version %u, whose matrices stand in rows; this "
                          "TinyTitan reads version %u: convert the checkpoint again",
                          min_reader, TT_INSTALL_VERSION);
    TT_TRY(tt_json_get_u32(t, "version", p->file, min_reader, UINT32_MAX, &version, err));
    TT_TRY(tt_manifest_keys(t, known, "the manifest", p->file, err));
    TT_TRY(tt_json_get_string(t, "writer", p->file, &writer, err));
    TT_TRY(tt_json_get_string(t, "model_id", p->file, &p->m->model_id, err));
    if (!tt_model_id_valid(p->m->model_id))
        return tt_fail_at(err, TT_ERR_FORMAT, p->file, -1, "key \"model_id\" is not a model id");
    return TT_OK;
}

static tt_status check_arch(parse *p, tt_error *err)
{
    json_t *arch = NULL;
    TT_TRY(tt_json_get_object(p->m->tree, "arch", p->file, &arch, err));
    tt_status st = tt_arch_from_json(arch, p->file, &p->m->arch, err);
    if (st != TT_OK)
        return tt_fail_context(err, st, "arch");
    return get_exact(p->m->tree, "family", tt_family_name(p->m->arch.family), p->file, err);
}

/* "BEGIN-END", bytes of a file of `size`. */
static bool range_valid(const char *text, uint64_t size)
{
    unsigned long long begin = 0, end = 0;
    char again[48];
    if (sscanf(text, "%19llu-%19llu", &begin, &end) != 2 || begin >= end || end > size)
        return false;
    snprintf(again, sizeof again, "%llu-%llu", begin, end);
    return strcmp(text, again) == 0;
}

static tt_status check_ranges(parse *p, json_t *entry, const char *name, uint64_t size,
                              tt_error *err)
{
    json_t *ranges = NULL, *digest;
    const char *place, *text = NULL;
    TT_TRY(tt_json_get_object(entry, "ranges", p->file, &ranges, err));
    json_object_foreach(ranges, place, digest)
    {
        if (!range_valid(place, size))
            return tt_fail_at(err, TT_ERR_FORMAT, p->file, -1,
                              "source file \"%.100s\" has no bytes \"%.60s\"", name, place);
        TT_TRY(get_digest(ranges, place, p->file, &text, err));
    }
    return TT_OK;
}

static tt_status check_source(parse *p, tt_error *err)
{
    static const char *const known[] = {"repository", "revision", "index_sha256", "files", NULL};
    static const char *const entry_keys[] = {"size",   "sha256", "header_sha256",
                                             "hub_id", "ranges", NULL};
    json_t *source = NULL, *files = NULL, *entry;
    const char *text = NULL, *key;
    uint64_t size = 0;
    TT_TRY(tt_json_get_object(p->m->tree, "source", p->file, &source, err));
    TT_TRY(tt_manifest_keys(source, known, "source", p->file, err));
    TT_TRY(tt_json_get_string(source, "repository", p->file, &text, err));
    TT_TRY(tt_json_get_string(source, "revision", p->file, &text, err));
    TT_TRY(get_digest(source, "index_sha256", p->file, &text, err));
    TT_TRY(tt_json_get_object(source, "files", p->file, &files, err));
    json_object_foreach(files, key, entry)
    {
        if (!json_is_object(entry))
            return tt_fail_at(err, TT_ERR_FORMAT, p->file, -1,
                              "source file \"%.100s\" is not an object", key);
        TT_TRY(tt_manifest_keys(entry, entry_keys, "a source file", p->file, err));
        TT_TRY(tt_json_get_u64(entry, "size", p->file, 0, max_file_bytes, &size, err));
        bool whole = json_object_get(entry, "sha256") != NULL;
        if (whole)
            TT_TRY(get_digest(entry, "sha256", p->file, &text, err));
        if (!whole || json_object_get(entry, "header_sha256") != NULL)
            TT_TRY(get_digest(entry, "header_sha256", p->file, &text, err));
        if (json_object_get(entry, "hub_id") != NULL)
            TT_TRY(tt_json_get_string(entry, "hub_id", p->file, &text, err));
        if (json_object_get(entry, "ranges") != NULL)
            TT_TRY(check_ranges(p, entry, key, size, err));
    }
    return TT_OK;
}

static int by_rel(const void *a, const void *b)
{
    return strcmp(((const tt_install_file *)a)->rel, ((const tt_install_file *)b)->rel);
}

static tt_status read_files(parse *p, tt_error *err)
{
    static const char *const known[] = {"size", "sha256", NULL};
    tt_manifest *m = p->m;
    json_t *files = NULL, *entry;
    const char *key;
    TT_TRY(tt_json_get_object(m->tree, "files", p->file, &files, err));
    size_t n = json_object_size(files);
    if (n < 1 || n > TT_MAX_INSTALL_FILES)
        return tt_fail_at(err, TT_ERR_LIMIT, p->file, -1, "%zu files are listed, must be 1 to %u",
                          n, TT_MAX_INSTALL_FILES);
    m->files = calloc(n, sizeof *m->files);
    p->owner = calloc(n, sizeof *p->owner);
    if (m->files == NULL || p->owner == NULL)
        return tt_fail_at(err, TT_ERR_NOMEM, p->file, -1, "out of memory for %zu files", n);
    json_object_foreach(files, key, entry)
    {
        tt_install_file *f = &m->files[m->n_files];
        if (!tt_install_rel_valid(key) || strcmp(key, TT_MANIFEST_NAME) == 0 ||
            strcmp(key, TT_RECEIPT_NAME) == 0)
            return tt_fail_at(err, TT_ERR_FORMAT, p->file, -1,
                              "\"%.260s\" is not a path that an install may list", key);
        if (!json_is_object(entry))
            return tt_fail_at(err, TT_ERR_FORMAT, p->file, -1, "file \"%s\" is not an object", key);
        TT_TRY(tt_manifest_keys(entry, known, "a file", p->file, err));
        tt_status st = tt_json_get_u64(entry, "size", p->file, 0, max_file_bytes, &f->size, err);
        if (st == TT_OK)
            st = get_digest(entry, "sha256", p->file, &f->sha256, err);
        if (st != TT_OK)
            return tt_fail_context(err, st, "file \"%s\"", key);
        f->rel = key;
        m->n_files++;
    }
    qsort(m->files, m->n_files, sizeof *m->files, by_rel);
    return TT_OK;
}

const tt_install_file *tt_manifest_find(const tt_manifest *m, const char *rel)
{
    tt_install_file key = {.rel = rel};
    return bsearch(&key, m->files, m->n_files, sizeof *m->files, by_rel);
}

#define ANY_SIZE UINT64_MAX

/* Gives a listed file its owner and compares its size. */
static tt_status claim(parse *p, const char *section, const char *rel, uint64_t size, tt_error *err)
{
    const tt_install_file *f = tt_manifest_find(p->m, rel);
    if (f == NULL)
        return tt_fail_at(err, TT_ERR_FORMAT, p->file, -1,
                          "section \"%.100s\" calls for the file \"%.260s\", which is not listed",
                          section, rel);
    const char **owner = &p->owner[f - p->m->files];
    if (*owner != NULL)
        return tt_fail_at(err, TT_ERR_FORMAT, p->file, -1,
                          "file \"%s\" belongs to the sections \"%.100s\" and \"%.100s\"", rel,
                          *owner, section);
    if (size != ANY_SIZE && f->size != size)
        return tt_fail_at(err, TT_ERR_FORMAT, p->file, -1,
                          "file \"%s\" is listed with %llu bytes, the layout calls for %llu", rel,
                          (unsigned long long)f->size, (unsigned long long)size);
    *owner = section;
    return TT_OK;
}

static tt_status get_part(const json_t *mat, const char *key, uint64_t offset, uint64_t bytes,
                          const char *file, tt_error *err)
{
    json_t *pair = NULL;
    TT_TRY(tt_json_get_array(mat, key, file, &pair, err));
    const json_t *a = json_array_get(pair, 0), *b = json_array_get(pair, 1);
    if (json_array_size(pair) != 2 || !json_is_integer(a) || !json_is_integer(b))
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1, "key \"%s\" must be [offset, bytes]", key);
    if ((uint64_t)json_integer_value(a) != offset || (uint64_t)json_integer_value(b) != bytes)
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                          "key \"%s\" is [%lld, %lld], the layout calls for [%llu, %llu]", key,
                          (long long)json_integer_value(a), (long long)json_integer_value(b),
                          (unsigned long long)offset, (unsigned long long)bytes);
    return TT_OK;
}

static tt_status check_mat(const json_t *table, const char *key, const tt_expert_mat *want,
                           const char *file, tt_error *err)
{
    static const char *const known[] = {"dtype", "rows", "cols", "words", "scales", "biases", NULL};
    json_t *mat = NULL;
    uint32_t n = 0;
    TT_TRY(tt_json_get_object(table, key, file, &mat, err));
    TT_TRY(tt_manifest_keys(mat, known, key, file, err));
    TT_TRY(tt_json_get_u32(mat, "rows", file, want->rows, want->rows, &n, err));
    TT_TRY(tt_json_get_u32(mat, "cols", file, want->cols, want->cols, &n, err));
    TT_TRY(get_part(mat, "words", want->words_offset, want->words_bytes, file, err));
    TT_TRY(get_part(mat, "scales", want->scales_offset, want->scales_bytes, file, err));
    return get_part(mat, "biases", want->biases_offset, want->biases_bytes, file, err);
}

static tt_status get_mat_dtype(const json_t *table, const char *key, const char *file,
                               tt_dtype *out, tt_error *err)
{
    json_t *mat = NULL;
    const char *name = NULL;
    TT_TRY(tt_json_get_object(table, key, file, &mat, err));
    TT_TRY(tt_json_get_string(mat, "dtype", file, &name, err));
    for (unsigned t = 0; t < TT_DTYPE_COUNT; t++) {
        if (t != TT_DTYPE_I64 && strcmp(name, tt_dtype_name((tt_dtype)t)) == 0) {
            *out = (tt_dtype)t;
            return TT_OK;
        }
    }
    return tt_fail_at(err, TT_ERR_UNSUPPORTED, file, -1, "expert type \"%.40s\" is not known",
                      name);
}

/* The stated table must be the canonical one of the architecture and the stated types. */
static tt_status check_layout(parse *p, const json_t *section, tt_expert_layout *out, tt_error *err)
{
    static const char *const known[] = {"n_experts", "stride", "payload_bytes", "gate", "up",
                                        "down",      NULL};
    const tt_arch *a = &p->m->arch;
    json_t *table = NULL;
    tt_dtype gate = 0, up = 0, down = 0;
    uint32_t n = 0;
    uint64_t v = 0;
    tt_expert_layout l = {0};
    TT_TRY(tt_json_get_object(section, "layout", p->file, &table, err));
    TT_TRY(tt_manifest_keys(table, known, "layout", p->file, err));
    TT_TRY(tt_json_get_u32(table, "n_experts", p->file, a->n_experts, a->n_experts, &n, err));
    TT_TRY(get_mat_dtype(table, "gate", p->file, &gate, err));
    TT_TRY(get_mat_dtype(table, "up", p->file, &up, err));
    TT_TRY(get_mat_dtype(table, "down", p->file, &down, err));
    TT_TRY(tt_expert_layout_init(&l, n, a->hidden_size, a->moe_intermediate, gate, up, down,
                                 p->file, err));
    TT_TRY(tt_json_get_u64(table, "stride", p->file, l.stride, l.stride, &v, err));
    TT_TRY(tt_json_get_u64(table, "payload_bytes", p->file, l.payload_bytes, l.payload_bytes, &v,
                           err));
    TT_TRY(check_mat(table, "gate", &l.gate, p->file, err));
    TT_TRY(check_mat(table, "up", &l.up, p->file, err));
    TT_TRY(check_mat(table, "down", &l.down, p->file, err));
    *out = l;
    return TT_OK;
}

static tt_status claim_layers(parse *p, const char *section, uint32_t n_layers, bool mtp,
                              const tt_expert_layout *l, tt_error *err)
{
    for (uint32_t i = 0; i < n_layers; i++) {
        char rel[64];
        tt_expert_file_name(rel, i, mtp);
        TT_TRY(claim(p, section, rel, l->stride * l->n_experts, err));
    }
    return TT_OK;
}

static tt_status read_weights(parse *p, const char *name, const json_t *section, const char *rel,
                              tt_manifest_weights *out, tt_error *err)
{
    TT_TRY(get_exact(section, "file", rel, p->file, err));
    TT_TRY(claim(p, name, rel, ANY_SIZE, err));
    const tt_install_file *f = tt_manifest_find(p->m, rel);
    TT_TRY(tt_json_get_u64(section, "index_bytes", p->file, TT_PAGE_ALIGN, TT_MAX_WEIGHTS_INDEX,
                           &out->index_bytes, err));
    if (out->index_bytes % TT_PAGE_ALIGN != 0 || out->index_bytes > f->size ||
        f->size % TT_PAGE_ALIGN != 0)
        return tt_fail_at(err, TT_ERR_FORMAT, p->file, -1,
                          "key \"index_bytes\" or the size of %s is not a multiple of 16384", rel);
    TT_TRY(get_digest(section, "index_sha256", p->file, &out->index_sha256, err));
    out->file = f->rel;
    return TT_OK;
}

static tt_status section_weights(parse *p, const char *name, const json_t *s, tt_error *err)
{
    static const char *const known[] = {"must_understand", "file", "index_bytes", "index_sha256",
                                        NULL};
    TT_TRY(tt_manifest_keys(s, known, "the section", p->file, err));
    return read_weights(p, name, s, TT_WEIGHTS_NAME, &p->m->weights, err);
}

static tt_status section_experts(parse *p, const char *name, const json_t *s, tt_error *err)
{
    static const char *const known[] = {"must_understand", "crc_file", "layout", NULL};
    const tt_arch *a = &p->m->arch;
    TT_TRY(tt_manifest_keys(s, known, "the section", p->file, err));
    if (!tt_arch_is_moe(a))
        return tt_fail_at(err, TT_ERR_FORMAT, p->file, -1, "the model has no experts");
    TT_TRY(get_exact(s, "crc_file", TT_CRC_NAME, p->file, err));
    TT_TRY(check_layout(p, s, &p->m->experts, err));
    TT_TRY(claim(p, name, TT_CRC_NAME,
                 tt_crc_table_bytes(a->n_experts, a->n_layers, a->n_mtp_layers), err));
    return claim_layers(p, name, a->n_layers, false, &p->m->experts, err);
}

static tt_status section_ngrams(parse *p, const char *name, const json_t *s, tt_error *err)
{
    static const char *const known[] = {"must_understand", "file", "dtype", "rows", "cols", NULL};
    const tt_arch *a = &p->m->arch;
    const char *dtype = NULL;
    uint32_t n = 0, cols = tt_arch_ngram_cols(a);
    TT_TRY(tt_manifest_keys(s, known, "the section", p->file, err));
    if (tt_arch_ngrams(a) == 0)
        return tt_fail_at(err, TT_ERR_FORMAT, p->file, -1, "the model has no n-gram table");
    TT_TRY(get_exact(s, "file", TT_NGRAM_NAME, p->file, err));
    TT_TRY(tt_json_get_string(s, "dtype", p->file, &dtype, err));
    tt_dtype is = strcmp(dtype, "BF16") == 0 ? TT_DTYPE_BF16 : TT_DTYPE_F16;
    if (strcmp(dtype, tt_dtype_name(is)) != 0)
        return tt_fail_at(err, TT_ERR_UNSUPPORTED, p->file, -1,
                          "the n-gram table is \"%.40s\": BF16 and F16 can be read", dtype);
    TT_TRY(tt_json_get_u32(s, "rows", p->file, a->ngram_rows, a->ngram_rows, &n, err));
    TT_TRY(tt_json_get_u32(s, "cols", p->file, cols, cols, &n, err));
    tt_ngram_layout_init(&p->m->ngrams, a, is);
    return claim(p, name, TT_NGRAM_NAME, p->m->ngrams.file_bytes, err);
}

static tt_status section_mtp(parse *p, const char *name, const json_t *s, tt_error *err)
{
    static const char *const dense[] = {"must_understand", "file", "index_bytes", "index_sha256",
                                        NULL};
    static const char *const moe[] = {"must_understand", "file",   "index_bytes",
                                      "index_sha256",    "layout", NULL};
    const tt_arch *a = &p->m->arch;
    TT_TRY(tt_manifest_keys(s, tt_arch_is_moe(a) ? moe : dense, "the section", p->file, err));
    if (a->n_mtp_layers == 0)
        return tt_fail_at(err, TT_ERR_FORMAT, p->file, -1, "the model has no draft layers");
    TT_TRY(read_weights(p, name, s, TT_MTP_WEIGHTS_NAME, &p->m->mtp, err));
    if (!tt_arch_is_moe(a))
        return TT_OK;
    TT_TRY(check_layout(p, s, &p->m->mtp_experts, err));
    return claim_layers(p, name, a->n_mtp_layers, true, &p->m->mtp_experts, err);
}

static tt_status section_tokenizer(parse *p, const char *name, const json_t *s, tt_error *err)
{
    static const char *const known[] = {"must_understand", NULL};
    static const char dir[] = TT_TOKENIZER_DIR "/";
    size_t n = 0;
    TT_TRY(tt_manifest_keys(s, known, "the section", p->file, err));
    for (size_t i = 0; i < p->m->n_files; i++) {
        const char *rel = p->m->files[i].rel;
        if (strncmp(rel, dir, sizeof dir - 1) != 0 || strchr(rel + sizeof dir - 1, '/') != NULL)
            continue;
        TT_TRY(claim(p, name, rel, ANY_SIZE, err));
        n++;
    }
    if (n == 0)
        return tt_fail_at(err, TT_ERR_FORMAT, p->file, -1, "no tokenizer file is listed");
    return TT_OK;
}

/* A section of a later version: it may be overlooked when it says so. */
static tt_status section_unknown(parse *p, const char *name, const json_t *s, tt_error *err)
{
    json_t *files = NULL, *rel;
    size_t i;
    if (json_is_true(json_object_get(s, "must_understand")))
        return tt_fail_at(err, TT_ERR_UNSUPPORTED, p->file, -1,
                          "this reader does not know the section, and the install cannot be read "
                          "without it: a newer TinyTitan is needed");
    TT_TRY(tt_json_get_array(s, "files", p->file, &files, err));
    json_array_foreach(files, i, rel)
    {
        if (!json_is_string(rel))
            return tt_fail_at(err, TT_ERR_FORMAT, p->file, -1, "its files are not strings");
        TT_TRY(claim(p, name, json_string_value(rel), ANY_SIZE, err));
    }
    return TT_OK;
}

typedef tt_status (*section_fn)(parse *p, const char *name, const json_t *s, tt_error *err);
static const struct {
    const char *name;
    section_fn fn;
    bool must_understand;
} sections[] = {
    {"weights", section_weights, true},      {"experts", section_experts, true},
    {"ngrams", section_ngrams, true},        {"mtp", section_mtp, false},
    {"tokenizer", section_tokenizer, false},
};

static tt_status read_section(parse *p, const char *name, const json_t *s, tt_error *err)
{
    bool must = false;
    if (!json_is_object(s))
        return tt_fail_at(err, TT_ERR_FORMAT, p->file, -1, "it is not an object");
    TT_TRY(tt_json_get_bool(s, "must_understand", p->file, &must, err));
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        if (strcmp(name, sections[i].name) != 0)
            continue;
        if (must != sections[i].must_understand)
            return tt_fail_at(err, TT_ERR_FORMAT, p->file, -1, "\"must_understand\" must be %s",
                              sections[i].must_understand ? "true" : "false");
        return sections[i].fn(p, name, s, err);
    }
    return section_unknown(p, name, s, err);
}

static tt_status read_sections(parse *p, tt_error *err)
{
    const tt_manifest *m = p->m;
    json_t *all = NULL, *section;
    const char *name;
    TT_TRY(tt_json_get_object(m->tree, "sections", p->file, &all, err));
    json_object_foreach(all, name, section)
    {
        tt_status st = read_section(p, name, section, err);
        if (st != TT_OK)
            return tt_fail_context(err, st, "section \"%.100s\"", name);
    }
    const char *missing = m->weights.file == NULL                                 ? "weights"
                          : tt_arch_is_moe(&m->arch) && m->experts.n_experts == 0 ? "experts"
                          : tt_arch_ngrams(&m->arch) > 0 && m->ngrams.rows == 0   ? "ngrams"
                          : m->arch.n_mtp_layers > 0 && m->mtp.file == NULL       ? "mtp"
                                                                                  : NULL;
    if (missing != NULL)
        return tt_fail_at(err, TT_ERR_FORMAT, p->file, -1, "section \"%s\" is missing", missing);
    for (size_t i = 0; i < m->n_files; i++)
        if (p->owner[i] == NULL)
            return tt_fail_at(err, TT_ERR_FORMAT, p->file, -1, "file \"%s\" belongs to no section",
                              m->files[i].rel);
    return TT_OK;
}

static tt_status check_quantization_shape(parse *p, tt_error *err)
{
    static const char *const known[] = {"bits", "group_size", "mode", NULL};
    json_t *all = NULL, *entry;
    const char *name;
    uint32_t n = 0;
    TT_TRY(tt_json_get_object(p->m->tree, "quantization", p->file, &all, err));
    json_object_foreach(all, name, entry)
    {
        if (!json_is_object(entry))
            return tt_fail_at(err, TT_ERR_FORMAT, p->file, -1,
                              "quantization of \"%.200s\" is not an object", name);
        TT_TRY(tt_manifest_keys(entry, known, "a quantization entry", p->file, err));
        TT_TRY(tt_json_get_u32(entry, "bits", p->file, 4, 8, &n, err));
        TT_TRY(tt_json_get_u32(entry, "group_size", p->file, TT_GROUP, TT_GROUP, &n, err));
        TT_TRY(get_exact(entry, "mode", "affine", p->file, err));
    }
    return TT_OK;
}

tt_status tt_manifest_parse(const char *text, size_t len, const char *file, tt_manifest *out,
                            tt_error *err)
{
    tt_manifest m = {0};
    parse p = {.file = file, .m = &m};
    tt_status st;
    if (len > TT_MAX_MANIFEST)
        return tt_fail_at(err, TT_ERR_LIMIT, file, -1, "manifest has %zu bytes, at most %llu", len,
                          (unsigned long long)TT_MAX_MANIFEST);
    TT_GOTO(tt_json_parse(text, len, file, &m.tree, err), out);
    TT_GOTO(check_identity(&p, err), out);
    TT_GOTO(check_arch(&p, err), out);
    TT_GOTO(check_source(&p, err), out);
    TT_GOTO(check_quantization_shape(&p, err), out);
    TT_GOTO(read_files(&p, err), out);
    TT_GOTO(read_sections(&p, err), out);
out:
    free(p.owner);
    if (st == TT_OK)
        *out = m;
    else
        tt_manifest_free(&m);
    return st;
}

void tt_manifest_free(tt_manifest *m)
{
    if (m == NULL)
        return;
    free(m->files);
    json_decref(m->tree);
    *m = (tt_manifest){0};
}

/* Affine tensors of one index agree with their entries; counts them. */
static tt_status match_index(const json_t *all, const tt_index *ix, const char *file, size_t *count,
                             tt_error *err)
{
    for (size_t i = 0; ix != NULL && i < ix->count; i++) {
        const tt_index_entry *e = &ix->entries[i];
        uint32_t bits = tt_dtype_bits(e->dtype);
        const json_t *entry = json_object_get(all, e->name);
        json_int_t stated = entry == NULL ? 0 : json_integer_value(json_object_get(entry, "bits"));
        if (stated != (json_int_t)bits)
            return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                              "quantization of \"%.200s\" says %lld bits, the tensor is %s",
                              e->name, (long long)stated, tt_dtype_name(e->dtype));
        *count += bits != 0;
    }
    return TT_OK;
}

tt_status tt_manifest_check_quantization(const tt_manifest *m, const tt_index *weights,
                                         const tt_index *mtp, const char *file, tt_error *err)
{
    const json_t *all = json_object_get(m->tree, "quantization"); /* the parser saw an object */
    size_t count = 0;
    TT_TRY(match_index(all, weights, file, &count, err));
    TT_TRY(match_index(all, mtp, file, &count, err));
    if (count != json_object_size(all))
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                          "quantization has %zu entries, the indexes have %zu affine tensors",
                          json_object_size(all), count);
    return TT_OK;
}
