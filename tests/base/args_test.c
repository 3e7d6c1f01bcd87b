/* Proves that option tables take exactly what they say, refuse the rest in words that help, and
 * list themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/args.h"

static const char *const modes[] = {"auto", "on", "off", NULL};

typedef struct values {
    bool json, help;
    const char *model, *prompt;
    tt_arg_list stop;
    uint32_t threads;
    uint64_t seed, budget;
    float temperature;
    int mode;
} values;

#define ROWS 12

static void fill(tt_arg table[ROWS], values *v)
{
    *v = (values){.threads = 7, .temperature = 0.5f, .model = "default"};
    const tt_arg rows[ROWS] = {
        TT_OPT_HEADING("Options"),
        TT_OPT_STRING("model", &v->model, "DIR", "the install", .required = true),
        TT_OPT_STRING("prompt", &v->prompt, "TEXT", "what to continue"),
        TT_OPT_LIST("stop", &v->stop, "TEXT", "ends the answer"),
        TT_OPT_U32("threads", &v->threads, "N", 1, 256, "threads"),
        TT_OPT_U64("seed", &v->seed, "N", 0, 0, "seed"),
        TT_OPT_SIZE("ram-budget", &v->budget, "SIZE", 1024, 0, "memory"),
        TT_OPT_FLOAT("temperature", &v->temperature, "T", -2, 100, "how freely to choose"),
        TT_OPT_ENUM("mode", &v->mode, modes, "which way"),
        TT_OPT_FLAG("json", &v->json, "one object on the last line"),
        TT_OPT_STOP("help", &v->help, "this text"),
        TT_OPT_END,
    };
    memcpy(table, rows, sizeof rows);
}

/* Parses the words up to NULL. */
static tt_status parse(values *v, tt_arg table[ROWS], tt_error *err, const char *const *words)
{
    char *argv[32];
    int n = 0;
    for (; words[n] != NULL; n++)
        argv[n] = (char *)words[n];
    fill(table, v);
    *err = (tt_error){0};
    return tt_args_parse(table, n, argv, err);
}

#define PARSE(...) parse(&v, table, &err, (const char *const[]){__VA_ARGS__, NULL})
#define REFUSES(say, ...)                                                                          \
    do {                                                                                           \
        assert_int_equal(PARSE(__VA_ARGS__), TT_ERR_INVALID);                                      \
        if (strstr(err.message, (say)) == NULL)                                                    \
            fail_msg("\"%s\" does not say \"%s\"", err.message, (say));                            \
    } while (0)

static void takes_both_spellings(void **state)
{
    values v;
    tt_arg table[ROWS];
    tt_error err;
    assert_int_equal(PARSE("--model", "x", "--prompt=--json is a flag", "--threads", "4",
                           "--seed=18446744073709551615", "--ram-budget", "1.5G", "--temperature",
                           "-1.25", "--mode=off", "--json"),
                     TT_OK);
    assert_string_equal(v.model, "x");
    assert_string_equal(v.prompt, "--json is a flag");
    assert_int_equal(v.threads, 4);
    assert_true(v.seed == UINT64_MAX);
    assert_true(v.budget == (uint64_t)3 << 29);
    assert_true(v.temperature == -1.25f);
    assert_int_equal(v.mode, 2);
    assert_true(v.json);
    assert_false(v.help);
    assert_true(tt_args_given(table, "seed"));
    assert_false(tt_args_given(table, "stop"));
    assert_false(tt_args_given(table, "Options"));
}

static void keeps_defaults_and_empty_values(void **state)
{
    values v;
    tt_arg table[ROWS];
    tt_error err;
    assert_int_equal(PARSE("--model=m", "--prompt", ""), TT_OK);
    assert_string_equal(v.model, "m");
    assert_string_equal(v.prompt, "");
    assert_int_equal(v.threads, 7);
    assert_true(v.temperature == 0.5f);
    assert_false(v.json);
}

static void a_path_is_not_empty(void **state)
{
    values v;
    tt_arg table[ROWS];
    tt_error err;
    REFUSES("--model is empty, must be a folder", "--model=");
    REFUSES("--model is empty, must be a folder", "--model", "");
}

