/* sampler.c: logits -> id.
 *
 * The filters run in the order of Hugging Face transformers: repetition penalty, then presence and
 * frequency penalties (OpenAI's definition, over generated ids only), temperature, top-k, top-p,
 * min-p, draw. As there: the repetition penalty divides positive and multiplies negative logits of
 * every id seen, prompt included; top-p takes probabilities renormalised over what top-k left and
 * keeps the smallest set, best first, whose mass reaches p; min-p keeps what has at least min-p
 * times the probability of the best. One thing differs: top-k keeps exactly k ids, of equals the
 * lower ids, where Hugging Face keeps every id that equals the k-th.
 *
 * Equal logits are ordered by id, lower first, everywhere. A draw takes one number of the stream
 * and walks the candidates: best first when top-k or top-p is on, by id otherwise. Greedy choice
 * (temperature 0) takes none.
 *
 * Masses are doubles. Penalties saturate at the largest float, and everything else is computed
 * relative to the best logit, so no finite input can overflow.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/status.h"
#include "sample/draw.h"

typedef struct candidate {
    float value; /* logit after penalties */
    uint32_t id;
} candidate;

/* History of an id. */
typedef struct seen_id {
    uint32_t generated; /* occurrences among generated ids */
    bool seen;          /* in the prompt or generated */
} seen_id;

struct tt_sampler {
    tt_sampler_options o;
    uint32_t vocab;
    tt_random random;
    seen_id *seen;     /* [vocab] */
    uint32_t *touched; /* [vocab], the first n_touched are the ids that have a history */
    uint32_t n_touched;
    float *work;    /* [vocab] logits after penalties */
    double *weight; /* [vocab] exp((value - best) / temperature) of candidates */
    candidate *c;   /* [vocab] */
};

void tt_sampler_options_default(tt_sampler_options *o)
{
    *o = (tt_sampler_options){.top_p = 1, .repetition_penalty = 1};
}

static tt_status check_range(const char *name, double v, double min, double max, tt_error *err)
{
    if (v >= min && v <= max)
        return TT_OK;
    return tt_fail(err, TT_ERR_INVALID, "%s is %g, must be %g to %g", name, v, min, max);
}

static tt_status check_options(const tt_sampler_options *o, tt_error *err)
{
    TT_TRY(check_range("temperature", o->temperature, 0, 100, err));
    TT_TRY(check_range("min_p", o->min_p, 0, 1, err));
    TT_TRY(check_range("presence_penalty", o->presence_penalty, -2, 2, err));
    TT_TRY(check_range("frequency_penalty", o->frequency_penalty, -2, 2, err));
    if (!(o->top_p > 0 && o->top_p <= 1))
        return tt_fail(err, TT_ERR_INVALID, "top_p is %g, must be above 0 and at most 1",
                       (double)o->top_p);
    if (!(o->repetition_penalty > 0 && o->repetition_penalty <= FLT_MAX))
        return tt_fail(err, TT_ERR_INVALID,
                       "repetition_penalty is %g, must be a finite number above 0",
                       (double)o->repetition_penalty);
    for (size_t i = 0; i < sizeof o->reserved / sizeof *o->reserved; i++)
        if (o->reserved[i] != 0)
            return tt_fail(err, TT_ERR_INVALID,
                           "a reserved sampler option is not zero; fill the options with "
                           "tt_sampler_options_default first");
    return TT_OK;
}

tt_status tt_sampler_create(const tt_sampler_options *opts, uint32_t vocab, tt_sampler **out,
                            tt_error *err)
{
    if (opts == NULL)
        return tt_fail(err, TT_ERR_INVALID, "no sampler options given");
    TT_TRY(check_options(opts, err));
    if (vocab < 1 || vocab > TT_MAX_VOCAB)
        return tt_fail(err, TT_ERR_INVALID, "vocabulary of %u ids, must be 1 to %u", vocab,
                       TT_MAX_VOCAB);
    tt_sampler *s = calloc(1, sizeof *s);
    if (s != NULL) {
        s->o = *opts;
        s->vocab = vocab;
        s->seen = calloc(vocab, sizeof *s->seen);
        s->touched = malloc(vocab * sizeof *s->touched);
        s->work = malloc(vocab * sizeof *s->work);
        s->weight = malloc(vocab * sizeof *s->weight);
        s->c = malloc(vocab * sizeof *s->c);
    }
    if (s == NULL || s->seen == NULL || s->touched == NULL || s->work == NULL ||
        s->weight == NULL || s->c == NULL) {
        tt_sampler_close(&s);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for a sampler of %u ids", vocab);
    }
    tt_random_seed(&s->random, opts->seed);
    *out = s;
    return TT_OK;
}

