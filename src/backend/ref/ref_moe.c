/* The router's choice and the shared expert's share, by definition (model-math 3.7). */
#include "backend/ref/ref_math.h"

/* Higher logit first, then lower index; NaN comes after every number, so that ids stay distinct. */
static bool comes_before(float a, uint32_t ia, float b, uint32_t ib)
{
    if (isnan(a) || isnan(b))
        return isnan(a) == isnan(b) ? ia < ib : isnan(b);
    return a > b || (a == b && ia < ib);
}

void tt_ref_route(uint32_t *ids, float *weights, const float *logits, uint32_t E, uint32_t K)
{
    uint32_t n = 0;
    for (uint32_t e = 0; e < E; e++) {
        if (n == K && !comes_before(logits[e], e, logits[ids[K - 1]], ids[K - 1]))
            continue;
        uint32_t at = n < K ? n++ : K - 1;
        for (; at > 0 && comes_before(logits[e], e, logits[ids[at - 1]], ids[at - 1]); at--)
            ids[at] = ids[at - 1];
        ids[at] = e;
    }
    double total = 0;
    for (uint32_t i = 0; i < K; i++)
        total += exp((double)logits[ids[i]] - logits[ids[0]]);
    for (uint32_t i = 0; i < K; i++)
        weights[i] = (float)(exp((double)logits[ids[i]] - logits[ids[0]]) / total);
}

void tt_ref_moe_add(float *h, const float *acc, const float *shared, float sg, uint32_t H)
{
    float share = (float)ref_sigmoid(sg);
    for (uint32_t i = 0; i < H; i++)
        h[i] += acc[i] + share * shared[i];
}
