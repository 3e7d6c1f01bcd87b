#include "io/cache_policy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"lfu-decay", "lfu", "lru", "belady"};

double tt_cache_half_life(uint32_t slots, uint32_t n_layers, uint32_t top_k)
{
    double tokens = (double)slots / n_layers / top_k, h = tokens * tokens / 2;
    if (tokens < 1.0)
        return TT_CACHE_LONG_HALF_LIFE;
    return h > 0.5 ? h : 0.5;
}

uint64_t tt_cache_policy_cost(uint32_t n_keys)
{
    return (uint64_t)n_keys * (sizeof(double) + sizeof(uint64_t));
}

tt_status tt_cache_policy_init(tt_cache_policy *p, tt_cache_policy_kind kind, uint32_t n_keys,
                               double half_life, tt_error *err)
{
    if (tt_cache_policy_name(kind) == NULL)
        return tt_fail(err, TT_ERR_INVALID, "cache policy %d is not known", (int)kind);
    if (!(half_life >= 0.0 && half_life <= 1e9))
        return tt_fail(err, TT_ERR_INVALID,
                       "a half-life of %g tokens, must be up to 1e9 (0: the default)", half_life);
    tt_cache_policy q = {.kind = kind,
                         .n_keys = n_keys,
                         .half_life = half_life > 0.0 ? half_life : TT_CACHE_LONG_HALF_LIFE,
                         .score = calloc(n_keys > 0 ? n_keys : 1, sizeof(double)),
                         .last = calloc(n_keys > 0 ? n_keys : 1, sizeof(uint64_t))};
    if (q.score == NULL || q.last == NULL) {
        tt_cache_policy_free(&q);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the scores of %u experts", n_keys);
    }
    for (uint32_t k = 0; k < n_keys; k++)
        q.score[k] = -(double)INFINITY;
    *p = q;
    return TT_OK;
}

void tt_cache_policy_free(tt_cache_policy *p)
{
    free(p->score);
    free(p->last);
    *p = (tt_cache_policy){0};
}

void tt_cache_policy_advance(tt_cache_policy *p, double tokens)
{
    p->clock += tokens;
}

void tt_cache_policy_touch(tt_cache_policy *p, uint32_t key, double weight)
{
    double now = p->clock / p->half_life, *score = &p->score[key];
    p->last[key] = ++p->touches;
    switch (p->kind) {
    case TT_CACHE_LFU_DECAY:
        /* exp2(-inf) is 0: the first use of an expert. */
        *score = log2(exp2(*score - now) + weight) + now;
        break;
    case TT_CACHE_LFU:
        *score = (isinf(*score) ? 0.0 : *score) + weight;
        break;
    case TT_CACHE_LRU:
        *score = (double)p->touches;
        break;
    case TT_CACHE_BELADY:
        *score = -weight;
        break;
    }
}

bool tt_cache_policy_before(const tt_cache_policy *p, uint32_t a, uint32_t b)
{
    if (p->score[a] != p->score[b])
        return p->score[a] < p->score[b];
    return p->last[a] < p->last[b];
}

bool tt_cache_policy_admits(const tt_cache_policy *p, uint32_t newcomer, uint32_t resident)
{
    return p->score[newcomer] > p->score[resident];
}

/* A use a token, kept up, adds up to F = half_life / ln 2. */
static double log2_steady(const tt_cache_policy *p)
{
    return log2(p->half_life / log(2.0));
}

double tt_cache_policy_heat(const tt_cache_policy *p, uint32_t key)
{
    return p->score[key] - p->clock / p->half_life - log2_steady(p);
}

void tt_cache_policy_set_heat(tt_cache_policy *p, uint32_t key, double heat)
{
    p->score[key] = heat + log2_steady(p) + p->clock / p->half_life;
}

void tt_cache_policy_set_half_life(tt_cache_policy *p, double half_life)
{
    tt_cache_policy q = *p;
    q.half_life = half_life;
    for (uint32_t k = 0; p->kind == TT_CACHE_LFU_DECAY && k < p->n_keys; k++)
        tt_cache_policy_set_heat(&q, k, tt_cache_policy_heat(p, k));
    p->half_life = half_life;
}

const char *tt_cache_policy_name(tt_cache_policy_kind kind)
{
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : NULL;
}

bool tt_cache_policy_parse(const char *name, tt_cache_policy_kind *kind)
{
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            *kind = (tt_cache_policy_kind)i;
            return true;
        }
    }
    return false;
}
