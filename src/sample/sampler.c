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
 * Rows come with the largest value of every block. Greedy choice and top-k enter a block only when
 * that is above the worst of what they have: ids ascend, so what they enter and in which order does
 * not change what they find. Options that weigh every id walk the whole row.
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
#include "sample/sampler.h"

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
    float *work;    /* [vocab] logits after penalties: of ids that have a history, or of all */
    float *top;     /* block maxima */
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
        s->top = malloc(tt_block_count(vocab) * sizeof *s->top);
        s->weight = malloc(vocab * sizeof *s->weight);
        s->c = malloc(vocab * sizeof *s->c);
    }
    if (s == NULL || s->seen == NULL || s->touched == NULL || s->work == NULL || s->top == NULL ||
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
    free(s->top);
    free(s->weight);
    free(s->c);
    free(s);
    *sp = NULL;
}

uint32_t tt_sampler_vocab(const tt_sampler *s)
{
    return s->vocab;
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

/* A row of logits. */
typedef struct logit_row {
    const float *x;
    const float *top; /* of every block: nothing in it, penalties applied, is above */
    bool penalised;   /* what ids with a history are worth stands in `work` */
} logit_row;

static tt_status check_row(const logit_row *r, uint32_t n, tt_error *err)
{
    float best = tt_largest(r->top, tt_block_count(n));
    for (uint32_t i = 0; !(best < INFINITY) && i < n; i++)
        if (!(r->x[i] < INFINITY))
            return tt_fail(err, TT_ERR_NUMERIC, "logit of id %u is %g", i, (double)r->x[i]);
    if (best == -INFINITY)
        return tt_fail(err, TT_ERR_NUMERIC, "no logit is finite: every id is masked");
    return TT_OK;
}

static float saturate(double v)
{
    return v > FLT_MAX ? FLT_MAX : v < -FLT_MAX ? -FLT_MAX : (float)v;
}

static bool penalties(const tt_sampler *s)
{
    const tt_sampler_options *o = &s->o;
    return s->n_touched > 0 &&
           (o->repetition_penalty != 1 || o->presence_penalty != 0 || o->frequency_penalty != 0);
}

/* Puts the ids that have a history into `work` with their penalties applied. */
static void penalise(tt_sampler *s, const float *logits)
{
    const tt_sampler_options *o = &s->o;
    for (uint32_t i = 0; i < s->n_touched; i++) {
        uint32_t id = s->touched[i], n = s->seen[id].generated;
        double v = logits[id], r = o->repetition_penalty;
        s->work[id] = logits[id];
        if (isinf(v)) /* masked stays masked */
            continue;
        v = v > 0 ? v / r : v * r;
        v -= (double)n * o->frequency_penalty + (n > 0 ? o->presence_penalty : 0.0);
        s->work[id] = saturate(v);
    }
}

/* Maxima that hold for penalised values too: those that rose lift the maximum of their block; where
 * one fell it may be too high, which costs a look. */
static void lift_maxima(tt_sampler *s, logit_row *r)
{
    if (r->top != s->top)
        memcpy(s->top, r->top, tt_block_count(s->vocab) * sizeof *s->top);
    for (uint32_t i = 0; i < s->n_touched; i++) {
        uint32_t id = s->touched[i];
        float *top = &s->top[id / TT_BLOCK_MAX];
        *top = s->work[id] > *top ? s->work[id] : *top;
    }
    r->top = s->top;
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

/* Takes the ids of a block into the heap of the k best: the worst is on top, and most ids do not
 * pass it. Of equals the earlier is better, and ids come ascending. */
static size_t take_block(tt_sampler *s, const logit_row *r, uint32_t block, size_t n, size_t k)
{
    candidate *c = s->c;
    uint32_t id = block * TT_BLOCK_MAX;
    uint32_t end = s->vocab - id < TT_BLOCK_MAX ? s->vocab : id + TT_BLOCK_MAX;
    for (; id < end; id++) {
        float v = r->penalised && s->seen[id].seen ? s->work[id] : r->x[id];
        if (n == k && !(v > c[0].value))
            continue;
        if (v == -INFINITY)
            continue;
        if (n < k) {
            c[n++] = (candidate){.value = v, .id = id};
            if (n == k)
                heapify(c, n, false);
            continue;
        }
        c[0] = (candidate){.value = v, .id = id};
        sift_down(c, n, 0, false);
    }
    return n;
}

/* The k best finite ids, in no order. */
static size_t best_ids(tt_sampler *s, logit_row *r, size_t k)
{
    size_t n = 0;
    if (r->penalised) {
        penalise(s, r->x);
        lift_maxima(s, r);
    }
    for (uint32_t b = 0; b < tt_block_count(s->vocab); b++)
        if (n < k || r->top[b] > s->c[0].value)
            n = take_block(s, r, b, n, k);
    return n;
}

static size_t top_k(tt_sampler *s, logit_row *r)
{
    candidate *c = s->c;
    size_t n = best_ids(s, r, s->o.top_k);
    float best = c[0].value;
    for (size_t i = 1; i < n; i++)
        best = c[i].value > best ? c[i].value : best;
    for (size_t i = 0; i < n; i++)
        weigh(&s->weight[c[i].id], &c[i].value, 1, best, s->o.temperature);
    return n;
}

/* Every finite id, by id. */
static size_t everything(tt_sampler *s, const logit_row *r)
{
    const float *x = r->x;
    float best;
    size_t n = 0;
    if (r->penalised) {
        if (r->x != s->work)
            memcpy(s->work, r->x, s->vocab * sizeof *s->work);
        penalise(s, r->x);
        x = s->work;
        best = tt_largest(x, s->vocab);
    } else {
        best = tt_largest(r->top, tt_block_count(s->vocab));
    }
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
static size_t filter(tt_sampler *s, logit_row *r)
{
    const tt_sampler_options *o = &s->o;
    bool limited = o->top_k > 0 && o->top_k < s->vocab;
    size_t n = limited ? top_k(s, r) : everything(s, r);
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

/* The row with -Inf for every id that is not allowed, into `work`. */
static void keep_allowed(tt_sampler *s, const float *x, const uint64_t *mask)
{
    for (uint32_t w = 0; w < (s->vocab + 63) / 64; w++) {
        uint32_t begin = 64 * w, n = s->vocab - begin < 64 ? s->vocab - begin : 64;
        uint64_t bits = mask[w];
        for (uint32_t i = 0; i < n; i++)
            s->work[begin + i] = bits >> i & 1 ? x[begin + i] : -INFINITY;
    }
}

/* ---- the door ---- */

/* `r` has been checked. */
static uint32_t choose(tt_sampler *s, logit_row *r)
{
    if (s->o.temperature > 0)
        return draw(s, filter(s, r));
    (void)best_ids(s, r, 1);
    return s->c[0].id;
}

tt_status tt_sampler_choose(tt_sampler *s, const float *logits, const float *top, uint32_t *id,
                            tt_error *err)
{
    logit_row r = {.x = logits, .top = top, .penalised = penalties(s)};
    TT_TRY(check_row(&r, s->vocab, err));
    *id = choose(s, &r);
    return TT_OK;
}

tt_status tt_sampler_sample_masked(tt_sampler *s, const float *logits, const uint64_t *mask,
                                   uint32_t *id, tt_error *err)
{
    logit_row r = {.x = logits, .top = s->top};
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
    tt_block_max(s->top, logits, s->vocab);
    TT_TRY(check_row(&r, s->vocab, err));
    keep_allowed(s, logits, mask);
    tt_block_max(s->top, s->work, s->vocab);
    if (tt_largest(s->top, tt_block_count(s->vocab)) == -INFINITY)
        return tt_fail(err, TT_ERR_NUMERIC, "no id that the mask allows has a finite logit");
    r = (logit_row){.x = s->work, .top = s->top, .penalised = penalties(s)};
    *id = choose(s, &r);
    return TT_OK;
}

tt_status tt_sampler_sample(tt_sampler *s, const float *logits, uint32_t *id, tt_error *err)
{
    tt_block_max(s->top, logits, s->vocab);
    return tt_sampler_choose(s, logits, s->top, id, err);
}
