#include "session/price.h"

#define FEW       4u        /* plain steps before the first trial, samples that make a cost known */
#define COST_RATE (1 / 8.0) /* weight of the newest step */
#define LUCK_RATE (1 / 32.0)
#define GUESSED   0.6 /* right at first, and what a row more may cost of a plain step */
#define OUTLIER                                                                                    \
    3.0               /* a step that took so many times what was expected counts as this: the      \
                         machine was busy with something else */
#define TRY_EVERY 16u /* steps between trials of a width that is not the best known */

void tt_price_init(tt_price *p)
{
    *p = (tt_price){0};
    for (uint32_t j = 0; j + 1 < TT_DRAFT_ROWS; j++)
        p->right[j] = GUESSED;
}

double tt_price_tokens(const tt_price *p, uint32_t rows)
{
    double sum = 1, all = 1;
    for (uint32_t j = 0; j + 1 < rows; j++) {
        all *= p->right[j];
        sum += all;
    }
    return sum;
}

static bool known(const tt_price *p, uint32_t rows)
{
    return p->seen[rows] >= FEW;
}

static double cost_of(const tt_price *p, uint32_t rows)
{
    return p->seen[rows] > 0 ? p->cost[rows] : p->cost[1] * (1 + GUESSED * (rows - 1));
}

/* Whether the account stands it when a step of so many rows brings what it is expected to; a trial
 * may bring one token only. */
static bool affordable(const tt_price *p, uint32_t rows, bool trial)
{
    double tokens = trial ? 1 : tt_price_tokens(p, rows);
    double after = p->lost + cost_of(p, rows) - tokens * p->cost[1];
    return after <= TT_PRICE_SHARE * p->spent + TT_PRICE_CREDIT * p->cost[1];
}

static uint32_t best_of(const tt_price *p, uint32_t most)
{
    uint32_t best = 1;
    double rate = 1 / p->cost[1];
    for (uint32_t w = 2; w <= most; w++)
        if (known(p, w) && tt_price_tokens(p, w) / p->cost[w] > rate) {
            rate = tt_price_tokens(p, w) / p->cost[w];
            best = w;
        }
    return best;
}

uint32_t tt_price_best(const tt_price *p, double *gain)
{
    *gain = 1;
    if (p->seen[1] == 0)
        return 1;
    uint32_t best = best_of(p, TT_DRAFT_ROWS);
    *gain = tt_price_tokens(p, best) * p->cost[1] / p->cost[best];
    return best;
}

uint32_t tt_price_rows(const tt_price *p, uint32_t most)
{
    if (most < 2 || p->seen[1] < FEW || p->since_plain >= TT_PRICE_PLAIN)
        return 1;
    uint32_t best = best_of(p, most);
    /* A width that is not known yet, the next one first; later now and then one beside the best. */
    for (uint32_t w = 2; w <= most && w <= best + 1; w++)
        if (!known(p, w) && affordable(p, w, true))
            return w;
    if (p->steps >= p->next_try) {
        uint32_t other = best < most && p->steps / TRY_EVERY % 2 == 0 ? best + 1 : best - 1;
        if (other > 1 && affordable(p, other, true))
            return other;
    }
    return best > 1 && affordable(p, best, false) ? best : 1;
}

static void learn(double *mean, double x, double rate)
{
    *mean += rate * (x - *mean);
}

void tt_price_note(tt_price *p, uint32_t rows, uint32_t right, bool missed, double seconds)
{
    double most = OUTLIER * cost_of(p, rows), s = seconds < most || most == 0 ? seconds : most;
    if (p->seen[rows]++ == 0)
        p->cost[rows] = s;
    else
        learn(&p->cost[rows], s, p->seen[rows] < 1 / COST_RATE ? 1.0 / p->seen[rows] : COST_RATE);
    for (uint32_t j = 0; j < right; j++)
        learn(&p->right[j], 1, LUCK_RATE);
    if (missed)
        learn(&p->right[right], 0, LUCK_RATE);
    p->steps++;
    p->spent += s;
    p->since_plain = rows == 1 ? 0 : p->since_plain + 1;
    if (rows > 1)
        p->lost += s - (1 + right) * p->cost[1];
    if (p->steps > p->next_try)
        p->next_try = p->steps + TRY_EVERY;
}
