#include "backend/backend.h"

#include <stdlib.h>
#include <string.h>

#include "backend/kernels.h"
#include "base/mem.h"

uint64_t tt_backend_cost(unsigned threads, const tt_backend_limits *limits)
{
    return (uint64_t)threads * tt_scratch_bytes(limits) + TT_DOT_BYTES;
}

static tt_status check_limits(const tt_backend_limits *lim, tt_error *err)
{
    const tt_delta_shape *d = &lim->delta;
    if (lim->head_dim > TT_MAX_HEAD_DIM || d->key_dim > TT_MAX_HEAD_DIM ||
        d->value_dim > TT_MAX_HEAD_DIM)
        return tt_fail(err, TT_ERR_UNSUPPORTED,
                       "head dimensions %u, %u, %u: at most %u is supported", lim->head_dim,
                       d->key_dim, d->value_dim, TT_MAX_HEAD_DIM);
    if (d->value_heads > 0 && (d->key_heads == 0 || d->value_heads % d->key_heads != 0 ||
                               d->key_dim == 0 || d->value_dim == 0))
        return tt_fail(err, TT_ERR_INVALID,
                       "%u value heads of %u do not divide into %u key heads of %u", d->value_heads,
                       d->value_dim, d->key_heads, d->key_dim);
    return TT_OK;
}

/* "ref" is the reference whatever the machine has; any other level of it makes no sense. */
static tt_status choose_kernels(const char *name, const char *level, tt_kernels *k, tt_error *err)
{
    if (strcmp(name, "cpu") == 0)
        return tt_cpu_kernels(level, k, err);
    if (strcmp(name, "ref") != 0)
        return tt_fail(err, TT_ERR_UNSUPPORTED, "no backend '%s'; there are: cpu, ref", name);
    if (level != NULL && strcmp(level, "auto") != 0 && strcmp(level, "ref") != 0)
        return tt_fail(err, TT_ERR_UNSUPPORTED,
                       "backend 'ref' has no level '%s'; levels belong to backend 'cpu'", level);
    tt_ref_fill(k);
    return TT_OK;
}

tt_status tt_backend_create(const char *name, const char *level, unsigned threads,
                            const tt_backend_limits *limits, tt_backend **out, tt_error *err)
{
    tt_kernels k;
    TT_TRY(check_limits(limits, err));
    TT_TRY(choose_kernels(name, level, &k, err));
    tt_backend *be = calloc(1, sizeof *be);
    tt_cpu_impl *impl = calloc(1, sizeof *impl);
    if (be == NULL || impl == NULL) {
        free(be);
        free(impl);
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the backend");
    }
    be->ops = &tt_cpu_ops;
    be->impl = impl;
    be->name = strcmp(name, "ref") == 0 ? "ref" : "cpu";
    impl->k = k;
    be->level = k.level;
    impl->threads = threads;
    impl->scratch_bytes = tt_scratch_bytes(limits);
    tt_status st;
    TT_GOTO(tt_pool_create(threads, &be->pool, err), done);
    impl->total_bytes = threads * impl->scratch_bytes + TT_DOT_BYTES;
    TT_GOTO(tt_mem_alloc(impl->total_bytes, "kernel scratch", (void **)&impl->scratch, err), done);
    impl->xq = (int32_t *)(void *)(impl->scratch + threads * impl->scratch_bytes);
    *out = be;
    return TT_OK;
done:
    tt_backend_close(&be);
    return st;
}

void tt_backend_close(tt_backend **backend)
{
    if (backend == NULL || *backend == NULL)
        return;
    tt_backend *be = *backend;
    tt_cpu_impl *impl = be->impl;
    tt_pool_close(&be->pool);
    tt_mem_free(impl->scratch, impl->total_bytes);
    free(impl);
    free(be);
    *backend = NULL;
}
