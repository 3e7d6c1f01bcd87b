#include "mlx_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "format/dtype.h"
#include "format/safetensors.h"

#define MAX_OUTPUTS 4096

/* A tensor of the new file. */
typedef struct output {
    char name[TT_MAX_NAME];
    tt_st_dtype dtype;
    uint32_t rank;
    uint64_t shape[3];
    void *bytes;
    size_t n;
} output;

typedef struct writer {
    tt_safetensors *source;
    json_t *config;
    output *outputs;
    size_t count;
    tt_error *err;
} writer;

/* ---- numbers ---- */

/* MLX's affine group: the end of the range with the larger magnitude is hit exactly, so the scale
 * is negative when that is the maximum; codes come from the scale and bias before they are rounded.
 * The range is multiplied by 1/15 or 1/255 in f32: dividing gives other ties. */
static void quantize_group(unsigned bits, const float *w, uint32_t *words, uint16_t *scale,
                           uint16_t *bias)
{
    const float top = (float)((1 << bits) - 1), step = 1.0f / top;
    float lo = w[0], hi = w[0];
    for (int j = 1; j < 64; j++) {
        lo = fminf(lo, w[j]);
        hi = fmaxf(hi, w[j]);
    }
    bool low_end = fabsf(lo) > fabsf(hi);
    float s = fmaxf((hi - lo) * step, 1e-7f), edge = low_end ? lo : hi, b = 0.0f;
    s = low_end ? s : -s;
    float q0 = rintf(edge / s);
    if (q0 != 0.0f) {
        s = edge / q0;
        b = edge;
    }
    for (unsigned i = 0; i < 64 * bits / 32; i++)
        words[i] = 0;
    for (unsigned j = 0; j < 64; j++) {
        float q = fminf(fmaxf(rintf((w[j] - b) / s), 0.0f), top);
        words[j / (32 / bits)] |= (uint32_t)q << (j % (32 / bits)) * bits;
    }
    *scale = tt_f32_to_bf16(s);
    *bias = tt_f32_to_bf16(b);
}

/* ---- outputs ---- */

static tt_status add(writer *w, const char *stem, const char *suffix, tt_st_dtype dtype,
                     uint32_t rank, const uint64_t *shape, output **out)
{
    if (w->count == MAX_OUTPUTS)
        return tt_fail(w->err, TT_ERR_LIMIT, "more than %d tensors", MAX_OUTPUTS);
    output *o = &w->outputs[w->count];
    snprintf(o->name, sizeof o->name, "%s%s", stem, suffix);
    o->dtype = dtype;
    o->rank = rank;
    o->n = tt_st_dtype_bytes(dtype);
    for (uint32_t i = 0; i < rank; i++) {
        o->shape[i] = shape[i];
        o->n *= shape[i];
    }
    o->bytes = malloc(o->n);
    if (o->bytes == NULL)
        return tt_fail(w->err, TT_ERR_NOMEM, "out of memory for %s", o->name);
    w->count++;
    *out = o;
    return TT_OK;
}

/* Width of a module: its own entry in "quantization", or the default. */
static tt_status width(const writer *w, const char *stem, unsigned *bits)
{
    json_t *q, *own;
    uint32_t v;
    TT_TRY(tt_json_get_object(w->config, "quantization", "config.json", &q, w->err));
    own = json_object_get(q, stem);
    TT_TRY(tt_json_get_u32(own != NULL ? own : q, "bits", "config.json", 4, 8, &v, w->err));
    *bits = v;
    return TT_OK;
}

/* Words, scales and biases of rows given as bf16; shape is the logical one. */
static tt_status add_quantized(writer *w, const char *stem, uint32_t rank, const uint64_t *shape,
                               const uint16_t *rows)
{
    unsigned bits;
    output *words, *scales, *biases;
    uint64_t packed[3], groups[3], n = 1;
    TT_TRY(width(w, stem, &bits));
    for (uint32_t i = 0; i < rank; i++) {
        packed[i] = groups[i] = shape[i];
        n *= shape[i];
    }
    packed[rank - 1] = shape[rank - 1] * bits / 32;
    groups[rank - 1] = shape[rank - 1] / 64;
    TT_TRY(add(w, stem, ".weight", TT_ST_U32, rank, packed, &words));
    TT_TRY(add(w, stem, ".scales", TT_ST_BF16, rank, groups, &scales));
    TT_TRY(add(w, stem, ".biases", TT_ST_BF16, rank, groups, &biases));
    for (uint64_t g = 0; g < n / 64; g++) {
        float v[64];
        for (int j = 0; j < 64; j++)
            v[j] = tt_bf16_to_f32(rows[g * 64 + (uint64_t)j]);
        quantize_group(bits, v, (uint32_t *)words->bytes + g * 64 * bits / 32,
                       (uint16_t *)scales->bytes + g, (uint16_t *)biases->bytes + g);
    }
    return TT_OK;
}

