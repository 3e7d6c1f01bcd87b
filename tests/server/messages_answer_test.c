/* Proves how the blocks of an answer are cut: long arguments in pieces that end between characters
 * and are the arguments together, one block for words of a kind, the same blocks in an object; and
 * that an answer for which there is no room is noticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "server/messages_answer.h"
#include "server/reply.h"

#define LONG 4001

static tt_answer_request request;
static tt_messages_writer w;
static tt_buf out;
static unsigned flushes;

static void count_flush(void *ctx)
{
    (void)ctx;
    flushes++;
}

static tt_turn_sink begin(bool stream, size_t most)
{
    request = (tt_answer_request){.stream = stream, .turn = {.n = 1}};
    flushes = 0;
    tt_buf_init(&out, most);
    tt_messages_writer_init(&w, &request, "m", false, &out, count_flush, NULL);
    return tt_messages_writer_sink(&w);
}

static void end(void)
{
    tt_messages_writer_free(&w);
    tt_buf_free(&out);
}

/* The next event of a stream that is not chunked; NULL behind the last. */
static json_t *next_event(const char **at)
{
    json_t *v = NULL;
    const char *data = strstr(*at, "\ndata: ");
    if (data == NULL)
        return NULL;
    const char *stop = strstr(data, "\n\n");
    assert_non_null(stop);
    data += 7;
    assert_int_equal(tt_json_parse(data, (size_t)(stop - data), "event", &v, NULL), TT_OK);
    *at = stop + 1;
    return v;
}

/* {"x":"aéé...é"}: characters of two bytes that do not fall on even places. */
static char *long_arguments(void)
{
    char *text = malloc(2 * LONG + 16), *p = text;
    assert_non_null(text);
    p += strlen(strcpy(p, "{\"x\":\"a"));
    for (int i = 0; i < LONG; i++)
        p += strlen(strcpy(p, "\xc3\xa9"));
    strcpy(p, "\"}");
    return text;
}

static void long_calls_come_in_pieces(void **state)
{
    (void)state;
    char *arguments = long_arguments();
    tt_turn_sink sink = begin(true, 1 << 20);
    sink.call(sink.ctx, 0, 0, "call_0123456789abcdef01234567", "look", arguments,
              strlen(arguments));
    size_t n = 0, pieces = 0;
    json_t *v;
    for (const char *at = out.data; (v = next_event(&at)) != NULL; json_decref(v)) {
        const json_t *part = json_object_get(json_object_get(v, "delta"), "partial_json");
        if (part == NULL)
            continue;
        size_t k = json_string_length(part);
        assert_true(k > 0 && k <= TT_ARGUMENTS_PIECE);
        assert_memory_equal(json_string_value(part), arguments + n, k);
        n += k;
        pieces++;
    }
    assert_int_equal(n, strlen(arguments));
    assert_int_equal(pieces, 8);
    assert_int_equal(flushes, pieces + 2);
    end();
    free(arguments);
}

