#include "cli/chat_loop.h"

#include <string.h>

#include "base/json.h"
#include "cli/generate.h"
#include "cli/interrupt.h"
#include "cli/line_input.h"
#include "cli/report.h"
#include "cli/text_out.h"

#define MAX_DECIMALS 15 /* numbers come back as they were written */

typedef struct chat {
    tt_engine *e;
    tt_line_input *in;
    json_t *messages; /* the system message first, when there is one */
    tt_answer answer; /* the last one */
    uint64_t turns;
    bool leave;
} chat;

/* ---- messages ---- */

static tt_status add_message(chat *c, json_t *message, tt_error *err)
{
    if (message == NULL)
        return tt_fail(err, TT_ERR_FORMAT, "the line is not valid UTF-8");
    if (json_array_append_new(c->messages, message) != 0)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the conversation");
    return TT_OK;
}

static tt_status add_text(chat *c, const char *role, const char *text, tt_error *err)
{
    return add_message(c, json_pack("{s:s, s:s}", "role", role, "content", text), err);
}

static bool has_system(const chat *c)
{
    const json_t *role = json_object_get(json_array_get(c->messages, 0), "role");
    return role != NULL && strcmp(json_string_value(role), "system") == 0;
}

static tt_status set_system(chat *c, const char *text, tt_error *err)
{
    json_t *m = json_pack("{s:s, s:s}", "role", "system", "content", text);
    if (m == NULL)
        return tt_fail(err, TT_ERR_FORMAT, "the system text is not valid UTF-8");
    if (has_system(c))
        json_array_remove(c->messages, 0);
    if (json_array_insert_new(c->messages, 0, m) != 0)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the conversation");
    return TT_OK;
}

/* {"name", "arguments"} as the templates want it. */
static json_t *call_message(json_t *call)
{
    return json_pack("{s:s, s:{s:O, s:O}}", "type", "function", "function", "name",
                     json_object_get(call, "name"), "arguments",
                     json_object_get(call, "arguments"));
}

/* The answer as the next prompt will hold it. */
static tt_status add_answer(chat *c, json_t *parsed, tt_error *err)
{
    json_t *m =
        json_pack("{s:s, s:O}", "role", "assistant", "content", json_object_get(parsed, "content"));
    const char *reasoning = json_string_value(json_object_get(parsed, "reasoning"));
    if (m != NULL && reasoning != NULL && reasoning[0] != '\0')
        json_object_set(m, "reasoning_content", json_object_get(parsed, "reasoning"));
    const json_t *calls = json_object_get(parsed, "tool_calls");
    if (m != NULL && json_array_size(calls) > 0) {
        json_t *list = json_array();
        for (size_t i = 0; i < json_array_size(calls); i++)
            json_array_append_new(list, call_message(json_array_get(calls, i)));
        json_object_set_new(m, "tool_calls", list);
    }
    return add_message(c, m, err);
}

static void forget_after(chat *c, size_t n)
{
    while (json_array_size(c->messages) > n)
        json_array_remove(c->messages, json_array_size(c->messages) - 1);
}

/* ---- one turn ---- */

static tt_status render(chat *c, tt_prompt *prompt, tt_error *err)
{
    char *text = json_dumps(c->messages, JSON_REAL_PRECISION(MAX_DECIMALS));
    if (text == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the conversation");
    tt_status st = tt_prompt_chat(c->e->tok, text, c->e->tools, c->e->o->thinking, prompt, err);
    tt_free(text);
    return st;
}

static tt_status keep_answer(chat *c, size_t before, tt_error *err)
{
    char *text = NULL;
    json_t *parsed = NULL;
    if (c->answer.text.len == 0 && c->answer.finish == TT_FINISH_INTERRUPTED) {
        forget_after(c, before);
        return TT_OK;
    }
    TT_TRY(tt_answer_parse(&c->answer, c->e->tools, &text, err));
    tt_status st = tt_json_parse(text, strlen(text), "the answer", &parsed, err);
    tt_free(text);
    if (st != TT_OK)
        return st;
    tt_report_calls(parsed);
    st = add_answer(c, parsed, err);
    json_decref(parsed);
    return st;
}

static tt_status answer(chat *c, size_t before, tt_error *err)
{
    tt_prompt prompt = {0};
    TT_TRY(render(c, &prompt, err));
    tt_interrupt_clear();
    uint64_t seed = c->e->sampling.seed + c->turns++;
    tt_status st = tt_generate(c->e, &prompt, seed, false, &c->answer, err);
    tt_prompt_free(&prompt);
    tt_out_end_line();
    tt_interrupt_clear();
    if (st != TT_OK)
        return st;
    tt_report_finish(c->e, &c->answer);
    if (c->e->o->stats)
        tt_report_stats(c->e, &c->answer);
    return keep_answer(c, before, err);
}

/* What fails is told and taken back; only output that cannot be written ends the talk. */
static tt_status turn(chat *c, const char *role, const char *text, tt_error *err)
{
    tt_error e = {.offset = -1};
    size_t before = json_array_size(c->messages);
    tt_status st = add_text(c, role, text, &e);
    if (st == TT_OK)
        st = answer(c, before, &e);
    if (st == TT_OK)
        return TT_OK;
    forget_after(c, before);
    if (tt_out_failed()) {
        *err = e;
        return st;
    }
    tt_out_error(&e);
    if (st == TT_ERR_CONTEXT)
        tt_out_notice("/reset begins a new conversation");
    return TT_OK;
}

/* ---- commands ---- */

static const char *const command_words[] = {"help",  "reset", "system", "tool",
                                            "stats", "exit",  "quit",   NULL};

bool tt_chat_command(const char *line, char word[16], const char **rest)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    if (line[0] != '/')
        return false;
    size_t n = strspn(line + 1, letters);
    if (n == 0 || n > 15 || (line[1 + n] != '\0' && line[1 + n] != ' '))
        return false;
    memcpy(word, line + 1, n);
    word[n] = '\0';
    *rest = line + 1 + n + strspn(line + 1 + n, " ");
    return true;
}

