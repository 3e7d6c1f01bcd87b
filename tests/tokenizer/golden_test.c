/* Proves that ids and text are those of the reference tokenizer, on thousands of strings in many
 * scripts and under other settings of tokenizer.json (tests/golden/tokenizer; the same program
 * compares other folders: golden_test TOKENIZER_DIR GOLDEN_DIR NAME). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "tokenizer/tokenizer_impl.h"

#define SHOW_AT_MOST 10u

typedef struct tally {
    size_t passed, failed;
} tally;

static void complain(tally *t, const char *what, size_t line, const char *detail)
{
    if (t->failed++ < SHOW_AT_MOST)
        fprintf(stderr, "%s, line %zu: %s\n", what, line, detail);
}

static char *slurp(const char *dir, const char *name, size_t *len)
{
    char path[TT_MAX_PATH];
    tt_error err = {0};
    char *text = NULL;
    if (tt_path_join(path, dir, name, &err) != TT_OK ||
        tt_file_read(path, 256 * TT_MIB, &text, len, &err) != TT_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    return text;
}

/* The next line of a file that was slurped, its newline replaced by NUL; NULL at the end. */
static char *next_line(char **rest)
{
    char *line = *rest, *end = strchr(line, '\n');
    if (end == NULL)
        return NULL;
    *end = '\0';
    *rest = end + 1;
    return line;
}

static json_t *parse(const char *text, size_t len)
{
    tt_error err = {0};
    json_t *v = NULL;
    if (tt_json_parse(text, len, "golden file", &v, &err) != TT_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    return v;
}

static char *ids_text(const uint32_t *ids, size_t n)
{
    char *out = malloc(n * 12 + 1), *p = out;
    *p = '\0';
    for (size_t i = 0; i < n; i++)
        p += sprintf(p, i == 0 ? "%u" : " %u", ids[i]);
    return out;
}

static uint32_t *ids_from(char *text, size_t *n)
{
    uint32_t *ids = malloc((strlen(text) / 2 + 1) * sizeof *ids);
    *n = 0;
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " "))
        ids[(*n)++] = (uint32_t)strtoul(word, NULL, 10);
    return ids;
}

/* One string against the ids that it must have. */
static void check_encode(const tt_tokenizer *tok, const json_t *text, const char *want,
                         const char *what, size_t line, tally *t)
{
    uint32_t *ids = NULL;
    size_t n = 0;
    tt_error err = {0};
    if (tt_tokenizer_encode(tok, json_string_value(text), json_string_length(text), true, &ids, &n,
                            &err) != TT_OK) {
        complain(t, what, line, err.message);
        return;
    }
    char *got = ids_text(ids, n);
    if (strcmp(got, want) == 0) {
        t->passed++;
    } else {
        char detail[400];
        snprintf(detail, sizeof detail, "\"%.80s\" gives %.120s, must give %.120s",
                 json_string_value(text), got, want);
        complain(t, what, line, detail);
    }
    free(got);
    tt_free(ids);
}

static void check_ids(const tt_tokenizer *tok, const char *golden, const char *name, tally *t)
{
    char file[64];
    size_t len = 0, line = 0;
    snprintf(file, sizeof file, "%s.ids", name);
    char *strings = slurp(golden, "strings.txt", &len), *ids = slurp(golden, file, &len);
    char *rest = strings, *rest_ids = ids, *text, *want;
    while ((text = next_line(&rest)) != NULL && (want = next_line(&rest_ids)) != NULL) {
        json_t *s = parse(text, strlen(text));
        check_encode(tok, s, want, file, ++line, t);
        json_decref(s);
    }
    if (line == 0 || *rest != '\0' || *rest_ids != '\0')
        complain(t, file, line, "not one line of ids a string");
    free(strings);
    free(ids);
}