void tt_sampler_close(tt_sampler **sp)
{
    if (sp == NULL || *sp == NULL)
        return;
    tt_sampler *s = *sp;
    free(s->seen);
    free(s->touched);
    free(s->work);
    free(s->weight);
    free(s->c);
    free(s);
    *sp = NULL;
}

void tt_sampler_reset(tt_sampler *s, uint64_t seed)
{
    for (uint32_t i = 0; i < s->n_touched; i++)
        s->seen[s->touched[i]] = (seen_id){0};
    s->n_touched = 0;
    s->o.seed = seed;
    tt_random_seed(&s->random, seed);
}

/* Ids outside the vocabulary have no logit and are left out. */
void tt_sampler_accept(tt_sampler *s, uint32_t id, bool generated)
{
    if (id >= s->vocab)
        return;
    seen_id *h = &s->seen[id];
    if (!h->seen)
        s->touched[s->n_touched++] = id;
    h->seen = true;
    if (generated && h->generated < UINT32_MAX)
        h->generated++;
}

#define LANES 8

/* The largest value; *nan is set when there is a NaN. Lanes, because one chain of comparisons would
 * wait for itself. */
static float largest(const float *x, uint32_t n, bool *nan)
{
    float best[LANES];
    int bad[LANES] = {0};
    uint32_t i = 0;
    for (int k = 0; k < LANES; k++)
        best[k] = -INFINITY;
    for (; i + LANES <= n; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            best[k] = x[i + k] > best[k] ? x[i + k] : best[k];
            bad[k] |= x[i + k] != x[i + k];
        }
    }
    for (; i < n; i++) {
        best[0] = x[i] > best[0] ? x[i] : best[0];
        bad[0] |= x[i] != x[i];
    }
    for (int k = 1; k < LANES; k++) {
        best[0] = best[k] > best[0] ? best[k] : best[0];
        bad[0] |= bad[k];
    }
    *nan = bad[0] != 0;
    return best[0];
}

static tt_status check_row(const float *x, uint32_t n, float *best, tt_error *err)
{
    bool nan = false;
    *best = largest(x, n, &nan);
    for (uint32_t i = 0; (nan || *best == INFINITY) && i < n; i++)
        if (!(x[i] < INFINITY))
            return tt_fail(err, TT_ERR_NUMERIC, "logit of id %u is %g", i, (double)x[i]);
    if (*best == -INFINITY)
        return tt_fail(err, TT_ERR_NUMERIC, "no logit is finite: every id is masked");
    return TT_OK;
}

static float saturate(double v)
{
    return v > FLT_MAX ? FLT_MAX : v < -FLT_MAX ? -FLT_MAX : (float)v;
}

/* The row with penalties applied: `logits` itself when there is nothing to apply. */
static const float *penalise(tt_sampler *s, const float *logits)
{
    const tt_sampler_options *o = &s->o;
    if (s->n_touched == 0 ||
        (o->repetition_penalty == 1 && o->presence_penalty == 0 && o->frequency_penalty == 0))
        return logits;
    memcpy(s->work, logits, s->vocab * sizeof *logits);
    for (uint32_t i = 0; i < s->n_touched; i++) {
        uint32_t id = s->touched[i], n = s->seen[id].generated;
        double v = logits[id], r = o->repetition_penalty;
        if (isinf(v)) /* masked stays masked */
            continue;
        v = v > 0 ? v / r : v * r;
        v -= (double)n * o->frequency_penalty + (n > 0 ? o->presence_penalty : 0.0);
        s->work[id] = saturate(v);
    }
    return s->work;
}

