#include "format/arch.h"

#include <math.h>
#include <string.h>

/* ---- the fields, each stated once ---- */

enum { DENSE = 1, MOE = 2, QWEN4 = 4, EXPERTS = MOE | QWEN4, ALL = 7 };

typedef struct u32_field {
    const char *name;   /* in manifests: the name of the member */
    const char *config; /* in config.json; NULL when it is read otherwise */
    size_t at;
    uint32_t min, max;
    unsigned families;
} u32_field;

#define AT(member) #member, offsetof(tt_arch, member)
#define FIELD(member, config, min, max, families)                                                  \
    {                                                                                              \
#member, config, offsetof(tt_arch, member), min, max, families                             \
    }

static const u32_field u32_fields[] = {
    FIELD(hidden_size, "hidden_size", 1, TT_MAX_HIDDEN, ALL),
    FIELD(n_layers, "num_hidden_layers", 1, TT_MAX_LAYERS, ALL),
    FIELD(vocab_size, "vocab_size", 1, TT_MAX_VOCAB, ALL),
    FIELD(max_position, "max_position_embeddings", 1, TT_MAX_CONTEXT, ALL),
    FIELD(n_heads, "num_attention_heads", 1, TT_MAX_HEADS, ALL),
    FIELD(n_kv_heads, "num_key_value_heads", 1, TT_MAX_HEADS, ALL),
    FIELD(head_dim, "head_dim", 2, TT_MAX_HEAD_DIM, ALL),
    FIELD(lin_key_heads, "linear_num_key_heads", 1, TT_MAX_HEADS, ALL),
    FIELD(lin_value_heads, "linear_num_value_heads", 1, TT_MAX_HEADS, ALL),
    FIELD(lin_key_dim, "linear_key_head_dim", 1, TT_MAX_HEAD_DIM, ALL),
    FIELD(lin_value_dim, "linear_value_head_dim", 1, TT_MAX_HEAD_DIM, ALL),
    FIELD(conv_kernel, NULL, 4, 4, ALL),
    FIELD(n_experts, "num_experts", 1, TT_MAX_EXPERTS, EXPERTS),
    FIELD(top_k, "num_experts_per_tok", 1, TT_MAX_TOP_K, EXPERTS),
    FIELD(moe_intermediate, "moe_intermediate_size", 1, TT_MAX_HIDDEN, EXPERTS),
    FIELD(shared_intermediate, "shared_expert_intermediate_size", 1, TT_MAX_HIDDEN, EXPERTS),
    FIELD(intermediate, "intermediate_size", 1, TT_MAX_HIDDEN, DENSE),
    FIELD(yarn_original_context, NULL, 0, TT_MAX_CONTEXT, ALL),
    FIELD(n_mtp_layers, NULL, 0, 1, ALL),
    FIELD(streams, "hc_count", 1, TT_MAX_STREAMS, QWEN4),
    FIELD(mix_rank, "hc_lowrank", 1, TT_MAX_HIDDEN, QWEN4),
    FIELD(indexer_heads, "indexer_n_heads", 1, TT_MAX_HEADS, QWEN4),
    FIELD(indexer_dim, "indexer_head_dim", 2, TT_MAX_HEAD_DIM, QWEN4),
    FIELD(indexer_budget, "indexer_budget", 1, TT_MAX_CONTEXT, QWEN4),
    FIELD(indexer_block, "indexer_compress_ratio", 1, TT_BLOCK, QWEN4),
    FIELD(ngram_layer, NULL, 0, TT_MAX_LAYERS - 1, QWEN4),
    FIELD(ngram_size, "ngram_size", 2, TT_MAX_NGRAM, QWEN4),
    FIELD(ngram_heads, "heads_per_ngram", 1, TT_MAX_HEADS, QWEN4),
    FIELD(ngram_dim, "ple_embed_dim", 1, TT_MAX_HIDDEN, QWEN4),
    FIELD(ngram_rows, NULL, 1, UINT32_MAX, QWEN4),
    FIELD(ngram_eos, "eos_token_id", 0, TT_MAX_VOCAB - 1, QWEN4),
};

typedef struct number_field {
    const char *name;
    size_t at;
    double min, max;
} number_field;