/* Text of ids in one call, and by streaming. */
static void check_text(const tt_tokenizer *tok, const uint32_t *ids, size_t n, bool skip,
                       const json_t *want, size_t line, tally *t)
{
    char *whole = NULL;
    size_t len = 0;
    tt_decoder *dec = NULL;
    tt_error err = {0};
    tt_buf streamed;
    const char *part;
    size_t part_len;
    tt_buf_init(&streamed, TT_MIB);
    if (tt_tokenizer_decode(tok, ids, n, skip, &whole, &len, &err) != TT_OK ||
        tt_decoder_create(tok, skip, &dec, &err) != TT_OK) {
        complain(t, "decode.txt", line, err.message);
        return;
    }
    for (size_t i = 0; i < n && tt_decoder_push(dec, ids[i], &part, &part_len, &err) == TT_OK; i++)
        tt_buf_append(&streamed, part, part_len);
    tt_decoder_flush(dec, &part, &part_len);
    tt_buf_append(&streamed, part, part_len);
    bool same = len == json_string_length(want) && !memcmp(whole, json_string_value(want), len);
    bool same_stream = streamed.len == len && (len == 0 || !memcmp(streamed.data, whole, len));
    if (same && same_stream)
        t->passed++;
    else
        complain(t, "decode.txt", line, same ? "streaming gives other text" : whole);
    tt_decoder_close(&dec);
    tt_buf_free(&streamed);
    tt_free(whole);
}

static void check_decode(const tt_tokenizer *tok, const char *golden, tally *t)
{
    size_t len = 0, line = 0, n = 0;
    char *text = slurp(golden, "decode.txt", &len), *rest = text, *row;
    while ((row = next_line(&rest)) != NULL) {
        char *with = strchr(row, '\t'), *without = with == NULL ? NULL : strchr(with + 1, '\t');
        if (without == NULL) {
            complain(t, "decode.txt", line, "not three columns");
            break;
        }
        *with++ = '\0';
        *without++ = '\0';
        uint32_t *ids = ids_from(row, &n);
        json_t *a = parse(with, strlen(with)), *b = parse(without, strlen(without));
        check_text(tok, ids, n, false, a, ++line, t);
        check_text(tok, ids, n, true, b, line, t);
        json_decref(a);
        json_decref(b);
        free(ids);
    }
    free(text);
}

