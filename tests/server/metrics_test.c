/* Proves that what the server counts is written as Prometheus reads it: every metric of section 9
 * of docs/http.md and no other, with its type, before its samples, histograms summed up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "server/metrics.h"

static const char *const paths[] = {"/a", "/b/{id}", "other", NULL};
static tt_metrics m;
static tt_metrics_now now;
static tt_buf page;

static const char *const ids[] = {"a_4-Bit", "b\"\\_8-Bit"};

static void describe(void *self, tt_engine_info *info)
{
    *info = (tt_engine_info){.max_context = 1};
    snprintf(info->model, sizeof info->model, "%s", (const char *)self);
}

static int set_up(void **state)
{
    (void)state;
    static const tt_server_engine_ops ops = {.describe = describe};
    tt_server_engine engines[] = {{&ops, (void *)ids[0]}, {&ops, (void *)ids[1]}};
    tt_model_set_options o = {0};
    tt_metrics_init(&m);
    now = (tt_metrics_now){.paths = paths};
    assert_int_equal(tt_model_set_create(engines, 2, &o, &now.models, NULL), TT_OK);
    tt_buf_init(&page, 1 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tt_buf_free(&page);
    tt_model_set_close(&now.models);
    return 0;
}

static const char *written(void)
{
    tt_buf_clear(&page);
    tt_metrics_write(&m, &now, &page);
    assert_int_equal(tt_buf_status(&page, NULL), TT_OK);
    return page.data;
}

/* The line stands in the page, whole. */
static void expect_line(const char *line)
{
    char want[256];
    snprintf(want, sizeof want, "\n%s\n", line);
    if (strstr(written(), want) == NULL)
        fail_msg("lacks: %s\nin: %s", line, page.data);
}

static void answers_and_refusals(void **state)
{
    (void)state;
    char code[] = "queue_full"; /* the same word at another place is the same code */
    tt_metrics_answer(&m, 0, 200, NULL);
    tt_metrics_answer(&m, 0, 200, NULL);
    tt_metrics_answer(&m, 1, 429, "queue_full");
    tt_metrics_answer(&m, 1, 529, code);
    tt_metrics_answer(&m, 2, 404, "not_found");
    tt_metrics_answer(&m, 2, 499, NULL); /* nothing was answered */
    expect_line("tinytitan_requests_total{path=\"/a\",status=\"200\"} 2");
    expect_line("tinytitan_requests_total{path=\"/b/{id}\",status=\"429\"} 1");
    expect_line("tinytitan_requests_total{path=\"/b/{id}\",status=\"529\"} 1");
    expect_line("tinytitan_requests_total{path=\"other\",status=\"404\"} 1");
    expect_line("tinytitan_refusals_total{code=\"queue_full\"} 2");
    expect_line("tinytitan_refusals_total{code=\"not_found\"} 1");
    assert_null(strstr(page.data, "499"));
    assert_null(strstr(page.data, "status=\"0\""));
}

/* Every status that docs/http.md names is counted. */
static void every_status(void **state)
{
    (void)state;
    static const int all[] = {200, 204, 400, 401, 403, 404, 405, 408, 413, 414,
                              415, 417, 429, 431, 500, 501, 503, 505, 529};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char line[80];
        tt_metrics_answer(&m, 0, all[i], NULL);
        snprintf(line, sizeof line, "tinytitan_requests_total{path=\"/a\",status=\"%d\"} 1",
                 all[i]);
        expect_line(line);
    }
}

static void more_codes_than_places(void **state)
{
    (void)state;
    static char codes[TT_METRIC_CODES + 1][8];
    for (size_t i = 0; i <= TT_METRIC_CODES; i++) {
        snprintf(codes[i], sizeof codes[i], "c%zu", i);
        tt_metrics_answer(&m, 0, 400, codes[i]);
    }
    expect_line("tinytitan_refusals_total{code=\"c63\"} 1");
    assert_null(strstr(page.data, "\"c64\""));
}

