#include "base/hash.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct tt_sha256 {
    EVP_MD_CTX *md;
};

static tt_status start(tt_sha256 *ctx, tt_error *err)
{
    if (EVP_DigestInit_ex(ctx->md, EVP_sha256(), NULL) != 1)
        return tt_fail(err, TT_ERR_INTERNAL, "SHA-256 is not available from libcrypto");
    return TT_OK;
}

tt_status tt_sha256_create(tt_sha256 **out, tt_error *err)
{
    tt_sha256 *ctx = calloc(1, sizeof *ctx);
    if (ctx == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a SHA-256 context");
    ctx->md = EVP_MD_CTX_new();
    tt_status st = ctx->md == NULL
                       ? tt_fail(err, TT_ERR_NOMEM, "out of memory for a SHA-256 context")
                       : start(ctx, err);
    if (st != TT_OK) {
        tt_sha256_close(&ctx);
        return st;
    }
    *out = ctx;
    return TT_OK;
}

tt_status tt_sha256_update(tt_sha256 *ctx, const void *bytes, size_t n, tt_error *err)
{
    if (EVP_DigestUpdate(ctx->md, bytes, n) != 1)
        return tt_fail(err, TT_ERR_INTERNAL, "SHA-256 update failed");
    return TT_OK;
}

tt_status tt_sha256_finish(tt_sha256 *ctx, char hex[TT_SHA256_HEX], tt_error *err)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char raw[32];
    if (EVP_DigestFinal_ex(ctx->md, raw, NULL) != 1)
        return tt_fail(err, TT_ERR_INTERNAL, "SHA-256 finish failed");
    for (size_t i = 0; i < sizeof raw; i++) {
        hex[2 * i] = digits[raw[i] >> 4];
        hex[2 * i + 1] = digits[raw[i] & 15];
    }
    hex[64] = '\0';
    return start(ctx, err);
}

void tt_sha256_close(tt_sha256 **ctx)
{
    if (ctx == NULL || *ctx == NULL)
        return;
    EVP_MD_CTX_free((*ctx)->md);
    free(*ctx);
    *ctx = NULL;
}

tt_status tt_sha256_of(const void *bytes, size_t n, char hex[TT_SHA256_HEX], tt_error *err)
{
    tt_sha256 *ctx = NULL;
    TT_TRY(tt_sha256_create(&ctx, err));
    tt_status st = tt_sha256_update(ctx, bytes, n, err);
    if (st == TT_OK)
        st = tt_sha256_finish(ctx, hex, err);
    tt_sha256_close(&ctx);
    return st;
}

tt_status tt_sha256_raw(const void *bytes, size_t n, unsigned char digest[32], tt_error *err)
{
    if (EVP_Digest(bytes, n, digest, NULL, EVP_sha256(), NULL) != 1)
        return tt_fail(err, TT_ERR_INTERNAL, "SHA-256 is not available from libcrypto");
    return TT_OK;
}

bool tt_sha256_hex_valid(const char *hex)
{
    return strlen(hex) == 64 && strspn(hex, "0123456789abcdef") == 64;
}

/* Slicing-by-8 tables, built once. The polynomial is reflected 0x1EDC6F41. */
static uint32_t crc_table[8][256];
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;

static void crc_build(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = (c >> 1) ^ (0x82F63B78u & (0u - (c & 1)));
        crc_table[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int t = 1; t < 8; t++)
            crc_table[t][i] = (crc_table[t - 1][i] >> 8) ^ crc_table[0][crc_table[t - 1][i] & 255];
}

uint32_t tt_crc32c_portable(uint32_t crc, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    pthread_once(&crc_once, crc_build);
    crc = ~crc;
    while (n >= 8) {
        uint32_t lo, hi;
        memcpy(&lo, p, 4);
        memcpy(&hi, p + 4, 4);
        lo ^= crc;
        crc = crc_table[7][lo & 255] ^ crc_table[6][(lo >> 8) & 255] ^
              crc_table[5][(lo >> 16) & 255] ^ crc_table[4][lo >> 24] ^ crc_table[3][hi & 255] ^
              crc_table[2][(hi >> 8) & 255] ^ crc_table[1][(hi >> 16) & 255] ^
              crc_table[0][hi >> 24];
        p += 8;
        n -= 8;
    }
    while (n-- > 0)
        crc = (crc >> 8) ^ crc_table[0][(crc ^ *p++) & 255];
    return ~crc;
}

#if defined(__x86_64__)
#include <nmmintrin.h>

__attribute__((target("sse4.2"))) static uint32_t crc_sse42(uint32_t crc, const unsigned char *p,
                                                            size_t n)
{
    uint64_t c = crc;
    while (n >= 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        c = _mm_crc32_u64(c, v);
        p += 8;
        n -= 8;
    }
    while (n-- > 0)
        c = _mm_crc32_u8((uint32_t)c, *p++);
    return (uint32_t)c;
}
#endif

uint32_t tt_crc32c(uint32_t crc, const void *bytes, size_t n)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        return ~crc_sse42(~crc, bytes, n);
#endif
    return tt_crc32c_portable(crc, bytes, n);
}
