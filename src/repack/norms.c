#include "repack/norms.h"

#include <stdlib.h>
#include <string.h>

#include "format/le.h"

#define STEP ((size_t)1 << 20)

static float value_at(const unsigned char *p, tt_st_dtype dtype, size_t i)
{
    uint32_t u;
    float f;
    switch (dtype) {
    case TT_ST_BF16:
        return tt_bf16_to_f32((uint16_t)(p[2 * i] | p[2 * i + 1] << 8));
    case TT_ST_F16:
        return tt_f16_to_f32((uint16_t)(p[2 * i] | p[2 * i + 1] << 8));
    default:
        u = tt_get_u32(p + 4 * i);
        memcpy(&f, &u, 4);
        return f;
    }
}

void tt_norms_add(tt_norm_values *v, const void *bytes, size_t n, tt_st_dtype dtype)
{
    size_t values = n / tt_st_dtype_bytes(dtype);
    for (size_t i = 0; i < values; i++) {
        float f = value_at(bytes, dtype, i);
        v->negative += f < 0;
        v->sum += f;
        v->count++;
    }
}

tt_status tt_norms_measure_one(const tt_safetensors *st, const tt_st_tensor *t, tt_norm_values *v,
                               tt_error *err)
{
    unsigned char buf[16384];
    for (uint64_t at = 0; at < t->bytes;) {
        size_t n = t->bytes - at < sizeof buf ? (size_t)(t->bytes - at) : sizeof buf;
        TT_TRY(tt_safetensors_read(st, t, at, buf, n, err));
        tt_norms_add(v, buf, n, t->dtype);
        at += n;
    }
    return TT_OK;
}

tt_status tt_norms_measure(const tt_safetensors *st, const tt_inventory *inv, const tt_piece *found,
                           tt_norm_evidence *ev, tt_error *err)
{
    for (size_t i = 0; i < inv->count; i++)
        if (inv->items[i].offset_norm)
            TT_TRY(tt_norms_measure_one(st, found[i].values,
                                        inv->items[i].mtp ? &ev->mtp : &ev->body, err));
    return TT_OK;
}

typedef enum verdict { UNCLEAR, OFFSET, WHOLE } verdict;

/* Negative factors would be absurd, so a share of negative values means w of (1 + w). Without any,
 * values around 0 (an untrained offset) and around 1 are clear; trained factors well below 1 exist
 * (0.3 was met), so what lies between proves nothing. */
static verdict judge(const tt_norm_values *v)
{
    if (v->count == 0)
        return UNCLEAR;
    double mean = v->sum / (double)v->count;
    if (v->negative * 256 > v->count)
        return OFFSET;
    return mean < 0.05 ? OFFSET : mean > 0.75 ? WHOLE : UNCLEAR;
}

static double mean_of(const tt_norm_values *v)
{
    return v->count > 0 ? v->sum / (double)v->count : 0;
}

tt_status tt_norms_decide(const tt_norm_evidence *ev, const char *file,
                          const tt_repack_events *events, tt_arch *arch, tt_error *err)
{
    verdict values = judge(&ev->body), draft = judge(&ev->mtp);
    if (ev->conv_raw > 0 && ev->conv_shifted > 0)
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                          "%u conv1d weights are in the published form and %u in the converted one",
                          ev->conv_raw, ev->conv_shifted);
    verdict shape = ev->conv_raw > 0 ? OFFSET : ev->conv_shifted > 0 ? WHOLE : UNCLEAR;
    if (shape != UNCLEAR && values != UNCLEAR && shape != values)
        return tt_fail_at(
            err, TT_ERR_FORMAT, file, -1,
            "the conv1d weights say that norm weights are %s, their values (mean "
            "%.3f, %.1f %% negative) say the contrary: convert from another copy",
            shape == OFFSET ? "stored as published (1 + w)" : "already shifted by one",
            mean_of(&ev->body), 100.0 * (double)ev->body.negative / (double)ev->body.count);
    if (shape == UNCLEAR && values == UNCLEAR)
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                          "neither conv1d weights nor values (mean %.3f) tell whether norm weights "
                          "are shifted by one",
                          mean_of(&ev->body));
    arch->norm_offset = (shape != UNCLEAR ? shape : values) == OFFSET;
    arch->mtp_norm_offset = draft == UNCLEAR ? arch->norm_offset : draft == OFFSET;
    if (arch->n_mtp_layers > 0 && arch->mtp_norm_offset != arch->norm_offset)
        tt_note(events, TT_NOTE_INFO,
                "norm weights of the draft are %s, unlike those of the body (by their values)",
                arch->mtp_norm_offset ? "stored as published (1 + w)" : "already shifted by one");
    return TT_OK;
}

tt_status tt_tensors_equal(const tt_safetensors *st, const tt_st_tensor *a, const tt_st_tensor *b,
                           bool *equal, tt_error *err)
{
    if (a->dtype != b->dtype || a->rank != b->rank || a->bytes != b->bytes ||
        memcmp(a->shape, b->shape, sizeof a->shape) != 0) {
        *equal = false;
        return TT_OK;
    }
    char *buf = malloc(2 * STEP);
    tt_status status = TT_OK;
    bool same = true;
    if (buf == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %zu bytes", 2 * STEP);
    for (uint64_t at = 0; at < a->bytes && same && status == TT_OK;) {
        size_t n = a->bytes - at < STEP ? (size_t)(a->bytes - at) : STEP;
        status = tt_safetensors_read(st, a, at, buf, n, err);
        if (status == TT_OK)
            status = tt_safetensors_read(st, b, at, buf + STEP, n, err);
        same = status == TT_OK && memcmp(buf, buf + STEP, n) == 0;
        at += n;
    }
    free(buf);
    if (status == TT_OK)
        *equal = same;
    return status;
}
