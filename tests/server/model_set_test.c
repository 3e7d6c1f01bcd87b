/* Proves that at most one model is in memory, that one is given up only for another that was seen
 * to be fit, that what failed is tried again, that names are ids and ids with -fast, that counts go
 * on when models come and go, and that one without work is unloaded when its time is over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "server/model_set.h"

/* An engine that writes down what it is asked. */
typedef struct fake {
    const char *id;
    bool unfit, fails, loaded;
    uint32_t context;
    uint64_t asks;
    double idle;
    tt_thinking thinking;
    char extra[256];
} fake;

static fake a, b, c;
static char journal[1024];
static tt_model_set *set;
static tt_error err;

static void note(const char *what, const fake *f)
{
    size_t n = strlen(journal);
    snprintf(journal + n, sizeof journal - n, "%s%s %s", n > 0 ? ", " : "", what, f->id);
}

static void describe(void *self, tt_engine_info *info)
{
    const fake *f = self;
    *info = (tt_engine_info){.max_context = f->context, .thinks = true, .efforts = {true, true}};
    snprintf(info->model, sizeof info->model, "%s", f->id);
}

static tt_status look(void *self, tt_error *e)
{
    fake *f = self;
    return f->unfit ? tt_fail(e, TT_ERR_CORRUPT, "unfit") : TT_OK;
}

static tt_status load(void *self, bool (*go_on)(void *ctx), void *ctx, tt_error *e)
{
    fake *f = self;
    note("load", f);
    if (!go_on(ctx))
        return tt_fail(e, TT_ERR_ABORTED, "aborted");
    f->loaded = !f->fails;
    f->asks = 0;
    return f->fails ? tt_fail(e, TT_ERR_IO, "the disk is gone") : TT_OK;
}

static void unload(void *self)
{
    fake *f = self;
    note("unload", f);
    assert_true(f->loaded);
    f->loaded = false;
}

static tt_status render(void *self, const tt_engine_render *r, tt_engine_prompt *out, tt_error *e)
{
    fake *f = self;
    (void)e;
    f->thinking = r->thinking;
    snprintf(f->extra, sizeof f->extra, "%s", r->extra != NULL ? r->extra : "none");
    *out = (tt_engine_prompt){.n = 7};
    return TT_OK;
}

static void stats(void *self, tt_engine_stats *out)
{
    *out = (tt_engine_stats){.model = {.expert_asks = ((fake *)self)->asks, .expert_slots = 5},
                             .cache = {.bytes = 7, .prompts = ((fake *)self)->asks}};
    out->cache.served[TT_TIER_RAM][TT_CHECKPOINT_TURN] = ((fake *)self)->asks;
    out->cache.refused[TT_REFUSED_IO] = ((fake *)self)->asks;
}

static double idle(void *self)
{
    return ((fake *)self)->idle;
}

static const tt_server_engine_ops ops = {.describe = describe,
                                         .look = look,
                                         .load = load,
                                         .unload = unload,
                                         .render = render,
                                         .stats = stats,
                                         .idle = idle};

static bool yes(void *ctx)
{
    (void)ctx;
    return true;
}

static bool no(void *ctx)
{
    (void)ctx;
    return false;
}

static void make(double idle_unload)
{
    const tt_server_engine engines[] = {{&ops, &a}, {&ops, &b}, {&ops, &c}};
    tt_model_set_options o = {.idle_unload = idle_unload};
    a = (fake){.id = "a_4-Bit", .context = 100, .idle = -1};
    b = (fake){.id = "b_8-Bit", .context = 300, .idle = -1};
    c = (fake){.id = "a_4-Bit-fast", .context = 200, .idle = -1};
    journal[0] = '\0';
    err = (tt_error){.offset = -1};
    assert_int_equal(tt_model_set_create(engines, 3, &o, &set, &err), TT_OK);
}