static const number_field number_fields[] = {
    {AT(rope_theta), 1, 1e12},
    {AT(partial_rotary), 1e-3, 1},
    {AT(yarn_factor), 1, 1024},
    {AT(rms_eps), 1e-20, 0.1},
};

static const struct {
    const char *name;
    size_t at;
} bool_fields[] = {{AT(tied_head)}, {AT(norm_offset)}, {AT(mtp_norm_offset)}};

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static const char *const kind_names[] = {[TT_LAYER_LINEAR] = "linear", [TT_LAYER_FULL] = "full"};

static const struct {
    tt_family family;
    const char *name;
} families[] = {{TT_FAMILY_QWEN3_5, "qwen3_5"},
                {TT_FAMILY_QWEN3_5_MOE, "qwen3_5_moe"},
                {TT_FAMILY_QWEN4_EXP, "qwen4_exp"}};

const char *tt_family_name(tt_family f)
{
    for (size_t i = 0; i < COUNT(families); i++)
        if (families[i].family == f)
            return families[i].name;
    return "?";
}

static bool has(const u32_field *f, tt_family family)
{
    return f->families & (family == TT_FAMILY_QWEN4_EXP     ? QWEN4
                          : family == TT_FAMILY_QWEN3_5_MOE ? MOE
                                                            : DENSE);
}

static uint32_t *u32_at(tt_arch *a, size_t at)
{
    return (uint32_t *)(void *)((char *)a + at);
}

static uint32_t u32_of(const tt_arch *a, size_t at)
{
    uint32_t v;
    memcpy(&v, (const char *)a + at, sizeof v);
    return v;
}

static double number_of(const tt_arch *a, size_t at)
{
    double v;
    memcpy(&v, (const char *)a + at, sizeof v);
    return v;
}

#define REFUSE(...)  return tt_fail_at(err, TT_ERR_UNSUPPORTED, file, -1, __VA_ARGS__)
#define INVALID(...) return tt_fail_at(err, TT_ERR_FORMAT, file, -1, __VA_ARGS__)

/* ---- checks ---- */

static tt_status check_ranges(const tt_arch *a, const char *file, tt_error *err)
{
    for (size_t i = 0; i < COUNT(u32_fields); i++) {
        const u32_field *f = &u32_fields[i];
        uint32_t v = u32_of(a, f->at);
        if (!has(f, a->family)) {
            if (v != 0)
                INVALID("%s is %u, a model of family %s has none", f->name, v,
                        tt_family_name(a->family));
        } else if (v < f->min || v > f->max) {
            return tt_fail_at(err, TT_ERR_LIMIT, file, -1, "%s is %u, must be %u to %u", f->name, v,
                              f->min, f->max);
        }
    }
    for (size_t i = 0; i < COUNT(number_fields); i++) {
        const number_field *f = &number_fields[i];
        double v = number_of(a, f->at);
        if (!(v >= f->min && v <= f->max))
            return tt_fail_at(err, TT_ERR_LIMIT, file, -1, "%s is %g, must be %g to %g", f->name, v,
                              f->min, f->max);
    }
    return TT_OK;
}

/* What the sizes of qwen4_exp have to do with one another. */
static tt_status check_qwen4(const tt_arch *a, const char *file, tt_error *err)
{
    if (TT_BLOCK % a->indexer_block != 0 || a->indexer_dim % a->indexer_block != 0)
        INVALID("indexer_block %u does not divide %u and indexer_dim %u", a->indexer_block,
                TT_BLOCK, a->indexer_dim);
    if (a->indexer_budget % a->indexer_block != 0 || a->indexer_budget > TT_MAX_INDEX_BUDGET)
        INVALID("indexer_budget %u is not a multiple of indexer_block %u up to %u",
                a->indexer_budget, a->indexer_block, TT_MAX_INDEX_BUDGET);
    if (a->head_dim * a->partial_rotary > a->indexer_dim)
        INVALID("indexer_dim %u is less than the %g rotary dimensions", a->indexer_dim,
                a->head_dim * a->partial_rotary);
    if (a->ngram_layer >= a->n_layers)
        INVALID("ngram_layer is %u, there are %u layers", a->ngram_layer, a->n_layers);
    if (tt_arch_ngrams(a) > TT_MAX_NGRAM_ROWS || a->ngram_dim % tt_arch_ngrams(a) != 0)
        INVALID("ngram_dim %u cannot be cut into the rows of %u heads (at most %u)", a->ngram_dim,
                tt_arch_ngrams(a), TT_MAX_NGRAM_ROWS);
    if (tt_arch_residual(a) > 4 * TT_MAX_HIDDEN)
        INVALID("%u streams of %u values are more than %u", a->streams, a->hidden_size,
                4 * TT_MAX_HIDDEN);
    return TT_OK;
}

