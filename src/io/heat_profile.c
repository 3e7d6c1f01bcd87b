#include "io/heat_profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "format/le.h"
#include "io/cache_policy.h"

#define MAGIC        "TTHEAT\0"
#define VERSION      1u
#define HEADER_BYTES 24u
#define CRC_BYTES    4u

static size_t profile_bytes(size_t key, size_t n)
{
    return HEADER_BYTES + key + n * 4 + CRC_BYTES;
}

static tt_status check_shape(const char *key, uint32_t n_layers, uint32_t n_experts, tt_error *err)
{
    if (n_layers < 1 || n_layers > TT_MAX_LAYERS || n_experts < 1 || n_experts > TT_MAX_EXPERTS)
        return tt_fail(err, TT_ERR_INVALID, "a heat profile of %u layers with %u experts", n_layers,
                       n_experts);
    if (strlen(key) > TT_MAX_NAME)
        return tt_fail(err, TT_ERR_INVALID, "the key of a heat profile has more than %u bytes",
                       TT_MAX_NAME);
    return TT_OK;
}

tt_status tt_heat_profile_save(const char *path, const char *key, uint32_t n_layers,
                               uint32_t n_experts, const float *heat, tt_error *err)
{
    TT_TRY(check_shape(key, n_layers, n_experts, err));
    size_t len = strlen(key), n = (size_t)n_layers * n_experts, bytes = profile_bytes(len, n);
    char *p = calloc(1, bytes);
    if (p == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a heat profile of %zu bytes", bytes);
    memcpy(p, MAGIC, sizeof MAGIC);
    tt_put_u32(p + 8, VERSION);
    tt_put_u32(p + 12, n_layers);
    tt_put_u32(p + 16, n_experts);
    tt_put_u32(p + 20, (uint32_t)len);
    memcpy(p + HEADER_BYTES, key, len);
    for (size_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &heat[i], sizeof u);
        tt_put_u32(p + HEADER_BYTES + len + i * 4, u);
    }
    tt_put_u32(p + bytes - CRC_BYTES, tt_crc32c(0, p, bytes - CRC_BYTES));
    tt_status st = tt_file_check_replaced(path, "a heat profile", MAGIC, sizeof MAGIC, err);
    if (st == TT_OK)
        st = tt_file_publish(path, p, bytes, err);
    free(p);
    return st;
}

static float heat_at(const char *p)
{
    uint32_t u = tt_get_u32(p);
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* Everything that can be wrong with the header, the most telling first. */
static tt_status check_profile(const char *p, size_t bytes, const char *path, const char *key,
                               uint32_t n_layers, uint32_t n_experts, tt_error *err)
{
    if (bytes < HEADER_BYTES + CRC_BYTES || memcmp(p, MAGIC, sizeof MAGIC) != 0)
        return tt_fail_at(err, TT_ERR_FORMAT, path, 0, "not a heat profile");
    if (tt_get_u32(p + 8) != VERSION)
        return tt_fail_at(err, TT_ERR_UNSUPPORTED, path, 8,
                          "a heat profile of version %u, this program reads %u", tt_get_u32(p + 8),
                          VERSION);
    if (tt_crc32c(0, p, bytes - CRC_BYTES) != tt_get_u32(p + bytes - CRC_BYTES))
        return tt_fail_at(err, TT_ERR_CORRUPT, path, (int64_t)(bytes - CRC_BYTES),
                          "the heat profile does not match its checksum; remove it");
    if (tt_get_u32(p + 12) != n_layers || tt_get_u32(p + 16) != n_experts)
        return tt_fail_at(err, TT_ERR_STATE, path, 12,
                          "the heat profile is of %u layers with %u experts, the model has %u with "
                          "%u",
                          tt_get_u32(p + 12), tt_get_u32(p + 16), n_layers, n_experts);
    size_t len = tt_get_u32(p + 20);
    if (len > TT_MAX_NAME || bytes != profile_bytes(len, (size_t)n_layers * n_experts))
        return tt_fail_at(err, TT_ERR_FORMAT, path, 20,
                          "a heat profile of %zu bytes with a key of %zu", bytes, len);
    if (len != strlen(key) || memcmp(p + HEADER_BYTES, key, len) != 0)
        return tt_fail_at(err, TT_ERR_STATE, path, HEADER_BYTES,
                          "the heat profile is of another model (%.*s)", (int)len,
                          p + HEADER_BYTES);
    return TT_OK;
}

tt_status tt_heat_profile_parse(const void *bytes, size_t n, const char *file, const char *key,
                                uint32_t n_layers, uint32_t n_experts, float *heat, tt_error *err)
{
    TT_TRY(check_shape(key, n_layers, n_experts, err));
    const char *p = bytes;
    size_t count = (size_t)n_layers * n_experts, at = HEADER_BYTES + strlen(key);
    TT_TRY(check_profile(p, n, file, key, n_layers, n_experts, err));
    for (size_t i = 0; i < count; i++) {
        float f = heat_at(p + at + i * 4);
        if (!(f <= TT_CACHE_MOST_HEAT))
            return tt_fail_at(err, TT_ERR_FORMAT, file, (int64_t)(at + i * 4),
                              "the heat of expert %zu is %g", i, (double)f);
    }
    for (size_t i = 0; i < count; i++)
        heat[i] = heat_at(p + at + i * 4);
    return TT_OK;
}

tt_status tt_heat_profile_load(const char *path, const char *key, uint32_t n_layers,
                               uint32_t n_experts, float *heat, tt_error *err)
{
    TT_TRY(check_shape(key, n_layers, n_experts, err));
    size_t most = profile_bytes(TT_MAX_NAME, (size_t)n_layers * n_experts), n = 0;
    char *bytes = NULL;
    TT_TRY(tt_file_read(path, most, &bytes, &n, err));
    tt_status st = tt_heat_profile_parse(bytes, n, path, key, n_layers, n_experts, heat, err);
    tt_free(bytes);
    return st;
}