static int set_up(void **state)
{
    (void)state;
    make(0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tt_model_set_close(&set);
    assert_false(a.loaded || b.loaded || c.loaded);
    return 0;
}

static void use(size_t i)
{
    if (tt_model_set_use(set, i, yes, NULL, &err) != TT_OK)
        fail_msg("%s", err.message);
}

static void names(void **state)
{
    (void)state;
    bool fast = true;
    assert_int_equal(tt_model_set_count(set), 3);
    assert_int_equal(tt_model_set_find(set, "a_4-Bit", &fast), 0);
    assert_false(fast);
    assert_int_equal(tt_model_set_find(set, "b_8-Bit-fast", &fast), 1);
    assert_true(fast);
    /* An id that ends so itself is reached by its own name. */
    assert_int_equal(tt_model_set_find(set, "a_4-Bit-fast", &fast), 2);
    assert_false(fast);
    assert_int_equal(tt_model_set_find(set, "a_4-Bit-fast-fast", &fast), 2);
    assert_true(fast);
    static const char *const others[] = {
        "",        "a",        "a_4-Bi",       "a_4-Bitt", "-fast",
        "A_4-Bit", "b_8-Bit-", "b_8-Bit-FAST", "gpt",      "b_8-Bit-fast-fast"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_true(tt_model_set_find(set, others[i], &fast) == TT_MODEL_NONE);
    char longest[4096];
    memset(longest, 'x', sizeof longest - 1);
    strcpy(longest + sizeof longest - 6, "-fast");
    assert_true(tt_model_set_find(set, longest, &fast) == TT_MODEL_NONE);
    assert_int_equal(tt_model_set_context(set), 300);
    a.context = 0; /* not known */
    assert_int_equal(tt_model_set_context(set), 32768);
}

static void twins_and_none_are_refused(void **state)
{
    (void)state;
    const tt_server_engine twins[] = {{&ops, &a}, {&ops, &b}, {&ops, &a}};
    tt_model_set_options o = {0};
    tt_model_set *other = NULL;
    assert_int_equal(tt_model_set_create(twins, 3, &o, &other, &err), TT_ERR_EXISTS);
    assert_non_null(strstr(err.message, "a_4-Bit"));
    assert_int_equal(tt_model_set_create(twins, 0, &o, &other, &err), TT_ERR_LIMIT);
    assert_null(other);
}

static void one_at_a_time(void **state)
{
    (void)state;
    tt_model_state s;
    assert_true(tt_model_set_loaded(set) == TT_MODEL_NONE);
    use(0);
    use(0);
    use(1);
    use(0);
    assert_string_equal(journal, "load a_4-Bit, unload a_4-Bit, load b_8-Bit, unload b_8-Bit, "
                                 "load a_4-Bit");
    assert_int_equal(tt_model_set_loaded(set), 0);
    tt_model_set_state(set, 0, &s);
    assert_true(s.loaded && !s.loading && s.loads == 2 && s.failures == 0);
    tt_model_set_state(set, 1, &s);
    assert_true(!s.loaded && s.loads == 1);
    /* Of another one there is nothing to give back. */
    assert_true(tt_model_set_unload(set, 1) == TT_MODEL_NONE);
    assert_int_equal(tt_model_set_unload(set, TT_MODEL_NONE), 0);
    assert_true(tt_model_set_unload(set, TT_MODEL_NONE) == TT_MODEL_NONE);
    assert_true(tt_model_set_loaded(set) == TT_MODEL_NONE);
}

static void what_is_unfit_costs_nobody(void **state)
{
    (void)state;
    tt_model_state s;
    use(0);
    b.unfit = true;
    assert_int_equal(tt_model_set_use(set, 1, yes, NULL, &err), TT_ERR_CORRUPT);
    assert_string_equal(err.message, "unfit");
    assert_int_equal(tt_model_set_loaded(set), 0);
    assert_string_equal(journal, "load a_4-Bit");
    /* One that was fit and fails all the same: the other one can be loaded again, and so can it. */
    b.unfit = false;
    b.fails = true;
    assert_int_equal(tt_model_set_use(set, 1, yes, NULL, &err), TT_ERR_IO);
    assert_true(tt_model_set_loaded(set) == TT_MODEL_NONE);
    tt_model_set_state(set, 1, &s);
    assert_true(!s.loaded && !s.loading && s.loads == 0 && s.failures == 2);
    use(0);
    b.fails = false;
    use(1);
    assert_int_equal(tt_model_set_loaded(set), 1);
    /* One that was told to end is none that failed. */
    assert_int_equal(tt_model_set_use(set, 0, no, NULL, &err), TT_ERR_ABORTED);
    tt_model_set_state(set, 0, &s);
    assert_true(s.failures == 0 && !s.loaded);
}

static void counts_go_on(void **state)
{
    (void)state;
    tt_engine_stats sum;
    tt_model_set_stats(set, &sum);
    assert_int_equal(sum.model.expert_asks, 0);
    use(0);
    a.asks = 10;
    use(1);
    b.asks = 5;
    tt_model_set_stats(set, &sum);
    assert_int_equal(sum.model.expert_asks, 15);
    assert_int_equal(sum.model.expert_slots, 5); /* those that are there now */
    tt_model_set_unload(set, TT_MODEL_NONE);
    tt_model_set_stats(set, &sum);
    assert_int_equal(sum.model.expert_asks, 15);
    assert_int_equal(sum.model.expert_slots, 0);
    assert_int_equal(sum.cache.prompts, 15);
    assert_int_equal(sum.cache.served[TT_TIER_RAM][TT_CHECKPOINT_TURN], 15);
    assert_int_equal(sum.cache.refused[TT_REFUSED_IO], 15);
    assert_int_equal(sum.cache.bytes, 0);
}

static void fast_names_do_not_think(void **state)
{
    (void)state;
    tt_engine_info info;
    tt_engine_prompt p;
    tt_server_engine e = tt_model_set_engine(set, 0, true);
    tt_engine_render r = {.thinking = TT_THINKING_ON,
                          .extra = "{\"enable_thinking\":true,\"reasoning_effort\":\"high\","
                                   "\"city\":\"Bern\"}"};
    e.ops->describe(e.self, &info);
    assert_string_equal(info.model, "a_4-Bit");
    assert_false(info.thinks || info.efforts[1]);
    assert_int_equal(e.ops->render(e.self, &r, &p, &err), TT_OK);
    assert_int_equal(p.n, 7);
    assert_int_equal(a.thinking, TT_THINKING_OFF);
    assert_string_equal(a.extra, "{\"city\":\"Bern\"}");
    r.extra = NULL;
    assert_int_equal(e.ops->render(e.self, &r, &p, &err), TT_OK);
    assert_string_equal(a.extra, "none");
    /* Under its own name it is left alone. */
    e = tt_model_set_engine(set, 0, false);
    assert_int_equal(e.ops->render(e.self, &r, &p, &err), TT_OK);
    assert_int_equal(a.thinking, TT_THINKING_ON);
}

static void idle_models_are_unloaded(void **state)
{
    (void)state;
    use(0);
    assert_true(tt_model_set_idle(set) < 0);
    a.idle = 3;
    assert_true(tt_model_set_idle(set) == 3);
    tt_model_set_close(&set);
    make(1000);
    assert_true(tt_model_set_idle(set) < 0); /* nothing is there */
    use(0);
    double left = tt_model_set_idle(set);
    assert_true(left > 0 && left < 1000.001); /* of a sum of times, rounded */
    a.idle = 0.5;
    assert_true(tt_model_set_idle(set) == 0.5);
    assert_true(a.loaded);
    tt_model_set_close(&set);
    make(1e-9);
    use(0);
    /* The time begins when there is no work, and not with the last use. */
    double begun = tt_now();
    while (tt_now() <= begun)
        ;
    (void)tt_model_set_idle(set);
    while (a.loaded)
        (void)tt_model_set_idle(set);
    assert_true(tt_model_set_loaded(set) == TT_MODEL_NONE);
    assert_true(tt_model_set_idle(set) < 0);
    assert_string_equal(journal, "load a_4-Bit, unload a_4-Bit");
    use(0);
    assert_true(a.loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(twins_and_none_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_at_a_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_unfit_costs_nobody, set_up, tear_down),
        cmocka_unit_test_setup_teardown(counts_go_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fast_names_do_not_think, set_up, tear_down),
        cmocka_unit_test_setup_teardown(idle_models_are_unloaded, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
