#include "cli/prompt_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "cli/interrupt.h"

#define MAX_TEXT (64 * TT_MIB) /* several times the longest context */
#define STDIN    "standard input"

void tt_prompt_free(tt_prompt *p)
{
    tt_free(p->ids);
    *p = (tt_prompt){0};
}

/* ---- reading ---- */

static tt_status read_stdin(tt_buf *b, tt_error *err)
{
    char piece[65536];
    for (;;) {
        if (tt_interrupt_wait(STDIN_FILENO) == TT_INPUT_INTERRUPTED)
            return tt_fail_at(err, TT_ERR_ABORTED, STDIN, -1, "interrupted while reading");
        ssize_t n = read(STDIN_FILENO, piece, sizeof piece);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            return tt_fail_errno(err, errno, STDIN, "cannot be read");
        if (n == 0)
            return TT_OK;
        tt_buf_append(b, piece, (size_t)n);
        if (tt_buf_status(b, NULL) != TT_OK)
            return tt_fail_at(err, TT_ERR_LIMIT, STDIN, -1, "longer than %llu MiB",
                              (unsigned long long)(MAX_TEXT / TT_MIB));
    }
}

tt_status tt_prompt_read(const char *path, char **text, size_t *len, tt_error *err)
{
    if (strcmp(path, "-") != 0)
        return tt_file_read(path, MAX_TEXT, text, len, err);
    tt_buf b;
    tt_buf_init(&b, MAX_TEXT);
    tt_status st = read_stdin(&b, err);
    char *bytes = st == TT_OK ? tt_buf_steal(&b, len) : NULL;
    tt_buf_free(&b);
    if (st == TT_OK && bytes == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the prompt");
    if (st == TT_OK)
        *text = bytes;
    return st;
}

static const char *shown(const char *path)
{
    return strcmp(path, "-") == 0 ? STDIN : path;
}

/* ---- conversations and tools ---- */

/* `text` as a JSON string; NULL when it is no UTF-8. */
static char *quoted(const char *text, size_t len)
{
    json_t *s = json_stringn(text, len);
    char *out = s != NULL ? json_dumps(s, JSON_ENCODE_ANY) : NULL;
    json_decref(s);
    return out;
}

static tt_status add_message(tt_buf *b, const char *role, const char *text, size_t len,
                             tt_error *err)
{
    if (memchr(text, '\0', len) != NULL)
        return tt_fail(err, TT_ERR_INVALID, "the %s text holds a NUL character", role);
    char *json = quoted(text, len);
    if (json == NULL)
        return tt_fail(err, TT_ERR_FORMAT, "the %s text is not valid UTF-8", role);
    tt_buf_printf(b, "{\"role\": \"%s\", \"content\": ", role);
    tt_buf_puts(b, json);
    tt_buf_putc(b, '}');
    tt_free(json);
    return TT_OK;
}

static tt_status finish(tt_buf *b, tt_status st, char **json, tt_error *err)
{
    if (st == TT_OK)
        st = tt_buf_status(b, err);
    size_t len;
    char *text = st == TT_OK ? tt_buf_steal(b, &len) : NULL;
    tt_buf_free(b);
    if (st == TT_OK && text == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the conversation");
    if (st == TT_OK)
        *json = text;
    return st;
}

tt_status tt_prompt_single(const char *system, const char *text, size_t len, char **json,
                           tt_error *err)
{
    tt_buf b;
    tt_status st = TT_OK;
    tt_buf_init(&b, 8 * MAX_TEXT);
    tt_buf_putc(&b, '[');
    if (system != NULL) {
        st = add_message(&b, "system", system, strlen(system), err);
        tt_buf_puts(&b, ", ");
    }
    if (st == TT_OK)
        st = add_message(&b, "user", text, len, err);
    tt_buf_putc(&b, ']');
    return finish(&b, st, json, err);
}

static tt_status check_array(const json_t *array, const char *file, const char *what, tt_error *err)
{
    if (!json_is_array(array))
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1, "%s must be a JSON array of objects", what);
    for (size_t i = 0; i < json_array_size(array); i++)
        if (!json_is_object(json_array_get(array, i)))
            return tt_fail_at(err, TT_ERR_FORMAT, file, -1, "entry %zu of %s is not an object", i,
                              what);
    return TT_OK;
}

/* The roles of the APIs that such files come from. A template may take fewer. */
static tt_status check_role(const json_t *message, size_t i, const char *file, tt_error *err)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool", NULL};
    const char *role = json_string_value(json_object_get(message, "role"));
    if (role == NULL)
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                          "message %zu has no \"role\" that is a string", i);
    for (size_t k = 0; roles[k] != NULL; k++)
        if (strcmp(role, roles[k]) == 0)
            return TT_OK;
    return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                      "the role of message %zu is \"%.40s\", must be system, developer, user, "
                      "assistant or tool",
                      i, role);
}