static bool ends(const char *name, const char *tail)
{
    size_t n = strlen(name), t = strlen(tail);
    return n >= t && strcmp(name + n - t, tail) == 0;
}

/* Norms that compute 1 + w get the one folded in; linear_attn.norm does not. */
static bool shifted(const char *name)
{
    return ends(name, "layernorm.weight") || ends(name, "q_norm.weight") ||
           ends(name, "k_norm.weight") || ends(name, "model.norm.weight");
}

static tt_status add_plain(writer *w, const char *name, const tt_st_tensor *t,
                           const uint16_t *values)
{
    uint64_t shape[3] = {t->shape[0], t->shape[1], t->shape[2]};
    output *o;
    if (ends(name, "conv1d.weight")) { /* channels x 1 x 4 becomes channels x 4 x 1 */
        shape[1] = t->shape[2];
        shape[2] = t->shape[1];
    }
    TT_TRY(add(w, name, "", TT_ST_BF16, t->rank, shape, &o));
    memcpy(o->bytes, values, o->n);
    if (shifted(name))
        for (size_t i = 0; i < o->n / 2; i++)
            ((uint16_t *)o->bytes)[i] = tt_f32_to_bf16(tt_bf16_to_f32(values[i]) + 1.0f);
    return TT_OK;
}

/* Half of every expert's fused rows: the first for gate, the second for up. */
static tt_status add_half(writer *w, const char *stem, const tt_st_tensor *t,
                          const uint16_t *values, int half)
{
    const uint64_t shape[3] = {t->shape[0], t->shape[1] / 2, t->shape[2]};
    const uint64_t part = shape[1] * shape[2];
    uint16_t *rows = malloc(t->bytes / 2);
    if (rows == NULL)
        return tt_fail(w->err, TT_ERR_NOMEM, "out of memory for %s", stem);
    for (uint64_t e = 0; e < shape[0]; e++)
        memcpy(rows + e * part, values + (2 * e + (uint64_t)half) * part, part * 2);
    tt_status st = add_quantized(w, stem, 3, shape, rows);
    free(rows);
    return st;
}

/* ---- names ---- */

/* model.language_model.X becomes language_model.model.X, lm_head language_model.lm_head. */
static void rename_tensor(const char *name, char *out)
{
    const char *body = "model.language_model.";
    if (strncmp(name, body, strlen(body)) == 0)
        snprintf(out, TT_MAX_NAME, "language_model.model.%s", name + strlen(body));
    else
        snprintf(out, TT_MAX_NAME, "language_model.%s", name);
}

static tt_status convert(writer *w, const tt_st_tensor *t, const uint16_t *values)
{
    char name[TT_MAX_NAME], stem[2 * TT_MAX_NAME];
    rename_tensor(t->name, name);
    char *experts = strstr(name, "experts.gate_up_proj");
    if (experts != NULL) {
        *experts = '\0';
        snprintf(stem, sizeof stem, "%sswitch_mlp.gate_proj", name);
        TT_TRY(add_half(w, stem, t, values, 0));
        snprintf(stem, sizeof stem, "%sswitch_mlp.up_proj", name);
        return add_half(w, stem, t, values, 1);
    }
    experts = strstr(name, "experts.down_proj");
    if (experts != NULL) {
        *experts = '\0';
        snprintf(stem, sizeof stem, "%sswitch_mlp.down_proj", name);
        return add_quantized(w, stem, t->rank, t->shape, values);
    }
    if (t->rank != 2 || !ends(name, ".weight"))
        return add_plain(w, name, t, values);
    name[strlen(name) - strlen(".weight")] = '\0';
    return add_quantized(w, name, t->rank, t->shape, values);
}