/* The blocks of an object, and those that a stream's events come to. */
static json_t *played(bool stream)
{
    static const char arguments[] = "{\"at\":[1,2.5,\"\\u00e9\"]}";
    tt_turn_usage usage = {.prompt = 7, .cached = 3, .generated = 5, .thought = 2};
    tt_turn_sink sink = begin(stream, 1 << 20);
    sink.start(sink.ctx, 3, 7);
    sink.begin(sink.ctx, 0);
    sink.thought(sink.ctx, 0, "h\"", 2);
    sink.thought(sink.ctx, 0, "m", 1);
    sink.text(sink.ctx, 0, "a", 1, NULL, 0);
    sink.text(sink.ctx, 0, "\n", 1, NULL, 0);
    sink.call(sink.ctx, 0, 0, "call_0", "look", arguments, sizeof arguments - 1);
    sink.text(sink.ctx, 0, "\n\n", 2, NULL, 0);
    sink.text(sink.ctx, 0, "\nb", 2, NULL, 0);
    sink.thought(sink.ctx, 0, "again", 5);
    sink.end(sink.ctx, 0, TT_TURN_CALLS);
    tt_messages_writer_end(&w, &usage);
    assert_int_equal(tt_buf_status(&out, NULL), TT_OK);
    json_t *blocks = json_array(), *v = NULL;
    if (!stream) {
        assert_int_equal(tt_json_parse(out.data, out.len, "object", &v, NULL), TT_OK);
        json_array_extend(blocks, json_object_get(v, "content"));
        json_decref(v);
        end();
        return blocks;
    }
    static char words[256];
    for (const char *at = out.data; (v = next_event(&at)) != NULL; json_decref(v)) {
        const char *type = json_string_value(json_object_get(v, "type"));
        json_t *delta = json_object_get(v, "delta"), *block;
        size_t i = (size_t)json_integer_value(json_object_get(v, "index"));
        static const char *const keys[] = {"text", "thinking", "partial_json"};
        if (strcmp(type, "content_block_start") == 0) {
            json_array_append(blocks, json_object_get(v, "content_block"));
            assert_int_equal(json_array_size(blocks), i + 1);
            words[0] = '\0';
        }
        for (size_t k = 0; k < 3; k++) {
            const char *text = json_string_value(json_object_get(delta, keys[k]));
            if (text == NULL)
                continue;
            block = json_array_get(blocks, i);
            strcat(words, text);
            if (k < 2)
                json_object_set_new(block, keys[k], json_string(words));
            else
                json_object_set_new(block, "input", json_loads(words, 0, NULL));
        }
    }
    end();
    return blocks;
}

static void streams_come_to_the_object(void **state)
{
    (void)state;
    json_t *one = played(false), *other = played(true);
    char *text = json_dumps(one, JSON_COMPACT);
    static const char want[] =
        "[{\"type\":\"thinking\",\"thinking\":\"h\\\"m\",\"signature\":\"\"},"
        "{\"type\":\"text\",\"text\":\"a\\n\"},"
        "{\"type\":\"tool_use\",\"id\":\"toolu_0\",\"name\":\"look\",\"input\":{\"at\":[1,2.5,"
        "\"\xc3\xa9\"]},\"caller\":{\"type\":\"direct\"}},"
        "{\"type\":\"text\",\"text\":\"b\"},"
        "{\"type\":\"thinking\",\"thinking\":\"again\",\"signature\":\"\"}]";
    assert_string_equal(text, want);
    assert_true(json_equal(one, other));
    free(text);
    json_decref(one);
    json_decref(other);
}

/* A hole in a stream or an object is never passed over. */
static void room_that_is_not_there(void **state)
{
    (void)state;
    tt_turn_usage usage = {.prompt = 1};
    for (size_t most = 0; most < 600; most += 37) {
        for (int stream = 0; stream < 2; stream++) {
            tt_turn_sink sink = begin(stream == 1, most);
            sink.start(sink.ctx, 0, 1);
            sink.text(sink.ctx, 0, "some words", 10, NULL, 0);
            sink.end(sink.ctx, 0, TT_TURN_STOP);
            tt_messages_writer_end(&w, &usage);
            bool whole =
                out.len > 0 && strstr(out.data, stream ? "message_stop" : "\"speed\":null}");
            assert_int_equal(whole, tt_buf_status(&out, NULL) == TT_OK);
            end();
        }
    }
}

static void pieces_end_between_characters(void **state)
{
    (void)state;
    static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
    static const size_t want[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
    for (size_t most = 1; most < sizeof want / sizeof want[0]; most++)
        assert_int_equal(tt_reply_piece(text, sizeof text - 1, most), want[most]);
    /* What is no text is cut all the same. */
    assert_int_equal(tt_reply_piece("\x80\x80\x80", 3, 2), 1);
    assert_int_equal(tt_reply_piece("", 0, 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_calls_come_in_pieces),
        cmocka_unit_test(streams_come_to_the_object),
        cmocka_unit_test(room_that_is_not_there),
        cmocka_unit_test(pieces_end_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