static void repeats_only_lists(void **state)
{
    values v;
    tt_arg table[ROWS];
    tt_error err;
    assert_int_equal(PARSE("--model=a", "--stop=x", "--stop", "-y", "--stop=x"), TT_OK);
    assert_int_equal(v.stop.n, 3);
    assert_string_equal(v.stop.items[0], "x");
    assert_string_equal(v.stop.items[1], "-y");
    REFUSES("--threads is given twice", "--model=a", "--threads=1", "--threads=1");
    REFUSES("--json is given twice", "--model=a", "--json", "--json");

    char *argv[TT_ARG_LIST_MAX + 1];
    for (unsigned i = 0; i <= TT_ARG_LIST_MAX; i++)
        argv[i] = (char *)"--stop=a";
    fill(table, &v);
    assert_int_equal(tt_args_parse(table, TT_ARG_LIST_MAX + 1, argv, &err), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "more than 64 times"));
}

static void refuses_what_it_does_not_know(void **state)
{
    values v;
    tt_arg table[ROWS];
    tt_error err;
    REFUSES("did you mean --temperature", "--model=a", "--temprature=1");
    REFUSES("did you mean --temperature", "--model=a", "--temp", "1");
    REFUSES("did you mean --prompt", "--porompt=x");
    REFUSES("did you mean --model", "-model", "x");
    REFUSES("unknown option --zzzzzz; --help", "--zzzzzz");
    REFUSES("unknown option --Options", "--Options");
    REFUSES("unknown option --", "--");
    REFUSES("unknown option -", "-");
    REFUSES("unknown option --", "--=x");
    REFUSES("unexpected argument \"story\"", "--model=a", "story");
    REFUSES("--model DIR is required", "--json");
    REFUSES("--json takes no value", "--model=a", "--json=true");
    REFUSES("--model needs a value", "--model");
    REFUSES("--model needs a value before --json", "--model", "--json");
}

static void refuses_bad_values(void **state)
{
    values v;
    tt_arg table[ROWS];
    tt_error err;
    static const char *const bad[] = {
        "--threads=0",
        "--threads=257",
        "--threads=",
        "--threads=-1",
        "--threads=1.0",
        "--threads= 1",
        "--threads=4294967297",
        "--threads=0x10",
        "--seed=-1",
        "--seed=18446744073709551616",
        "--ram-budget=",
        "--ram-budget=1023",
        "--ram-budget=1.5",
        "--ram-budget=G",
        "--ram-budget=1.G",
        "--ram-budget=1GG",
        "--ram-budget=1GiBs",
        "--ram-budget=-1G",
        "--ram-budget=99999999999T",
        "--temperature=nan",
        "--temperature=inf",
        "--temperature=0x1p3",
        "--temperature=",
        "--temperature=-2.1",
        "--temperature=1e3",
        "--temperature=1,5",
        "--temperature=1.5.2",
        "--mode=",
        "--mode=ON",
        "--mode=o",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char name[32];
        snprintf(name, sizeof name, "%.*s is \"", (int)strcspn(bad[i], "="), bad[i]);
        REFUSES(name, "--model=a", bad[i]);
        assert_int_equal(v.threads, 7);
        assert_true(v.temperature == 0.5f);
        assert_true(v.budget == 0 && v.seed == 0 && v.mode == 0);
    }
    REFUSES("must be a whole number from 1 to 256", "--threads=many");
    REFUSES("must be a number from -2 to 100", "--temperature=hot");
    REFUSES("must be one of auto, on, off; did you mean auto?", "--mode=atuo");
}

static void reads_sizes(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},
        {"4096", 4096},
        {"1K", 1024},
        {"1k", 1024},
        {"512M", 512 << 20},
        {"16GiB", (uint64_t)16 << 30},
        {"2GB", 2ull << 30},
        {"0.5G", 512 << 20},
        {"1.25T", 5ull << 38},
        {"10B", 10},
        {"0.001K", 1},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t bytes = 0;
        assert_int_equal(tt_args_size(good[i].text, "size", &bytes, NULL), TT_OK);
        assert_true(bytes == good[i].bytes);
    }
    uint64_t bytes = 7;
    tt_error err = {0};
    assert_int_equal(tt_args_size("1.5", "the cache", &bytes, &err), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "the cache is \"1.5\""));
    assert_int_equal(bytes, 7);
}

static void suggests_only_what_is_like_it(void **state)
{
    static const char *const words[] = {"4", "8", "on", "temperature", "threads", NULL};
    assert_null(tt_args_nearest("7", words));
    assert_null(tt_args_nearest("", words));
    assert_null(tt_args_nearest("xylophone", words));
    assert_null(
        tt_args_nearest("an extraordinarily long word that nobody could have meant", words));
    assert_string_equal(tt_args_nearest("no", words), "on");
    assert_string_equal(tt_args_nearest("temp", words), "temperature");
    assert_string_equal(tt_args_nearest("thraeds", words), "threads");
}