tt_status tt_arch_check(const tt_arch *a, const char *file, tt_error *err)
{
    if (a->family != TT_FAMILY_QWEN3_5 && a->family != TT_FAMILY_QWEN3_5_MOE &&
        a->family != TT_FAMILY_QWEN4_EXP)
        INVALID("family %d is unknown", (int)a->family);
    TT_TRY(check_ranges(a, file, err));
    for (uint32_t i = 0; i < a->n_layers; i++)
        if (a->layer_kind[i] != TT_LAYER_LINEAR && a->layer_kind[i] != TT_LAYER_FULL)
            INVALID("layer %u is of the unknown kind %u", i, a->layer_kind[i]);
    if (a->n_heads % a->n_kv_heads != 0)
        INVALID("n_heads %u is not a multiple of n_kv_heads %u", a->n_heads, a->n_kv_heads);
    if (a->lin_value_heads % a->lin_key_heads != 0)
        INVALID("lin_value_heads %u is not a multiple of lin_key_heads %u", a->lin_value_heads,
                a->lin_key_heads);
    if (a->top_k > a->n_experts)
        INVALID("top_k %u is more than n_experts %u", a->top_k, a->n_experts);
    double rotary = a->head_dim * a->partial_rotary, whole = nearbyint(rotary);
    if (fabs(rotary - whole) > 1e-6 || whole < 2 || fmod(whole, 2) != 0)
        INVALID("partial_rotary %g of head_dim %u gives %g rotary dimensions, must be even",
                a->partial_rotary, a->head_dim, rotary);
    if ((a->yarn_factor > 1) != (a->yarn_original_context > 0))
        INVALID("yarn_factor %g and yarn_original_context %u: both or neither", a->yarn_factor,
                a->yarn_original_context);
    return a->family == TT_FAMILY_QWEN4_EXP ? check_qwen4(a, file, err) : TT_OK;
}

/* ---- config.json ---- */

/* "qwen3_5_moe" and "qwen3_5_moe_text" are the same family. */
static tt_status parse_model_type(const char *type, const char *file, tt_family *out, tt_error *err)
{
    for (size_t i = 0; i < COUNT(families); i++) {
        size_t n = strlen(families[i].name);
        if (strncmp(type, families[i].name, n) != 0 ||
            (type[n] != '\0' && strcmp(type + n, "_text") != 0))
            continue;
        *out = families[i].family;
        return TT_OK;
    }
    REFUSE("model_type \"%s\" is not supported: qwen3_5, qwen3_5_moe and qwen4_exp are", type);
}

/* The root's model_type decides; the text part's must not contradict it. */
static tt_status read_family(const json_t *root, const json_t *text, const char *file,
                             tt_family *out, tt_error *err)
{
    const char *outer = NULL, *inner = NULL;
    TT_TRY(tt_json_opt_string(root, "model_type", file, &outer, err));
    TT_TRY(tt_json_opt_string(text, "model_type", file, &inner, err));
    if (outer == NULL && inner == NULL)
        INVALID("key \"model_type\" is missing");
    tt_family a, b;
    TT_TRY(parse_model_type(outer != NULL ? outer : inner, file, &a, err));
    TT_TRY(parse_model_type(inner != NULL ? inner : outer, file, &b, err));
    if (a != b)
        INVALID("model_type is \"%s\", but \"%s\" in text_config", outer, inner);
    *out = a;
    return TT_OK;
}

