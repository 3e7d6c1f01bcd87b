#include "bench/forced_ids.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "bench/synth.h"

#define MOST_JSON (64 * TT_MIB)

tt_status bench_ids_read(const char *file, uint32_t **out, size_t *n_out, tt_error *err)
{
    json_t *tree = NULL;
    uint32_t *ids = NULL;
    TT_TRY(tt_json_load(file, MOST_JSON, &tree, err));
    size_t n = json_array_size(tree);
    tt_status st = TT_OK;
    if (n == 0 || n > TT_MAX_CONTEXT)
        st = tt_fail_at(err, TT_ERR_FORMAT, file, -1, "must be a JSON list of 1 to %u token ids",
                        TT_MAX_CONTEXT);
    else if ((ids = calloc(n, sizeof *ids)) == NULL)
        st = tt_fail_at(err, TT_ERR_NOMEM, file, -1, "out of memory for %zu ids", n);
    for (size_t i = 0; i < n && st == TT_OK; i++) {
        const json_t *v = json_array_get(tree, i);
        json_int_t id = json_integer_value(v);
        if (!json_is_integer(v) || id < 0 || id >= TT_MAX_VOCAB)
            st = tt_fail_at(err, TT_ERR_FORMAT, file, -1, "entry %zu is not a token id", i);
        else
            ids[i] = (uint32_t)id;
    }
    json_decref(tree);
    if (st != TT_OK) {
        free(ids);
        return st;
    }
    *out = ids;
    *n_out = n;
    return TT_OK;
}

/* "chain:SEED" into its seed; of other words nothing is said. */
static tt_status chain_seed(const char *words, uint64_t *seed, tt_error *err)
{
    if (strncmp(words, "chain:", 6) != 0)
        return TT_OK;
    char *end = NULL;
    errno = 0;
    *seed = strtoull(words + 6, &end, 10);
    if (words[6] < '0' || words[6] > '9' || *end != '\0' || errno != 0)
        return tt_fail(err, TT_ERR_INVALID, "--forced-ids is \"%.100s\", the seed is no number",
                       words);
    return TT_OK;
}

tt_status bench_ids_check(const char *words, tt_error *err)
{
    uint64_t seed = 0;
    return words == NULL ? TT_OK : chain_seed(words, &seed, err);
}

static tt_status chain_ids(const char *words, const char *model, size_t need, uint32_t sequences,
                           uint32_t *ids, tt_error *err)
{
    tt_install *in = NULL;
    bench_locality *chain = NULL;
    uint64_t from = 0;
    TT_TRY(tt_install_open(model, TT_INSTALL_NO_HASH, NULL, NULL, &in, err));
    tt_status st = synth_chain_of(in, &chain, &from, err);
    tt_install_close(&in);
    TT_TRY(st);
    st = chain_seed(words, &from, err);
    for (uint32_t k = 0; st == TT_OK && k < sequences; k++) {
        bench_locality_restart(chain, from + k);
        for (size_t i = 0; i < need; i++)
            *ids++ = bench_locality_next(chain);
    }
    bench_locality_close(&chain);
    return st;
}

tt_status bench_ids_forced(const char *words, const char *model, size_t need, uint32_t **out,
                           tt_error *err)
{
    return bench_ids_of(words, model, need, 1, out, err);
}

tt_status bench_ids_of(const char *words, const char *model, size_t need, uint32_t sequences,
                       uint32_t **out, tt_error *err)
{
    bool chain = strcmp(words, "chain") == 0 || strncmp(words, "chain:", 6) == 0;
    uint32_t *ids = NULL;
    size_t n, all = need * sequences;
    if (!chain) {
        TT_TRY(bench_ids_read(words, &ids, &n, err));
        if (n < all) {
            free(ids);
            return tt_fail_at(err, TT_ERR_INVALID, words, -1, "%s has %zu ids, %zu are needed",
                              words, n, all);
        }
        *out = ids;
        return TT_OK;
    }
    ids = calloc(all > 0 ? all : 1, sizeof *ids);
    if (ids == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for %zu ids", all);
    tt_status st = chain_ids(words, model, need, sequences, ids, err);
    if (st != TT_OK) {
        free(ids);
        return st;
    }
    *out = ids;
    return TT_OK;
}
