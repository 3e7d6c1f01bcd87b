/* Proves that no bytes, taken as one of the files beside tokenizer.json, do harm: a first byte of
 * g, c, t, j or x makes the rest generation_config.json, config.json, tokenizer_config.json,
 * chat_template.json or chat_template.jinja. What is accepted is good for what follows: end ids lie
 * within the vocabulary, a sampler takes the sampling defaults, a template is text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "tokenizer/jinja.h"
#include "tokenizer/token_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct {
    char letter;
    const char *name;
} files[] = {{'g', "generation_config.json"},
             {'c', "config.json"},
             {'t', "tokenizer_config.json"},
             {'j', "chat_template.json"},
             {'x', "chat_template.jinja"}};

static char dir[512];

static void remove_dir(void)
{
    if (tt_dir_remove(dir, NULL) != TT_OK)
        fprintf(stderr, "%s is left\n", dir);
}

static void write_file(const char *name, const void *bytes, size_t n)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(bytes, 1, n, f) != n || fclose(f) != 0)
        abort();
}

static void make_dir(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/tt-fuzz-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(dir) == NULL)
        abort();
    atexit(remove_dir);
    write_file("tokenizer.json", "{}", 2);
}

static void check(const tt_token_files *tf)
{
    tt_sampler *s = NULL;
    tt_error err = {0};
    for (size_t i = 0; i < tf->n_stops; i++)
        if (tf->stops[i] >= tf->vocab || tf->vocab > TT_MAX_VOCAB)
            abort();
    if (tt_sampler_create(&tf->sampling, 16, &s, &err) != TT_OK)
        abort();
    tt_sampler_close(&s);
    if (tf->template_text == NULL)
        return;
    if (strlen(tf->template_text) != tf->template_len)
        abort();
    if (tt_jinja_check(tf->template_text, tf->template_len, NULL, &err) != TT_OK &&
        err.message[0] == '\0')
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tt_token_files tf;
    tt_error err = {0};
    char path[600];
    size_t k = 0;
    if (dir[0] == '\0')
        make_dir();
    while (k < sizeof files / sizeof *files && (size == 0 || files[k].letter != (char)data[0]))
        k++;
    if (k == sizeof files / sizeof *files)
        return 0;
    write_file(files[k].name, data + 1, size - 1);
    tt_status st = tt_token_files_load(dir, &tf, &err);
    if (st == TT_OK) {
        check(&tf);
        tt_token_files_free(&tf);
    } else if (err.message[0] == '\0' || err.status != st) {
        abort();
    }
    snprintf(path, sizeof path, "%s/%s", dir, files[k].name);
    unlink(path);
    return 0;
}
