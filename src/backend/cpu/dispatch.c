/* Which levels this machine can run. The only place that asks cpuid; on machines other than x86-64
 * the reference is all there is. */
#include <stdio.h>

#include "backend/kernels.h"

typedef struct level {
    const char *name;
    bool (*present)(void);
    void (*fill)(tt_kernels *k);
} level;

static bool always(void)
{
    return true;
}

#if defined(__x86_64__)
#include <cpuid.h>

/* The compiler's helper looks at the operating system's side (XGETBV) too. F16C is not among the
 * names that every compiler knows: leaf 1, ECX bit 29. */
static bool has_avx2(void)
{
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __get_cpuid(1, &a, &b, &c, &d) && (c >> 29 & 1);
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#endif

static const level levels[] = {
    {"ref", always, tt_ref_fill},
#if defined(__x86_64__)
    {"avx2", has_avx2, tt_avx2_fill},
    {"avx512", has_avx512, tt_avx512_fill},
#endif
};

#define N_LEVELS (sizeof levels / sizeof levels[0])

/* Levels form a chain: one that is missing ends it. */
static unsigned levels_here(void)
{
    unsigned n = 1;
    while (n < N_LEVELS && levels[n].present())
        n++;
    return n;
}

const char *tt_cpu_level_at(unsigned i)
{
    return i < levels_here() ? levels[i].name : NULL;
}

static void list_levels(char *out, size_t size, unsigned n)
{
    size_t len = 0;
    for (unsigned i = 0; i < n && len < size; i++)
        len += (size_t)snprintf(out + len, size - len, "%s%s", i > 0 ? ", " : "", levels[i].name);
}

tt_status tt_cpu_kernels(const char *name, tt_kernels *k, tt_error *err)
{
    unsigned here = levels_here(), want = here - 1;
    if (name != NULL && strcmp(name, "auto") != 0) {
        for (want = 0; want < N_LEVELS && strcmp(levels[want].name, name) != 0; want++)
            ;
        if (want >= here) {
            char list[64];
            list_levels(list, sizeof list, here);
            return tt_fail(err, TT_ERR_UNSUPPORTED,
                           want < N_LEVELS
                               ? "CPU level '%s' is not available on this machine, which has: %s"
                               : "no CPU level '%s'; this machine has: %s",
                           name, list);
        }
    }
    for (unsigned i = 0; i <= want; i++)
        levels[i].fill(k);
    k->level = levels[want].name;
    return TT_OK;
}
