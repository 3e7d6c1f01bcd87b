#include "connect/connect_clients.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "connect/settings_json.h"

#define MOST_TEXT   (1u << 20)
#define ANY_KEY     "local" /* clients want one where the server asks for none */
#define LONG_MS     3600000 /* of waiting for a model that reads a long prompt from a disk */
#define OWN_NAME    "tinytitan"
#define ANSWER_MOST 32768u

/* ---- helpers ---- */

static const tt_connect_model *chosen(const tt_connect_wish *w)
{
    return &w->models.list[w->models.chosen];
}

static uint32_t answer_of(const tt_connect_model *m)
{
    uint32_t n = m->context / 4;
    return n < 1 ? 1 : n > ANSWER_MOST ? ANSWER_MOST : n;
}

static json_t *url(const tt_connect_wish *w, const char *tail)
{
    return json_sprintf("http://127.0.0.1:%u%s", w->port, tail);
}

static json_t *number_text(uint32_t n)
{
    return json_sprintf("%u", n);
}

static void add(tt_connect_plan *p, tt_connect_edit e)
{
    p->edits[p->n++] = e;
}

#define SET(p, v, ...)                                                                             \
    add((p), (tt_connect_edit){.kind = TT_EDIT_SET, .path = {__VA_ARGS__}, .value = (v)})

static tt_status in_home(const tt_connect_wish *w, const char *name, char path[TT_MAX_PATH],
                         tt_error *err)
{
    if (w->home == NULL || w->home[0] == '\0')
        return tt_fail(err, TT_ERR_INVALID, "HOME is not set");
    return tt_path_join(path, w->home, name, err);
}

/* NAME in the folder that a variable names, else in `otherwise` of the home. */
static tt_status in_folder(const tt_connect_wish *w, const char *folder, const char *otherwise,
                           const char *name, char path[TT_MAX_PATH], tt_error *err)
{
    char dir[TT_MAX_PATH];
    if (folder != NULL && folder[0] == '/')
        return tt_path_join(path, folder, name, err);
    TT_TRY(in_home(w, otherwise, dir, err));
    return tt_path_join(path, dir, name, err);
}

/* A text in quotes, for TOML and YAML too: ids hold neither quotes nor backslashes that JSON would
 * write in another way. */
static void quoted(tt_buf *b, const char *text)
{
    json_t *v = json_string(text);
    char *s = json_dumps(v, JSON_ENCODE_ANY);
    tt_buf_puts(b, s != NULL ? s : "\"\"");
    tt_free(s);
    json_decref(v);
}

static void note_key(const tt_connect_wish *w, tt_connect_plan *p)
{
    if (w->key_file != NULL)
        tt_buf_printf(&p->notes, "export %s=\"$(cat '%s')\"\n", TT_CONNECT_KEY_VARIABLE,
                      w->key_file);
}

/* ---- clients ---- */

/* A profile is a file of its own, laid over the user's config.toml. */
static tt_status make_codex(const tt_connect_wish *w, tt_connect_plan *p, tt_error *err)
{
    const tt_connect_model *m = chosen(w);
    TT_TRY(in_folder(w, w->codex_home, ".codex", OWN_NAME ".config.toml", p->path, err));
    tt_buf_puts(&p->text, "# Written by tools/connect of TinyTitan: codex --profile tinytitan\n"
                          "model = ");
    quoted(&p->text, m->id);
    tt_buf_printf(&p->text,
                  "\nmodel_provider = \"tinytitan\"\nmodel_context_window = %u\n"
                  "model_auto_compact_token_limit = %u\n\n[model_providers.tinytitan]\n"
                  "name = \"TinyTitan\"\nbase_url = \"http://127.0.0.1:%u/v1\"\n"
                  "wire_api = \"responses\"\nstream_idle_timeout_ms = %d\n",
                  m->context, m->context - m->context / 4, w->port, LONG_MS);
    if (w->key_file != NULL)
        tt_buf_printf(&p->text, "env_key = \"%s\"\n", TT_CONNECT_KEY_VARIABLE);
    note_key(w, p);
    tt_buf_puts(&p->notes, "codex --profile tinytitan\n");
    return TT_OK;
}

