#include "repack/repack_inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/install.h"
#include "format/install_writer.h"
#include "repack/origin.h"

/* Opens without hashing. `receipt` says what became of the receipt. */
static tt_status open_any(const char *dir, tt_install **in, char receipt[1024], tt_error *err)
{
    tt_status st = tt_install_open(dir, TT_INSTALL_NO_HASH, NULL, NULL, in, err);
    if (st == TT_OK)
        snprintf(receipt, 1024, "%s", tt_install_has_receipt(*in) ? "valid" : "absent");
    if (st != TT_ERR_RECEIPT)
        return st;
    snprintf(receipt, 1024, "refused: %s", err->message);
    return tt_install_open(dir, TT_INSTALL_NO_HASH | TT_INSTALL_NO_RECEIPT, NULL, NULL, in, err);
}

static json_t *tensors_json(const tt_index *ix)
{
    json_t *all = json_array();
    for (size_t i = 0; ix != NULL && i < ix->count; i++) {
        const tt_index_entry *e = &ix->entries[i];
        json_t *shape = json_array();
        for (uint32_t d = 0; d < e->rank; d++)
            json_array_append_new(shape, json_integer((json_int_t)e->shape[d]));
        json_array_append_new(
            all, json_pack("{s:s, s:s, s:o, s:I, s:I}", "name", e->name, "dtype",
                           tt_dtype_name(e->dtype), "shape", shape, "offset", (json_int_t)e->offset,
                           "bytes", (json_int_t)(e->bytes + e->scales_bytes + e->biases_bytes)));
    }
    return all;
}

static tt_status print_json(const tt_install *in, const char *receipt, tt_error *err)
{
    char *text = NULL;
    size_t len = 0;
    json_t *tree =
        json_pack("{s:s, s:s, s:s, s:O, s:o, s:o}", "path", tt_install_dir(in), "receipt", receipt,
                  "manifest_sha256", tt_install_manifest_sha256(in), "manifest",
                  tt_install_manifest(in), "tensors", tensors_json(tt_install_index(in)),
                  "mtp_tensors", tensors_json(tt_install_mtp_index(in)));
    tt_status st = tree == NULL ? tt_fail(err, TT_ERR_NOMEM, "out of memory for JSON")
                                : tt_install_json(tree, &text, &len, err);
    if (st == TT_OK)
        fwrite(text, 1, len, stdout);
    free(text);
    json_decref(tree);
    return st;
}

static void print_arch(const tt_arch *a)
{
    unsigned full = 0;
    for (uint32_t i = 0; i < a->n_layers; i++)
        full += a->layer_kind[i] == TT_LAYER_FULL;
    printf("  layers              %u (%u linear, %u full attention), hidden %u, vocabulary %u, "
           "context %u\n",
           a->n_layers, a->n_layers - full, full, a->hidden_size, a->vocab_size, a->max_position);
    printf("  full attention      %u heads, %u of keys and values, dimension %u\n", a->n_heads,
           a->n_kv_heads, a->head_dim);
    printf("  linear attention    %u key heads of %u, %u value heads of %u, %u taps\n",
           a->lin_key_heads, a->lin_key_dim, a->lin_value_heads, a->lin_value_dim, a->conv_kernel);
    if (tt_arch_is_moe(a))
        printf("  experts             %u a layer, %u used, width %u, shared %u\n", a->n_experts,
               a->top_k, a->moe_intermediate, a->shared_intermediate);
    else
        printf("  dense MLP           width %u\n", a->intermediate);
    if (a->streams > 0) {
        printf("  residual            %u streams, mixed through %u values\n", a->streams,
               a->mix_rank);
        printf("  sparse attention    %u tokens in blocks of %u, index of %u heads of %u\n",
               a->indexer_budget, a->indexer_block, a->indexer_heads, a->indexer_dim);
        printf("  n-grams             layer %u, %u rows of %u a token, table of %u on disk\n",
               a->ngram_layer, tt_arch_ngrams(a), tt_arch_ngram_cols(a), a->ngram_rows);
    }
    printf("  head                %s\n", a->tied_head ? "tied to the embeddings" : "of its own");
    printf("  norm weights        %s, draft %s\n", a->norm_offset ? "1 + w" : "w",
           a->n_mtp_layers == 0 ? "none"
           : a->mtp_norm_offset ? "1 + w"
                                : "w");
}

