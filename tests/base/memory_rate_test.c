/* Proves that the rate of memory is measured within what it was given, kept by processor and
 * threads, looked up without measuring, and not invented. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "../support/tempdir.h"
#include "base/file.h"
#include "base/memory_rate.h"
#include "base/rates_file.h"

static char dir[512], file[600];

static tt_memory_rate get(const tt_memory_rate_options *o)
{
    tt_memory_rate m = {.rate = -1};
    tt_error err = {0};
    if (tt_memory_rate_get(o, &m, &err) != TT_OK)
        fail_msg("%s", err.message);
    return m;
}

static tt_memory_rate_options options(uint32_t threads)
{
    return (tt_memory_rate_options){
        .threads = threads, .memory = TT_MEMORY_RATE_LEAST, .seconds = 0.001, .file = file};
}

static void a_rate_is_kept_by_threads(void **state)
{
    tt_memory_rate_options o = options(1);
    snprintf(file, sizeof file, "%s/below/rates.json", dir);
    tt_memory_rate m = get(&o), again = get(&o);
    assert_true(m.rate > 1e6 && m.rate < 1e14);
    assert_false(m.cached);
    assert_true(m.time > 0);
    assert_true(again.cached);
    assert_int_equal(again.time, m.time);
    assert_true(again.rate > m.rate * 0.999 && again.rate < m.rate * 1.001);
    o = options(2);
    assert_false(get(&o).cached);
    assert_true(get(&o).cached);
    o = options(1);
    assert_true(get(&o).cached);
}

static void other_processors_are_not_ours(void **state)
{
    tt_memory_rate_options o = options(1);
    snprintf(file, sizeof file, "%s/other.json", dir);
    (void)get(&o);
    json_t *list = tt_rates_load(file, "memory");
    json_object_set_new(json_array_get(list, 0), "processor", json_string("another"));
    assert_int_equal(tt_rates_save(file, "memory", list, NULL), TT_OK);
    assert_false(get(&o).cached);
    list = tt_rates_load(file, "memory");
    assert_int_equal(json_array_size(list), 2);
    /* and figures that cannot be are measured again */
    json_object_set_new(json_array_get(list, 0), "bytes_per_second", json_real(-1));
    assert_int_equal(tt_rates_save(file, "memory", list, NULL), TT_OK);
    assert_false(get(&o).cached);
}

/* A rate that was taken while the machine was busy goes after a day; until it can be measured again
 * it is better than none. */
static void old_records_are_made_again(void **state)
{
    static const int64_t ages[] = {2 * 86400, -86400,
                                   3600}; /* the second: a clock that was wrong */
    tt_memory_rate_options o = options(1), ask = options(1);
    snprintf(file, sizeof file, "%s/old.json", dir);
    ask.look_up = true;
    (void)get(&o);
    for (size_t i = 0; i < sizeof ages / sizeof *ages; i++) {
        json_t *list = tt_rates_load(file, "memory");
        int64_t then = (int64_t)time(NULL) - ages[i];
        json_object_set_new(json_array_get(list, 0), "time", json_integer(then));
        assert_int_equal(tt_rates_save(file, "memory", list, NULL), TT_OK);
        assert_int_equal(get(&ask).time, then);
        tt_memory_rate m = get(&o);
        assert_int_equal(m.cached, i == 2);
        assert_int_equal(m.time == then, i == 2);
    }
}

static void what_is_not_known_is_zero(void **state)
{
    tt_memory_rate_options o = options(1);
    snprintf(file, sizeof file, "%s/none.json", dir);
    o.look_up = true;
    assert_true(get(&o).rate == 0);
    assert_false(tt_file_exists(file));
    o.look_up = false;
    o.memory = TT_MEMORY_RATE_LEAST - 1;
    assert_true(get(&o).rate == 0);
    assert_false(tt_file_exists(file));
    o = options(1);
    (void)get(&o);
    o.look_up = true;
    o.memory = 0;
    assert_true(get(&o).rate > 0);
    o.file = NULL;
    assert_true(get(&o).rate == 0);
    o = options(0);
    tt_memory_rate m;
    tt_error err = {0};
    assert_int_equal(tt_memory_rate_get(&o, &m, &err), TT_ERR_INVALID);
    o.threads = TT_MAX_THREADS + 1;
    assert_int_equal(tt_memory_rate_get(&o, &m, &err), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "257"));
}

/* A place that cannot be written costs a measurement each time and nothing else. */
static void no_place_to_keep_it(void **state)
{
    tt_memory_rate_options o = options(1);
    o.file = "/dev/null/rates.json";
    assert_true(get(&o).rate > 0);
    assert_false(get(&o).cached);
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
        cmocka_unit_test(a_rate_is_kept_by_threads),
        cmocka_unit_test(other_processors_are_not_ours),
        cmocka_unit_test(old_records_are_made_again),
        cmocka_unit_test(what_is_not_known_is_zero),
        cmocka_unit_test(no_place_to_keep_it),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