static tt_status make_claude(const tt_connect_wish *w, tt_connect_plan *p, tt_error *err)
{
    static const char *const models[] = {
        "ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL", "ANTHROPIC_DEFAULT_SONNET_MODEL",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL", "ANTHROPIC_SMALL_FAST_MODEL"};
    const tt_connect_model *m = chosen(w);
    TT_TRY(in_folder(w, w->claude_dir, ".claude", "settings.json", p->path, err));
    SET(p, url(w, ""), "env", "ANTHROPIC_BASE_URL");
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        SET(p, json_string(m->id), "env", models[i]);
    SET(p, number_text(LONG_MS), "env", "API_TIMEOUT_MS");
    SET(p, number_text(answer_of(m)), "env", "CLAUDE_CODE_MAX_OUTPUT_TOKENS");
    SET(p, number_text(m->context), "env", "CLAUDE_CODE_MAX_CONTEXT_TOKENS");
    SET(p, number_text(m->context), "env", "CLAUDE_CODE_AUTO_COMPACT_WINDOW");
    SET(p, json_string("1"), "env", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC");
    if (w->key_file == NULL) {
        SET(p, json_string(ANY_KEY), "env", "ANTHROPIC_AUTH_TOKEN");
    } else {
        add(p, (tt_connect_edit){.kind = TT_EDIT_REMOVE, .path = {"env", "ANTHROPIC_AUTH_TOKEN"}});
        SET(p, json_sprintf("cat '%s'", w->key_file), "apiKeyHelper");
    }
    tt_buf_puts(&p->notes, "claude\n");
    return TT_OK;
}

static tt_status make_qwen(const tt_connect_wish *w, tt_connect_plan *p, tt_error *err)
{
    json_t *list = json_array();
    TT_TRY(in_home(w, ".qwen/settings.json", p->path, err));
    for (size_t i = 0; i < w->models.n; i++) {
        const tt_connect_model *m = &w->models.list[i];
        json_array_append_new(
            list, json_pack("{s:s, s:o, s:o, s:s, s:{s:i, s:i, s:i}}", "id", m->id, "name",
                            json_sprintf("TinyTitan %s", m->id), "baseUrl", url(w, "/v1"), "envKey",
                            TT_CONNECT_KEY_VARIABLE, "generationConfig", "contextWindowSize",
                            (int)m->context, "timeout", LONG_MS, "streamIdleTimeoutMs", 0));
    }
    add(p, (tt_connect_edit){.kind = TT_EDIT_REPLACE,
                             .path = {"modelProviders", "openai"},
                             .key = "envKey",
                             .own = TT_CONNECT_KEY_VARIABLE,
                             .value = list});
    if (w->key_file == NULL)
        SET(p, json_string(ANY_KEY), "env", TT_CONNECT_KEY_VARIABLE);
    else
        add(p, (tt_connect_edit){.kind = TT_EDIT_REMOVE, .path = {"env", TT_CONNECT_KEY_VARIABLE}});
    SET(p, json_string("0"), "env", "QWEN_STREAM_IDLE_TIMEOUT_MS");
    SET(p, json_string("0"), "env", "QWEN_STREAM_MAX_LIFETIME_MS");
    SET(p, json_string("openai"), "security", "auth", "selectedType");
    SET(p, json_string(chosen(w)->id), "model", "name");
    note_key(w, p);
    tt_buf_puts(&p->notes, "qwen\n");
    return TT_OK;
}

static tt_status make_opencode(const tt_connect_wish *w, tt_connect_plan *p, tt_error *err)
{
    json_t *models = json_object();
    TT_TRY(in_folder(w, w->config_home, ".config", "opencode/opencode.jsonc", p->path, err));
    struct stat sb; /* a link that leads to nothing is the file's place too */
    if (lstat(p->path, &sb) != 0)
        p->path[strlen(p->path) - 1] = '\0';
    for (size_t i = 0; i < w->models.n; i++) {
        const tt_connect_model *m = &w->models.list[i];
        json_object_set_new(models, m->id,
                            json_pack("{s:s, s:{s:i, s:i}}", "name", m->id, "limit", "context",
                                      (int)m->context, "output", (int)answer_of(m)));
    }
    json_t *key =
        w->key_file != NULL ? json_sprintf("{file:%s}", w->key_file) : json_string(ANY_KEY);
    if (!tt_file_exists(p->path))
        SET(p, json_string("https://opencode.ai/config.json"), "$schema");
    SET(p,
        json_pack("{s:s, s:s, s:{s:o, s:o, s:b}, s:o}", "npm", "@ai-sdk/openai-compatible", "name",
                  "TinyTitan", "options", "baseURL", url(w, "/v1"), "apiKey", key, "timeout", 0,
                  "models", models),
        "provider", OWN_NAME);
    SET(p, json_sprintf(OWN_NAME "/%s", chosen(w)->id), "model");
    tt_buf_puts(&p->notes, "opencode\n");
    return TT_OK;
}

static tt_status make_zed(const tt_connect_wish *w, tt_connect_plan *p, tt_error *err)
{
    json_t *models = json_array();
    TT_TRY(in_folder(w, w->config_home, ".config", "zed/settings.json", p->path, err));
    for (size_t i = 0; i < w->models.n; i++) {
        const tt_connect_model *m = &w->models.list[i];
        json_array_append_new(models,
                              json_pack("{s:s, s:o, s:i, s:i, s:{s:b, s:b, s:b, s:b}}", "name",
                                        m->id, "display_name", json_sprintf("TinyTitan %s", m->id),
                                        "max_tokens", (int)m->context, "max_output_tokens",
                                        (int)answer_of(m), "capabilities", "tools", 1, "images", 0,
                                        "parallel_tool_calls", 0, "prompt_cache_key", 0));
    }
    SET(p, json_pack("{s:o, s:o}", "api_url", url(w, "/v1"), "available_models", models),
        "language_models", "openai_compatible", "TinyTitan");
    SET(p, json_pack("{s:s, s:s}", "provider", "TinyTitan", "model", chosen(w)->id), "agent",
        "default_model");
    if (w->key_file == NULL)
        tt_buf_printf(&p->notes, "export %s=%s\n", TT_CONNECT_KEY_VARIABLE, ANY_KEY);
    note_key(w, p);
    tt_buf_puts(&p->notes, "zed\n");
    return TT_OK;
}

/* A file of its own, which shows as an agent that can be chosen. */
static tt_status make_continue(const tt_connect_wish *w, tt_connect_plan *p, tt_error *err)
{
    TT_TRY(in_home(w, ".continue/agents/" OWN_NAME ".yaml", p->path, err));
    tt_buf_puts(&p->text, "# Written by tools/connect of TinyTitan\n"
                          "name: TinyTitan\nversion: 1.0.0\nschema: v1\nmodels:\n");
    for (size_t k = 0; k < w->models.n; k++) {
        /* The chosen one first: that is what Continue takes. */
        size_t i = k == 0 ? w->models.chosen : k <= w->models.chosen ? k - 1 : k;
        const tt_connect_model *m = &w->models.list[i];
        tt_buf_puts(&p->text, "  - name: ");
        quoted(&p->text, m->id);
        tt_buf_puts(&p->text, "\n    provider: openai\n    model: ");
        quoted(&p->text, m->id);
        tt_buf_printf(&p->text,
                      "\n    apiBase: \"http://127.0.0.1:%u/v1\"\n    apiKey: %s\n"
                      "    roles: [chat, edit, apply, summarize]\n    capabilities: [tool_use]\n"
                      "    defaultCompletionOptions:\n      contextLength: %u\n"
                      "      maxTokens: %u\n",
                      w->port,
                      w->key_file != NULL ? "${{ secrets." TT_CONNECT_KEY_VARIABLE " }}" : ANY_KEY,
                      m->context, answer_of(m));
    }
    if (w->key_file != NULL)
        tt_buf_printf(&p->notes, "echo %s=\"$(cat '%s')\" >>~/.continue/.env\n",
                      TT_CONNECT_KEY_VARIABLE, w->key_file);
    tt_buf_puts(&p->notes, "In the editor: the agent TinyTitan\n");
    return TT_OK;
}

static tt_status make_sdk(const tt_connect_wish *w, tt_connect_plan *p, tt_error *err)
{
    char key[TT_MAX_PATH + 32];
    (void)err;
    snprintf(key, sizeof key, w->key_file != NULL ? "\"$(cat '%s')\"" : "%s",
             w->key_file != NULL ? w->key_file : ANY_KEY);
    tt_buf_printf(&p->text,
                  "export OPENAI_BASE_URL=http://127.0.0.1:%u/v1\nexport OPENAI_API_KEY=%s\n"
                  "export ANTHROPIC_BASE_URL=http://127.0.0.1:%u\nexport ANTHROPIC_API_KEY=%s\n",
                  w->port, key, w->port, key);
    for (size_t i = 0; i < w->models.n; i++)
        tt_buf_printf(&p->text, "# model %s, %u tokens of context\n", w->models.list[i].id,
                      w->models.list[i].context);
    return TT_OK;
}

const tt_connect_client tt_connect_clients[] = {{"codex", "Codex", make_codex},
                                                {"claude", "Claude Code", make_claude},
                                                {"qwen", "Qwen Code", make_qwen},
                                                {"opencode", "OpenCode", make_opencode},
                                                {"zed", "Zed", make_zed},
                                                {"continue", "Continue", make_continue},
                                                {"sdk", "the SDKs, by variables", make_sdk},
                                                {NULL, NULL, NULL}};

/* ---- plans ---- */

tt_status tt_connect_make(const tt_connect_client *c, const tt_connect_wish *w, tt_connect_plan *p,
                          tt_error *err)
{
    *p = (tt_connect_plan){0};
    tt_buf_init(&p->text, MOST_TEXT);
    tt_buf_init(&p->notes, MOST_TEXT);
    tt_status st = c->make(w, p, err);
    if (st == TT_OK)
        st = tt_buf_status(&p->text, err);
    if (st == TT_OK)
        st = tt_buf_status(&p->notes, err);
    for (size_t i = 0; st == TT_OK && i < p->n; i++)
        if (p->edits[i].kind != TT_EDIT_REMOVE && p->edits[i].value == NULL)
            st = tt_fail(err, TT_ERR_NOMEM, "out of memory for the settings");
    return st;
}

void tt_connect_plan_free(tt_connect_plan *p)
{
    for (size_t i = 0; i < p->n; i++)
        json_decref(p->edits[i].value);
    tt_buf_free(&p->text);
    tt_buf_free(&p->notes);
    p->n = 0;
}

tt_status tt_connect_apply(const tt_connect_plan *p, tt_buf *text, tt_error *err)
{
    for (size_t i = 0; i < p->n; i++) {
        const tt_connect_edit *e = &p->edits[i];
        if (e->kind == TT_EDIT_SET)
            TT_TRY(tt_settings_set(text, e->path, e->value, p->path, err));
        else if (e->kind == TT_EDIT_REMOVE)
            TT_TRY(tt_settings_remove(text, e->path, p->path, err));
        else
            TT_TRY(tt_settings_replace(text, e->path, e->key, e->own, e->value, p->path, err));
    }
    return TT_OK;
}
