/* Proves that lists of numbers keep the number under which they came first, however many there are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "grammar/id_memo.h"

static void lists_keep_their_number(void **state)
{
    tt_id_memo m = {0};
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < 5000; i++) {
            uint32_t ids[4] = {i % 7, i, 0, i / 3}, n = 1 + i % 4, value = 0;
            bool found = false;
            ids[0] = n == 1 ? i : ids[0];
            assert_int_equal(
                tt_id_memo_value(&m, ids, n, 10 * i + (pass ? 1 : 0), &value, &found, NULL), TT_OK);
            assert_int_equal(found, pass);
            assert_int_equal(value, 10 * i);
        }
    tt_id_memo_free(&m);
    tt_id_memo_free(&m);
}

/* A beginning of a list, and the same numbers in another order, are other lists. */
static void lists_are_told_apart(void **state)
{
    static const uint32_t lists[][3] = {{1, 2, 3}, {1, 2, 0}, {2, 1, 3}, {0, 0, 0}};
    tt_id_memo m = {0};
    uint32_t fresh = 0, value = 0;
    bool found = true;
    for (int i = 0; i < 4; i++)
        for (uint32_t n = 1; n <= 3; n++) {
            bool again = (i == 1 && n < 3);
            assert_int_equal(tt_id_memo_value(&m, lists[i], n, fresh++, &value, &found, NULL),
                             TT_OK);
            assert_int_equal(found, again);
            assert_int_equal(value, again ? n - 1 : fresh - 1);
        }
    tt_id_memo_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_keep_their_number),
        cmocka_unit_test(lists_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