static uint32_t first_equal(const float *x, float value)
{
    uint32_t i = 0;
    while (x[i] != value)
        i++;
    return i;
}

static bool better(const candidate *a, const candidate *b)
{
    return a->value > b->value || (a->value == b->value && a->id < b->id);
}

static void swap(candidate *a, candidate *b)
{
    candidate t = *a;
    *a = *b;
    *b = t;
}

/* Heap with the best, or the worst, candidate at the root. */
static inline void sift_down(candidate *c, size_t n, size_t i, bool best_on_top)
{
    for (;;) {
        size_t top = i, l = 2 * i + 1, r = l + 1;
        if (l < n && better(&c[l], &c[top]) == best_on_top)
            top = l;
        if (r < n && better(&c[r], &c[top]) == best_on_top)
            top = r;
        if (top == i)
            return;
        swap(&c[i], &c[top]);
        i = top;
    }
}

static void heapify(candidate *c, size_t n, bool best_on_top)
{
    for (size_t i = n / 2; i-- > 0;)
        sift_down(c, n, i, best_on_top);
}

/* Weights of n values relative to the best; masked ones weigh 0. */
static void weigh(double *out, const float *value, size_t n, float best, float temperature)
{
    double scale = 1 / (double)temperature;
    for (size_t i = 0; i < n; i++)
        out[i] = tt_exp_neg(((double)value[i] - (double)best) * scale);
}

/* The k best finite ids, in no order: a heap of the best so far with the worst on top, which most
 * ids do not pass. */
static size_t top_k(tt_sampler *s, const float *x, float best)
{
    candidate *c = s->c;
    size_t k = s->o.top_k, n = 0;
    for (uint32_t id = 0; id < s->vocab; id++) {
        candidate now = {.value = x[id], .id = id};
        if (n == k && !better(&now, &c[0]))
            continue;
        if (x[id] == -INFINITY)
            continue;
        if (n < k) {
            c[n++] = now;
            if (n == k)
                heapify(c, n, false);
            continue;
        }
        c[0] = now;
        sift_down(c, n, 0, false);
    }
    for (size_t i = 0; i < n; i++)
        weigh(&s->weight[c[i].id], &c[i].value, 1, best, s->o.temperature);
    return n;
}

/* Every finite id, by id. */
static size_t everything(tt_sampler *s, const float *x, float best)
{
    size_t n = 0;
    weigh(s->weight, x, s->vocab, best, s->o.temperature);
    for (uint32_t id = 0; id < s->vocab; id++) {
        s->c[n] = (candidate){.value = x[id], .id = id};
        n += x[id] != -INFINITY;
    }
    return n;
}

static double mass_of(const tt_sampler *s, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += s->weight[s->c[i].id];
    return sum;
}

static size_t drop_below(tt_sampler *s, size_t n, double least)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        candidate now = s->c[i];
        s->c[kept] = now;
        kept += s->weight[now.id] >= least;
    }
    return kept;
}

/* Takes the best candidates in order until their mass reaches `target`, and moves them to the
 * front. Only what is taken gets sorted. */
static size_t best_until(tt_sampler *s, size_t n, double target)
{
    candidate *c = s->c;
    double mass = 0;
    size_t left = n;
    heapify(c, n, true);
    while (left > 0 && mass < target) {
        mass += s->weight[c[0].id];
        swap(&c[0], &c[--left]);
        sift_down(c, left, 0, true);
    }
    /* They stand at the end, best last. */
    size_t taken = n - left;
    for (size_t i = 0; i < taken && i < n - 1 - i; i++)
        swap(&c[i], &c[n - 1 - i]);
    return taken;
}

