/* Proves what a tokenizer takes from the files beside tokenizer.json: end ids, sampling defaults,
 * named tokens, the chat template; and that each may be missing and none may be broken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/limits.h"
#include "tokenizer/tokenizer.h"

#define TOKENIZER                                                                                  \
    "{\"added_tokens\":[{\"id\":7,\"content\":\"<|im_end|>\",\"special\":true},"                   \
    "{\"id\":8,\"content\":\"<|endoftext|>\",\"special\":true},{\"id\":9,\"content\":\"</s>\"}],"  \
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"                       \
    "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}"

typedef struct place {
    char dir[64];
} place;

static void put(const place *p, const char *name, const char *text)
{
    char path[TT_MAX_PATH];
    assert_int_equal(tt_path_join(path, p->dir, name, NULL), TT_OK);
    assert_int_equal(tt_file_publish(path, text, strlen(text), NULL), TT_OK);
}

static void make_place(place *p)
{
    strcpy(p->dir, "/tmp/tt-token-files-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    put(p, "tokenizer.json", TOKENIZER);
}

static void drop_place(place *p)
{
    assert_int_equal(tt_dir_remove(p->dir, NULL), TT_OK);
}

static tt_tokenizer *open_place(const place *p)
{
    tt_tokenizer *tok = NULL;
    tt_error err = {0};
    if (tt_tokenizer_open(p->dir, &tok, &err) != TT_OK)
        fail_msg("%s: %s", err.file, err.message);
    return tok;
}

static void expect_stops(const place *p, size_t n, const uint32_t *want)
{
    tt_tokenizer *tok = open_place(p);
    size_t got = 0;
    const uint32_t *ids = tt_tokenizer_stop_ids(tok, &got);
    assert_int_equal(got, n);
    if (n > 0)
        assert_memory_equal(ids, want, n * sizeof *ids);
    tt_tokenizer_close(&tok);
}

static void expect_refused(const place *p, const char *file, const char *says)
{
    tt_tokenizer *tok = NULL;
    tt_error err = {0};
    assert_int_not_equal(tt_tokenizer_open(p->dir, &tok, &err), TT_OK);
    assert_null(tok);
    if (strstr(err.file, file) == NULL || strstr(err.message, says) == NULL)
        fail_msg("%s: %s", err.file, err.message);
}

static void end_ids_are_the_union(void **state)
{
    place p;
    make_place(&p);
    expect_stops(&p, 2, (uint32_t[]){7, 8}); /* no generation_config.json: both */
    put(&p, "tokenizer_config.json", "{\"eos_token\":{\"content\":\"</s>\"}}");
    expect_stops(&p, 3, (uint32_t[]){9, 7, 8});
    put(&p, "config.json", "{\"eos_token_id\":5,\"text_config\":{\"eos_token_id\":[6,5]}}");
    expect_stops(&p, 5, (uint32_t[]){5, 6, 9, 7, 8});
    put(&p, "generation_config.json", "{\"eos_token_id\":[7,3]}");
    expect_stops(&p, 5, (uint32_t[]){7, 3, 5, 6, 9});
    put(&p, "generation_config.json", "{\"eos_token_id\":null}");
    put(&p, "config.json", "{}");
    put(&p, "tokenizer_config.json", "{\"eos_token\":null}");
    expect_stops(&p, 0, NULL);
    put(&p, "generation_config.json", "{\"eos_token_id\":-1}");
    expect_refused(&p, "generation_config.json", "eos_token_id");
    put(&p, "generation_config.json", "{\"eos_token_id\":[7,\"8\"]}");
    expect_refused(&p, "generation_config.json", "eos_token_id");
    put(&p, "generation_config.json", "{}");
    put(&p, "config.json", "{\"eos_token_id\":4194304}");
    expect_refused(&p, "config.json", "eos_token_id");
    /* An end that the model cannot say, in whichever file it stands. */
    put(&p, "config.json", "{\"text_config\":{\"vocab_size\":10,\"eos_token_id\":9}}");
    expect_stops(&p, 1, (uint32_t[]){9});
    put(&p, "config.json", "{\"text_config\":{\"vocab_size\":10,\"eos_token_id\":10}}");
    expect_refused(&p, "/config.json", "names id 10, the model's vocabulary has the ids 0 to 9");
    put(&p, "config.json", "{\"vocab_size\":10,\"eos_token_id\":-1}");
    expect_refused(&p, "/config.json", "names id -1");
    put(&p, "config.json", "{\"vocab_size\":10}");
    put(&p, "generation_config.json", "{\"eos_token_id\":[9,99999]}");
    expect_refused(&p, "generation_config.json", "names id 99999");
    put(&p, "generation_config.json", "{}");
    put(&p, "config.json", "[]");
    expect_refused(&p, "config.json", "object");
    put(&p, "config.json", "{");
    expect_refused(&p, "config.json", "broken JSON");
    drop_place(&p);
}

