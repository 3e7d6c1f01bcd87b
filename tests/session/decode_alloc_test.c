/* Proves that a decode step, of one session and of several, and a prefill chunk allocate nothing:
 * every allocator call of the process is counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../support/tiny_model.h"
#include "../support/vectors.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTED 0
#else
#define COUNTED 1
#endif

static _Atomic bool armed;
static _Atomic unsigned calls;

#if COUNTED
static void count(void)
{
    if (atomic_load(&armed))
        atomic_fetch_add(&calls, 1);
}

/* These stand before libc's own for every caller in the process. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void *malloc(size_t n);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t n);
void *aligned_alloc(size_t align, size_t n);

void *malloc(size_t n)
{
    count();
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    count();
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    count();
    return __libc_realloc(p, n);
}

void *aligned_alloc(size_t align, size_t n)
{
    count();
    return __libc_memalign(align, n);
}

void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
    count();
    return (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, offset);
}
#endif

static void steps_allocate_nothing(void **state)
{
    if (!COUNTED) {
        print_message("skip: the sanitizer owns the allocator\n");
        skip();
    }
    for (unsigned kv = 32; kv >= 4; kv /= 2) {
        for (unsigned i = 0; tt_cpu_level_at(i) != NULL; i++) {
            tt_model *m = fixture_model(fixture_install("models/tales", NULL, 4),
                                        tt_cpu_level_at(i), kv, 6, 2);
            tt_session *s = fixture_session(m), *both[] = {s, fixture_session(m)};
            tt_error err = {0};
            uint32_t ids[100];
            for (uint32_t t = 0; t < 100; t++)
                ids[t] = t * 37 % 4000;
            assert_int_equal(tt_session_prefill(s, ids, 10, NULL, &err),
                             TT_OK); /* commits the first rows */
            assert_int_equal(tt_session_prefill(both[1], ids, 40, NULL, &err), TT_OK);
            atomic_store(&calls, 0);
            atomic_store(&armed, true);
            tt_status prefill = tt_session_prefill(s, ids, 100, NULL, &err), decode = TT_OK;
            for (uint32_t t = 0; t < 30 && decode == TT_OK; t++)
                decode = tt_session_decode(s, ids[t], &err);
            for (uint32_t t = 0; t < 30 && decode == TT_OK; t++)
                decode = tt_session_decode_all(both, ids + t, 2, &err);
            atomic_store(&armed, false);
            assert_int_equal(prefill, TT_OK);
            assert_int_equal(decode, TT_OK);
            assert_int_equal(atomic_load(&calls), 0);
            tt_session_close(&both[1]);
            tt_session_close(&s);
            tt_model_close(&m);
        }
    }
}

/* Streams, sparse attention beyond its budget, reads of the n-gram table. */
static void steps_of_qwen4_exp_allocate_nothing(void **state)
{
    if (!COUNTED) {
        print_message("skip: the sanitizer owns the allocator\n");
        skip();
    }
    tiny_options o = {.arch = tiny_arch_plain("Slf", 6, 2), .seed = 3, .mat = TT_DTYPE_Q4};
    tt_model *m = fixture_model(tiny_install_new(&o), NULL, 8, 3, 2);
    tt_session *s = fixture_session(m);
    tt_error err = {0};
    uint32_t ids[300];
    for (uint32_t t = 0; t < 300; t++)
        ids[t] = t * 37 % 96;
    assert_int_equal(tt_session_prefill(s, ids, 10, NULL, &err), TT_OK);
    atomic_store(&calls, 0);
    atomic_store(&armed, true);
    tt_status prefill = tt_session_prefill(s, ids, 300, NULL, &err), decode = TT_OK;
    for (uint32_t t = 0; t < 30 && decode == TT_OK; t++)
        decode = tt_session_decode(s, ids[t], &err);
    atomic_store(&armed, false);
    assert_int_equal(prefill, TT_OK);
    assert_int_equal(decode, TT_OK);
    assert_int_equal(atomic_load(&calls), 0);
    tt_session_close(&s);
    tt_model_close(&m);
    tiny_remove();
}

static void the_guard_counts(void **state)
{
    if (!COUNTED) {
        print_message("skip: the sanitizer owns the allocator\n");
        skip();
    }
    atomic_store(&calls, 0);
    atomic_store(&armed, true);
    void *volatile p = malloc(8);
    atomic_store(&armed, false);
    free(p);
    assert_true(atomic_load(&calls) > 0);
}

static int clean(void **state)
{
    fixture_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_guard_counts),
        cmocka_unit_test(steps_of_qwen4_exp_allocate_nothing),
        cmocka_unit_test(steps_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, clean);
}
