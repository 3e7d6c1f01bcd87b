/* Proves that a list of measurements comes back, that the other lists of the file stay, that what
 * cannot be understood is empty, and that a file which cannot be written is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "../support/tempdir.h"
#include "base/file.h"
#include "base/rates_file.h"

static char dir[512], file[600];

static size_t count(const char *list)
{
    json_t *l = tt_rates_load(file, list);
    assert_true(json_is_array(l));
    size_t n = json_array_size(l);
    json_decref(l);
    return n;
}

static void lists_live_side_by_side(void **state)
{
    snprintf(file, sizeof file, "%s/deep/er/rates.json", dir);
    assert_int_equal(count("a"), 0);
    assert_int_equal(tt_rates_save(file, "a", json_pack("[i,i]", 1, 2), NULL), TT_OK);
    assert_int_equal(tt_rates_save(file, "b", json_pack("[{s:f}]", "x", 1.5), NULL), TT_OK);
    assert_int_equal(count("a"), 2);
    assert_int_equal(count("b"), 1);
    assert_int_equal(tt_rates_save(file, "a", json_pack("[i]", 9), NULL), TT_OK);
    json_t *a = tt_rates_load(file, "a"), *b = tt_rates_load(file, "b");
    assert_int_equal(json_array_size(a), 1);
    assert_int_equal(json_integer_value(json_array_get(a, 0)), 9);
    assert_true(json_real_value(json_object_get(json_array_get(b, 0), "x")) == 1.5);
    json_decref(a);
    json_decref(b);
}

static void what_is_not_understood_is_empty(void **state)
{
    static const char *const texts[] = {"", "[]", "{", "{\"a\": 3}", "{\"a\": {}}", "\xff\xfe"};
    snprintf(file, sizeof file, "%s/bad.json", dir);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(tt_file_publish(file, texts[i], strlen(texts[i]), NULL), TT_OK);
        assert_int_equal(count("a"), 0);
        assert_int_equal(tt_rates_save(file, "a", json_pack("[i]", 1), NULL), TT_OK);
        assert_int_equal(count("a"), 1);
    }
}

static void places_that_cannot_be_written(void **state)
{
    char below[700];
    tt_error err = {0};
    snprintf(file, sizeof file, "%s/a.json", dir);
    assert_int_equal(tt_rates_save(file, "a", json_array(), NULL), TT_OK);
    snprintf(below, sizeof below, "%s/b.json", file);
    assert_int_not_equal(tt_rates_save(below, "a", json_array(), &err), TT_OK);
    assert_true(err.message[0] != '\0');
    assert_int_equal(tt_rates_save(file, "a", NULL, &err), TT_ERR_NOMEM);
    assert_int_equal(count("a"), 0);
}

static int set_up(void **state)
{
    tempdir_make(dir);
    return 0;
}

static int tear_down(void **state)
{
    tempdir_remove(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_live_side_by_side),
        cmocka_unit_test(what_is_not_understood_is_empty),
        cmocka_unit_test(places_that_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
