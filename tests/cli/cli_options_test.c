/* Proves that TinyTitanCLI takes the options it lists, refuses what could have no effect, and lets
 * options win over the model's own sampling defaults. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/model_args.h"
#include "cli/cli_options.h"

#define MAX_WORDS 24

static tt_cli_options o;
static tt_error err;

static tt_status parse(const char *first, ...)
{
    char *argv[MAX_WORDS];
    int n = 0;
    va_list ap;
    va_start(ap, first);
    for (const char *w = first; w != NULL && n < MAX_WORDS; w = va_arg(ap, const char *))
        argv[n++] = (char *)(uintptr_t)w;
    va_end(ap);
    err = (tt_error){0};
    return tt_cli_options_parse(&o, n, argv, &err);
}

#define REFUSED(word, ...)                                                                         \
    do {                                                                                           \
        assert_int_equal(parse(__VA_ARGS__, NULL), TT_ERR_INVALID);                                \
        if (strstr(err.message, word) == NULL)                                                     \
            fail_msg("\"%s\" does not speak of %s", err.message, word);                            \
    } while (0)
#define TAKEN(...)                                                                                 \
    do {                                                                                           \
        if (parse(__VA_ARGS__, NULL) != TT_OK)                                                     \
            fail_msg("%s", err.message);                                                           \
    } while (0)

static void defaults(void **state)
{
    (void)state;
    TAKEN("--model", "m", "--prompt", "p");
    assert_string_equal(o.model, "m");
    assert_string_equal(o.prompt, "p");
    assert_int_equal(o.max_new, TT_CLI_MAX_NEW);
    assert_int_equal(o.load.kv_bits, 8);
    assert_string_equal(o.load.backend, "cpu");
    assert_null(o.load.cpu_level);
    assert_true(o.load.yarn_factor == 0.0f);
    assert_int_equal(o.thinking, TT_THINKING_DEFAULT);
    assert_false(o.seed_given || o.chat || o.raw || o.json || o.quiet);
    TAKEN("--model", "m", "--interactive");
    assert_int_equal(o.max_new, 0);
    TAKEN("--model", "m", "--plan");
}

static void every_option_arrives(void **state)
{
    (void)state;
    TAKEN("--model=m", "--messages", "f", "--chat", "--system", "s", "--tools", "t", "--thinking",
          "off", "--max-new", "7", "--stop", "a", "--stop", "b", "--json", "--stats",
          "--verify-reads");
    assert_int_equal(o.max_new, 7);
    assert_int_equal(o.stop.n, 2);
    assert_string_equal(o.stop.items[1], "b");
    assert_int_equal(o.thinking, TT_THINKING_OFF);
    assert_true(o.json && o.stats && o.chat && o.load.verify_reads);
    assert_string_equal(o.system, "s");
    assert_string_equal(o.tools, "t");
    TAKEN("--model=m", "--prompt=p", "--ram-budget=1.5G", "--max-context=4096", "--kv-bits=4",
          "--rope-scaling=yarn:2.5", "--prefill-chunk=128", "--expert-cache-slots=9", "--threads=3",
          "--backend=ref", "--cpu-level=ref", "--quiet", "--raw");
    assert_true(o.load.ram_budget == (uint64_t)3 << 29);
    assert_int_equal(o.load.max_context, 4096);
    assert_int_equal(o.load.kv_bits, 4);
    assert_true(o.load.yarn_factor == 2.5f);
    assert_int_equal(o.load.prefill_chunk, 128);
    assert_int_equal(o.load.expert_slots, 9);
    assert_int_equal(o.load.threads, 3);
    assert_string_equal(o.load.backend, "ref");
    assert_string_equal(o.load.cpu_level, "ref");
    assert_true(o.quiet && o.raw);
    TAKEN("--model=m", "--prompt=p", "--backend=cpu", "--cpu-level=avx2");
    assert_string_equal(o.load.cpu_level, "avx2");
    REFUSED("--cpu-level avx2 does not go with --backend ref", "--model=m", "--prompt=p",
            "--backend=ref", "--cpu-level=avx2");
    TAKEN("--model=m", "--plan", "--reader=pool", "--io-depth=64", "--io-piece=256K",
          "--expert-mirror=/other");
    assert_string_equal(o.load.reader, "pool");
    assert_int_equal(o.load.io_depth, 64);
    assert_int_equal(o.load.io_piece, 256 * 1024);
    assert_string_equal(o.load.expert_mirror, "/other");
    TAKEN("--model=m", "--plan", "--reader=auto");
    assert_null(o.load.reader);
    assert_null(o.load.expert_mirror);
    REFUSED("--reader", "--model=m", "--plan", "--reader=mmap");
    REFUSED("--io-depth", "--model=m", "--plan", "--io-depth=257");
    REFUSED("--io-piece", "--model=m", "--plan", "--io-piece=4K");
    REFUSED("4096", "--model=m", "--plan", "--io-piece=20001");
}

static void draft_options(void **state)
{
    (void)state;
    TAKEN("--model=m", "--plan");
    assert_int_equal(o.load.draft, TT_DRAFT_OFF);
    assert_int_equal(o.load.draft_width, 0);
    TAKEN("--model=m", "--plan", "--draft=lookup");
    assert_int_equal(o.load.draft, TT_DRAFT_LOOKUP);
    TAKEN("--model=m", "--plan", "--draft=mtp", "--draft-width=3");
    assert_int_equal(o.load.draft, TT_DRAFT_MTP);
    assert_int_equal(o.load.draft_width, 3);
    REFUSED("--draft", "--model=m", "--plan", "--draft=on");
    REFUSED("--draft-width", "--model=m", "--plan", "--draft=mtp", "--draft-width=5");
    REFUSED("--draft-width has no effect", "--model=m", "--plan", "--draft-width=2");
}

static void cache_options(void **state)
{
    (void)state;
    TAKEN("--model=m", "--plan");
    assert_true(o.load.warm_seconds == TT_WARM_AUTO && o.load.governor && !o.cache_given);
    assert_null(o.load.heat_profile);
    TAKEN("--model=m", "--plan", "--warm=auto", "--heat-profile=f", "--governor=on");
    assert_true(o.load.warm_seconds == TT_WARM_AUTO && o.load.governor && o.cache_given);
    assert_string_equal(o.load.heat_profile, "f");
    TAKEN("--model=m", "--plan", "--governor=off");
    assert_false(o.load.governor);
    assert_true(o.cache_given);
    TAKEN("--model=m", "--plan", "--warm=off");
    assert_true(o.load.warm_seconds == 0);
    TAKEN("--model=m", "--plan", "--warm=2.5");
    assert_true(o.load.warm_seconds == 2.5f);
    static const char *const bad[] = {"",     "0",  "-1",    "1e3", "nan",   "inf",
                                      "off ", "on", "1.2.3", ".",   "86401", "5s"};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        float f = 3;
        assert_int_equal(tt_model_args_warm(bad[i], &f, NULL), TT_ERR_INVALID);
        assert_true(f == 3);
    }
    REFUSED("--warm is \"fast\"", "--model=m", "--plan", "--warm=fast");
    REFUSED("--governor", "--model=m", "--plan", "--governor=auto");
    REFUSED("--heat-profile is empty", "--model=m", "--plan", "--heat-profile=");
    REFUSED("no effect", "--model=m", "--plan", "--warm=off", "--heat-profile=f");
}

static void options_win_over_the_models_sampling(void **state)
{
    (void)state;
    tt_sampler_options s = {.temperature = 0.7f,
                            .top_k = 20,
                            .top_p = 0.95f,
                            .min_p = 0.1f,
                            .repetition_penalty = 1.1f,
                            .presence_penalty = 0.5f,
                            .frequency_penalty = 0.25f};
    tt_sampler_options before = s;
    TAKEN("--model=m", "--prompt=p");
    tt_cli_sampling_apply(&o, &s);
    assert_memory_equal(&s, &before, sizeof s);
    TAKEN("--model=m", "--prompt=p", "--temperature=0", "--top-k=0", "--top-p=1", "--min-p=0",
          "--repetition-penalty=1", "--presence-penalty=-2", "--frequency-penalty=2", "--seed=5");
    tt_cli_sampling_apply(&o, &s);
    assert_true(s.temperature == 0 && s.top_k == 0 && s.top_p == 1 && s.min_p == 0);
    assert_true(s.repetition_penalty == 1 && s.presence_penalty == -2 && s.frequency_penalty == 2);
    assert_true(s.seed == 5 && o.seed_given);
}

static void one_thing_to_answer(void **state)
{
    (void)state;
    REFUSED("--model", "--prompt", "p");
    REFUSED("--prompt", "--model", "m");
    REFUSED("--interactive", "--model=m", "--prompt=p", "--interactive");
    REFUSED("--messages", "--model=m", "--prompt=p", "--messages=f");
    REFUSED("empty", "--model=m", "--prompt=");
    REFUSED("--raw", "--model=m", "--prompt=p", "--chat", "--raw");
    REFUSED("--tools", "--model=m", "--prompt=p", "--tools=f", "--raw");
    REFUSED("--system", "--model=m", "--prompt=p", "--system=f", "--raw");
    REFUSED("--thinking", "--model=m", "--prompt=p", "--thinking=on", "--raw");
    REFUSED("--messages", "--model=m", "--messages=p", "--raw");
    REFUSED("--interactive", "--model=m", "--interactive", "--raw");
    REFUSED("--json", "--model=m", "--interactive", "--json");
    REFUSED("--quiet", "--model=m", "--prompt=p", "--quiet", "--stats");
}

static void values_are_checked(void **state)
{
    (void)state;
#define BAD(word, option) REFUSED(word, "--model=m", "--prompt=p", option)
    BAD("--temprature", "--temprature=1");
    BAD("temperature", "--temperature=-1");
    BAD("temperature", "--temperature=nan");
    BAD("top-p", "--top-p=0");
    BAD("top-p", "--top-p=1.5");
    BAD("repetition", "--repetition-penalty=0");
    BAD("presence", "--presence-penalty=3");
    BAD("max-new", "--max-new=0");
    BAD("max-new", "--max-new=many");
    BAD("kv-bits", "--kv-bits=7");
    BAD("prefill-chunk", "--prefill-chunk=65");
    BAD("prefill-chunk", "--prefill-chunk=32");
    BAD("rope-scaling", "--rope-scaling=yarn");
    BAD("rope-scaling", "--rope-scaling=yarn:0.5");
    BAD("rope-scaling", "--rope-scaling=linear:2");
    BAD("threads", "--threads=0");
    BAD("backend", "--backend=gpu");
    BAD("cpu-level", "--cpu-level=sse");
    BAD("ram-budget", "--ram-budget=lots");
    BAD("stop", "--stop=");
    BAD("UTF-8", "--stop=\xff");
    BAD("UTF-8", "--system=\xff");
    REFUSED("UTF-8", "--model=m", "--prompt=\xc3");
    BAD("seed", "--seed=-1");
    BAD("twice", "--model=n");
    BAD("unexpected", "word");
}

static void a_refusal_leaves_the_options_alone(void **state)
{
    (void)state;
    TAKEN("--model=m", "--prompt=p", "--threads=3");
    REFUSED("threads", "--model=n", "--prompt=q", "--threads=0");
    assert_string_equal(o.model, "m");
    assert_int_equal(o.load.threads, 3);
}

static void help_and_version_need_nothing_else(void **state)
{
    (void)state;
    TAKEN("--help");
    assert_true(o.help);
    TAKEN("--version");
    assert_true(o.version);
    REFUSED("unknown option --nonsense", "--version", "--nonsense");
    REFUSED("unexpected argument \"extra\"", "--version", "extra");
    tt_buf b;
    tt_buf_init(&b, 1 << 20);
    tt_cli_options_help(&b);
    assert_int_equal(tt_buf_status(&b, NULL), TT_OK);
    assert_non_null(strstr(b.data, "--repetition-penalty"));
    assert_non_null(strstr(b.data, "--rope-scaling none|yarn:FACTOR"));
    tt_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(every_option_arrives),
        cmocka_unit_test(draft_options),
        cmocka_unit_test(cache_options),
        cmocka_unit_test(options_win_over_the_models_sampling),
        cmocka_unit_test(one_thing_to_answer),
        cmocka_unit_test(values_are_checked),
        cmocka_unit_test(a_refusal_leaves_the_options_alone),
        cmocka_unit_test(help_and_version_need_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