static tt_status read_layers(const json_t *text, const char *file, tt_arch *a, tt_error *err)
{
    const json_t *types = json_object_get(text, "layer_types");
    if (types == NULL || json_is_null(types)) {
        uint32_t every = 4;
        TT_TRY(
            tt_json_opt_u32(text, "full_attention_interval", file, 1, TT_MAX_LAYERS, &every, err));
        for (uint32_t i = 0; i < a->n_layers; i++)
            a->layer_kind[i] = (i + 1) % every == 0 ? TT_LAYER_FULL : TT_LAYER_LINEAR;
        return TT_OK;
    }
    if (!json_is_array(types) || json_array_size(types) != a->n_layers)
        INVALID("layer_types must be an array of num_hidden_layers = %u strings", a->n_layers);
    for (uint32_t i = 0; i < a->n_layers; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (type == NULL)
            INVALID("layer_types[%u] must be a string", i);
        if (strcmp(type, "linear_attention") == 0)
            a->layer_kind[i] = TT_LAYER_LINEAR;
        else if (strcmp(type, "full_attention") == 0 ||
                 (a->family == TT_FAMILY_QWEN4_EXP && strcmp(type, "qwen_sparse_attention") == 0))
            a->layer_kind[i] = TT_LAYER_FULL;
        else
            REFUSE("layer_types[%u] \"%s\" is not supported", i, type);
    }
    return TT_OK;
}

/* Settings that this engine does not have must be absent or at the value it computes with. */
static tt_status check_fixed_number(const json_t *obj, const char *key, double only,
                                    const char *file, tt_error *err)
{
    double v = only;
    TT_TRY(tt_json_opt_number(obj, key, file, -HUGE_VAL, HUGE_VAL, &v, err));
    if (fabs(v - only) > 1e-6)
        REFUSE("%s %g is not supported, only %g", key, v, only);
    return TT_OK;
}

static tt_status check_fixed_bool(const json_t *obj, const char *key, bool only, const char *file,
                                  tt_error *err)
{
    bool v = only;
    TT_TRY(tt_json_opt_bool(obj, key, file, &v, err));
    if (v != only)
        REFUSE("%s %s is not supported", key, v ? "true" : "false");
    return TT_OK;
}

static tt_status check_fixed(const json_t *text, const char *file, tt_error *err)
{
    const char *act = "silu";
    TT_TRY(tt_json_opt_string(text, "hidden_act", file, &act, err));
    if (strcmp(act, "silu") != 0)
        REFUSE("hidden_act \"%s\" is not supported, only \"silu\"", act);
    TT_TRY(check_fixed_bool(text, "attention_bias", false, file, err));
    TT_TRY(check_fixed_bool(text, "attn_output_gate", true, file, err));
    TT_TRY(check_fixed_bool(text, "mtp_use_dedicated_embeddings", false, file, err));
    TT_TRY(check_fixed_number(text, "linear_conv_kernel_dim", 4, file, err));
    TT_TRY(check_fixed_number(text, "decoder_sparse_step", 1, file, err));
    const json_t *dense = json_object_get(text, "mlp_only_layers");
    if (json_array_size(dense) != 0)
        REFUSE("mlp_only_layers with entries is not supported");
    return TT_OK;
}

static tt_status read_yarn(const json_t *rope, const char *file, tt_arch *a, tt_error *err)
{
    TT_TRY(tt_json_get_number(rope, "factor", file, 1, 1024, &a->yarn_factor, err));
    TT_TRY(check_fixed_number(rope, "beta_fast", 32, file, err));
    TT_TRY(check_fixed_number(rope, "beta_slow", 1, file, err));
    TT_TRY(check_fixed_number(rope, "attention_factor", 0.1 * log(a->yarn_factor) + 1, file, err));
    TT_TRY(check_fixed_bool(rope, "truncate", true, file, err));
    static const char *const others[] = {"mscale", "mscale_all_dim"};
    for (size_t i = 0; i < COUNT(others); i++) {
        const json_t *v = json_object_get(rope, others[i]);
        if (v != NULL && !json_is_null(v))
            REFUSE("%s of YaRN is not supported", others[i]);
    }
    TT_TRY(tt_json_get_u32(rope, "original_max_position_embeddings", file, 1, TT_MAX_CONTEXT,
                           &a->yarn_original_context, err));
    if (a->yarn_factor == 1)
        a->yarn_original_context = 0; /* stretches nothing */
    return TT_OK;
}