/* Only an assistant that calls tools may say nothing. */
static tt_status check_content(const json_t *message, size_t i, const char *file, tt_error *err)
{
    const json_t *content = json_object_get(message, "content");
    if (json_is_string(content) || json_is_array(content))
        return TT_OK;
    const char *role = json_string_value(json_object_get(message, "role"));
    if ((content == NULL || json_is_null(content)) && strcmp(role, "assistant") == 0 &&
        json_array_size(json_object_get(message, "tool_calls")) > 0)
        return TT_OK;
    return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                      "message %zu has no \"content\" that is a string or a list of parts%s", i,
                      content == NULL         ? ": it has none at all"
                      : json_is_null(content) ? ": it is null"
                                              : "");
}

static tt_status check_messages(const json_t *messages, const char *file, tt_error *err)
{
    if (json_array_size(messages) == 0)
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1, "the conversation has no messages");
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i);
        TT_TRY(check_role(message, i, file, err));
        TT_TRY(check_content(message, i, file, err));
    }
    return TT_OK;
}

tt_status tt_prompt_check_messages(const char *text, size_t len, const char *file,
                                   bool *begins_with_system, tt_error *err)
{
    json_t *root = NULL;
    TT_TRY(tt_json_parse(text, len, file, &root, err));
    tt_status st = check_array(root, file, "the conversation", err);
    if (st == TT_OK)
        st = check_messages(root, file, err);
    if (st == TT_OK) {
        const char *role = json_string_value(json_object_get(json_array_get(root, 0), "role"));
        *begins_with_system = strcmp(role, "system") == 0;
    }
    json_decref(root);
    return st;
}

tt_status tt_prompt_check_tools(const char *text, size_t len, const char *file, tt_error *err)
{
    json_t *root = NULL;
    TT_TRY(tt_json_parse(text, len, file, &root, err));
    tt_status st = check_array(root, file, "the list of tools", err);
    for (size_t i = 0; st == TT_OK && i < json_array_size(root); i++) {
        const json_t *tool = json_array_get(root, i), *inner = json_object_get(tool, "function");
        const json_t *name = json_object_get(inner != NULL ? inner : tool, "name");
        if (!json_is_string(name))
            st = tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                            "tool %zu has no \"function\" with a \"name\"", i);
    }
    json_decref(root);
    return st;
}

/* The system message goes in behind the opening bracket: the rest stays as it was written. */
static tt_status put_in_front(const char *text, const char *system, char **json, tt_error *err)
{
    tt_buf b;
    tt_buf_init(&b, 8 * MAX_TEXT);
    tt_buf_putc(&b, '[');
    tt_status st = add_message(&b, "system", system, strlen(system), err);
    tt_buf_puts(&b, ", ");
    tt_buf_puts(&b, strchr(text, '[') + 1);
    return finish(&b, st, json, err);
}

tt_status tt_prompt_messages(const char *path, const char *system, char **json, tt_error *err)
{
    char *text = NULL;
    size_t len = 0;
    bool has_system = false;
    TT_TRY(tt_prompt_read(path, &text, &len, err));
    tt_status st = tt_prompt_check_messages(text, len, shown(path), &has_system, err);
    if (st == TT_OK && system != NULL && has_system)
        st = tt_fail_at(err, TT_ERR_INVALID, shown(path), -1,
                        "begins with a system message already: drop it or --system");
    if (st == TT_OK && system != NULL)
        st = put_in_front(text, system, json, err);
    if (st == TT_OK && system == NULL)
        *json = text;
    else
        tt_free(text);
    return st;
}

tt_status tt_prompt_tools(const char *path, char **json, tt_error *err)
{
    char *text = NULL;
    size_t len = 0;
    TT_TRY(tt_file_read(path, TT_MAX_CONFIG_JSON, &text, &len, err));
    tt_status st = tt_prompt_check_tools(text, len, path, err);
    if (st == TT_OK)
        *json = text;
    else
        tt_free(text);
    return st;
}

/* ---- text to ids ---- */

/* Whether `text` ends inside a thought: the template has opened it for the model. */
static bool ends_in_thought(const char *text, size_t len)
{
    static const char open[] = "<think>";
    while (len > 0 && text[len - 1] == '\n')
        len--;
    return len >= sizeof open - 1 &&
           memcmp(text + len - (sizeof open - 1), open, sizeof open - 1) == 0;
}

tt_status tt_prompt_chat(const tt_tokenizer *tok, const char *messages, const char *tools,
                         tt_thinking thinking, tt_prompt *out, tt_error *err)
{
    tt_chat_options chat = {.tools_json = tools, .thinking = thinking};
    char *text = NULL;
    size_t len = 0;
    TT_TRY(tt_chat_render(tok, messages, &chat, &text, &len, err));
    tt_prompt p = {.in_thought = ends_in_thought(text, len)};
    tt_status st = tt_tokenizer_encode(tok, text, len, true, &p.ids, &p.n, err);
    tt_free(text);
    if (st == TT_OK)
        *out = p;
    return st;
}

tt_status tt_prompt_raw(const tt_tokenizer *tok, const char *text, size_t len, tt_prompt *out,
                        tt_error *err)
{
    tt_prompt p = {0};
    TT_TRY(tt_tokenizer_encode(tok, text, len, true, &p.ids, &p.n, err));
    *out = p;
    return TT_OK;
}
