/* Proves the price of guesses on made-up machines with noise: where guesses pay the best width is
 * found and nearly all of its gain is had; where they do not, the loss against plain decode stays
 * under 3 % from the first hundred tokens on, whatever the acceptance, also when it turns; and
 * plain steps are made again and again, so that their cost is of today. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../support/approx.h"
#include "session/price.h"

typedef struct machine {
    double cost[TT_DRAFT_ROWS + 1]; /* of a step by rows */
    float right;                    /* of a guess */
    float noise;
} machine;

typedef struct outcome {
    double seconds, tokens;
    unsigned steps[TT_DRAFT_ROWS + 1];
    unsigned longest; /* without a plain step */
    double worst;     /* speed against plain decode, the least after 100 tokens */
} outcome;

static void run(tt_price *p, const machine *m, unsigned steps, tt_rng *rng, outcome *o)
{
    unsigned since = 0;
    for (unsigned i = 0; i < steps; i++) {
        uint32_t rows = tt_price_rows(p, TT_DRAFT_ROWS), right = 0;
        assert_true(rows >= 1 && rows <= TT_DRAFT_ROWS);
        while (right + 1 < rows && tt_rng_uniform(rng, 0, 1) < m->right)
            right++;
        double s = m->cost[rows] * (double)(1 + m->noise * tt_rng_uniform(rng, -1, 1));
        tt_price_note(p, rows, right, right + 1 < rows, s);
        since = rows == 1 ? 0 : since + 1;
        o->longest = since > o->longest ? since : o->longest;
        o->steps[rows]++;
        o->seconds += s;
        o->tokens += 1 + right;
        double speed = o->tokens * m->cost[1] / o->seconds;
        if (o->tokens >= 100 && speed < o->worst)
            o->worst = speed;
    }
}

static outcome fresh(const machine *m, uint64_t seed)
{
    tt_price p;
    tt_rng rng = {seed};
    outcome o = {.worst = 1e9};
    tt_price_init(&p);
    run(&p, m, 3000, &rng, &o);
    return o;
}

static double speed(const machine *m, const outcome *o)
{
    return o->tokens * m->cost[1] / o->seconds;
}

/* A resident model whose rows are nearly free. */
static void a_gain_is_found_and_had(void **state)
{
    const machine m = {{0, 1, 1.2, 1.4, 1.6}, 0.75f, 0.1f};
    /* best: 4 rows, 1 + .75 + .5625 + .4219 = 2.73 tokens for 1.6 */
    for (uint64_t seed = 1; seed <= 20; seed++) {
        outcome o = fresh(&m, seed);
        assert_true(speed(&m, &o) > 1.5);
        assert_true(o.steps[4] > 2000);
        assert_true(o.worst > 0.97);
    }
}

static void a_small_gain_at_two_rows(void **state)
{
    const machine m = {{0, 1, 1.35, 1.9, 2.5}, 0.65f, 0.1f};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        outcome o = fresh(&m, seed);
        assert_true(speed(&m, &o) > 1.12);
        assert_true(o.steps[2] > 2000);
        assert_true(o.worst > 0.97);
    }
}

/* Streaming: a row more is more experts from the disk. */
static void a_loss_is_kept_small(void **state)
{
    static const float right[] = {0, 0.3f, 0.57f};
    static const double more[] = {0.585, 1, 3};
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++)
            for (uint64_t seed = 1; seed <= 20; seed++) {
                machine m = {{0, 1, 1 + more[c], 1 + 2 * more[c], 1 + 3 * more[c]}, right[r], 0.2f};
                outcome o = fresh(&m, seed);
                double loss = 1 - speed(&m, &o);
                if (loss > 0.03 || o.worst < 0.94)
                    fail_msg("right %g, a row costs %g more: loss %g, worst %g", (double)right[r],
                             more[c], loss, o.worst);
            }
}

/* Guesses that stop being right are left, and taken up when they are right again. */
static void it_follows_what_changes(void **state)
{
    machine good = {{0, 1, 1.2, 1.4, 1.6}, 0.8f, 0.1f}, bad = good;
    bad.right = 0.02f;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        tt_price p;
        tt_rng rng = {seed};
        outcome a = {.worst = 9}, b = a, c = a;
        tt_price_init(&p);
        run(&p, &good, 1000, &rng, &a);
        run(&p, &bad, 2000, &rng, &b);
        run(&p, &good, 4000, &rng, &c);
        assert_true(speed(&good, &a) > 1.5);
        assert_true(speed(&bad, &b) > 0.93);
        assert_true(speed(&good, &c) > 1.4);
        assert_true(a.longest <= TT_PRICE_PLAIN && c.longest <= TT_PRICE_PLAIN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gain_is_found_and_had),
        cmocka_unit_test(a_small_gain_at_two_rows),
        cmocka_unit_test(a_loss_is_kept_small),
        cmocka_unit_test(it_follows_what_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