static void print_layout(const char *title, const tt_expert_layout *l)
{
    if (l == NULL)
        return;
    printf("\n%s: %u a layer, stride %llu, payload %llu\n", title, l->n_experts,
           (unsigned long long)l->stride, (unsigned long long)l->payload_bytes);
    const tt_expert_mat *mats[3] = {&l->gate, &l->up, &l->down};
    static const char *const names[3] = {"gate", "up", "down"};
    for (int i = 0; i < 3; i++)
        printf(
            "  %-6s %-5s %6u x %-6u words %llu+%llu  scales %llu+%llu  biases %llu+%llu\n",
            names[i], tt_dtype_name(mats[i]->dtype), mats[i]->rows, mats[i]->cols,
            (unsigned long long)mats[i]->words_offset, (unsigned long long)mats[i]->words_bytes,
            (unsigned long long)mats[i]->scales_offset, (unsigned long long)mats[i]->scales_bytes,
            (unsigned long long)mats[i]->biases_offset, (unsigned long long)mats[i]->biases_bytes);
}

static void print_index(const char *title, const tt_index *ix)
{
    if (ix == NULL)
        return;
    printf("\n%s: %zu tensors, %llu bytes, index %llu\n", title, ix->count,
           (unsigned long long)ix->file_bytes, (unsigned long long)ix->index_bytes);
    for (size_t i = 0; i < ix->count; i++) {
        const tt_index_entry *e = &ix->entries[i];
        char shape[96] = "";
        for (uint32_t d = 0; d < e->rank; d++)
            snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%llu",
                     d > 0 ? " x " : "", (unsigned long long)e->shape[d]);
        printf("  %-5s %-16s %12llu %12llu  %s\n", tt_dtype_name(e->dtype), shape,
               (unsigned long long)e->offset,
               (unsigned long long)(e->bytes + e->scales_bytes + e->biases_bytes), e->name);
    }
}

static void print_tables(const tt_install *in, const char *receipt)
{
    const json_t *m = tt_install_manifest(in);
    uint64_t sum = 0;
    tt_origin origin;
    char text[512];
    printf("%s\n", tt_install_dir(in));
    printf("  model               %s (%s)\n", tt_install_model_id(in),
           tt_family_name(tt_install_arch(in)->family));
    printf("  written by          %s\n", json_string_value(json_object_get(m, "writer")));
    printf("  manifest            %s\n", tt_install_manifest_sha256(in));
    printf("  receipt             %s\n", receipt);
    tt_origin_of(m, &origin);
    tt_origin_tell(&origin, text, sizeof text);
    if (text[0] != '\0')
        printf("  source              %s\n", text);
    print_arch(tt_install_arch(in));
    print_layout("experts", tt_install_expert_layout(in));
    print_layout("experts of the draft", tt_install_mtp_expert_layout(in));
    print_index(TT_WEIGHTS_NAME, tt_install_index(in));
    print_index(TT_MTP_WEIGHTS_NAME, tt_install_mtp_index(in));
    printf("\nfiles:\n");
    for (size_t i = 0; i < tt_install_file_count(in); i++) {
        const tt_install_file *f = tt_install_file_at(in, i);
        printf("  %14llu  %.16s  %s\n", (unsigned long long)f->size, f->sha256, f->rel);
        sum += f->size;
    }
    printf("  %14llu  bytes in %zu files\n", (unsigned long long)sum, tt_install_file_count(in));
}

tt_status repack_inspect(const char *dir, bool json, tt_error *err)
{
    tt_install *in = NULL;
    char receipt[1024] = "";
    tt_status st = open_any(dir, &in, receipt, err);
    if (st == TT_OK && json)
        st = print_json(in, receipt, err);
    else if (st == TT_OK)
        print_tables(in, receipt);
    tt_install_close(&in);
    return st;
}