static void help(void)
{
    tt_out_puts("/system TEXT  set the system message\n"
                "/tool TEXT    give TEXT as the result of a tool call\n"
                "/reset        forget the conversation, keep the system message\n"
                "/stats        speed, expert cache and memory\n"
                "/exit         leave; so does Ctrl-D\n"
                "Ctrl-C stops an answer. A line that begins with a space is never a command.\n");
}

static tt_status command(chat *c, const char *word, const char *rest, tt_error *err)
{
    if (strcmp(word, "help") == 0) {
        help();
    } else if (strcmp(word, "reset") == 0) {
        forget_after(c, has_system(c) ? 1 : 0);
        tt_out_notice("a new conversation");
    } else if (strcmp(word, "system") == 0) {
        return set_system(c, rest, err);
    } else if (strcmp(word, "tool") == 0) {
        return turn(c, "tool", rest, err);
    } else if (strcmp(word, "stats") == 0) {
        tt_report_stats(c->e, c->turns > 0 ? &c->answer : NULL);
    } else if (strcmp(word, "exit") == 0 || strcmp(word, "quit") == 0) {
        c->leave = true;
    } else {
        const char *near = tt_args_nearest(word, command_words);
        tt_out_notice("no command /%s%s%s; /help lists them, a space in front makes it a message",
                      word, near != NULL ? ", did you mean /" : "", near != NULL ? near : "");
    }
    return TT_OK;
}

static tt_status take_line(chat *c, const char *line, size_t len, tt_error *err)
{
    char word[16];
    const char *rest;
    if (strlen(line) != len) {
        tt_out_notice("the line holds a NUL character and is left out");
        return TT_OK;
    }
    if (len == 0 || line[strspn(line, " \t\r")] == '\0')
        return TT_OK;
    if (tt_chat_command(line, word, &rest))
        return command(c, word, rest, err);
    return turn(c, "user", line, err);
}

/* ---- the loop ---- */

static tt_status talk(chat *c, bool *interrupted, tt_error *err)
{
    while (!c->leave && !tt_out_failed()) {
        const char *line = NULL;
        size_t len = 0;
        if (tt_ended()) { /* in an answer, which has told it */
            *interrupted = true;
            return TT_OK;
        }
        switch (tt_line_input_read(c->in, &line, &len, err)) {
        case TT_LINE_TEXT:
            TT_TRY(take_line(c, line, len, err));
            break;
        case TT_LINE_END:
            return TT_OK;
        case TT_LINE_FAILED:
            return err->status;
        case TT_LINE_INTERRUPTED:
            tt_interrupt_clear();
            *interrupted = tt_ended() || !tt_line_input_edits(c->in);
            if (*interrupted) {
                tt_out_notice("%s", tt_interrupt_words());
                return TT_OK;
            }
            tt_out_notice("to leave: /exit or Ctrl-D");
            break;
        }
    }
    return TT_OK;
}

static void greet(const chat *c)
{
    if (tt_line_input_edits(c->in))
        tt_out_notice("%s, %s %s, context %u tokens; /help lists the commands", c->e->plan.model_id,
                      c->e->plan.backend, c->e->plan.cpu_level, c->e->plan.max_context);
}

/* While the user thinks, experts are read ahead. */
static double look_after_model(void *model)
{
    return tt_model_idle(model);
}

tt_status tt_chat_loop(tt_engine *e, bool *interrupted, tt_error *err)
{
    chat c = {.e = e, .messages = json_array()};
    tt_answer_init(&c.answer);
    tt_status st = TT_OK;
    if (c.messages == NULL)
        st = tt_fail(err, TT_ERR_NOMEM, "out of memory for the conversation");
    if (st == TT_OK && e->o->system != NULL)
        st = set_system(&c, e->o->system, err);
    if (st == TT_OK)
        st = tt_line_input_open(&c.in, err);
    if (st == TT_OK) {
        greet(&c);
        tt_interrupt_while_idle(look_after_model, e->model);
        st = talk(&c, interrupted, err);
        tt_interrupt_while_idle(NULL, NULL);
    }
    tt_line_input_close(&c.in);
    tt_answer_free(&c.answer);
    json_decref(c.messages);
    return st;
}
