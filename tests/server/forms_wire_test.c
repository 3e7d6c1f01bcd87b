/* Proves on the wire, with a scripted engine that tries the grammar of every request, that formats,
 * strict tools and choices of tools hold answers to what they say in all three protocols; that what
 * cannot be honoured is refused by its place and name; that other tools are relaxed and the log
 * says where; and that without any of these there is no grammar. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire.h"

#define CHAT      "/v1/chat/completions"
#define RESPONSES "/v1/responses"
#define MESSAGES  "/v1/messages"
#define MODEL     "\"model\":\"scripted_4-Bit\""

/* A conversation of one word in each protocol. */
#define C(word) MODEL ",\"messages\":[{\"role\":\"user\",\"content\":\"" word "\"}]"
#define R(word) MODEL ",\"input\":\"" word "\""
#define A(word) C(word) ",\"max_tokens\":64"

/* ---- what is asked for ---- */

#define CITY(more)                                                                                 \
    "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"" more "}},\"required\":["  \
    "\"city\"],\"additionalProperties\":false}"
#define AT                                                                                         \
    "{\"type\":\"object\",\"properties\":{\"at\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":" \
    "9}},\"required\":[\"at\"],\"additionalProperties\":false}"

#define C_FORMAT(schema)                                                                           \
    ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\",\"strict\":"   \
    "true,\"schema\":" schema "}}"
#define R_FORMAT(schema)                                                                           \
    ",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"x\",\"strict\":true,"              \
    "\"schema\":" schema "}}"
#define A_FORMAT(schema)                                                                           \
    ",\"output_config\":{\"format\":{\"type\":\"json_schema\",\"schema\":" schema "}}"

#define C_TOOL(name, more) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"" more "}}"
#define R_TOOL(name, more) "{\"type\":\"function\",\"name\":\"" name "\"" more "}"
#define A_TOOL(name, more) "{\"name\":\"" name "\"" more "}"
#define STRICT             ",\"strict\":true"

#define C_TOOLS                                                                                    \
    ",\"tools\":[" C_TOOL("look", ",\"parameters\":" AT) "," C_TOOL("see", "") ",{\"type\":"       \
                                                                               "\"custom\"}]"
#define R_TOOLS                                                                                    \
    ",\"tools\":[" R_TOOL("look", ",\"parameters\":" AT) ",{\"type\":\"namespace\",\"name\":"      \
                                                         "\"files\",\"description\":\"f\","        \
                                                         "\"tools\":[" R_TOOL(                     \
                                                             "see",                                \
                                                             "") "]},"                             \
                                                                 "{\"type\":\"web_search\"}]"
#define A_TOOLS ",\"tools\":[" A_TOOL("look", ",\"input_schema\":" AT) "," A_TOOL("see", "") "]"

/* ---- what the grammar is tried with ---- */

#define LOOK(at)                                                                                   \
    "<tool_call>\\n<function=look>\\n<parameter=at>\\n" at                                         \
    "\\n</parameter>\\n</function>\\n</tool_call>"
#define SEE(space) "<tool_call>\\n<function=" space "see>\\n</function>\\n</tool_call>"
#define THOUGHT    "hm\\n</think>\\n\\n"
#define PARIS      "{\\\"city\\\":\\\"Paris\\\"}"

#define SAYS(word, takes, refuses, text)                                                           \
    "{\"match\":\"" word "\",\"takes\":[" takes "],\"refuses\":[" refuses                          \
    "],\"steps\":[{\"text\":\"" text "\"}]},"
#define CALLS(word, takes, refuses)                                                                \
    "{\"match\":\"" word "\",\"takes\":[" takes "],\"refuses\":[" refuses                          \
    "],\"steps\":[{\"call\":{\"name\":\"look\",\"arguments\":{\"at\":1}}}]},"

#define OTHERS "\"Paris\",\"\",\"{\\\"city\\\":1}\",\"{}\",\"" PARIS "x\",\"[" PARIS "]\""