/* The base file with the keys of `patch` replaced, those of "model" one by one. */
static tt_tokenizer *patched(const char *base, size_t len, const json_t *patch)
{
    json_t *tree = parse(base, len), *v;
    const char *key;
    json_object_foreach((json_t *)patch, key, v)
    {
        if (strcmp(key, "model") == 0)
            json_object_update(json_object_get(tree, key), v);
        else
            json_object_set(tree, key, v);
    }
    char *text = json_dumps(tree, JSON_COMPACT);
    tt_tokenizer *tok = NULL;
    tt_error err = {0};
    if (tt_tokenizer_build(text, strlen(text), "patched tokenizer.json", NULL, NULL, &tok, &err) !=
        TT_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    free(text);
    json_decref(tree);
    return tok;
}

static void check_variants(const char *dir, const char *golden, tally *t)
{
    size_t base_len = 0, len = 0, i, k, j;
    char *base = slurp(dir, "tokenizer.json", &base_len);
    char *text = slurp(golden, "variants.json", &len);
    json_t *list = parse(text, len), *variant, *one, *id;
    json_array_foreach(list, i, variant)
    {
        const char *name = json_string_value(json_object_get(variant, "name"));
        tt_tokenizer *tok = patched(base, base_len, json_object_get(variant, "patch"));
        json_array_foreach(json_object_get(variant, "cases"), k, one)
        {
            const json_t *ids = json_array_get(one, 1);
            uint32_t *v = malloc((json_array_size(ids) + 1) * sizeof *v);
            json_array_foreach(ids, j, id)
            {
                v[j] = (uint32_t)json_integer_value(id);
            }
            char *want = ids_text(v, json_array_size(ids));
            check_encode(tok, json_array_get(one, 0), want, name, k + 1, t);
            free(want);
            free(v);
        }
        tt_tokenizer_close(&tok);
    }
    json_decref(list);
    free(text);
    free(base);
}

static tt_tokenizer *open_or_exit(const char *dir)
{
    tt_tokenizer *tok = NULL;
    tt_error err = {0};
    if (tt_tokenizer_open(dir, &tok, &err) != TT_OK) {
        fprintf(stderr, "%s: %s\n", err.file, err.message);
        exit(1);
    }
    return tok;
}

#define TALES  "models/tales"
#define GOLDEN "tests/golden/tokenizer"

static void shipped_tokenizer_gives_the_reference_ids(void **state)
{
    tally t = {0};
    tt_tokenizer *tok = open_or_exit(TALES);
    check_ids(tok, GOLDEN, "tales", &t);
    tt_tokenizer_close(&tok);
    assert_int_equal(t.failed, 0);
    assert_true(t.passed >= 1900);
}

static void shipped_tokenizer_gives_the_reference_text(void **state)
{
    tally t = {0};
    tt_tokenizer *tok = open_or_exit(TALES);
    check_decode(tok, GOLDEN, &t);
    tt_tokenizer_close(&tok);
    assert_int_equal(t.failed, 0);
    assert_true(t.passed >= 800);
}

static void other_settings_give_the_reference_ids(void **state)
{
    tally t = {0};
    check_variants(TALES, GOLDEN, &t);
    assert_int_equal(t.failed, 0);
    assert_true(t.passed >= 300);
}

/* Prompts and greedy continuations of the model's vectors. */
static void vector_cases_agree(void **state)
{
    size_t len = 0, i, pairs = 0;
    char *text = slurp("tests/vectors/tales", "cases.json", &len);
    json_t *cases = parse(text, len), *form, *one, *id;
    const char *tag, *name;
    tt_tokenizer *tok = open_or_exit(TALES);
    static const char *const keys[][2] = {{"prompt", "prompt_ids"}, {"greedy_text", "greedy_ids"}};
    json_object_foreach(cases, tag, form)
    {
        json_object_foreach(form, name, one)
        {
            for (size_t k = 0; k < 2; k++) {
                const json_t *want = json_object_get(one, keys[k][0]);
                const json_t *ids = json_object_get(one, keys[k][1]);
                uint32_t v[4096];
                char *got = NULL;
                if (!json_is_string(want) || !json_is_array(ids))
                    continue;
                assert_true(json_array_size(ids) <= 4096);
                json_array_foreach(ids, i, id)
                {
                    v[i] = (uint32_t)json_integer_value(id);
                }
                assert_int_equal(
                    tt_tokenizer_decode(tok, v, json_array_size(ids), false, &got, &len, NULL),
                    TT_OK);
                assert_string_equal(got, json_string_value(want));
                tt_free(got);
                if (k == 0) { /* a model may write what the encoder would cut otherwise */
                    tally t = {0};
                    char *line = ids_text(v, json_array_size(ids));
                    check_encode(tok, want, line, name, 0, &t);
                    assert_int_equal(t.failed, 0);
                    free(line);
                }
                pairs++;
            }
        }
    }
    assert_true(pairs >= 40);
    tt_tokenizer_close(&tok);
    json_decref(cases);
    free(text);
}

int main(int argc, char **argv)
{
    if (argc == 4) {
        tally t = {0};
        tt_tokenizer *tok = open_or_exit(argv[1]);
        check_ids(tok, argv[2], argv[3], &t);
        if (strcmp(argv[3], "tales") == 0) {
            check_decode(tok, argv[2], &t);
            check_variants(argv[1], argv[2], &t);
        }
        tt_tokenizer_close(&tok);
        printf("%zu passed, %zu failed, 0 skipped\n", t.passed, t.failed);
        return t.failed > 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_tokenizer_gives_the_reference_ids),
        cmocka_unit_test(shipped_tokenizer_gives_the_reference_text),
        cmocka_unit_test(other_settings_give_the_reference_ids),
        cmocka_unit_test(vector_cases_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