static tt_sampler_options sampling(const place *p, bool there)
{
    tt_sampler_options o;
    memset(&o, 0x5a, sizeof o);
    tt_tokenizer *tok = open_place(p);
    assert_int_equal(tt_tokenizer_sampling_defaults(tok, &o), there);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(o.reserved[i], 0);
    assert_int_equal(o.seed, 0);
    tt_tokenizer_close(&tok);
    return o;
}

static void sampling_defaults_come_from_the_file(void **state)
{
    place p;
    make_place(&p);
    tt_sampler_options o = sampling(&p, false);
    assert_true(o.temperature == 0 && o.top_k == 0 && o.top_p == 1 && o.min_p == 0);
    assert_true(o.repetition_penalty == 1 && o.presence_penalty == 0 && o.frequency_penalty == 0);
    put(&p, "generation_config.json",
        "{\"do_sample\":true,\"temperature\":0.5,\"top_k\":20,\"top_p\":0.75,\"min_p\":0.25,"
        "\"repetition_penalty\":1.5,\"presence_penalty\":1,\"frequency_penalty\":-0.5}");
    o = sampling(&p, true);
    assert_true(o.temperature == 0.5F && o.top_k == 20 && o.top_p == 0.75F && o.min_p == 0.25F);
    assert_true(o.repetition_penalty == 1.5F && o.presence_penalty == 1 &&
                o.frequency_penalty == -0.5F);
    put(&p, "generation_config.json", "{\"do_sample\":false,\"temperature\":0.5}");
    assert_true(sampling(&p, true).temperature == 0);
    put(&p, "generation_config.json", "{\"do_sample\":true,\"top_k\":-1}");
    o = sampling(&p, true);
    assert_true(o.temperature == 1 && o.top_k == 0);
    put(&p, "generation_config.json", "{\"temperature\":0.25}");
    assert_true(sampling(&p, true).temperature == 0.25F);
    put(&p, "generation_config.json", "{}");
    assert_true(sampling(&p, true).temperature == 0);
    put(&p, "generation_config.json", "{\"top_p\":3}");
    expect_refused(&p, "generation_config.json", "top_p");
    put(&p, "generation_config.json", "{\"temperature\":-1}");
    expect_refused(&p, "generation_config.json", "temperature");
    put(&p, "generation_config.json", "{\"do_sample\":\"yes\"}");
    expect_refused(&p, "generation_config.json", "do_sample");
    drop_place(&p);
}

static void expect_template(const place *p, const char *want, const char *file)
{
    tt_tokenizer *tok = open_place(p);
    size_t len = 0;
    const char *text = tt_tokenizer_template(tok, &len);
    assert_true(tt_tokenizer_has_template(tok));
    assert_non_null(text);
    assert_string_equal(text, want);
    assert_int_equal(len, strlen(want));
    assert_non_null(strstr(tt_tokenizer_template_file(tok), file));
    tt_tokenizer_close(&tok);
}

static void the_template_is_looked_for_in_order(void **state)
{
    place p;
    make_place(&p);
    tt_tokenizer *tok = open_place(&p);
    assert_false(tt_tokenizer_has_template(tok));
    assert_null(tt_tokenizer_template(tok, NULL));
    assert_non_null(strstr(tt_tokenizer_template_file(tok), "/chat_template.jinja"));
    assert_string_equal(tt_tokenizer_missing(tok),
                        "tokenizer_config.json, config.json, generation_config.json, "
                        "chat_template.jinja, chat_template.json");
    tt_tokenizer_close(&tok);
    put(&p, "chat_template.json", "{\"chat_template\":\"third\"}");
    expect_template(&p, "third", "chat_template.json");
    put(&p, "tokenizer_config.json",
        "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"x\"},"
        "{\"name\":\"default\",\"template\":\"second\"}]}");
    expect_template(&p, "second", "tokenizer_config.json");
    put(&p, "tokenizer_config.json", "{\"chat_template\":\"2nd\"}");
    expect_template(&p, "2nd", "tokenizer_config.json");
    put(&p, "chat_template.jinja", "first\n");
    expect_template(&p, "first\n", "chat_template.jinja");
    put(&p, "chat_template.jinja", "\xff");
    expect_refused(&p, "chat_template.jinja", "UTF-8");
    drop_place(&p);
    make_place(&p);
    put(&p, "tokenizer_config.json", "{\"chat_template\":[{\"name\":\"x\",\"template\":\"y\"}]}");
    tok = open_place(&p);
    assert_false(tt_tokenizer_has_template(tok));
    tt_tokenizer_close(&tok);
    put(&p, "tokenizer_config.json", "{\"chat_template\":7}");
    expect_refused(&p, "tokenizer_config.json", "chat_template");
    drop_place(&p);
}

