/* Proves TinyTitanBench: what it writes and prints against the library and the oracle, its exit
 * codes, and that what it cannot do it refuses in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/tempdir.h"
#include "../support/vectors.h"
#include "base/file.h"

#define RANDOM "tests/vectors/moe-random"

static char dir[512], program[600], *out, *err_text;
static json_t *last; /* the object on the last line of stdout, or NULL */

static int set_up(void **state)
{
    const char *build = getenv("BUILD");
    snprintf(program, sizeof program, "%s/bin/TinyTitanBench", build != NULL ? build : "build");
    tempdir_make(dir);
    return 0;
}

static void forget_output(void)
{
    free(out);
    free(err_text);
    json_decref(last);
    out = err_text = NULL;
    last = NULL;
}

static int tear_down(void **state)
{
    forget_output();
    fixture_remove();
    tempdir_remove(dir);
    return 0;
}

static char *contents(const char *name)
{
    char path[600], *text = NULL;
    size_t len = 0;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(tt_file_read(path, 1 << 24, &text, &len, NULL), TT_OK);
    return text;
}

/* Runs the program with the words up to NULL; returns its exit code. */
static int run(const char *const *words)
{
    char *argv[40] = {program}, to[600], to_err[600];
    for (int i = 0; words[i] != NULL; i++)
        argv[i + 1] = (char *)words[i];
    snprintf(to, sizeof to, "%s/stdout", dir);
    snprintf(to_err, sizeof to_err, "%s/stderr", dir);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (freopen(to, "w", stdout) == NULL || freopen(to_err, "w", stderr) == NULL)
            _exit(90);
        execv(program, argv);
        _exit(91);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    forget_output();
    out = contents("stdout");
    err_text = contents("stderr");
    size_t len = strlen(out);
    if (len > 0 && out[len - 1] == '\n') {
        size_t begin = len - 1;
        while (begin > 0 && out[begin - 1] != '\n')
            begin--;
        if (out[begin] == '{')
            assert_int_equal(tt_json_parse(out + begin, len - begin, "stdout", &last, NULL), TT_OK);
    }
    return WEXITSTATUS(status);
}
#define RUN(...) run((const char *const[]){__VA_ARGS__, NULL})
#define EXPECT(rc, ...)                                                                            \
    do {                                                                                           \
        int rc_ = RUN(__VA_ARGS__);                                                                \
        if (rc_ != (rc))                                                                           \
            fail_msg("exit code %d, expected %d: %s", rc_, (rc), err_text);                        \
    } while (0)
#define REFUSES(rc, say, ...)                                                                      \
    do {                                                                                           \
        EXPECT(rc, __VA_ARGS__);                                                                   \
        if (strstr(err_text, (say)) == NULL)                                                       \
            fail_msg("\"%s\" does not say \"%s\"", err_text, (say));                               \
        assert_string_equal(out, "");                                                              \
    } while (0)

static double number(const char *key)
{
    double v = 0;
    tt_error err = {0};
    assert_non_null(last);
    if (tt_json_get_number(last, key, "stdout", -1e300, 1e300, &v, &err) != TT_OK)
        fail_msg("%s in %s", err.message, out);
    return v;
}

static const char *string(const char *key)
{
    const char *v = NULL;
    assert_non_null(last);
    assert_int_equal(tt_json_get_string(last, key, "stdout", &v, NULL), TT_OK);
    return v;
}

static void file_of(const char *name, const char *text, char path[600])
{
    tempdir_file(dir, name, text, strlen(text), path);
}

/* ---- usage ---- */

