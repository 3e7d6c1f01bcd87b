/* Proves the promise of memory: a process that opens a model, fills its context and decodes to the
 * end never has more resident than the plan said, over widths, contexts, slots, KV bits, chunks and
 * threads; and the plan is not far above it either. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/approx.h"
#include "../support/tempdir.h"
#include "../support/tiny_model.h"
#include "base/machine.h"
#include "repack/repack.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEASURED 0
#else
#define MEASURED 1
#endif

static char dir[512];

/* ---- the process that is measured: this program again, so that nothing else is in it ---- */

typedef struct config {
    const char *install;
    unsigned context, slots, kv_bits, chunk, threads, sessions;
    uint64_t budget;
    unsigned tokens; /* of the context that are filled; 0: all */
} config;

static int give_up(const char *what, const tt_error *err)
{
    printf("failed %s: %s %s\n", what, err->file, err->message);
    return 1;
}

static int take(tt_session *s, const uint32_t *ids, uint32_t n, tt_error *err)
{
    if (tt_session_sync(s, ids, n - n / 16, NULL, NULL, err) != TT_OK)
        return give_up("prefill", err);
    for (uint32_t i = n - n / 16; i < n; i++)
        if (tt_session_decode(s, ids[i], err) != TT_OK)
            return give_up("decode", err);
    return 0;
}

static int fill(tt_model *m, unsigned tokens, tt_error *err)
{
    uint32_t vocab = m->arch.vocab_size, n = tokens > 0 ? tokens : m->plan.max_context;
    uint32_t *ids = malloc(n * sizeof *ids);
    tt_rng r = {1};
    tt_session *s = NULL;
    int rc;
    for (uint32_t i = 0; ids != NULL && i < n; i++)
        ids[i] = tt_rng_below(&r, vocab);
    if (ids == NULL || tt_session_create(m, &s, err) != TT_OK)
        rc = give_up("session", err);
    else
        rc = take(s, ids, n, err);
    free(ids);
    tt_session_close(&s);
    return rc;
}

static int child(char **v)
{
    tt_model_options o;
    tt_model *m = NULL;
    tt_tokenizer *tok = NULL;
    tt_error err = {0};
    tt_model_options_default(&o);
    o.max_context = (uint32_t)atoi(v[3]);
    o.expert_slots = (uint32_t)atoi(v[4]);
    o.kv_bits = (uint32_t)atoi(v[5]);
    o.prefill_chunk = (uint32_t)atoi(v[6]);
    o.threads = (uint32_t)atoi(v[7]);
    o.ram_budget = strtoull(v[8], NULL, 10);
    if (tt_model_open(v[2], &o, NULL, NULL, &m, &err) != TT_OK)
        return give_up("open", &err);
    /* what every program has beside the model */
    tt_status st = tt_tokenizer_open(v[2], &tok, &err);
    if (st != TT_OK && st != TT_ERR_NOT_FOUND)
        return give_up("tokenizer", &err);
    if (fill(m, (unsigned)atoi(v[9]), &err) != 0)
        return 1;
    const tt_plan *p = tt_model_get_plan(m);
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
           " %" PRIu64 " %u %u\n",
           tt_machine_peak_rss(), p->total, p->weights, p->expert_slots, p->kv, p->state,
           p->scratch, p->fixed, p->slots_per_layer, p->prefill_chunk);
    tt_tokenizer_close(&tok);
    tt_model_close(&m);
    return 0;
}

/* ---- measuring ---- */

typedef struct measured {
    uint64_t peak, total, weights, slots, kv, state, scratch, fixed;
    unsigned slots_per_layer, chunk;
} measured;