static tt_status convert_all(writer *w)
{
    for (size_t i = 0; i < tt_safetensors_count(w->source); i++) {
        const tt_st_tensor *t = tt_safetensors_at(w->source, i);
        if (strncmp(t->name, "mtp.", 4) == 0)
            continue;
        if (t->dtype != TT_ST_BF16 || t->rank < 1 || t->rank > 3)
            return tt_fail(w->err, TT_ERR_UNSUPPORTED, "tensor %s is not bf16 of rank 1 to 3",
                           t->name);
        uint16_t *values = malloc(t->bytes);
        if (values == NULL)
            return tt_fail(w->err, TT_ERR_NOMEM, "out of memory for %s", t->name);
        tt_status st = tt_safetensors_read(w->source, t, 0, values, t->bytes, w->err);
        if (st == TT_OK)
            st = convert(w, t, values);
        free(values);
        TT_TRY(st);
    }
    return TT_OK;
}

/* ---- files ---- */

/* Wider types first, then by name: the order of the reference writer of the format. */
static int compare_outputs(const void *pa, const void *pb)
{
    const output *a = pa, *b = pb;
    uint32_t wa = tt_st_dtype_bytes(a->dtype), wb = tt_st_dtype_bytes(b->dtype);
    return wa != wb ? (wa > wb ? -1 : 1) : strcmp(a->name, b->name);
}

static tt_status write_tensors(writer *w, const char *dir)
{
    char path[TT_MAX_PATH];
    tt_st_writer *f = NULL;
    tt_status st;
    TT_TRY(tt_path_join(path, dir, "model.safetensors", w->err));
    qsort(w->outputs, w->count, sizeof *w->outputs, compare_outputs);
    TT_TRY(tt_st_writer_create(path, &f, w->err));
    TT_GOTO(tt_st_writer_metadata(f, "format", "mlx", w->err), out);
    for (size_t i = 0; i < w->count; i++) {
        const output *o = &w->outputs[i];
        TT_GOTO(tt_st_writer_declare(f, o->name, o->dtype, o->rank, o->shape, w->err), out);
    }
    for (size_t i = 0; i < w->count; i++)
        TT_GOTO(tt_st_writer_append(f, w->outputs[i].bytes, w->outputs[i].n, w->err), out);
    return tt_st_writer_finish(&f, w->err);
out:
    tt_st_writer_discard(&f);
    return st;
}

static tt_status copy_file(const char *from, const char *dir, const char *name, tt_error *err)
{
    char to[TT_MAX_PATH], *bytes = NULL;
    size_t n = 0;
    TT_TRY(tt_path_join(to, dir, name, err));
    TT_TRY(tt_file_read(from, TT_MAX_TOKENIZER_JSON, &bytes, &n, err));
    tt_status st = tt_file_publish(to, bytes, n, err);
    tt_free(bytes);
    return st;
}

static tt_status copy_tokenizer(const char *source, const char *dir, tt_error *err)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json",
                                        "generation_config.json", "chat_template.jinja"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char from[TT_MAX_PATH];
        TT_TRY(tt_path_join(from, source, names[i], err));
        if (tt_file_exists(from))
            TT_TRY(copy_file(from, dir, names[i], err));
    }
    return TT_OK;
}

tt_status tt_mlx_write(const char *source, const char *config, const char *dir, tt_error *err)
{
    writer w = {.err = err, .outputs = calloc(MAX_OUTPUTS, sizeof(output))};
    tt_status st;
    if (w.outputs == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %d tensors", MAX_OUTPUTS);
    TT_GOTO(tt_json_load(config, TT_MAX_CONFIG_JSON, &w.config, err), out);
    TT_GOTO(tt_safetensors_open_dir(source, &w.source, err), out);
    TT_GOTO(tt_dir_make(dir, err), out);
    TT_GOTO(convert_all(&w), out);
    TT_GOTO(write_tensors(&w, dir), out);
    TT_GOTO(copy_tokenizer(source, dir, err), out);
    st = copy_file(config, dir, "config.json", err);
out:
    for (size_t i = 0; i < w.count; i++)
        free(w.outputs[i].bytes);
    free(w.outputs);
    json_decref(w.config);
    tt_safetensors_close(&w.source);
    return st;
}