static void histograms(void **state)
{
    (void)state;
    static const double seconds[] = {0, 0.01, 0.02, 0.1, 0.5, 400};
    for (size_t i = 0; i < sizeof seconds / sizeof seconds[0]; i++)
        tt_histogram_add(&m.queue, seconds[i]);
    expect_line("tinytitan_queue_seconds_bucket{le=\"0.01\"} 2");
    expect_line("tinytitan_queue_seconds_bucket{le=\"0.1\"} 4");
    expect_line("tinytitan_queue_seconds_bucket{le=\"1\"} 5");
    expect_line("tinytitan_queue_seconds_bucket{le=\"300\"} 5");
    expect_line("tinytitan_queue_seconds_bucket{le=\"+Inf\"} 6");
    expect_line("tinytitan_queue_seconds_sum 400.63");
    expect_line("tinytitan_queue_seconds_count 6");
    tt_histogram_add(&m.loop, 0.004);
    tt_histogram_add(&m.loop, 0.002);
    expect_line("tinytitan_loop_seconds_bucket{le=\"0.005\"} 2");
    expect_line("tinytitan_loop_max_seconds 0.0040000000000000001");
}

static void models(void **state)
{
    (void)state;
    m.models[0].requests = 2;
    m.models[1].generated_tokens = 9;
    expect_line("tinytitan_model_loaded{model=\"a_4-Bit\"} 0");
    expect_line("tinytitan_model_loads_total{model=\"b\\\"\\\\_8-Bit\"} 0");
    expect_line("tinytitan_model_requests_total{model=\"a_4-Bit\"} 2");
    expect_line("tinytitan_model_generated_tokens_total{model=\"b\\\"\\\\_8-Bit\"} 9");
}