/* Runs this program as a child; its output in `text`. */
static int run_child(char *const *argv, char *text, size_t size)
{
    int fd[2], status = 0;
    size_t len = 0;
    ssize_t n;
    assert_int_equal(pipe(fd), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(fd[1], 1);
        close(fd[0]);
        close(fd[1]);
        execv("/proc/self/exe", argv);
        _exit(127);
    }
    close(fd[1]);
    while (len + 1 < size && (n = read(fd[0], text + len, size - 1 - len)) > 0)
        len += (size_t)n;
    text[len] = '\0';
    close(fd[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Then /proc/self/exe is no program of this machine either. */
static bool emulated(void)
{
    return getenv("EMULATED") != NULL;
}

static measured measure(const config *c)
{
    char num[7][32], text[2048] = "";
    unsigned values[] = {c->context, c->slots, c->kv_bits, c->chunk, c->threads};
    for (int i = 0; i < 5; i++)
        snprintf(num[i], sizeof num[i], "%u", values[i]);
    snprintf(num[5], sizeof num[5], "%" PRIu64, c->budget);
    snprintf(num[6], sizeof num[6], "%u", c->tokens);
    char *argv[] = {"plan_rss_test", "--child", (char *)(uintptr_t)c->install,
                    num[0],          num[1],    num[2],
                    num[3],          num[4],    num[5],
                    num[6],          NULL};
    measured m = {0};
    int rc = run_child(argv, text, sizeof text);
    if (rc != 0 || sscanf(text,
                          "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                          " %" SCNu64 " %" SCNu64 " %u %u",
                          &m.peak, &m.total, &m.weights, &m.slots, &m.kv, &m.state, &m.scratch,
                          &m.fixed, &m.slots_per_layer, &m.chunk) != 10)
        fail_msg("the measured process ended with %d: %s", rc, text);
    return m;
}

#define MB(x) ((double)(x) / (double)TT_MIB)

static void promise(const config *c)
{
    measured m = measure(c);
    const char *base = strrchr(c->install, '/');
    print_message(
        "  %-14s context %5u, slots %2u, kv %2u, chunk %3u, threads %u: peak %6.1f of %6.1f "
        "(weights %.1f slots %.1f kv %.1f state %.1f scratch %.1f program %.1f)\n",
        base + 1, c->context, m.slots_per_layer, c->kv_bits, m.chunk, c->threads, MB(m.peak),
        MB(m.total), MB(m.weights), MB(m.slots), MB(m.kv), MB(m.state), MB(m.scratch), MB(m.fixed));
    if (m.peak > m.total)
        fail_msg("%" PRIu64 " bytes were resident, the plan said %" PRIu64, m.peak, m.total);
    if (c->budget > 0)
        assert_true(m.total <= c->budget);
    if (c->tokens == 0 && m.total > m.peak + m.peak / 4 + 16 * TT_MIB)
        fail_msg("the plan says %" PRIu64 " bytes, only %" PRIu64 " were resident", m.total,
                 m.peak);
}

/* ---- the shipped model ---- */

static void tales(unsigned bits, char out[700])
{
    snprintf(out, 700, "%s/tales-%u", dir, bits);
    if (access(out, F_OK) == 0)
        return;
    tt_repack_options o = {.input = "models/tales", .output = out, .policy.build_bits = bits};
    tt_error err = {0};
    if (tt_repack_run(&o, NULL, NULL, &err) != TT_OK)
        fail_msg("converting: %s: %s", err.file, err.message);
}

static void the_shipped_model(void **state)
{
    static const struct {
        unsigned bits;
        config c;
    } all[] = {
        {4, {.context = 8192, .slots = 4, .kv_bits = 8, .threads = 2}},
        {4, {.context = 8192, .kv_bits = 32, .threads = 2}},
        {4, {.context = 512, .slots = 32, .kv_bits = 4, .threads = 1}},
        {4, {.context = 64, .slots = 4, .kv_bits = 16, .chunk = 64, .threads = 8}},
        {8, {.context = 2048, .slots = 16, .kv_bits = 8, .threads = 2}},
        {16, {.context = 2048, .slots = 4, .kv_bits = 8, .chunk = 2048, .threads = 2}},
        {16, {.context = 256, .kv_bits = 16, .threads = 3}},
    };
    if (!MEASURED || emulated()) {
        print_message("skip: a sanitizer's or an emulator's own memory would be measured\n");
        skip();
    }
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char path[700];
        config c = all[i].c;
        tales(all[i].bits, path);
        c.install = path;
        promise(&c);
    }
}

/* ---- experts that do not fit: 512 of 432 KiB ---- */

static const char *large(void)
{
    tiny_options o = {
        .arch = tiny_arch_plain("llflllfl", 64, 4), .seed = 3, .mat = TT_DTYPE_Q4, .coarse = true};
    o.arch.hidden_size = 512;
    o.arch.moe_intermediate = 512;
    o.arch.vocab_size = 2000;
    return tiny_install_new(&o);
}

static void experts_larger_than_the_budget(void **state)
{
    tt_model_options o;
    tt_plan p;
    tt_error err = {0};
    if (emulated()) {
        print_message("skip: an emulator's own memory would be measured\n");
        skip();
    }
    const char *install = large();
    tt_model_options_default(&o);
    o.threads = 2;
    o.ram_budget = 1;
    assert_int_equal(tt_model_plan(install, &o, &p, &err), TT_ERR_BUDGET);
    assert_true((uint64_t)p.expert_bytes * 512 > 200 * TT_MIB);
    assert_true(p.total < 100 * TT_MIB);
    const uint64_t least = p.total, budgets[] = {least, least + 20 * TT_MIB, 150 * TT_MIB};
    for (int i = 0; i < 3 && MEASURED; i++) {
        config c = {.install = install,
                    .context = 1024,
                    .kv_bits = 8,
                    .threads = 2,
                    .budget = budgets[i],
                    .tokens = i < 2 ? 200 : 0};
        promise(&c);
    }
    /* one byte less is refused in words, before anything is loaded */
    char text[2048], budget[32];
    snprintf(budget, sizeof budget, "%" PRIu64, least - 1);
    char *argv[] = {"plan_rss_test",
                    "--child",
                    (char *)(uintptr_t)install,
                    "1024",
                    "0",
                    "8",
                    "0",
                    "2",
                    budget,
                    "0",
                    NULL};
    assert_int_equal(run_child(argv, text, sizeof text), 1);
    print_message("  %s", text);
    assert_non_null(strstr(text, "failed open"));
    assert_non_null(strstr(text, "the model needs"));
    assert_non_null(strstr(text, "the budget given is"));
    assert_non_null(strstr(text, "larger budget"));
}

static int setup(void **state)
{
    tempdir_make(dir);
    return 0;
}

static int teardown(void **state)
{
    tempdir_remove(dir);
    tiny_remove();
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 10 && strcmp(argv[1], "--child") == 0)
        return child(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shipped_model),
        cmocka_unit_test(experts_larger_than_the_budget),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
