#include "server/request_memory.h"

#include <jansson.h>
#include <malloc.h>
#include <stdlib.h>

static _Thread_local tt_request_memory *pool;
static _Thread_local uint64_t held;
static _Thread_local bool passed;

bool tt_request_memory_take(tt_request_memory *m, uint64_t n)
{
    uint64_t used = atomic_load(&m->used);
    do {
        if (n > m->most || used > m->most - n)
            return false;
    } while (!atomic_compare_exchange_weak(&m->used, &used, used + n));
    return true;
}

void tt_request_memory_give(tt_request_memory *m, uint64_t n)
{
    atomic_fetch_sub(&m->used, n);
}

static void *take(size_t n)
{
    void *p = malloc(n);
    if (pool == NULL || p == NULL)
        return p;
    uint64_t real = malloc_usable_size(p);
    if (!tt_request_memory_take(pool, real)) {
        passed = true;
        atomic_fetch_add(&pool->used, real);
    }
    held += real;
    return p;
}

static void give(void *p)
{
    if (pool != NULL && p != NULL) {
        uint64_t real = malloc_usable_size(p);
        /* It may have been taken before the count began. */
        real = real < held ? real : held;
        held -= real;
        tt_request_memory_give(pool, real);
    }
    free(p);
}

void tt_tree_memory_install(void)
{
    json_set_alloc_funcs(take, give);
}

void tt_tree_memory_begin(tt_request_memory *m)
{
    pool = m;
    held = 0;
    passed = false;
}

uint64_t tt_tree_memory_end(bool *full)
{
    pool = NULL;
    *full = passed;
    return held;
}

bool tt_tree_memory_full(void)
{
    return pool != NULL && passed;
}
