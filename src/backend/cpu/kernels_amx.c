/* Level amx: prompts times affine weights on tiles of whole numbers, over avx512vnni. Compiled with
 * flags of its own; dispatch.c calls in here only on machines that have the instructions and a
 * kernel that lets this process use them.
 *
 * One instruction multiplies 16 rows of W by 16 rows of x over 64 columns, which is a group: codes
 * of W are its first operand as they lie in memory (nibbles are spread once a panel), a tile of x
 * in the order of kernels.h is its second. What is left for vectors is the chain over groups, with
 * the rows of x in the lanes; it is that of the definition, so the bytes are those of avx512vnni.
 */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/dot_avx512.h"
#include "backend/kernels.h"
#include "format/quant.h"

#include "backend/cpu/vec_math.inc"

#include "backend/cpu/vec_panel.inc"

enum {
    TR = 16,           /* rows of a tile, of W and of x */
    PANEL_ROWS = 32,   /* of W, two tiles */
    GROUP_WORDS = 576, /* of a panel: two tiles of codes, 32 scales and 32 biases */
    GROUP_META = 512   /* where these begin */
};

_Static_assert((size_t)GROUP_WORDS * 4 * TT_DOT_GROUPS <= TT_DOT_PANEL, "a panel fits the scratch");
_Static_assert(TR <= TT_DOT_MOST && TT_GROUP == 64, "a tile is a group wide");

/* What `ldtilecfg` reads. Tiles 0..3 are sums [half of the panel][tile of x], 4 and 5 codes of W, 6
 * and 7 rows of x. */
typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

static void configure(uint32_t n0, uint32_t n1)
{
    const uint16_t bytes[8] = {
        (uint16_t)(n0 * 4), (uint16_t)(n1 * 4), (uint16_t)(n0 * 4), (uint16_t)(n1 * 4), 64, 64,
        (uint16_t)(n0 * 4), (uint16_t)(n1 * 4)};
    tile_config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.row_bytes[i] = bytes[i] > 0 ? bytes[i] : 4;
        c.rows[i] = TR;
    }
    __asm__ volatile("" ::"m"(c)); /* gcc 12 thinks that the next line reads eight bytes of it */
    _tile_loadconfig(&c);
}

/* ---- a panel of W ---- */

/* TR rows of W from r on into one half of a panel: what stands side by side in W goes row by row.
 */
static void decode_half(uint32_t *panel, uint32_t half, const tt_mat *W, uint32_t r, uint32_t g0,
                        uint32_t g1)
{
    const int bits = W->dtype == TT_DTYPE_Q4 ? 4 : 8;
    const panel_view z = view_rows(W, r, bits);
    for (size_t g = g0; g < g1; g++, panel += GROUP_WORDS) {
        vi w[TR];
        V_UNROLL
        for (int j = 0; j < TR; j++) {
            if (bits == 8) {
                w[j] = i_load(z.words + (g * 16 + j) * TT_PANEL);
            } else {
                vi pair = i_load(z.words + (g * 8 + j % 8) * TT_PANEL);
                w[j] = j < 8 ? i_low4(pair) : i_high4(pair);
            }
        }
        i_exchange(w);
        V_UNROLL
        for (int i = 0; i < TR; i++)
            i_store(panel + half * 256 + i * 16, w[i]);
        float *to = (float *)panel + GROUP_META + half * TR;
        v_store(to, v_load_bf16(z.scales + g * TT_PANEL));
        v_store(to + PANEL_ROWS, v_load_bf16(z.biases + g * TT_PANEL));
    }
}

/* ---- sums ---- */

/* acc[i] += what a group adds to row i of W and the n rows of x in the lanes. */
V_INLINE void chain(float *acc, const int32_t *sums, const float *scale, const float *bias,
                    const float *xs, uint32_t n, uint32_t stride, bool first)
{
    const vf sx = v_loadn(xs, n), sum = v_loadn(xs + stride, n);
    V_UNROLL
    for (int i = 0; i < TR; i++) {
        vf a = first ? v_zero() : v_load(acc + i * TR);
        a = v_fma(i_f32(i_load(sums + i * TR)), v_mul(v_set1(scale[i]), sx), a);
        v_store(acc + i * TR, v_fma(v_set1(bias[i]), sum, a));
    }
}

/* One or two tiles of x, n0 and n1 rows, over `groups` groups of a panel. acc: [tile of x][32 rows
 * of W][16 rows of x]. */
static void tiles(float *acc, const uint32_t *panel, const int32_t *x0, const int32_t *x1,
                  uint32_t groups, bool first, uint32_t n0, uint32_t n1)
{
    _Alignas(64) int32_t c[4][TR * TR];
    memset(c, 0, sizeof c);            /* lanes of rows that are not there */
    __asm__ volatile("" ::: "memory"); /* tiles are loaded behind the compiler's back */
    for (uint32_t g = 0; g < groups; g++, panel += GROUP_WORDS) {
        const float *meta = (const float *)panel + GROUP_META;
        const bool fresh = first && g == 0;
        _tile_loadd(4, panel, 64);
        _tile_loadd(5, panel + 256, 64);
        _tile_loadd(6, x0, n0 * 4);
        _tile_zero(0);
        _tile_zero(2);
        _tile_dpbusd(0, 4, 6);
        _tile_dpbusd(2, 5, 6);
        if (n1 > 0) {
            _tile_loadd(7, x1, n1 * 4);
            _tile_zero(1);
            _tile_zero(3);
            _tile_dpbusd(1, 4, 7);
            _tile_dpbusd(3, 5, 7);
        }
        _tile_stored(0, c[0], 64);
        _tile_stored(2, c[2], 64);
        if (n1 > 0) {
            _tile_stored(1, c[1], 64);
            _tile_stored(3, c[3], 64);
        }
        for (uint32_t h = 0; h < 2; h++) {
            const float *scale = meta + h * TR, *bias = scale + PANEL_ROWS;
            float *to = acc + h * TR * TR;
            chain(to, c[2 * h], scale, bias, (const float *)x0 + 16 * n0, n0, n0, fresh);
            if (n1 > 0)
                chain(to + PANEL_ROWS * TR, c[2 * h + 1], scale, bias, (const float *)x1 + 16 * n1,
                      n1, n1, fresh);
        }
        x0 += 18 * n0;
        x1 += 18 * n1;
    }
}