/* clang-format off */
static const char script[] =
    "["
    SAYS("wschema", "\"" PARIS "\",\"{ \\\"city\\\": \\\"\\\" }\"", OTHERS ",\"" LOOK("1") "\"",
         PARIS)
    SAYS("wthink", "\"" THOUGHT PARIS "\"", "\"" PARIS "\",\"" THOUGHT "Paris\"", PARIS)
    SAYS("wmay", "\"" PARIS "\",\"<think>" THOUGHT PARIS "\"", "\"<think>" THOUGHT "\"", PARIS)
    SAYS("wobject", "\"{}\",\"{\\\"a\\\":[1]}\"", "\"[]\",\"1\",\"a\"", "{}")
    SAYS("weither", "\"" PARIS "\",\"" LOOK("1") "\",\"" LOOK("2") "\\n" SEE("") "\"",
         OTHERS ",\"" LOOK("0") "\",\"" PARIS "\\n" LOOK("1") "\"", PARIS)
    "{\"match\":\"wlong\",\"takes\":[\"" PARIS "\"],\"finish\":\"length\",\"steps\":["
    "{\"text\":\"{\\\"ci\"}]},"
    CALLS("wmust", "\"" LOOK("1") "\",\"" LOOK("1") "\\n" LOOK("9") "\"",
          "\"\",\"look\",\"look" LOOK("1") "\",\"" LOOK("10") "\",\"" LOOK("a") "\"")
    CALLS("wsingle", "\"" LOOK("1") "\"", "\"" LOOK("1") "\\n" LOOK("9") "\",\"\"")
    CALLS("wnamed", "\"" LOOK("1") "\"",
          "\"" SEE("") "\",\"" SEE("files.") "\",\"" LOOK("1") "\\n" LOOK("9") "\",\"\"")
    CALLS("wagain", "\"" LOOK("1") "\",\"" LOOK("1") "\\n" LOOK("9") "\"", "\"" SEE("") "\",\"\"")
    CALLS("wspace", "\"" SEE("files.") "\"", "\"" LOOK("1") "\",\"\"")
    CALLS("wallowed", "\"\",\"look\",\"look " LOOK("1") "\"",
          "\"" SEE("") "\",\"" SEE("files.") "\",\"" LOOK("0") "\"")
    CALLS("wstrict", "\"\",\"look\",\"look " LOOK("1") "\",\"" SEE("") "\"",
          "\"" LOOK("0") "\",\"" LOOK("a") "\"")
    CALLS("wwide", "\"" LOOK("9223372036854775807") "\"",
          "\"" LOOK("9223372036854775808") "\",\"" LOOK("-1") "\"")
    CALLS("wloose", "\"" LOOK("a\\nb") "\"", "\"\",\"look\"")
    "{\"steps\":[{\"text\":\"free\"}]}]";
/* clang-format on */

static int set_up(void **state)
{
    (void)state;
    wire_prepare(script);
    wire_start();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    wire_end();
    return 0;
}

typedef struct row {
    const char *path, *body;
    const char *want; /* in the answer, which has status 200, or 400 where this is an error's */
} row;

static void check(const row *rows, size_t n, const char *status)
{
    for (size_t i = 0; i < n; i++) {
        char *a = plain(once("POST", rows[i].path, "", rows[i].body));
        if (strncmp(a, status, strlen(status)) != 0 || strstr(a, rows[i].want) == NULL) {
            char *log = log_text();
            fail_msg("%s %s\n%s\nlacks %s\n%s", rows[i].path, rows[i].body, a, rows[i].want,
                     strlen(log) > 600 ? log + strlen(log) - 600 : log);
        }
        free(a);
    }
}
#define CHECK(rows, status) check(rows, sizeof rows / sizeof rows[0], "HTTP/1.1 " status " ")

/* ---- what is honoured ---- */