static void named_tokens_are_strings_or_objects(void **state)
{
    place p;
    make_place(&p);
    put(&p, "tokenizer_config.json",
        "{\"bos_token\":null,\"eos_token\":\"<|im_end|>\",\"pad_token\":{\"content\":\"p\"}}");
    tt_tokenizer *tok = open_place(&p);
    assert_null(tt_tokenizer_named_token(tok, TT_TOKEN_BOS));
    assert_string_equal(tt_tokenizer_named_token(tok, TT_TOKEN_EOS), "<|im_end|>");
    assert_string_equal(tt_tokenizer_named_token(tok, TT_TOKEN_PAD), "p");
    assert_null(tt_tokenizer_named_token(tok, TT_TOKEN_UNK));
    assert_string_equal(tt_tokenizer_dir(tok), p.dir);
    tt_tokenizer_close(&tok);
    put(&p, "tokenizer_config.json", "{\"bos_token\":3}");
    expect_refused(&p, "tokenizer_config.json", "bos_token");
    drop_place(&p);
}

static void an_install_keeps_them_in_a_subfolder(void **state)
{
    place p, sub;
    char path[TT_MAX_PATH];
    tt_tokenizer *tok = NULL;
    tt_error err = {0};
    strcpy(p.dir, "/tmp/tt-token-files-XXXXXX");
    assert_non_null(mkdtemp(p.dir));
    assert_int_equal(tt_tokenizer_open(p.dir, &tok, &err), TT_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "tokenizer.json is missing"));
    assert_int_equal(tt_path_join(path, p.dir, "tokenizer", NULL), TT_OK);
    assert_int_equal(tt_dir_make(path, NULL), TT_OK);
    snprintf(sub.dir, sizeof sub.dir, "%.63s", path);
    put(&sub, "tokenizer.json", TOKENIZER);
    put(&sub, "generation_config.json", "{\"eos_token_id\":4}");
    expect_stops(&p, 1, (uint32_t[]){4});
    tok = open_place(&p);
    assert_string_equal(tt_tokenizer_dir(tok), sub.dir);
    tt_tokenizer_close(&tok);
    /* Files at the top are those of a checkpoint, and strangers in an install. */
    put(&p, "tokenizer.json", TOKENIZER);
    tok = open_place(&p);
    assert_string_equal(tt_tokenizer_dir(tok), p.dir);
    tt_tokenizer_close(&tok);
    put(&p, "manifest.json", "{}");
    tok = open_place(&p);
    assert_string_equal(tt_tokenizer_dir(tok), sub.dir);
    tt_tokenizer_close(&tok);
    assert_int_equal(tt_dir_remove(sub.dir, NULL), TT_OK);
    expect_refused(&p, "tokenizer/tokenizer.json", "convert the checkpoint again");
    drop_place(&p);
    assert_int_equal(tt_tokenizer_open(p.dir, &tok, &err), TT_ERR_NOT_FOUND);
    assert_int_equal(tt_tokenizer_open(NULL, &tok, &err), TT_ERR_INVALID);
}

static void the_shipped_model(void **state)
{
    tt_tokenizer *tok = NULL;
    tt_sampler_options o;
    size_t n = 0;
    assert_int_equal(tt_tokenizer_open("models/tales", &tok, NULL), TT_OK);
    const uint32_t *ids = tt_tokenizer_stop_ids(tok, &n);
    assert_int_equal(n, 2);
    assert_int_equal(ids[0], 4089);
    assert_int_equal(ids[1], 4087);
    assert_int_equal(tt_tokenizer_vocab_size(tok), 4096);
    assert_true(tt_tokenizer_sampling_defaults(tok, &o));
    assert_true(o.temperature == 0.7F && o.top_k == 20 && o.top_p == 0.95F);
    tt_tokenizer_close(&tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(end_ids_are_the_union),
        cmocka_unit_test(sampling_defaults_come_from_the_file),
        cmocka_unit_test(the_template_is_looked_for_in_order),
        cmocka_unit_test(named_tokens_are_strings_or_objects),
        cmocka_unit_test(an_install_keeps_them_in_a_subfolder),
        cmocka_unit_test(the_shipped_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