static void wrong_usage_is_refused(void **state)
{
    REFUSES(2, "a command is needed", "");
    REFUSES(2, "did you mean logits?", "logit");
    REFUSES(2, "unknown command \"--json\"", "--json");
    static const char *const names[] = {"logits", "perplexity", "decode", "prefill"};
    for (unsigned i = 0; i < 4; i++) {
        REFUSES(2, "--model DIR is required", names[i]);
        REFUSES(2, "unknown option --modle; did you mean --model?", names[i], "--modle", "x");
        REFUSES(2, "unexpected argument \"x\"", names[i], "x");
        REFUSES(2, "must be one of cpu, ref", names[i], "--backend", "cuda");
        REFUSES(2, "must be one of auto, ref, avx2, avxvnni, avx512, avx512vnni, ", names[i],
                "--cpu-level", "sse2");
        REFUSES(2, "must be one of 4, 8, 16, 32", names[i], "--kv-bits", "12");
        REFUSES(2, "--threads is \"0\"", names[i], "--threads", "0");
        REFUSES(2, "--expert-cache-slots is \"-1\"", names[i], "--expert-cache-slots", "-1");
        REFUSES(2, "--verify-reads takes no value", names[i], "--verify-reads=yes");
        REFUSES(2, "--json is given twice", names[i], "--json", "--json");
        EXPECT(0, names[i], "--version");
        assert_string_equal(out, "TinyTitanBench " TT_VERSION_STRING "\n");
        EXPECT(0, names[i], "--help");
        assert_non_null(strstr(out, "--verify-reads"));
        assert_string_equal(err_text, "");
    }
    REFUSES(2, "multiple of 64", "prefill", "--model", "x", "--prefill-chunk", "100");
    REFUSES(2, "--window N is required", "perplexity", "--model", "x", "--text", "y");
    REFUSES(2, "--ids FILE is required", "logits", "--model", "x", "--output", "y");
    REFUSES(2, "--output FILE is required", "logits", "--model", "x", "--ids", "y");
    EXPECT(0, "--version");
    assert_string_equal(out, "TinyTitanBench " TT_VERSION_STRING "\n");
    EXPECT(0, "--help");
    for (unsigned i = 0; i < 4; i++)
        assert_non_null(strstr(out, names[i]));
}

static void failures_are_named(void **state)
{
    char ids[600], missing[600];
    file_of("ids.json", "[1, 2, 3]", ids);
    snprintf(missing, sizeof missing, "%s/missing", dir);
    REFUSES(1, "/missing", "decode", "--model", missing);
    REFUSES(1, "/missing", "logits", "--model", "x", "--ids", missing, "--output", "y");
    REFUSES(1, "/missing", "perplexity", "--model", "x", "--text", missing, "--window", "4");
    static const char *const bad[] = {"[]",    "{}",      "7",          "[1, -1]",
                                      "[1.0]", "[\"a\"]", "[99999999]", "[1,"};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        char path[600];
        file_of("bad.json", bad[i], path);
        REFUSES(1, "bad.json", "logits", "--model", "x", "--ids", path, "--output", "y");
    }
    const char *install = fixture_install(RANDOM, NULL, 16);
    char beyond[600], output[600];
    snprintf(output, sizeof output, "%s/refused.safetensors", dir);
    file_of("beyond.json", "[1, 512]", beyond);
    REFUSES(1, "512", "logits", "--model", install, "--ids", beyond, "--output", output);
    assert_false(tt_file_exists(output));
    REFUSES(1, "/missing", "logits", "--model", install, "--ids", ids, "--output",
            strcat(missing, "/out.safetensors"));
    REFUSES(1, "context", "prefill", "--model", install, "--tokens", "4000000");
    REFUSES(1, "expert slots", "decode", "--model", install, "--expert-cache-slots", "1");
    REFUSES(1, "tokenizer.json", "perplexity", "--model", install, "--text", ids, "--window", "4");
}

/* ---- logits ---- */

