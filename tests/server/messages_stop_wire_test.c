/* Proves what becomes of a stop string of Messages, however the text comes in pieces: nothing of it
 * and nothing behind it is told, what only began like it is, the answer names it, and thoughts
 * are not looked at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>

#include "wire.h"

static const struct {
    const char *text, *stops, *want, *stop; /* NULL: none ended it */
} rows[] = {
    {"Once STOP more", "[\"STOP\"]", "Once ", "STOP"},
    {"SSTSTOPx", "[\"STOP\"]", "SST", "STOP"},
    {"aaab", "[\"aab\"]", "a", "aab"},
    {"one two", "[\"two\",\"e t\"]", "on", "e t"},
    {"\xc3\xa4\xc3\xb6\xc3\xbc", "[\"\xc3\xb6\"]", "\xc3\xa4", "\xc3\xb6"},
    {"STOP", "[\"never\",\"STOP\"]", "", "STOP"},
    {"a STO b", "[\"STOP\"]", "a STO b", NULL},
    {"end ST", "[\"STOP\"]", "end ST", NULL},
};
#define ROWS (sizeof rows / sizeof rows[0])

static bool begins_character(const char *at)
{
    return ((unsigned char)*at & 0xc0) != 0x80;
}

static json_t *step(const char *kind, const char *text, size_t n)
{
    return json_pack("{s:s%}", kind, text, n);
}

/* The text in three pieces. What follows a stop must not be told. */
static void add_part(json_t *script, size_t row, size_t i, size_t j)
{
    const char *text = rows[row].text;
    char match[64];
    json_t *steps = json_array();
    snprintf(match, sizeof match, "case %zu %zu %zu.", row, i, j);
    json_array_append_new(steps, step("thought", "STOP aab", 8));
    if (i > 0)
        json_array_append_new(steps, step("text", text, i));
    if (j > i)
        json_array_append_new(steps, step("text", text + i, j - i));
    if (text[j] != '\0')
        json_array_append_new(steps, step("text", text + j, strlen(text + j)));
    if (rows[row].stop != NULL) {
        json_array_append_new(steps, step("text", "leak", 4));
        json_array_append_new(steps,
                              json_pack("{s:{s:s, s:{}}}", "call", "name", "leak", "arguments"));
    }
    json_array_append_new(script, json_pack("{s:s, s:o}", "match", match, "steps", steps));
}

static int set_up(void **state)
{
    json_t *script = json_array();
    (void)state;
    for (size_t row = 0; row < ROWS; row++)
        for (size_t i = 0; i <= strlen(rows[row].text); i++)
            for (size_t j = i; j <= strlen(rows[row].text); j++)
                if (begins_character(rows[row].text + i) && begins_character(rows[row].text + j))
                    add_part(script, row, i, j);
    char *text = json_dumps(script, 0);
    assert_non_null(text);
    wire_prepare(text);
    wire_start();
    free(text);
    json_decref(script);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    wire_end();
    return 0;
}

/* ---- what was told ---- */

typedef struct told {
    char text[256], thought[256], reason[64], stop[64];
    unsigned blocks, calls;
} told;

static void add(char *to, const json_t *v)
{
    if (json_is_string(v))
        strcat(to, json_string_value(v));
}

static void take_end(told *t, const json_t *v)
{
    add(t->reason, json_object_get(v, "stop_reason"));
    add(t->stop, json_object_get(v, "stop_sequence"));
}

static void take_block(told *t, const json_t *block)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    t->blocks++;
    t->calls += strcmp(type, "tool_use") == 0;
    add(t->text, json_object_get(block, "text"));
    add(t->thought, json_object_get(block, "thinking"));
}

static void take_object(told *t, const char *answer)
{
    json_t *v = json_loads(strstr(answer, "\r\n\r\n") + 4, 0, NULL), *block;
    size_t i;
    assert_non_null(v);
    json_array_foreach(json_object_get(v, "content"), i, block) take_block(t, block);
    take_end(t, v);
    json_decref(v);
}

static void take_stream(told *t, char *events)
{
    char *at = NULL;
    bool ended = false;
    for (char *line = strtok_r(events, "\n", &at); line != NULL; line = strtok_r(NULL, "\n", &at)) {
        if (strncmp(line, "data: ", 6) != 0)
            continue;
        json_t *v = json_loads(line + 6, 0, NULL);
        assert_non_null(v);
        const char *type = json_string_value(json_object_get(v, "type"));
        const json_t *delta = json_object_get(v, "delta");
        assert_false(ended && strcmp(type, "message_stop") != 0);
        if (strcmp(type, "content_block_start") == 0)
            take_block(t, json_object_get(v, "content_block"));
        add(t->text, json_object_get(delta, "text"));
        add(t->thought, json_object_get(delta, "thinking"));
        ended |= strcmp(type, "message_delta") == 0;
        if (strcmp(type, "message_delta") == 0)
            take_end(t, delta);
        json_decref(v);
    }
    assert_true(ended);
}

static void check(size_t row, const told *t, const char *which)
{
    bool same = strcmp(t->text, rows[row].want) == 0 && strcmp(t->thought, "STOP aab") == 0 &&
                t->calls == 0 && t->blocks == 1u + (rows[row].want[0] != '\0');
    if (rows[row].stop != NULL)
        same &= strcmp(t->reason, "stop_sequence") == 0 && strcmp(t->stop, rows[row].stop) == 0;
    else
        same &= strcmp(t->reason, "end_turn") == 0 && t->stop[0] == '\0';
    if (!same)
        fail_msg("%s: (%s) \"%s\", %s %s, %u blocks", which, t->thought, t->text, t->reason,
                 t->stop, t->blocks);
}

static void ask_case(int fd, size_t row, size_t i, size_t j)
{
    char body[512], which[64];
    for (int streamed = 0; streamed < 2; streamed++) {
        told t = {.blocks = 0};
        snprintf(which, sizeof which, "case %zu %zu %zu.", row, i, j);
        snprintf(body, sizeof body,
                 "{\"model\":\"scripted_4-Bit\",\"max_tokens\":99,\"messages\":[{\"role\":\"user\","
                 "\"content\":\"%s\"}],\"stop_sequences\":%s,\"stream\":%s}",
                 which, rows[row].stops, streamed ? "true" : "false");
        post(fd, "/v1/messages", body);
        char *all = streamed ? take_until(fd, "\r\n0\r\n\r\n") : take_answer(fd);
        expect(all, "200 OK");
        if (streamed) {
            char *events = unchunked(all);
            take_stream(&t, events);
            free(events);
        } else {
            take_object(&t, all);
        }
        check(row, &t, which);
        free(all);
    }
}

static void however_it_comes(void **state)
{
    (void)state;
    int fd = dial();
    for (size_t row = 0; row < ROWS; row++)
        for (size_t i = 0; i <= strlen(rows[row].text); i++)
            for (size_t j = i; j <= strlen(rows[row].text); j++)
                if (begins_character(rows[row].text + i) && begins_character(rows[row].text + j))
                    ask_case(fd, row, i, j);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(however_it_comes, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