/* "rope_type", in older files "type"; absent means default. */
static tt_status rope_type(const json_t *rope, const char *file, const char **out, tt_error *err)
{
    *out = "default";
    TT_TRY(tt_json_opt_string(rope, "type", file, out, err));
    return tt_json_opt_string(rope, "rope_type", file, out, err);
}

static tt_status rope_member(const json_t *text, const char *key, const char *file,
                             const json_t **out, tt_error *err)
{
    json_t *v = json_object_get(text, key);
    *out = NULL;
    if (v == NULL || json_is_null(v))
        return TT_OK;
    if (!json_is_object(v))
        INVALID("key \"%s\" must be an object", key);
    *out = v;
    return TT_OK;
}

/* A number of the rope object, in older files of the object around it. */
static tt_status rope_number(const json_t *rope, const json_t *text, const char *key,
                             const char *file, double min, double max, double *out, tt_error *err)
{
    const json_t *inner = rope != NULL ? json_object_get(rope, key) : NULL;
    bool flat = inner == NULL || json_is_null(inner);
    return tt_json_get_number(flat ? text : rope, key, file, min, max, out, err);
}

static tt_status read_rope(const json_t *text, const char *file, tt_arch *a, tt_error *err)
{
    const json_t *now, *old; /* rope_scaling is the older name */
    const char *type = "default", *old_type;
    TT_TRY(rope_member(text, "rope_parameters", file, &now, err));
    TT_TRY(rope_member(text, "rope_scaling", file, &old, err));
    const json_t *rope = now != NULL ? now : old;
    if (rope != NULL)
        TT_TRY(rope_type(rope, file, &type, err));
    if (now != NULL && old != NULL) {
        TT_TRY(rope_type(old, file, &old_type, err));
        if (strcmp(type, old_type) != 0)
            INVALID("rope_parameters says \"%s\", rope_scaling \"%s\"", type, old_type);
    }
    TT_TRY(rope_number(rope, text, "rope_theta", file, 1, 1e12, &a->rope_theta, err));
    TT_TRY(
        rope_number(rope, text, "partial_rotary_factor", file, 1e-3, 1, &a->partial_rotary, err));
    a->yarn_factor = 1;
    if (strcmp(type, "yarn") == 0)
        return read_yarn(rope, file, a, err);
    if (strcmp(type, "default") != 0)
        REFUSE("rope_type \"%s\" is not supported: default and yarn are", type);
    return TT_OK;
}

static tt_status read_sizes(const json_t *text, const char *file, tt_arch *a, tt_error *err)
{
    for (size_t i = 0; i < COUNT(u32_fields); i++) {
        const u32_field *f = &u32_fields[i];
        if (f->config != NULL && has(f, a->family))
            TT_TRY(tt_json_get_u32(text, f->config, file, f->min, f->max, u32_at(a, f->at), err));
    }
    a->conv_kernel = 4;
    uint32_t experts = 0;
    if (a->family == TT_FAMILY_QWEN3_5) {
        TT_TRY(tt_json_opt_u32(text, "num_experts", file, 0, UINT32_MAX, &experts, err));
        if (experts != 0)
            INVALID("num_experts is %u in a dense model (model_type qwen3_5)", experts);
    }
    TT_TRY(tt_json_opt_u32(text, "mtp_num_hidden_layers", file, 0, 1, &a->n_mtp_layers, err));
    return tt_json_get_number(text, "rms_norm_eps", file, 1e-20, 0.1, &a->rms_eps, err);
}

/* ---- config.json of qwen4_exp ---- */

static bool is_prime(uint32_t n)
{
    for (uint32_t d = 2; d <= n / d; d++)
        if (n % d == 0)
            return false;
    return n >= 2;
}

void tt_arch_ngram_sizes(uint32_t base, uint32_t n, uint32_t *sizes)
{
    for (uint32_t h = 0, p = base; h < n; p++)
        if (is_prime(p))
            sizes[h++] = p;
}