static void numbers(void **state)
{
    (void)state;
    m.cancelled = 3;
    m.prompt_tokens = UINT64_C(1) << 53;
    m.cached_tokens = 7;
    m.generated_tokens = 8;
    m.prefill_rate = 12.5;
    m.decode_rate = 0.25;
    now.connections = 2;
    now.running = 1;
    now.waiting = 4;
    now.request_memory = 1000;
    now.stored_responses = 3;
    now.stored_bytes = 5000;
    now.prefill_done = 5;
    now.prefill_total = 9;
    now.stats.model = (tt_model_stats){.expert_asks = 8,
                                       .expert_hits = 6,
                                       .expert_misses = 2,
                                       .expert_bytes_read = 4096,
                                       .draft_guessed = 5,
                                       .draft_right = 3};
    now.stats.cache = (tt_state_cache_stats){
        .limit = 900, .bytes = 800, .checkpoints = 6, .evicted = 4, .refused[TT_REFUSED_IO] = 2};
    now.stats.cache.served[TT_TIER_RAM][TT_CHECKPOINT_TURN] = 640;
    now.stats.cache.served[TT_TIER_SESSION][TT_CHECKPOINT_GENERATION] = 64;
    static const char *const lines[] = {
        "tinytitan_prompt_cache_tokens_total{tier=\"ram\",kind=\"turn\"} 640",
        "tinytitan_prompt_cache_tokens_total{tier=\"session\",kind=\"generation\"} 64",
        "tinytitan_prompt_cache_refusals_total{reason=\"io\"} 2",
        "tinytitan_prompt_cache_refusals_total{reason=\"key\"} 0",
        "tinytitan_prompt_cache_evictions_total 4",
        "tinytitan_prompt_cache_bytes 800",
        "tinytitan_prompt_cache_limit_bytes 900",
        "tinytitan_prompt_cache_checkpoints 6",
        "tinytitan_draft_guesses_total 5",
        "tinytitan_draft_guesses_right_total 3",
        "tinytitan_cancelled_total 3",
        "tinytitan_prompt_tokens_total 9007199254740992",
        "tinytitan_cached_tokens_total 7",
        "tinytitan_generated_tokens_total 8",
        "tinytitan_prefill_tokens_per_second 12.5",
        "tinytitan_decode_tokens_per_second 0.25",
        "tinytitan_connections 2",
        "tinytitan_queue_running 1",
        "tinytitan_queue_waiting 4",
        "tinytitan_request_memory_bytes 1000",
        "tinytitan_stored_responses 3",
        "tinytitan_stored_response_bytes 5000",
        "tinytitan_prefill_tokens_done 5",
        "tinytitan_prefill_tokens 9",
        "tinytitan_expert_hits_total 6",
        "tinytitan_expert_misses_total 2",
        "tinytitan_expert_read_bytes_total 4096",
        "tinytitan_expert_hit_ratio 0.75",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        expect_line(lines[i]);
    now.stats.model.expert_asks = 0; /* a dense model */
    expect_line("tinytitan_expert_hit_ratio 0");
}

/* Walks the page: each family is announced once, with help and type, before its samples. */
static void families_are_announced(void **state)
{
    (void)state;
    char family[96] = "", type[16] = "", name[128], *copy, *at = NULL;
    size_t families = 0;
    tt_metrics_answer(&m, 0, 404, "not_found");
    copy = strdup(written());
    for (char *line = strtok_r(copy, "\n", &at); line != NULL; line = strtok_r(NULL, "\n", &at)) {
        if (sscanf(line, "# HELP %95s", family) == 1) {
            line = strtok_r(NULL, "\n", &at);
            assert_int_equal(sscanf(line, "# TYPE %127s %15s", name, type), 2);
            assert_string_equal(name, family);
            bool total = strlen(name) > 6 && strcmp(name + strlen(name) - 6, "_total") == 0;
            assert_int_equal(total, strcmp(type, "counter") == 0);
            families++;
            continue;
        }
        if (strncmp(line, family, strlen(family)) != 0 ||
            (line[strlen(family)] != ' ' && line[strlen(family)] != '{' &&
             strcmp(type, "histogram") != 0))
            fail_msg("under %s stands: %s", family, line);
    }
    free(copy);
    assert_int_equal(families, 48);
}

/* The metric is in the table of the page, in a row with its type. */
static void look_for(const char *section, const char *name, const char *type)
{
    char word[160], kind[32];
    snprintf(word, sizeof word, "`%s", name);
    snprintf(kind, sizeof kind, "| %s |", type);
    for (const char *at = section; (at = strstr(at, word)) != NULL; at++) {
        const char *end = strchr(at, '\n'), *found = strstr(at, kind);
        if ((at[strlen(word)] == '`' || at[strlen(word)] == '{') && found != NULL && found < end)
            return;
    }
    fail_msg("docs/http.md, section 9, lacks %s, a %s", name, type);
}

static void the_page_says_the_same(void **state)
{
    (void)state;
    char *doc, name[128], type[16];
    size_t len, written_there = 0, written_here = 0;
    assert_int_equal(tt_file_read("docs/http.md", 1 << 20, &doc, &len, NULL), TT_OK);
    char *section = strstr(doc, "\n## 9. "), *end = strstr(section, "\n## 10. ");
    *end = '\0';
    for (const char *at = section; (at = strstr(at, "`tinytitan_")) != NULL; at++)
        written_there++;
    for (const char *at = written(); (at = strstr(at, "# TYPE ")) != NULL; at++) {
        assert_int_equal(sscanf(at, "# TYPE %127s %15s", name, type), 2);
        look_for(section, name, type);
        written_here++;
    }
    assert_int_equal(written_here, written_there);
    tt_free(doc);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(answers_and_refusals),
        WITH(every_status),
        WITH(more_codes_than_places),
        WITH(histograms),
        WITH(models),
        WITH(numbers),
        WITH(families_are_announced),
        WITH(the_page_says_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
