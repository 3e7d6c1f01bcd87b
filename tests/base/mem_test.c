/* Proves that blocks are zeroed and aligned, and that a reservation grows in place and keeps what
 * it holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

static void blocks_are_zeroed_and_aligned(void **state)
{
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, (2u << 20) - 1, 2u << 20, 5u << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *p = NULL;
        assert_int_equal(tt_mem_alloc(sizes[i], "a test", &p, NULL), TT_OK);
        assert_int_equal((uintptr_t)p % (sizes[i] >= (2u << 20) ? 2u << 20 : 4096), 0);
        const unsigned char *bytes = p;
        for (size_t k = 0; k < sizes[i]; k += 511)
            assert_int_equal(bytes[k], 0);
        if (sizes[i] > 0) {
            assert_int_equal(bytes[sizes[i] - 1], 0);
            memset(p, 0xa5, sizes[i]);
        }
        tt_mem_free(p, sizes[i]);
    }
    tt_mem_free(NULL, 100);
}

static void impossible_sizes_are_refused(void **state)
{
    void *p = NULL;
    tt_error err;
    assert_int_equal(tt_mem_alloc((size_t)1 << 62, "too much", &p, &err), TT_ERR_NOMEM);
    assert_non_null(strstr(err.message, "too much"));
    assert_int_equal(tt_mem_reserve((size_t)1 << 62, "too much", &p, &err), TT_ERR_NOMEM);
    assert_null(p);
}

static void a_reservation_grows_in_place(void **state)
{
    const size_t all = (size_t)64 << 30;
    void *p = NULL;
    assert_int_equal(tt_mem_reserve(all, "rows", &p, NULL), TT_OK);
    unsigned char *bytes = p;
    size_t before = 0;
    for (size_t n = 8192; n <= (size_t)1 << 20; n *= 2) {
        assert_int_equal(tt_mem_commit(p, n, "rows", NULL), TT_OK);
        for (size_t k = before; k < n; k += 1024) {
            assert_int_equal(bytes[k], 0);
            bytes[k] = (unsigned char)(k >> 10);
        }
        for (size_t k = 0; k < n; k += 1024)
            assert_int_equal(bytes[k], (unsigned char)(k >> 10));
        before = n;
    }
    tt_mem_free(p, all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_zeroed_and_aligned),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(a_reservation_grows_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