/* Reduces the candidates to those that may be drawn. */
static size_t filter(tt_sampler *s, const float *x, float best)
{
    const tt_sampler_options *o = &s->o;
    bool limited = o->top_k > 0 && o->top_k < s->vocab;
    size_t n = limited ? top_k(s, x, best) : everything(s, x, best);
    double least = o->min_p, target = INFINITY; /* the best has weight 1 */
    if (o->top_p < 1) {
        double mass = mass_of(s, n);
        target = (double)o->top_p * mass;
        /* All ids below (1 - p) / n of the mass weigh less than 1 - p together, so the set that
         * reaches p has none of them: they need no sorting. The factor covers rounding. */
        double bound = (1 - (double)o->top_p) * mass / (double)n * 0.999;
        least = bound > least ? bound : least;
    }
    if (least > 0)
        n = drop_below(s, n, least);
    return limited || o->top_p < 1 ? best_until(s, n, target) : n;
}

static uint32_t draw(tt_sampler *s, size_t n)
{
    double at = tt_random_unit(&s->random) * mass_of(s, n), sum = 0;
    uint32_t last = s->c[0].id;
    for (size_t i = 0; i < n; i++) {
        double w = s->weight[s->c[i].id];
        if (w == 0)
            continue;
        last = s->c[i].id;
        sum += w;
        if (sum > at)
            break;
    }
    return last;
}

/* ---- masks ---- */

static uint64_t mask_word(const tt_sampler *s, const uint64_t *mask, uint32_t word)
{
    uint32_t left = s->vocab - 64 * word;
    return left < 64 ? mask[word] & (((uint64_t)1 << left) - 1) : mask[word];
}

/* Ids that the mask allows, counted up to 2; *id is the first. */
static uint32_t count_allowed(const tt_sampler *s, const uint64_t *mask, uint32_t *id)
{
    uint32_t n = 0;
    for (uint32_t w = 0; w < (s->vocab + 63) / 64 && n < 2; w++) {
        uint64_t bits = mask_word(s, mask, w);
        if (bits == 0)
            continue;
        if (n == 0)
            *id = 64 * w + (uint32_t)__builtin_ctzll(bits);
        n += (bits & (bits - 1)) == 0 ? 1 : 2;
    }
    return n;
}

/* The row with -Inf for every id that is not allowed. `x` may be s->work. */
static const float *keep_allowed(tt_sampler *s, const float *x, const uint64_t *mask)
{
    for (uint32_t w = 0; w < (s->vocab + 63) / 64; w++) {
        uint32_t begin = 64 * w, n = s->vocab - begin < 64 ? s->vocab - begin : 64;
        uint64_t bits = mask[w];
        for (uint32_t i = 0; i < n; i++)
            s->work[begin + i] = bits >> i & 1 ? x[begin + i] : -INFINITY;
    }
    return s->work;
}

/* ---- the door ---- */

static uint32_t choose(tt_sampler *s, const float *x, float best)
{
    return s->o.temperature == 0 ? first_equal(x, best) : draw(s, filter(s, x, best));
}

tt_status tt_sampler_sample(tt_sampler *s, const float *logits, uint32_t *id, tt_error *err)
{
    float best;
    bool nan;
    TT_TRY(check_row(logits, s->vocab, &best, err));
    const float *x = penalise(s, logits);
    if (x != logits)
        best = largest(x, s->vocab, &nan);
    *id = choose(s, x, best);
    return TT_OK;
}

tt_status tt_sampler_sample_masked(tt_sampler *s, const float *logits, const uint64_t *mask,
                                   uint32_t *id, tt_error *err)
{
    float best;
    bool nan;
    uint32_t only = 0;
    if (mask == NULL)
        return tt_sampler_sample(s, logits, id, err);
    uint32_t n = count_allowed(s, mask, &only);
    if (n == 0)
        return tt_fail(err, TT_ERR_INVALID, "the mask allows no id");
    if (n == 1) {
        *id = only;
        return TT_OK;
    }
    TT_TRY(check_row(logits, s->vocab, &best, err));
    const float *x = keep_allowed(s, penalise(s, logits), mask);
    best = largest(x, s->vocab, &nan);
    if (best == -INFINITY)
        return tt_fail(err, TT_ERR_NUMERIC, "no id that the mask allows has a finite logit");
    *id = choose(s, x, best);
    return TT_OK;
}
