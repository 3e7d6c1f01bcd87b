#include "session/state_key.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"

#define TOKENIZER     TT_TOKENIZER_DIR "/"
#define TEMPLATE      TOKENIZER "chat_template"
#define MOST_RENDER   32u
#define RENDER_LETTER "abcdefghijklmnopqrstuvwxyz0123456789_.-"

static bool begins(const char *rel, const char *with)
{
    return strncmp(rel, with, strlen(with)) == 0;
}

static bool is_template(const char *rel)
{
    return begins(rel, TEMPLATE);
}

static bool is_tokenizer(const char *rel)
{
    return begins(rel, TOKENIZER) && !is_template(rel);
}

static bool is_model(const char *rel)
{
    return !begins(rel, TOKENIZER);
}

/* Of "name digest" of each file that is one of them, a line each, after `first`. "none" when there
 * is neither. */
static tt_status digest(const tt_install *in, bool (*is)(const char *rel), const char *first,
                        char out[65], tt_error *err)
{
    tt_buf b;
    tt_buf_init(&b, TT_MAX_MANIFEST);
    tt_buf_puts(&b, first);
    for (size_t i = 0; i < tt_install_file_count(in); i++) {
        const tt_install_file *f = tt_install_file_at(in, i);
        if (is(f->rel))
            tt_buf_printf(&b, "%s %s\n", f->rel, f->sha256);
    }
    tt_status st = tt_buf_status(&b, err);
    if (st == TT_OK && b.len == 0)
        snprintf(out, 65, "none");
    else if (st == TT_OK)
        st = tt_sha256_of(b.data, b.len, out, err);
    tt_buf_free(&b);
    return st;
}

/* The architecture as the manifest has it, and every file of weights. */
static tt_status digest_model(const tt_install *in, char out[65], tt_error *err)
{
    const json_t *arch = json_object_get(tt_install_manifest(in), "arch");
    char *text = json_dumps(arch, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    if (text == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the architecture's text");
    tt_status st = digest(in, is_model, text, out, err);
    tt_free(text);
    return st;
}

tt_status tt_state_key_of(const tt_model *m, const char *render, tt_state_key *out, tt_error *err)
{
    size_t n = strlen(render);
    tt_state_key k = {.kv_bits = m->plan.kv_bits,
                      .yarn_factor = m->arch.yarn_factor,
                      .yarn_original_context = m->arch.yarn_original_context,
                      .render = render,
                      .backend = m->be->name,
                      .level = m->be->level,
                      .numerics = TT_NUMERICS_VERSION};
    if (n == 0 || n > MOST_RENDER || render[strspn(render, RENDER_LETTER)] != '\0')
        return tt_fail(err, TT_ERR_INVALID,
                       "the render mode \"%s\" is no word of 1 to %u of a-z 0-9 _ . -", render,
                       MOST_RENDER);
    TT_TRY(digest_model(m->install, k.model, err));
    TT_TRY(digest(m->install, is_tokenizer, "", k.tokenizer, err));
    TT_TRY(digest(m->install, is_template, "", k.template_, err));
    *out = k;
    return TT_OK;
}

void tt_state_key_write(const tt_state_key *k, char out[TT_STATE_KEY])
{
    char rope[64] = "none";
    if (k->yarn_factor > 1.0)
        snprintf(rope, sizeof rope, "yarn %.9g %u", k->yarn_factor, k->yarn_original_context);
    snprintf(out, TT_STATE_KEY,
             "state 1\nmodel %s\ntokenizer %s\ntemplate %s\nkv-bits %u\nrope %s\nrender %s\n"
             "backend %s\nlevel %s\nnumerics %u\n",
             k->model, k->tokenizer, k->template_, k->kv_bits, rope, k->render, k->backend,
             k->level, k->numerics);
}