static void logits_are_the_oracles(void **state)
{
    const char *install = fixture_install(RANDOM, NULL, 16);
    json_t *expected = NULL;
    tt_safetensors *want = NULL, *got = NULL;
    char ids[600], output[600];
    assert_int_equal(tt_json_load(RANDOM "/expected.json", 1 << 20, &expected, NULL), TT_OK);
    char *text = json_dumps(json_object_get(expected, "prompt_ids"), 0);
    file_of("prompt.json", text, ids);
    free(text);
    size_t T = json_array_size(json_object_get(expected, "prompt_ids"));
    assert_int_equal(tt_safetensors_open_file(RANDOM "/expected.safetensors", &want, NULL), TT_OK);
    float *w = vector_f32(want, "logits", T, 512, 0);
    snprintf(output, sizeof output, "%s/logits.safetensors", dir);
    static const char *const backends[] = {"ref", "cpu"};
    for (unsigned i = 0; i < 2; i++) {
        EXPECT(0, "logits", "--model", install, "--ids", ids, "--output", output, "--backend",
               backends[i], "--prefill-chunk", "64", "--expert-cache-slots", "9", "--threads", "2",
               "--verify-reads", "--json");
        assert_string_equal(string("backend"), backends[i]);
        assert_string_equal(string("command"), "logits");
        assert_true(number("tokens") == (double)T && number("vocab_size") == 512);
        assert_true(number("kv_bits") == 32 && number("threads") == 2);
        assert_true(number("expert_slots") == 9 && number("prefill_chunk") == 64);
        assert_int_equal(tt_safetensors_open_file(output, &got, NULL), TT_OK);
        assert_int_equal(tt_safetensors_count(got), 1);
        float *g = vector_f32(got, "logits", T, 512, 0);
        assert_true(max_abs_diff(g, w, T * 512) <= 1e-3);
        free(g);
        tt_safetensors_close(&got);
    }
    /* KV rows of 16 bits are seen in the figures: the option reaches the model. */
    EXPECT(0, "logits", "--model", install, "--ids", ids, "--output", output, "--kv-bits", "16");
    assert_null(last);
    assert_int_equal(tt_safetensors_open_file(output, &got, NULL), TT_OK);
    float *g = vector_f32(got, "logits", T, 512, 0);
    double off = max_abs_diff(g, w, T * 512);
    assert_true(off > 0 && off < 1);
    free(g);
    free(w);
    tt_safetensors_close(&got);
    tt_safetensors_close(&want);
    json_decref(expected);
}

/* ---- perplexity ---- */

/* The definition, with each window's logits from one decode after another. On a level whose
 * activations stay f32: on others prefill and decode agree to the bars of whole numbers only. */
static double mean_nats(const char *install, const uint32_t *ids, size_t n, size_t window)
{
    tt_model *m = fixture_model(install, "ref", 32, 0, 2);
    tt_session *s = fixture_session(m);
    uint32_t vocab = m->arch.vocab_size;
    double sum = 0;
    for (size_t begin = 0; begin + 1 < n; begin += window) {
        assert_int_equal(tt_session_rewind(s, 0, NULL), TT_OK);
        for (size_t i = begin; i < begin + window && i + 1 < n; i++) {
            tt_status st = i == begin ? tt_session_sync(s, ids + i, 1, NULL, NULL, NULL)
                                      : tt_session_decode(s, ids[i], NULL);
            assert_int_equal(st, TT_OK);
            const float *l = tt_session_logits(s);
            long double total = 0;
            for (uint32_t v = 0; v < vocab; v++)
                total += expl((long double)l[v]);
            sum += (double)(logl(total) - (long double)l[ids[i + 1]]);
        }
    }
    tt_session_close(&s);
    tt_model_close(&m);
    return sum / (double)(n - 1);
}

static void perplexity_is_the_definition(void **state)
{
    const char *install = fixture_install("models/tales", NULL, 8);
    char *text = NULL;
    size_t len = 0, n = 0;
    uint32_t *ids = NULL;
    tt_tokenizer *tok = NULL;
    assert_int_equal(tt_file_read("models/tales/heldout.txt", 1 << 20, &text, &len, NULL), TT_OK);
    assert_int_equal(tt_tokenizer_open(install, &tok, NULL), TT_OK);
    assert_int_equal(tt_tokenizer_encode(tok, text, len, true, &ids, &n, NULL), TT_OK);
    static const struct {
        const char *window, *tokens;
        double count;
    } cases[] = {{"16", "41", 41}, {"8", "33", 33}, {"100", "30", 30}, {"1", "6", 6}};
    for (unsigned i = 0; i < 4; i++) {
        EXPECT(0, "perplexity", "--model", install, "--text", "models/tales/heldout.txt",
               "--window", cases[i].window, "--tokens", cases[i].tokens, "--cpu-level", "ref",
               "--json");
        double want =
            mean_nats(install, ids, (size_t)cases[i].count, strtoul(cases[i].window, NULL, 10));
        assert_true(fabs(number("nats_per_token") - want) < 1e-4);
        assert_true(number("tokens") == cases[i].count);
        assert_true(number("predicted") == cases[i].count - 1);
        assert_true(number("window") == strtod(cases[i].window, NULL));
        assert_true(number("kv_bits") == 32);
    }
    char small[600];
    file_of("small.txt", "Once upon a time there was a fox.", small);
    EXPECT(0, "perplexity", "--model", install, "--text", small, "--window", "64");
    assert_null(last);
    assert_non_null(strstr(out, "nats per token"));
    REFUSES(1, "the text has only", "perplexity", "--model", install, "--text", small, "--window",
            "64", "--tokens", "500");
    file_of("empty.txt", "", small);
    REFUSES(1, "at least 2 are needed", "perplexity", "--model", install, "--text", small,
            "--window", "64");
    tt_tokenizer_close(&tok);
    tt_free(text);
    tt_free(ids);
}

