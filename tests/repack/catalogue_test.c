/* Proves that the catalogue that is compiled in is whole, names every model once, and that a broken
 * one is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "repack/catalogue.h"

static void whole(void **state)
{
    tt_catalogue c;
    tt_error err;
    const tt_catalogue_model *m = NULL;
    assert_int_equal(tt_catalogue_open(&c, &err), TT_OK);
    assert_true(c.count >= 8);
    for (size_t i = 0; i < c.count; i++) {
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(c.models[i].name, c.models[k].name);
        assert_true(strlen(c.models[i].revision) == 40 || c.models[i].revision[0] == '\0');
    }
    assert_int_equal(tt_catalogue_find(&c, "qwen3.6-35b-a3b", &m, &err), TT_OK);
    assert_int_equal(strncmp(m->revision, "995ad96e", 8), 0);
    assert_int_equal(m->checkpoint_bytes, 71903645408);
    assert_int_equal(tt_catalogue_find(&c, "qwen", &m, &err), TT_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "ornith-1.5-35b-a3b"));
    tt_catalogue_free(&c);
}

static void broken(void **state)
{
    static const char *const bad[] = {"",
                                      "[]",
                                      "{}",
                                      "{\"models\": [{}]}",
                                      "{\"models\": [{\"name\": \"a\", \"title\": \"a\", "
                                      "\"repository\": \"a\", \"family\": \"f\", "
                                      "\"mtp\": false}]}",
                                      "{\"models\": [{\"name\": \"a\", \"title\": \"a\", "
                                      "\"repository\": \"a/b\", \"family\": \"f\", "
                                      "\"mtp\": false, \"revision\": \"main\"}]}"};
    tt_catalogue c;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_not_equal(tt_catalogue_parse(bad[i], strlen(bad[i]), "x", &c, NULL), TT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole), cmocka_unit_test(broken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
