/* Proves that a shelf opens each tokenizer once while it is lent, keeps one that nobody uses and no
 * second, and says what is wrong with a folder that has none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <unistd.h>

#include "server/tokenizer_shelf.h"
#include "support/tempdir.h"

static char dir[512], paths[3][600];
static tt_shelf *shelf;

static int set_up(void **state)
{
    (void)state;
    char here[512], tales[600];
    tempdir_make(dir);
    if (getcwd(here, sizeof here) == NULL)
        return -1;
    snprintf(tales, sizeof tales, "%s/models/tales", here);
    for (int i = 0; i < 3; i++) {
        snprintf(paths[i], sizeof paths[i], "%.500s/%d", dir, i);
        if (symlink(tales, paths[i]) != 0)
            return -1;
    }
    return tt_shelf_create(&shelf, NULL) == TT_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tt_shelf_close(&shelf);
    tempdir_remove(dir);
    return 0;
}

static const tt_tokenizer *take(int i)
{
    const tt_tokenizer *tok = NULL;
    tt_error err = {.offset = -1};
    if (tt_shelf_take(shelf, paths[i], &tok, &err) != TT_OK)
        fail_msg("%s: %s", err.file, err.message);
    return tok;
}

static void lent_ones_are_shared(void **state)
{
    (void)state;
    const tt_tokenizer *a = take(0), *again = take(0), *b = take(1), *c = take(2);
    assert_ptr_equal(a, again);
    assert_ptr_not_equal(a, b);
    assert_int_equal(tt_shelf_open(shelf), 3);
    tt_shelf_give(shelf, a);
    assert_int_equal(tt_shelf_open(shelf), 3);
    assert_true(tt_tokenizer_vocab_size(again) > 0); /* still lent */
    tt_shelf_give(shelf, b);
    tt_shelf_give(shelf, c);
    assert_int_equal(tt_shelf_open(shelf), 2); /* the one that is lent, and the last one used */
    assert_ptr_equal(take(2), c);
    tt_shelf_give(shelf, c);
    tt_shelf_give(shelf, again);
    tt_shelf_give(shelf, NULL);
    assert_int_equal(tt_shelf_open(shelf), 1);
}

/* Before another one is opened, the one that nobody uses goes: there are never two of those. */
static void opening_makes_room(void **state)
{
    (void)state;
    tt_shelf_give(shelf, take(0));
    assert_int_equal(tt_shelf_open(shelf), 1);
    const tt_tokenizer *b = take(1);
    assert_int_equal(tt_shelf_open(shelf), 1);
    tt_shelf_give(shelf, b);
}

static void what_is_none(void **state)
{
    (void)state;
    const tt_tokenizer *tok = NULL;
    tt_error err = {.offset = -1};
    assert_int_equal(tt_shelf_take(shelf, dir, &tok, &err), TT_ERR_NOT_FOUND);
    assert_null(tok);
    assert_int_equal(tt_shelf_open(shelf), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lent_ones_are_shared, set_up, tear_down),
        cmocka_unit_test_setup_teardown(opening_makes_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_none, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
