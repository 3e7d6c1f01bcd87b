#include "repack/source_name.h"

#include <string.h>

#include "repack/tensor_plan.h"

static const char *after(const char *s, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(s, prefix, n) == 0 ? s + n : NULL;
}

bool tt_source_is_vision(const char *name)
{
    static const char *const prefixes[] = {"model.visual.",       "visual.",
                                           "vision_tower.",       "model.vision_tower.",
                                           "vision_model.",       "multi_modal_projector.",
                                           "model.vision_model.", "model.multi_modal_projector."};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (after(name, prefixes[i]) != NULL)
            return true;
    return false;
}

const char *tt_source_canonical(const char *name)
{
    static const char *const body[] = {"model.language_model.", "language_model.model.", "model."};
    static const char *const rooted[] = {"", "language_model."};
    for (size_t i = 0; i < sizeof rooted / sizeof *rooted; i++) {
        const char *rest = after(name, rooted[i]);
        if (rest != NULL && (after(rest, "lm_head.") != NULL || after(rest, "mtp.") != NULL))
            return rest;
    }
    for (size_t i = 0; i < sizeof body / sizeof *body; i++) {
        const char *rest = after(name, body[i]);
        /* "model.mtp.…" or "model.lm_head.…" is nobody's spelling: do not let a prefix make one. */
        if (rest != NULL)
            return after(rest, "mtp.") == NULL && after(rest, "lm_head.") == NULL ? rest : NULL;
    }
    return NULL;
}

/* Decimal without leading zeros, below 2^31, then a dot. */
static const char *number(const char *s, uint32_t *out)
{
    uint64_t v = 0;
    size_t n = strspn(s, "0123456789");
    if (n < 1 || n > 9 || (n > 1 && s[0] == '0') || s[n] != '.')
        return NULL;
    for (size_t i = 0; i < n; i++)
        v = 10 * v + (uint64_t)(s[i] - '0');
    *out = (uint32_t)v;
    return s + n + 1;
}

int64_t tt_source_layer(const char *canonical)
{
    uint32_t n = 0;
    const char *s = after(canonical, "layers.");
    return s != NULL && number(s, &n) != NULL ? (int64_t)n : -1;
}

/* What follows "layers.<n>.ple.ple_embedding.ngram_embedding." */
static const char *in_ngram_table(const char *canonical, uint32_t *layer)
{
    const char *s = after(canonical, "layers.");
    s = s != NULL ? number(s, layer) : NULL;
    return s != NULL ? after(s, "ple.ple_embedding.ngram_embedding.") : NULL;
}

bool tt_source_ngram_shard(const char *canonical, uint32_t *layer, uint32_t *shard)
{
    const char *s = in_ngram_table(canonical, layer), *rest;
    *shard = 0;
    if (s != NULL && (rest = after(s, "shard_")) != NULL)
        s = number(rest, shard);
    return s != NULL && strcmp(s, "weight") == 0;
}

bool tt_source_ngram_scale(const char *canonical)
{
    uint32_t layer = 0;
    const char *s = in_ngram_table(canonical, &layer);
    return s != NULL && strcmp(s, "weight_scale") == 0;
}

static bool mat_name(const char *s, unsigned *mat)
{
    static const char *const names[TT_MATS] = {"gate_proj.weight", "up_proj.weight",
                                               "down_proj.weight"};
    for (unsigned i = 0; i < TT_MATS; i++) {
        if (strcmp(s, names[i]) == 0) {
            *mat = i;
            return true;
        }
    }
    return false;
}

bool tt_source_expert(const char *canonical, tt_expert_name *out)
{
    tt_expert_name n = {0};
    const char *s = after(canonical, "mtp."), *rest;
    n.mtp = s != NULL;
    s = after(n.mtp ? s : canonical, "layers.");
    if (s == NULL || (s = number(s, &n.layer)) == NULL)
        return false;
    if ((rest = after(s, "mlp.switch_mlp.")) != NULL) {
        n.form = TT_EXPERT_STACKED;
        if (!mat_name(rest, &n.mat))
            return false;
    } else if ((rest = after(s, "mlp.experts.")) != NULL) {
        if (strcmp(rest, "gate_up_proj") == 0) {
            n.form = TT_EXPERT_FUSED_GATE_UP;
        } else if (strcmp(rest, "down_proj") == 0) {
            n.form = TT_EXPERT_FUSED_DOWN;
        } else {
            n.form = TT_EXPERT_SINGLE;
            rest = number(rest, &n.expert);
            if (rest == NULL || !mat_name(rest, &n.mat))
                return false;
        }
    } else {
        return false;
    }
    *out = n;
    return true;
}
