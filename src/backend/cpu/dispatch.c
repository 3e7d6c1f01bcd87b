/* Which levels this machine can run. The only place that asks the processor (x86-64) or the kernel
 * (AArch64); on other machines the reference is all there is. */
#include <stdio.h>

#include "backend/kernels.h"

typedef struct level {
    const char *name;
    const char *base; /* the level that it fills over */
    bool (*present)(void);
    void (*fill)(tt_kernels *k);
} level;

static bool always(void)
{
    return true;
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The compiler's helper looks at the operating system's side (XGETBV) too. F16C is not among the
 * names that every compiler knows: leaf 1, ECX bit 29. */
static bool has_avx2(void)
{
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __get_cpuid(1, &a, &b, &c, &d) && (c >> 29 & 1);
}

/* Leaf 7, part 1, EAX bit 4. */
static bool has_avxvnni(void)
{
    unsigned a, b, c, d;
    return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

static bool has_avx512vnni(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512vnni");
}

/* Leaf 7, EDX bits 24 (tiles) and 25 (products of bytes). Linux gives a process its tiles only when
 * it asks (arch_prctl, ARCH_REQ_XCOMP_PERM for state 18). */
static bool has_amx(void)
{
    unsigned a, b, c, d;
    return has_avx512vnni() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 24 & 3) == 3 &&
           syscall(SYS_arch_prctl, 0x1023, 18) == 0;
}
#elif defined(__aarch64__)
#include <sys/auxv.h>

#define CAP_ASIMDDP (1ul << 20) /* HWCAP_ASIMDDP, which older headers lack */

static bool has_dotprod(void)
{
    return (getauxval(AT_HWCAP) & CAP_ASIMDDP) != 0;
}
#endif

/* Slower ones first: the last one that is present is the best one. */
static const level levels[] = {
    {"ref", NULL, always, tt_ref_fill},
#if defined(__x86_64__)
    {"avx2", "ref", has_avx2, tt_avx2_fill},
    {"avxvnni", "avx2", has_avxvnni, tt_avxvnni_fill},
    {"avx512", "avx2", has_avx512, tt_avx512_fill},
    {"avx512vnni", "avx512", has_avx512vnni, tt_avx512vnni_fill},
    {"amx", "avx512vnni", has_amx, tt_amx_fill},
#elif defined(__aarch64__)
    {"neon", "ref", always, tt_neon_fill},
    {"neon+dotprod", "neon", has_dotprod, tt_neon_dotprod_fill},
#endif
};

#define N_LEVELS (sizeof levels / sizeof levels[0])

const char *tt_cpu_level_at(unsigned i)
{
    for (unsigned n = 0; n < N_LEVELS; n++)
        if (levels[n].present() && i-- == 0)
            return levels[n].name;
    return NULL;
}

const char *tt_cpu_level_known(unsigned i)
{
    return i < N_LEVELS ? levels[i].name : NULL;
}

static const level *find(const char *name)
{
    for (unsigned n = 0; n < N_LEVELS; n++)
        if (strcmp(levels[n].name, name) == 0)
            return &levels[n];
    return NULL;
}

static const level *best(void)
{
    const level *l = &levels[N_LEVELS - 1];
    while (!l->present())
        l--;
    return l;
}

static void fill(const level *l, tt_kernels *k)
{
    if (l->base != NULL)
        fill(find(l->base), k);
    l->fill(k);
}

static void list_levels(char *out, size_t size)
{
    size_t len = 0;
    const char *name;
    for (unsigned i = 0; (name = tt_cpu_level_at(i)) != NULL && len < size; i++)
        len += (size_t)snprintf(out + len, size - len, "%s%s", i > 0 ? ", " : "", name);
}

tt_status tt_cpu_kernels(const char *name, tt_kernels *k, tt_error *err)
{
    bool automatic = name == NULL || strcmp(name, "auto") == 0;
    const level *l = automatic ? best() : find(name);
    if (l == NULL || !l->present()) {
        char list[128];
        list_levels(list, sizeof list);
        return tt_fail(err, TT_ERR_UNSUPPORTED,
                       l != NULL ? "CPU level '%s' is not available on this machine, which has: %s"
                                 : "no CPU level '%s'; this machine has: %s",
                       name, list);
    }
    fill(l, k);
    k->level = l->name;
    return TT_OK;
}
