/* Proves that sets of characters keep their ranges sorted and apart, against a plain bitmap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "grammar/dfa.h"
#include "support/approx.h"

#define N 64

static void same(const tt_charset *s, const bool *bits, bool beyond)
{
    bool have[N] = {0}, rest = false;
    for (uint32_t i = 0; i < s->n; i++) {
        assert_true(s->v[i].lo <= s->v[i].hi && s->v[i].hi <= TT_LAST_CHAR);
        assert_true(i == 0 || s->v[i].lo > s->v[i - 1].hi + 1);
        for (uint32_t c = s->v[i].lo; c <= s->v[i].hi && c < N; c++)
            have[c] = true;
        rest |= s->v[i].hi == TT_LAST_CHAR;
    }
    assert_memory_equal(have, bits, sizeof have);
    assert_int_equal(rest, beyond);
}

static void holds_what_was_added(void **state)
{
    tt_rng r = {.s = 3};
    for (int round = 0; round < 500; round++) {
        tt_builder b;
        tt_charset s = {0}, twice = {0};
        bool bits[N] = {0};
        tt_builder_init(&b);
        for (int i = 0; i < 12; i++) {
            uint32_t lo = tt_rng_u32(&r) % N, hi = lo + tt_rng_u32(&r) % 6;
            hi = hi < N ? hi : N - 1;
            tt_charset_add(&b, &s, lo, hi);
            memset(bits + lo, true, hi - lo + 1);
            same(&s, bits, false);
        }
        tt_charset_join(&b, &twice, &s);
        tt_charset_join(&b, &twice, &s);
        same(&twice, bits, false);
        tt_charset_negate(&b, &s);
        for (int c = 0; c < N; c++)
            bits[c] = !bits[c];
        same(&s, bits, true);
        tt_charset_free(&s);
        tt_charset_free(&twice);
        tt_builder_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(holds_what_was_added)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