/* Each head has the next prime from the base on as its number of rows; the whole is rounded up. */
static tt_status count_ngram_rows(const json_t *text, const char *file, tt_arch *a, tt_error *err)
{
    uint32_t base = 0, step = 128, heads = (a->ngram_size - 1) * a->ngram_heads;
    uint32_t sizes[TT_MAX_NGRAM_ROWS];
    uint64_t rows = 0;
    TT_TRY(tt_json_get_u32(text, "ngram_vocab_size_base", file, 2, 1u << 30, &base, err));
    TT_TRY(
        tt_json_opt_u32(text, "make_ngram_vocab_size_divisible_by", file, 1, 1u << 20, &step, err));
    if (heads > TT_MAX_NGRAM_ROWS)
        INVALID("%u heads of n-grams are more than %u", heads, TT_MAX_NGRAM_ROWS);
    tt_arch_ngram_sizes(base, heads, sizes);
    for (uint32_t h = 0; h < heads; h++)
        rows += sizes[h];
    rows = (rows + step - 1) / step * step;
    if (rows > UINT32_MAX)
        INVALID("the n-gram table would have %llu rows", (unsigned long long)rows);
    a->ngram_rows = (uint32_t)rows;
    return TT_OK;
}

static tt_status read_qwen4(const json_t *text, const char *file, tt_arch *a, tt_error *err)
{
    const char *gate = NULL;
    const json_t *ids = json_object_get(text, "ple_layer_ids"), *id = json_array_get(ids, 0);
    if (a->family != TT_FAMILY_QWEN4_EXP)
        return TT_OK;
    TT_TRY(tt_json_get_string(text, "output_gate_type", file, &gate, err));
    if (strcmp(gate, "sigmoid") != 0)
        REFUSE("output_gate_type \"%s\" is not supported, only \"sigmoid\"", gate);
    TT_TRY(check_fixed_number(text, "indexer_kv_heads", 1, file, err));
    TT_TRY(check_fixed_number(text, "ple_conv_kernel_size", 4, file, err));
    if (json_array_size(ids) != 1 || !json_is_integer(id) || json_integer_value(id) < 1 ||
        json_integer_value(id) > a->n_layers)
        REFUSE("ple_layer_ids must name one of the %u layers, counted from 1", a->n_layers);
    a->ngram_layer = (uint32_t)json_integer_value(id) - 1;
    return count_ngram_rows(text, file, a, err);
}

tt_status tt_arch_from_config(const json_t *config, const char *file, tt_arch *out, tt_error *err)
{
    if (!json_is_object(config))
        INVALID("a model configuration must be an object");
    const json_t *text = json_object_get(config, "text_config");
    if (text == NULL || json_is_null(text))
        text = config;
    if (!json_is_object(text))
        INVALID("key \"text_config\" must be an object");
    tt_arch a = {.norm_offset = true, .mtp_norm_offset = true};
    TT_TRY(read_family(config, text, file, &a.family, err));
    TT_TRY(check_fixed(text, file, err));
    TT_TRY(read_sizes(text, file, &a, err));
    TT_TRY(read_layers(text, file, &a, err));
    TT_TRY(read_qwen4(text, file, &a, err));
    TT_TRY(read_rope(text, file, &a, err));
    TT_TRY(tt_json_opt_bool(text, "tie_word_embeddings", file, &a.tied_head, err));
    TT_TRY(tt_json_opt_bool(config, "tie_word_embeddings", file, &a.tied_head, err));
    TT_TRY(tt_arch_check(&a, file, err));
    *out = a;
    return TT_OK;
}

/* ---- manifest ---- */

/* json_object_set_new that turns a failed constructor into false. */
static bool set(json_t *obj, const char *key, json_t *value)
{
    return value != NULL && json_object_set_new(obj, key, value) == 0;
}