#define C_SAID "\"content\":\"{\\\"city\\\":\\\"Paris\\\"}\""
#define R_SAID "\"text\":\"{\\\"city\\\":\\\"Paris\\\"}\""
#define R_FORMATTED                                                                                \
    "\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"x\",\"strict\":true,\"schema\":"

static void documents(void **state)
{
    (void)state;
    static const row rows[] = {
        {CHAT, "{" C("wschema") C_FORMAT(CITY("")) "}", C_SAID},
        {CHAT, "{" C("wschema") C_FORMAT(CITY("")) C_TOOLS ",\"tool_choice\":\"none\"}", C_SAID},
        {CHAT, "{" C("wschema") C_FORMAT(CITY("")) ",\"n\":2,\"logprobs\":true}",
         "\"index\":1,\"message\":{\"role\":\"assistant\"," C_SAID},
        {CHAT, "{" C("wschema") C_FORMAT(CITY("")) ",\"stop\":\"is\"}",
         "\"content\":\"{\\\"city\\\":\\\"Par\""},
        {CHAT, "{" C("wthink") C_FORMAT(CITY("")) ",\"reasoning_effort\":\"high\"}", C_SAID},
        {CHAT, "{" C("wmay") C_FORMAT(CITY("")) "}", C_SAID},
        {CHAT, "{" C("wobject") ",\"response_format\":{\"type\":\"json_object\"}}",
         "\"content\":\"{}\""},
        {CHAT,
         "{" C("wobject") ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{"
                          "\"name\":\"x\"}}}",
         "\"content\":\"{}\""},
        {CHAT, "{" C("weither") C_FORMAT(CITY("")) C_TOOLS "}", C_SAID},
        {CHAT, "{" C("wlong") C_FORMAT(CITY("")) "}", "\"finish_reason\":\"length\""},
        {RESPONSES, "{" R("wschema") R_FORMAT(CITY("")) "}", R_SAID},
        {RESPONSES, "{" R("wschema") R_FORMAT(CITY("")) "}", R_FORMATTED CITY("") "}}"},
        {RESPONSES, "{" R("wthink") R_FORMAT(CITY("")) ",\"reasoning\":{\"effort\":\"high\"}}",
         R_SAID},
        {RESPONSES, "{" R("wobject") ",\"text\":{\"format\":{\"type\":\"json_object\"}}}",
         "\"text\":{\"format\":{\"type\":\"json_object\"}},"},
        {RESPONSES, "{" R("wlong") R_FORMAT(CITY("")) "}", "\"reason\":\"max_output_tokens\""},
        {MESSAGES, "{" A("wschema") A_FORMAT(CITY("")) "}", R_SAID},
        {MESSAGES,
         "{" A("wschema") ",\"output_format\":{\"type\":\"json_schema\",\"schema\":" CITY("") "}}",
         R_SAID},
        {MESSAGES,
         "{" A("wthink") A_FORMAT(CITY("")) ",\"thinking\":{\"type\":\"enabled\","
                                            "\"budget_tokens\":2000}}",
         R_SAID},
        {MESSAGES, "{" A("weither") A_FORMAT(CITY("")) A_TOOLS "}", R_SAID},
        {MESSAGES, "{" A("wlong") A_FORMAT(CITY("")) "}", "\"stop_reason\":\"max_tokens\""},
    };
    CHECK(rows, "200");
}

#define C_CALLED "\"finish_reason\":\"tool_calls\""
#define R_CALLED                                                                                   \
    "\"type\":\"function_call\",\"status\":\"completed\",\"call_id\":\"call_\",\"name\":\"look\""
#define A_CALLED "\"stop_reason\":\"tool_use\""
#define C_NAMED(name)                                                                              \
    ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"
#define R_NAMED(name)       ",\"tool_choice\":{\"type\":\"function\",\"name\":\"" name "\"}"
#define A_NAMED(name, more) ",\"tool_choice\":{\"type\":\"tool\",\"name\":\"" name "\"" more "}"
#define C_ALLOWED(mode, tools)                                                                     \
    ",\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"" mode             \
    "\",\"tools\":[" tools "]}}"
#define R_ALLOWED(mode, tools)                                                                     \
    ",\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"" mode "\",\"tools\":[" tools "]}"
#define SINGLE ",\"disable_parallel_tool_use\":true"

static void calls(void **state)
{
    (void)state;
    static const row rows[] = {
        {CHAT, "{" C("wmust") C_TOOLS ",\"tool_choice\":\"required\"}", C_CALLED},
        {CHAT,
         "{" C("wsingle") C_TOOLS ",\"tool_choice\":\"required\",\"parallel_tool_calls\":false}",
         C_CALLED},
        {CHAT, "{" C("wnamed") C_TOOLS C_NAMED("look") "}", C_CALLED},
        {CHAT, "{" C("wagain") C_TOOLS C_ALLOWED("required", C_TOOL("look", "")) "}", C_CALLED},
        {CHAT,
         "{" C("wallowed") C_TOOLS C_ALLOWED("auto", C_TOOL("look", "") ",{\"type\":\"mcp\"}") "}",
         C_CALLED},
        {CHAT, "{" C("wmust") C_TOOLS C_FORMAT(CITY("")) ",\"tool_choice\":\"required\"}",
         C_CALLED},
        {RESPONSES, "{" R("wmust") R_TOOLS ",\"tool_choice\":\"required\"}", R_CALLED},
        {RESPONSES, "{" R("wmust") R_TOOLS ",\"tool_choice\":\"required\"}",
         "\"tool_choice\":\"required\",\"tools\":[{"},
        {RESPONSES, "{" R("wnamed") R_TOOLS R_NAMED("look") "}", R_CALLED},
        {RESPONSES, "{" R("wnamed") R_TOOLS R_NAMED("look") "}",
         "\"tool_choice\":{\"type\":\"function\",\"name\":\"look\"},"},
        {RESPONSES, "{" R("wnamed") R_TOOLS R_NAMED("look") "}", "\"parallel_tool_calls\":true"},
        {RESPONSES, "{" R("wspace") R_TOOLS R_NAMED("files.see") "}", R_CALLED},
        {RESPONSES,
         "{" R("wspace") R_TOOLS ",\"tool_choice\":{\"type\":\"function\",\"namespace\":\"files\","
                                 "\"name\":\"see\"}}",
         R_CALLED},
        {RESPONSES,
         "{" R("wallowed") R_TOOLS R_ALLOWED("auto", R_TOOL("look", "") ",{\"type\":\"mcp\"}") "}",
         R_CALLED},
        {RESPONSES, "{" R("wagain") R_TOOLS R_ALLOWED("required", R_TOOL("look", "")) "}",
         R_CALLED},
        {MESSAGES, "{" A("wmust") A_TOOLS ",\"tool_choice\":{\"type\":\"any\"}}", A_CALLED},
        {MESSAGES, "{" A("wsingle") A_TOOLS ",\"tool_choice\":{\"type\":\"any\"" SINGLE "}}",
         A_CALLED},
        {MESSAGES, "{" A("wagain") A_TOOLS A_NAMED("look", "") "}", A_CALLED},
        {MESSAGES, "{" A("wnamed") A_TOOLS A_NAMED("look", SINGLE) "}", A_CALLED},
    };
    CHECK(rows, "200");
}

#define C_STRICT                                                                                   \
    ",\"tools\":[" C_TOOL("look", ",\"parameters\":" AT STRICT) "," C_TOOL("see", "") "]"
#define R_STRICT                                                                                   \
    ",\"tools\":[" R_TOOL("look", ",\"parameters\":" AT STRICT) "," R_TOOL("see", "") "]"
#define A_STRICT                                                                                   \
    ",\"tools\":[" A_TOOL("look", ",\"input_schema\":" AT STRICT) "," A_TOOL("see", "") "]"

static void strict_tools(void **state)
{
    (void)state;
    static const row rows[] = {
        {CHAT, "{" C("wstrict") C_STRICT "}", C_CALLED},
        {RESPONSES, "{" R("wstrict") R_STRICT "}", R_CALLED},
        {RESPONSES, "{" R("wstrict") R_STRICT "}", "\"parameters\":" AT ",\"strict\":true}"},
        {MESSAGES, "{" A("wstrict") A_STRICT "}", A_CALLED},
        /* With none of these there is no grammar. */
        {CHAT, "{" C("x") C_TOOLS ",\"response_format\":{\"type\":\"text\"}}", "\"free\""},
        {CHAT, "{" C("x") C_STRICT ",\"tool_choice\":\"none\"}", "\"free\""},
        {CHAT, "{" C("x") C_TOOLS ",\"tool_choice\":\"auto\",\"parallel_tool_calls\":false}",
         "\"free\""},
        {RESPONSES, "{" R("x") R_TOOLS ",\"tool_choice\":\"auto\"}", "\"free\""},
        {RESPONSES, "{" R("x") R_STRICT ",\"tool_choice\":\"none\"}", "\"free\""},
        {MESSAGES, "{" A("x") A_TOOLS ",\"tool_choice\":{\"type\":\"auto\"}}", "\"free\""},
        {MESSAGES, "{" A("x") A_STRICT ",\"tool_choice\":{\"type\":\"none\"}}", "\"free\""},
        {MESSAGES, "{" A("x") ",\"output_config\":{\"effort\":\"low\"}}", "\"free\""},
    };
    CHECK(rows, "200");
}

/* ---- what is refused ---- */

#define PARAM(param, code)                                                                         \
    "\",\"type\":\"invalid_request_error\",\"param\":\"" param "\",\"code\":\"" code "\"}}"
#define NOT ",\"not\":{}"

static void schemas_are_refused_by_name(void **state)
{
    (void)state;
    static const row rows[] = {
        {CHAT, "{" C("x") C_FORMAT(CITY(NOT)) "}",
         "#/properties/city/not: \\\"not\\\" is not supported" PARAM(
             "response_format.json_schema.schema", "unsupported_value")},
        {CHAT, "{" C("x") C_FORMAT(CITY(NOT)) C_TOOLS "}",
         PARAM("response_format.json_schema.schema", "unsupported_value")},
        {CHAT, "{" C("x") C_FORMAT("{\"type\":\"any\"}") "}",
         PARAM("response_format.json_schema.schema", "unsupported_value")},
        {CHAT, "{" C("x") C_FORMAT("{\"type\":\"string\",\"enum\":[1]}") "}",
         PARAM("response_format.json_schema.schema", "invalid_value")},
        {CHAT, "{" C("x") C_FORMAT("[]") "}",
         PARAM("response_format.json_schema.schema", "invalid_value")},
        {CHAT, "{" C("x") ",\"response_format\":{\"type\":\"json_schema\"}}",
         PARAM("response_format.json_schema", "invalid_value")},
        {CHAT, "{" C("x") ",\"response_format\":\"json_object\"}",
         PARAM("response_format", "invalid_value")},
        {CHAT,
         "{" C("x") ",\"tools\":[" C_TOOL("see", "") "," C_TOOL("look", ",\"parameters\":" CITY(NOT)
                                                                            STRICT) "]}",
         "look: #/properties/city/not: \\\"not\\\" is not supported" PARAM(
             "tools[1].function.parameters", "unsupported_value")},
        {CHAT, "{" C("x") ",\"tools\":[" C_TOOL("look", ",\"strict\":1") "]}",
         PARAM("tools[0].function.strict", "invalid_value")},
        {RESPONSES, "{" R("x") R_FORMAT(CITY(NOT)) "}",
         "#/properties/city/not: \\\"not\\\" is not supported" PARAM("text.format.schema",
                                                                     "unsupported_value")},
        {RESPONSES,
         "{" R("x") ",\"tools\":[" R_TOOL("look", ",\"parameters\":" CITY(NOT) STRICT) "]}",
         "look: #/properties/city/not: "
         "\\\"not\\\" is not supported" PARAM("tools[0].parameters", "unsupported_value")},
        {RESPONSES,
         "{" R("x") ",\"tools\":[{\"type\":\"namespace\",\"name\":\"files\",\"description\":\"f\","
                    "\"tools\":[" R_TOOL("look", ",\"parameters\":" CITY(NOT) STRICT) "]}]}",
         PARAM("tools[0].tools[0].parameters", "unsupported_value")},
        {MESSAGES, "{" A("x") A_FORMAT(CITY(NOT)) "}",
         "\"message\":\"output_config.format.schema: schema: #/properties/city/not: "},
        {MESSAGES,
         "{" A("x") ",\"output_format\":{\"type\":\"json_schema\",\"schema\":" CITY(NOT) "}}",
         "\"message\":\"output_format.schema: schema: #/properties/city/not: "},
        {MESSAGES, "{" A("x") ",\"output_format\":{\"type\":\"json_object\"}}",
         "\"message\":\"output_format: "},
        {MESSAGES,
         "{" A("x") A_FORMAT("{}") ",\"output_format\":{\"type\":\"json_schema\",\"schema\":{}}}",
         "\"message\":\"output_format: output_config.format and output_format exclude each other"},
        {MESSAGES,
         "{" A("x") ",\"tools\":[" A_TOOL("look", ",\"input_schema\":" CITY(NOT) STRICT) "]}",
         "\"message\":\"tools[0].input_schema: look: #/properties/city/not: "},
    };
    CHECK(rows, "400");
}

#define NOTHING                                                                                    \
    "{\"type\":\"object\",\"properties\":{\"at\":{\"type\":\"integer\",\"minimum\":2,\"maximum\":" \
    "1}},\"required\":[\"at\"]}"

static void strict_tools_that_nothing_satisfies(void **state)
{
    (void)state;
    static const row rows[] = {
        {CHAT,
         "{" C("x") ",\"tools\":[" C_TOOL("see", "") "," C_TOOL(
             "look", ",\"parameters\":" NOTHING STRICT) "]}",
         "look: nothing satisfies its schema" PARAM("tools[1].function.parameters",
                                                    "invalid_value")},
        {RESPONSES,
         "{" R("x") ",\"tools\":[" R_TOOL("look", ",\"parameters\":" NOTHING STRICT) "]}",
         PARAM("tools[0].parameters", "invalid_value")},
        {MESSAGES,
         "{" A("x") ",\"tools\":[" A_TOOL("look", ",\"input_schema\":" NOTHING STRICT) "]}",
         "\"message\":\"tools[0].input_schema: look: nothing satisfies its schema"},
    };
    CHECK(rows, "400");
}

static void choices_are_refused(void **state)
{
    (void)state;
    static const char choice[] = PARAM("tool_choice", "invalid_value");
    static const char hosted[] = PARAM("tool_choice", "unsupported_value");
    static const row rows[] = {
        {CHAT, "{" C("x") ",\"tool_choice\":\"required\"}", choice},
        {CHAT, "{" C("x") ",\"tools\":[{\"type\":\"custom\"}],\"tool_choice\":\"required\"}",
         choice},
        {CHAT, "{" C("x") C_TOOLS C_NAMED("other") "}", choice},
        {CHAT, "{" C("x") C_TOOLS C_ALLOWED("auto", C_TOOL("other", "")) "}", choice},
        {CHAT, "{" C("x") C_TOOLS C_ALLOWED("auto", "") "}", choice},
        {CHAT, "{" C("x") C_TOOLS C_ALLOWED("auto", "{\"type\":\"mcp\"}") "}", choice},
        {CHAT, "{" C("x") C_TOOLS C_ALLOWED("some", C_TOOL("look", "")) "}", choice},
        {CHAT, "{" C("x") C_TOOLS ",\"tool_choice\":{\"type\":\"allowed_tools\"}}", choice},
        {CHAT, "{" C("x") C_TOOLS ",\"tool_choice\":{}}", choice},
        {CHAT, "{" C("x") C_TOOLS ",\"tool_choice\":1}", choice},
        {RESPONSES, "{" R("x") ",\"tool_choice\":\"required\"}", choice},
        {RESPONSES, "{" R("x") R_TOOLS R_NAMED("see") "}", choice},
        {RESPONSES, "{" R("x") R_TOOLS R_ALLOWED("auto", "") "}", choice},
        {RESPONSES, "{" R("x") R_TOOLS ",\"tool_choice\":{\"type\":\"web_search_preview\"}}",
         hosted},
        {MESSAGES, "{" A("x") ",\"tool_choice\":{\"type\":\"any\"}}",
         "\"message\":\"tool_choice: "},
        {MESSAGES, "{" A("x") A_TOOLS A_NAMED("other", "") "}", "\"message\":\"tool_choice: "},
        {"/tokenize", "{" C("x") ",\"tool_choice\":\"required\"}", choice},
    };
    CHECK(rows, "400");
}

/* A schema of so many bytes. */
static void format_of(size_t bytes, const char *status, const char *want)
{
    static const char begin[] = "{\"description\":\"", end[] = "\"}";
    size_t n = bytes - (sizeof begin - 1) - (sizeof end - 1);
    char *body = malloc(bytes + 512), *at = body;
    assert_non_null(body);
    at += sprintf(at,
                  "{" C("wany") ",\"response_format\":{\"type\":\"json_schema\","
                                "\"json_schema\":{\"name\":\"x\",\"schema\":%s",
                  begin);
    memset(at, 'x', n);
    sprintf(at + n, "%s}}}", end);
    const row r = {CHAT, body, want};
    check(&r, 1, status);
    free(body);
}

static void sizes(void **state)
{
    (void)state;
    /* The script has no grammar in mind: the engine fails, so it was let through. */
    format_of(TT_SCHEMA, "HTTP/1.1 500 ", "internal_error");
    format_of(TT_SCHEMA + 1, "HTTP/1.1 400 ",
              PARAM("response_format.json_schema.schema", "value_too_large"));
}

/* ---- what is relaxed ---- */

static void others_are_relaxed_and_told(void **state)
{
    (void)state;
    static const char wide[] = ",\"parameters\":{\"type\":\"object\",\"properties\":{\"at\":{"
                               "\"type\":\"string\",\"pattern\":\"(?<!SECRET)\"}},\"required\":["
                               "\"at\"]}";
    static const char odd[] = ",\"parameters\":{\"type\":\"object\",\"properties\":{\"SECRET\":{"
                              "\"type\":\"string\",\"SECRET\":1}}}";
    char body[2048];
    snprintf(body, sizeof body,
             "{" C("wloose") ",\"tool_choice\":\"required\",\"tools\":[{\"type\":\"hosted\"},"
                             "{\"type\":\"function\",\"function\":{\"name\":\"look\"%s}},"
                             "{\"type\":\"function\",\"function\":{\"name\":\"SECRET\"%s}}]}",
             wide, odd);
    for (int i = 0; i < 2; i++) { /* the second time the grammar is there already */
        const row r = {CHAT, body, C_CALLED};
        check(&r, 1, "HTTP/1.1 200 ");
    }
    snprintf(body, sizeof body,
             "{" R("wloose") ",\"tool_choice\":\"required\",\"tools\":[{\"type\":\"namespace\","
                             "\"name\":\"files\",\"description\":\"f\",\"tools\":[{\"type\":"
                             "\"function\",\"name\":\"SECRET\"%s}]},{\"type\":\"function\","
                             "\"name\":\"look\"%s}]}",
             odd, wide);
    const row r = {RESPONSES, body, R_CALLED};
    check(&r, 1, "HTTP/1.1 200 ");
    char *log = log_text();
    const char *told = " relaxed=\"tools[1].function:pattern tools[2].function:others\"";
    expect(log, told);
    expect(strstr(log, told) + 1, told);
    expect(log, " relaxed=\"tools[0].tools[0]:others tools[1]:pattern\"");
    expect_not(log, "SECRET");
    free(log);
}

/* Nor does a schema that nothing satisfies keep a demanded call from coming. */
static void a_demand_is_not_refused(void **state)
{
    (void)state;
    static const row rows[] = {
        {CHAT,
         "{" C("wloose") ",\"tool_choice\":\"required\",\"tools\":[" C_TOOL(
             "look", ",\"parameters\":" NOTHING) "]}",
         C_CALLED},
        {RESPONSES,
         "{" R("wloose") ",\"tool_choice\":\"required\",\"tools\":[" R_TOOL(
             "look", ",\"parameters\":" NOTHING) "]}",
         R_CALLED},
    };
    CHECK(rows, "200");
    char *log = log_text();
    expect(log, " relaxed=tools[0].function:all");
    expect(log, " relaxed=tools[0]:all");
    free(log);
}

/* Bounds beyond 64 bits, as programs with unsigned numbers write them. */
static void large_bounds_are_read(void **state)
{
    (void)state;
    static const char bounds[] =
        ",\"parameters\":{\"type\":\"object\",\"properties\":{\"at\":{\"type\":\"integer\","
        "\"format\":\"uint64\",\"minimum\":0,\"maximum\":18446744073709551615},\"s\":{\"type\":"
        "\"string\",\"maxLength\":18446744073709551615}}}";
    char body[2048];
    snprintf(body, sizeof body,
             "{" C("wwide") ",\"tool_choice\":\"required\",\"max_tokens\":"
                            "99999999999999999999,\"tools\":[{\"type\":\"function\","
                            "\"function\":{\"name\":\"look\",\"strict\":true%s}}]}",
             bounds);
    const row r = {CHAT, body, C_CALLED};
    check(&r, 1, "HTTP/1.1 200 ");
    char *log = log_text();
    expect(log, "adjusted=max_tokens");
    free(log);
}

/* Calls that are demanded leave no place for a document. */
static void a_format_gives_way_to_a_demand(void **state)
{
    (void)state;
    static const row rows[] = {
        {CHAT, "{" C("wmust") C_TOOLS C_FORMAT(CITY("")) ",\"tool_choice\":\"required\"}",
         C_CALLED},
    };
    CHECK(rows, "200");
    char *log = log_text();
    expect(log, "response_format\"");
    free(log);
}

static void counts_make_no_grammar(void **state)
{
    (void)state;
    static const row rows[] = {
        {"/tokenize", "{" C("x") C_TOOLS ",\"tool_choice\":\"required\"}", "\"count\":"},
        {"/v1/messages/count_tokens", "{" C("x") A_FORMAT(CITY(NOT)) "}", "\"input_tokens\":"},
        {"/v1/messages/count_tokens", "{" C("x") A_TOOLS ",\"tool_choice\":{\"type\":\"any\"}}",
         "\"input_tokens\":"},
    };
    CHECK(rows, "200");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents),
        cmocka_unit_test(calls),
        cmocka_unit_test(strict_tools),
        cmocka_unit_test(schemas_are_refused_by_name),
        cmocka_unit_test(strict_tools_that_nothing_satisfies),
        cmocka_unit_test(choices_are_refused),
        cmocka_unit_test(sizes),
        cmocka_unit_test(others_are_relaxed_and_told),
        cmocka_unit_test(a_demand_is_not_refused),
        cmocka_unit_test(large_bounds_are_read),
        cmocka_unit_test(a_format_gives_way_to_a_demand),
        cmocka_unit_test(counts_make_no_grammar),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