/* ---- speed ---- */

static void speed_is_reported_whole(void **state)
{
    const char *install = fixture_install(RANDOM, NULL, 16);
    static const char *const names[] = {"decode", "prefill"};
    for (unsigned i = 0; i < 2; i++) {
        EXPECT(0, names[i], "--model", install, "--tokens", "5", "--repeat", "4",
               "--expert-cache-slots", "8", "--json");
        assert_string_equal(string("command"), names[i]);
        assert_string_equal(string("model_id"), "moe-random");
        assert_true(number("tokens") == 5 && number("repeat") == 4 && number("kv_bits") == 8);
        assert_int_equal(json_array_size(json_object_get(last, "runs")), 4);
        assert_true(number("min") > 0 && number("min") <= number("median"));
        assert_true(number("median") <= number("max"));
        assert_true(number("expert_hit_rate") >= 0 && number("expert_hit_rate") <= 1);
        assert_true(number("expert_bytes_read") > 0);
        double few = number("expert_bytes_read");
        EXPECT(0, names[i], "--model", install, "--tokens", "5", "--repeat", "4", "--json");
        assert_true(number("expert_bytes_read") < few);
        EXPECT(0, names[i], "--model", install, "--tokens", "2", "--repeat", "1");
        assert_null(last);
        assert_non_null(strstr(out, "tokens a second"));
    }
    EXPECT(0, "decode", "--model", install, "--prompt-tokens", "70", "--tokens", "1", "--repeat",
           "1", "--json");
    assert_true(number("prompt_tokens") == 70);
}

/* Tokens see the rows before them, whatever put them there. */
static void bytes_of_keys_and_values_are_told(void **state)
{
    const char *install = fixture_install(RANDOM, NULL, 16);
    EXPECT(0, "decode", "--model", install, "--prompt-tokens", "6", "--tokens", "4", "--repeat",
           "1", "--kv-bits", "16", "--json");
    double eight_rows = number("kv_bytes_per_token");
    EXPECT(0, "decode", "--model", install, "--fill-context", "800", "--warm-up", "30", "--tokens",
           "20", "--repeat", "1", "--kv-bits", "16", "--json");
    assert_true(eight_rows > 0 && number("kv_bytes_per_token") == eight_rows * 840 / 8);
    EXPECT(0, "prefill", "--model", install, "--tokens", "4", "--repeat", "1", "--json");
    assert_null(json_object_get(last, "kv_bytes_per_token"));
}

/* A dense model has no experts to ask for; a word about how they are read is a mistake there. */
static void dense_models_are_measured(void **state)
{
    const char *install = fixture_install("tests/vectors/dense-random-tied", NULL, 16);
    EXPECT(0, "decode", "--model", install, "--tokens", "4", "--repeat", "2", "--json");
    assert_true(number("median") > 0 && number("expert_bytes_read") == 0);
    assert_true(number("expert_hit_rate") == 1);
    EXPECT(0, "decode", "--model", install, "--fill-context", "100", "--tokens", "4", "--repeat",
           "1", "--json");
    EXPECT(0, "prefill", "--model", install, "--tokens", "70", "--repeat", "2", "--json");
    assert_true(number("median") > 0);
    REFUSES(1, "this is a dense model", "decode", "--model", install, "--reader", "pool");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_usage_is_refused),
        cmocka_unit_test(failures_are_named),
        cmocka_unit_test(logits_are_the_oracles),
        cmocka_unit_test(perplexity_is_the_definition),
        cmocka_unit_test(speed_is_reported_whole),
        cmocka_unit_test(bytes_of_keys_and_values_are_told),
        cmocka_unit_test(dense_models_are_measured),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