/* Nothing is required beside --help, and nothing wrong is let through because of it. */
static void help_needs_nothing_else(void **state)
{
    values v;
    tt_arg table[ROWS];
    tt_error err;
    assert_int_equal(PARSE("--help"), TT_OK);
    assert_true(v.help);
    assert_int_equal(PARSE("--json", "--help", "--threads", "3"), TT_OK);
    REFUSES("unknown option --nonsense", "--help", "--nonsense");
    REFUSES("unexpected argument \"extra\"", "--help", "extra");
    REFUSES("--threads is \"0\"", "--help", "--threads", "0");
    REFUSES("--help is given twice", "--help", "--help");
}

static void a_level_belongs_to_a_backend(void **state)
{
    tt_error err = {0};
    static const char *const any[] = {NULL, "auto", "ref"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(tt_args_backend("ref", any[i], &err), TT_OK);
        assert_int_equal(tt_args_backend("cpu", any[i], &err), TT_OK);
    }
    assert_int_equal(tt_args_backend("cpu", "avx2", &err), TT_OK);
    assert_int_equal(tt_args_backend("ref", "avx2", &err), TT_ERR_INVALID);
    assert_non_null(strstr(err.message, "--cpu-level avx2"));
    assert_non_null(strstr(err.message, "--backend ref"));
}

static void options_become_flags(void **state)
{
    static const tt_arg_name names[] = {
        {"max_context", "--max-context"}, {"slots", "--a-very-long-flag"}, {NULL, NULL}};
    static const struct {
        const char *before, *after;
    } cases[] = {
        {"", ""},
        {"max_context", "--max-context"},
        {"5 tokens (max_context), max_contexts slots.", "5 tokens (--max-context), max_contexts "
                                                        "--a-very-long-flag."},
        {"my_slots slots_2 slots", "my_slots slots_2 --a-very-long-flag"},
        {"\xc3\xa9max_context", "\xc3\xa9--max-context"},
    };
    tt_error err = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(err.message, sizeof err.message, "%s", cases[i].before);
        tt_args_translate(names, &err);
        assert_string_equal(err.message, cases[i].after);
    }
    /* A message that becomes too long is cut and stays a string. */
    err.message[0] = '\0';
    for (size_t n = 0; n + 7 < sizeof err.message; n += 6)
        strcat(err.message, "slots ");
    tt_args_translate(names, &err);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
}

static void lists_itself(void **state)
{
    values v;
    tt_arg table[ROWS];
    tt_buf out;
    fill(table, &v);
    table[1].help = "a directory with a name that is explained at such length that the explanation "
                    "cannot stand on one line of one hundred columns";
    tt_buf_init(&out, 1 << 16);
    tt_args_help(table, &out);
    assert_int_equal(tt_buf_status(&out, NULL), TT_OK);
    for (const tt_arg *a = table + 1; a->type != TT_ARG_END; a++) {
        char name[64];
        snprintf(name, sizeof name, "\n  --%s", a->name);
        assert_non_null(strstr(out.data, name));
    }
    assert_non_null(strstr(out.data, "--mode auto|on|off"));
    assert_non_null(strstr(out.data, "(1 to 256)"));
    size_t lines = 0;
    for (const char *line = out.data; *line != '\0'; line += strcspn(line, "\n") + 1, lines++)
        assert_true(strcspn(line, "\n") <= 100);
    assert_int_equal(lines, ROWS); /* the end row prints nothing, --model takes two lines */
    tt_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_both_spellings),
        cmocka_unit_test(keeps_defaults_and_empty_values),
        cmocka_unit_test(a_path_is_not_empty),
        cmocka_unit_test(repeats_only_lists),
        cmocka_unit_test(refuses_what_it_does_not_know),
        cmocka_unit_test(refuses_bad_values),
        cmocka_unit_test(reads_sizes),
        cmocka_unit_test(suggests_only_what_is_like_it),
        cmocka_unit_test(help_needs_nothing_else),
        cmocka_unit_test(a_level_belongs_to_a_backend),
        cmocka_unit_test(options_become_flags),
        cmocka_unit_test(lists_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
