/* Proves that the command line of TinyTitanServer is read as its listing says, that what cannot be
 * is refused, and what the server takes of the memory beside the model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "server/server_limits.h"
#include "server/server_options.h"
#include "server/server_plan.h"

static tt_server_options o;

#define PARSE(...)                                                                                 \
    tt_server_options_parse(&o, (int)(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *)),           \
                            (char *[]){__VA_ARGS__}, NULL)

static void options(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--model=m"), TT_OK);
    assert_int_equal(o.port, 8080);
    assert_int_equal(o.queue_limit, 16);
    assert_int_equal(o.load.sequences, 1);
    assert_false(o.log_json || o.plan);
    assert_int_equal(PARSE("--model=m", "--port=0", "--queue-limit=0", "--log=json",
                           "--allow-origin=https://a", "--allow-origin=http://b:1", "--model-id=x",
                           "--unix-socket=s", "--api-key-file=k", "--plan", "--kv-bits=4"),
                     TT_OK);
    assert_true(o.port == 0 && o.queue_limit == 0 && o.log_json && o.plan && o.origins.n == 2);
    assert_int_equal(o.load.kv_bits, 4);
    assert_int_equal(PARSE("--model=m", "--max-concurrent-sequences=16"), TT_OK);
    assert_int_equal(o.load.sequences, 16);
    assert_int_equal(PARSE("--models-dir=d", "--model=x_4-Bit", "--idle-unload=60", "--plan"),
                     TT_OK);
    assert_true(o.idle_unload == 60 && strcmp(o.models_dir, "d") == 0);
    assert_int_equal(PARSE("--models-dir=d", "--catalog"), TT_OK);
    assert_true(o.catalog && o.model == NULL);
    assert_int_equal(PARSE("--help"), TT_OK);
    assert_true(o.help);
}

static void refusals(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--port=1"), TT_ERR_INVALID);
    assert_int_equal(PARSE("--model=m", "--port=65536"), TT_ERR_INVALID);
    assert_int_equal(PARSE("--model=m", "--queue-limit=1025"), TT_ERR_INVALID);
    assert_int_equal(PARSE("--model=m", "--allow-origin=*"), TT_ERR_INVALID);
    assert_int_equal(PARSE("--model=m", "--allow-origin=null"), TT_ERR_INVALID);
    assert_int_equal(PARSE("--model=m", "--model-id="), TT_ERR_INVALID);
    assert_int_equal(PARSE("--model=m", "--model-id=a/b"), TT_ERR_INVALID);
    assert_int_equal(PARSE("--model=m", "--log=xml"), TT_ERR_INVALID);
    assert_int_equal(PARSE("--model=m", "--host=0.0.0.0"), TT_ERR_INVALID);
    assert_int_equal(PARSE("--models-dir=d", "--model-id=x"), TT_ERR_INVALID);
    assert_int_equal(PARSE("--models-dir=d", "--heat-profile=f"), TT_ERR_INVALID);
    assert_int_equal(PARSE("--models-dir=d", "--expert-mirror=d"), TT_ERR_INVALID);
    assert_int_equal(PARSE("--models-dir=d", "--plan"), TT_ERR_INVALID);
    assert_int_equal(PARSE("--model=m", "--plan", "--catalog"), TT_ERR_INVALID);
    assert_int_equal(PARSE("--model=m", "--idle-unload=0"), TT_ERR_INVALID);
    assert_int_equal(PARSE("--model=m", "--max-concurrent-sequences=0"), TT_ERR_INVALID);
    assert_int_equal(PARSE("--model=m", "--max-concurrent-sequences=17"), TT_ERR_INVALID);
    assert_int_equal(PARSE("--model=m", "--idle-unload=604801"), TT_ERR_INVALID);
}

static void memory(void **state)
{
    (void)state;
    tt_server_memory m = tt_server_memory_of(16, 1, 0, 0);
    assert_true(m.requests == TT_REQUEST_MEMORY);
    assert_true(m.total == m.requests + m.connections + m.streams + m.responses + m.rendering +
                               m.grammars + m.tokenizers);
    assert_true(tt_server_memory_of(16, 1, 1000, 0).total ==
                m.total + 1000 * TT_TOKENIZERS_BESIDES);
    assert_true(tt_server_memory_of(16, 1, 0, 1000).grammars > m.grammars);
    assert_true(tt_server_memory_of(1024, 1, 0, 0).total > m.total);
    assert_true(tt_server_memory_of(16, 2, 0, 0).total >= m.total + TT_OUTBOX);
    /* What the server needs alone is refused before anything is opened. */
    tt_plan plan;
    tt_error err;
    assert_int_equal(PARSE("--model=models/tales", "--ram-budget=64M"), TT_OK);
    assert_int_equal(tt_server_plan(o.model, m.total, &o.load, &plan, &err), TT_ERR_BUDGET);
    assert_non_null(strstr(err.message, "the server alone needs"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options),
        cmocka_unit_test(refusals),
        cmocka_unit_test(memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