tt_status tt_arch_to_json(const tt_arch *arch, json_t **out, tt_error *err)
{
    TT_TRY(tt_arch_check(arch, NULL, err));
    json_t *obj = json_object(), *kinds = json_array();
    bool ok = obj != NULL && kinds != NULL;
    ok = ok && set(obj, "family", json_string(tt_family_name(arch->family)));
    for (uint32_t i = 0; ok && i < arch->n_layers; i++)
        ok = json_array_append_new(kinds, json_string(kind_names[arch->layer_kind[i]])) == 0;
    ok = ok && json_object_set(obj, "layer_kind", kinds) == 0;
    for (size_t i = 0; ok && i < COUNT(u32_fields); i++)
        if (has(&u32_fields[i], arch->family))
            ok = set(obj, u32_fields[i].name, json_integer(u32_of(arch, u32_fields[i].at)));
    for (size_t i = 0; ok && i < COUNT(number_fields); i++)
        ok = set(obj, number_fields[i].name, json_real(number_of(arch, number_fields[i].at)));
    for (size_t i = 0; ok && i < COUNT(bool_fields); i++)
        ok = set(obj, bool_fields[i].name,
                 json_boolean(*(const bool *)((const char *)arch + bool_fields[i].at)));
    json_decref(kinds);
    if (!ok) {
        json_decref(obj);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the architecture");
    }
    *out = obj;
    return TT_OK;
}

static tt_status kinds_from_json(const json_t *obj, const char *file, tt_arch *a, tt_error *err)
{
    json_t *kinds;
    TT_TRY(tt_json_get_array(obj, "layer_kind", file, &kinds, err));
    if (json_array_size(kinds) != a->n_layers)
        INVALID("layer_kind has %zu entries, n_layers is %u", json_array_size(kinds), a->n_layers);
    for (uint32_t i = 0; i < a->n_layers; i++) {
        const char *kind = json_string_value(json_array_get(kinds, i));
        if (kind == NULL)
            INVALID("layer_kind[%u] must be a string", i);
        size_t k = 0;
        while (k < COUNT(kind_names) && strcmp(kind, kind_names[k]) != 0)
            k++;
        if (k == COUNT(kind_names))
            REFUSE("layer_kind[%u] \"%s\" is unknown", i, kind);
        a->layer_kind[i] = (uint8_t)k;
    }
    return TT_OK;
}

static bool key_known(const char *key, tt_family family)
{
    if (strcmp(key, "family") == 0 || strcmp(key, "layer_kind") == 0)
        return true;
    for (size_t i = 0; i < COUNT(u32_fields); i++)
        if (has(&u32_fields[i], family) && strcmp(key, u32_fields[i].name) == 0)
            return true;
    for (size_t i = 0; i < COUNT(number_fields); i++)
        if (strcmp(key, number_fields[i].name) == 0)
            return true;
    for (size_t i = 0; i < COUNT(bool_fields); i++)
        if (strcmp(key, bool_fields[i].name) == 0)
            return true;
    return false;
}

static tt_status family_from_json(const json_t *obj, const char *file, tt_family *out,
                                  tt_error *err)
{
    const char *name;
    TT_TRY(tt_json_get_string(obj, "family", file, &name, err));
    for (size_t i = 0; i < COUNT(families); i++)
        if (strcmp(name, families[i].name) == 0) {
            *out = families[i].family;
            return TT_OK;
        }
    REFUSE("family \"%s\" is not supported by this version", name);
}

tt_status tt_arch_from_json(const json_t *obj, const char *file, tt_arch *out, tt_error *err)
{
    if (!json_is_object(obj))
        INVALID("the architecture must be an object");
    tt_arch a = {0};
    TT_TRY(family_from_json(obj, file, &a.family, err));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)obj, key, value)
    {
        if (!key_known(key, a.family))
            INVALID("key \"%s\" is unknown to family %s", key, tt_family_name(a.family));
    }
    for (size_t i = 0; i < COUNT(u32_fields); i++) {
        const u32_field *f = &u32_fields[i];
        if (has(f, a.family))
            TT_TRY(tt_json_get_u32(obj, f->name, file, f->min, f->max, u32_at(&a, f->at), err));
    }
    for (size_t i = 0; i < COUNT(number_fields); i++) {
        const number_field *f = &number_fields[i];
        TT_TRY(tt_json_get_number(obj, f->name, file, f->min, f->max,
                                  (double *)(void *)((char *)&a + f->at), err));
    }
    for (size_t i = 0; i < COUNT(bool_fields); i++)
        TT_TRY(tt_json_get_bool(obj, bool_fields[i].name, file,
                                (bool *)((char *)&a + bool_fields[i].at), err));
    TT_TRY(kinds_from_json(obj, file, &a, err));
    TT_TRY(tt_arch_check(&a, file, err));
    *out = a;
    return TT_OK;
}