/* Rows of W to lanes: y[t * ldy + i] for `rows` rows of W and n rows of x. */
static void turn_out(float *y, size_t ldy, const float *acc, uint32_t rows, uint32_t n)
{
    vi w[TR];
    V_UNROLL
    for (int i = 0; i < TR; i++)
        w[i] = i_load(acc + i * TR);
    i_exchange(w);
    for (uint32_t t = 0; t < n; t++)
        v_storen(y + t * ldy, _mm512_castsi512_ps(w[t]), rows);
}

/* The 32 rows of one tile of x: two halves of rows of W, or silu of the first times the second. */
static void tile_out(float *y, size_t ldy, float *acc, uint32_t rows, uint32_t n, bool glu)
{
    if (glu) {
        for (uint32_t i = 0; i < TR; i++) {
            float *a = acc + i * TR;
            v_store(a, v_mul(v_silu(v_load(a)), v_load(a + TR * TR)));
        }
    }
    turn_out(y, ldy, acc, rows < TR ? rows : TR, n);
    if (!glu && rows > TR)
        turn_out(y + TR, ldy, acc + TR * TR, rows - TR, n);
}

/* `rows` rows from r on of W, or of gate and up, times T rows of x; rows from `next` on, if there
 * are any, are what follows. */
static void panel_dot(float *y, size_t ldy, const int32_t *xq, const tt_mat *W, const tt_mat *up,
                      uint32_t r, uint32_t rows, uint32_t next, uint32_t T, void *scratch)
{
    const uint32_t groups = W->cols / TT_GROUP;
    uint32_t *panel = scratch, set0 = 0, set1 = 0;
    float *sums = (float *)((char *)scratch + TT_DOT_PANEL);
    for (uint32_t g0 = 0; g0 < groups; g0 += TT_DOT_GROUPS) {
        uint32_t g1 = groups - g0 < TT_DOT_GROUPS ? groups : g0 + TT_DOT_GROUPS;
        decode_half(panel, 0, W, r, g0, g1);
        decode_half(panel, 1, up != NULL ? up : W, up != NULL ? r : r + TR, g0, g1);
        panel_ahead ahead = ask_for(W, up, r, next, TR, g1, TT_DOT_GROUPS);
        uint32_t share = (ahead.end - ahead.at) / ((T + 2 * TR - 1) / (2 * TR)) + 1;
        for (uint32_t t = 0; t < T; t += 2 * TR) {
            ask(&ahead, share);
            uint32_t n0 = T - t < TR ? T - t : TR, n1 = T - t - n0 < TR ? T - t - n0 : TR;
            const int32_t *x0 = xq + ((size_t)t * groups + (size_t)g0 * n0) * 18;
            const int32_t *x1 = xq + ((size_t)(t + n0) * groups + (size_t)g0 * n1) * 18;
            float *acc = sums + (groups <= TT_DOT_GROUPS ? 0 : (size_t)t * PANEL_ROWS);
            if (n0 != set0 || n1 != set1)
                configure(set0 = n0, set1 = n1);
            tiles(acc, panel, x0, x1, g1 - g0, g0 == 0, n0, n1);
            if (g1 < groups)
                continue;
            tile_out(y + t * ldy, ldy, acc, rows, n0, up != NULL);
            if (n1 > 0)
                tile_out(y + (t + n0) * ldy, ldy, acc + PANEL_ROWS * TR, rows, n1, up != NULL);
        }
    }
}

static void amx_dot(float *y, size_t ldy, const int32_t *xq, const tt_mat *W, const tt_mat *up,
                    uint32_t r0, uint32_t r1, uint32_t T, uint32_t planes, void *scratch)
{
    if (planes != 1) {
        tt_avx512vnni_dot(y, ldy, xq, W, up, r0, r1, T, planes, scratch);
        return;
    }
    const uint32_t step = up != NULL ? TR : PANEL_ROWS;
    for (uint32_t r = r0; r < r1; r += step)
        panel_dot(y + r, ldy, xq, W, up, r, r1 - r < step ? r1 - r : step,
                  r1 - r > step ? r + step : 0, T, scratch);
    _tile_release();
}

static uint64_t amx_peak_dot(uint32_t rounds)
{
    _Alignas(64) static const int32_t some[TR * TR] = {0x01020304};
    _Alignas(64) int32_t out[TR * TR];
    configure(TR, TR);
    _tile_loadd(4, some, 64);
    _tile_loadd(6, some, 64);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (uint32_t r = 0; r < rounds; r++) {
        _tile_dpbusd(0, 4, 6);
        _tile_dpbusd(1, 4, 6);
        _tile_dpbusd(2, 4, 6);
        _tile_dpbusd(3, 4, 6);
    }
    _tile_stored(0, out, 64);
    _tile_release();
    return (uint64_t)rounds * 4 * TR * TR * 64;
}

void tt_amx_fill(tt_kernels *k)
{
    k->dot_rows[0] = TR;
    k->dot = amx_dot;
    k->peak_dot = amx_peak_dot;
}
