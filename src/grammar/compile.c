#include "grammar/compile.h"

#include "base/json.h"
#include "grammar/ebnf.h"
#include "grammar/schema_rules.h"
#include "grammar/text_rules.h"

/* The rule is there: with the ways into it, it becomes an automaton. */
static tt_status finish(tt_builder *b, tt_status st, uint32_t entry, const char *what,
                        tt_automaton *out, tt_error *err)
{
    if (st == TT_OK) {
        tt_starts starts = tt_text_starts(b, entry, 0);
        st = tt_builder_status(b, err);
        if (st == TT_OK)
            st = tt_automaton_finish(b, &starts, out, err);
        if (st != TT_OK)
            st = tt_fail_context(err, st, "%s", what);
    }
    tt_builder_free(b);
    return st;
}

static tt_status schema_entry(tt_builder *b, const json_t *root, bool strict, json_t *relaxed,
                              uint32_t *entry, tt_error *err)
{
    tt_shared_rules shared;
    tt_schema s;
    tt_shared_rules_init(&shared, b, NULL);
    tt_status st = tt_schema_init(&s, b, root, "schema", strict, relaxed, err);
    if (st == TT_OK)
        st = tt_schema_rules_init(&s, &shared, err);
    if (st == TT_OK)
        st = tt_schema_rule(&s, entry, err);
    tt_schema_rules_free(&s);
    tt_schema_free(&s);
    tt_shared_rules_free(&shared);
    return st;
}

tt_status tt_compile_schema(const char *json, size_t len, bool strict, json_t *relaxed,
                            tt_automaton *out, tt_error *err)
{
    json_t *root = NULL;
    tt_builder b;
    uint32_t entry = 0;
    if (len > TT_SCHEMA_BYTES)
        return tt_fail(err, TT_ERR_LIMIT, "a schema of %zu bytes, at most %u are read", len,
                       TT_SCHEMA_BYTES);
    TT_TRY(tt_json_parse_deep(json, len, TT_SHAPE_NEST, "schema", &root, err));
    if (!json_is_object(root) && !json_is_boolean(root)) {
        json_decref(root);
        return tt_fail(err, TT_ERR_INVALID, "schema: must be an object, true or false");
    }
    tt_builder_init(&b);
    tt_status st = schema_entry(&b, root, strict, relaxed, &entry, err);
    st = finish(&b, st, entry, "schema", out, err);
    json_decref(root);
    return st;
}

tt_status tt_compile_ebnf(const char *text, size_t len, tt_automaton *out, tt_error *err)
{
    tt_builder b;
    uint32_t entry = 0;
    tt_builder_init(&b);
    tt_status st = tt_ebnf_rule(&b, text, len, &entry, err);
    if (st != TT_OK)
        st = tt_fail_context(err, st, "grammar");
    return finish(&b, st, entry, "grammar", out, err);
}

tt_status tt_compile_tools(const char *json, size_t len, const tt_call_choice *choice,
                           json_t *relaxed, tt_automaton *out, tt_error *err)
{
    json_t *tools = NULL;
    tt_builder b;
    uint32_t entry = 0;
    if (len > TT_TOOLS_BYTES)
        return tt_fail(err, TT_ERR_LIMIT, "tools of %zu bytes, at most %u are read", len,
                       TT_TOOLS_BYTES);
    TT_TRY(tt_json_parse_deep(json, len, TT_SHAPE_NEST, "tools", &tools, err));
    tt_builder_init(&b);
    tt_status st = tt_call_rule(&b, tools, choice, relaxed, &entry, err);
    st = finish(&b, st, entry, "tools", out, err);
    json_decref(tools);
    return st;
}
