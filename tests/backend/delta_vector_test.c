/* Proves the delta rule, its gates and its chunked form by a vector worked out by hand, at every
 * level of this machine. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend.h"

/* One head, two key and two value dimensions, three rows past the convolution; model-math 9.2. Nine
 * digits were recorded. */
static const float raw[3][6] = {
    {1, 2, 2, -1, .5f, -1.5f}, {-1, .5f, 1, 1, 1, 2}, {.2f, .9f, .5f, -2, -.4f, .8f}};
static const float a[3] = {.3f, -.7f, 1.5f}, b[3] = {.2f, 1.1f, -.6f};
static const float A_log = 0.1f, dt_bias = -0.5f;
static const float want_g[3] = {-0.661045683f, -0.290972126f, -1.451378625f};
static const float want_beta[3] = {0.549833997f, 0.750260106f, 0.354343694f};
static const float want_o[3][2] = {{0, 0}, {-.302178334f, .067719248f}, {.167490099f, .010067451f}};
static const float want_S[3][4] = {{.245893214f, -.737679643f, -.122946607f, .368839821f},
                                   {.679850942f, .613016552f, .404129708f, 1.440180255f},
                                   {.129450108f, .237484246f, .213878309f, -.038189435f}};

/* f32 with values of order 1: a few units of 2^-24. */
#define CLOSE 5e-7f

static tt_backend *make(const char *level)
{
    tt_backend_limits lim = {
        .delta = {.key_heads = 1, .value_heads = 1, .key_dim = 2, .value_dim = 2}};
    tt_backend *be = NULL;
    assert_int_equal(tt_backend_create("cpu", level, 1, &lim, &be, NULL), TT_OK);
    return be;
}

static void check(const float *got, const float *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= CLOSE))
            fail_msg("value %zu: %.9g, by hand %.9g", i, got[i], want[i]);
}

static void by_hand(void **state)
{
    tt_delta_shape s = {.key_heads = 1, .value_heads = 1, .key_dim = 2, .value_dim = 2};
    const char *level;
    for (unsigned l = 0; (level = tt_cpu_level_at(l)) != NULL; l++) {
        tt_backend *be = make(level);
        float g[3], beta[3], o[6], S[4] = {0}, rows[3][6];
        memcpy(rows, raw, sizeof rows);
        be->ops->delta_qk_norm(be, rows[0], 6, &s, 3);
        be->ops->delta_gates(be, g, beta, a, b, &A_log, &dt_bias, 1, 3);
        check(g, want_g, 3);
        check(beta, want_beta, 3);
        for (uint32_t t = 0; t < 3; t++) {
            be->ops->delta_recurrent(be, o + 2 * t, S, rows[t], 6, g + t, beta + t, &s, 1);
            check(o + 2 * t, want_o[t], 2);
            check(S, want_S[t], 4);
        }
        float whole_S[4] = {0}, whole_o[6];
        be->ops->delta_chunked(be, whole_o, whole_S, rows[0], 6, g, beta, &s, 0, 3);
        check(whole_o, want_o[0], 6);
        check(whole_S, want_S[2], 4);
        float cut_S[4] = {0}, cut_o[6]; /* a chunk border between rows 0 and 1 */
        be->ops->delta_chunked(be, cut_o, cut_S, rows[0], 6, g, beta, &s, 63, 3);
        check(cut_o, want_o[0], 6);
        check(cut_S, want_S[2], 4);
        tt_backend_close(&be);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
