/* Proves the default widths of every role and the reading of overrides, with every kind of mistake
 * in them refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "repack/policy.h"

static void default_widths(void **state)
{
    static const struct {
        tt_role role;
        uint32_t at[3]; /* builds of 4, 8 and 16 bits */
    } want[] = {
        {TT_ROLE_EMBED, {8, 8, 16}},       {TT_ROLE_HEAD, {8, 8, 16}},
        {TT_ROLE_ATTENTION, {4, 8, 16}},   {TT_ROLE_DELTANET, {4, 8, 16}},
        {TT_ROLE_DELTA_AB, {16, 16, 16}},  {TT_ROLE_MLP, {4, 8, 16}},
        {TT_ROLE_EXPERTS, {4, 8, 16}},     {TT_ROLE_SHARED, {4, 8, 16}},
        {TT_ROLE_ROUTER, {16, 16, 16}},    {TT_ROLE_SHARED_GATE, {16, 16, 16}},
        {TT_ROLE_MTP_FC, {4, 8, 16}},      {TT_ROLE_MIX, {8, 8, 16}},
        {TT_ROLE_INJECT, {16, 16, 16}},    {TT_ROLE_INDEXER, {16, 16, 16}},
        {TT_ROLE_NGRAM_KEY, {16, 16, 16}}, {TT_ROLE_NGRAM_VALUE, {4, 8, 16}},
        {TT_ROLE_PLAIN, {16, 16, 16}},
    };
    assert_int_equal(sizeof want / sizeof *want, TT_ROLE_COUNT);
    for (size_t i = 0; i < TT_ROLE_COUNT; i++) {
        assert_int_equal(want[i].role, i);
        for (int b = 0; b < 3; b++) {
            tt_policy p = {.build_bits = 4u << b};
            assert_int_equal(tt_policy_bits(&p, want[i].role, false), want[i].at[b]);
            assert_int_equal(tt_policy_bits(&p, want[i].role, true), want[i].at[b]);
        }
        tt_policy p = {0};
        assert_int_equal(tt_policy_bits(&p, want[i].role, false), want[i].at[0]);
        /* What a quantized checkpoint left alone stays alone. */
        assert_int_equal(tt_policy_bits(&p, want[i].role, true), 16);
    }
}

static void overrides_win(void **state)
{
    tt_policy p = {.build_bits = 4};
    tt_error err = {0};
    assert_int_equal(tt_policy_parse_roles("embed=4,router=8,experts=16", &p, &err), TT_OK);
    assert_int_equal(tt_policy_bits(&p, TT_ROLE_EMBED, false), 4);
    assert_int_equal(tt_policy_bits(&p, TT_ROLE_ROUTER, false), 8);
    assert_int_equal(tt_policy_bits(&p, TT_ROLE_EXPERTS, true), 16);
    assert_int_equal(tt_policy_bits(&p, TT_ROLE_HEAD, false), 8);
    for (int r = 0; r < TT_ROLE_PLAIN; r++) {
        char text[32];
        tt_policy q = {0};
        strcpy(text, tt_role_name((tt_role)r));
        strcat(text, "=8");
        assert_int_equal(tt_policy_parse_roles(text, &q, &err), TT_OK);
        assert_int_equal(q.role_bits[r], 8);
    }
}

static void mistakes_are_refused(void **state)
{
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"", "not ROLE=BITS"},          {"embed", "not ROLE=BITS"},
        {"embed=4,", "not ROLE=BITS"},  {",embed=4", "not ROLE=BITS"},
        {"embed=5", "not 4, 8 or 16"},  {"embed=", "not 4, 8 or 16"},
        {"embed=44", "not 4, 8 or 16"}, {"embed=4 ", "not 4, 8 or 16"},
        {"plain=4", "not a role"},      {"embe=4", "not a role"},
        {"embedd=4", "not a role"},     {"=4", "not a role"},
        {"embed=4,embed=4", "twice"},   {"Embed=4", "not a role"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tt_policy p = {.build_bits = 8}, before = p;
        tt_error err = {0};
        assert_int_equal(tt_policy_parse_roles(bad[i].text, &p, &err), TT_ERR_INVALID);
        assert_non_null(strstr(err.message, bad[i].words));
        assert_memory_equal(&p, &before, sizeof p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_widths),
        cmocka_unit_test(overrides_win),
        cmocka_unit_test(mistakes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
