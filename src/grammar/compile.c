#include "grammar/compile.h"

#include <string.h>

#include "base/json.h"
#include "grammar/ebnf.h"
#include "grammar/schema_rules.h"
#include "grammar/text_rules.h"

/* ---- texts ---- */

static tt_status parse(const char *json, size_t len, size_t most, const char *what, json_t **out,
                       tt_error *err)
{
    if (len > most)
        return tt_fail(err, TT_ERR_LIMIT, "%s: %zu bytes, at most %zu are read", what, len, most);
    return tt_json_parse_deep(json, len, TT_SHAPE_NEST, what, out, err);
}

/* ---- automata ---- */

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

static tt_status parse_schema(const char *json, size_t len, json_t **root, tt_error *err)
{
    json_t *tree = NULL;
    TT_TRY(parse(json, len, TT_SCHEMA_BYTES, "schema", &tree, err));
    if (!json_is_object(tree) && !json_is_boolean(tree)) {
        json_decref(tree);
        return tt_fail(err, TT_ERR_INVALID, "schema: must be an object, true or false");
    }
    *root = tree;
    return TT_OK;
}

tt_status tt_compile_schema(const char *json, size_t len, bool strict, json_t *relaxed,
                            tt_automaton *out, tt_error *err)
{
    json_t *root = NULL;
    tt_builder b;
    uint32_t entry = 0;
    TT_TRY(parse_schema(json, len, &root, err));
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

/* Calls, as *entry has them, or a document. */
static tt_status add_document(tt_builder *b, const json_t *root, uint32_t *entry, tt_error *err)
{
    uint32_t document = 0, either = tt_builder_state(b), end = tt_builder_final(b);
    TT_TRY(schema_entry(b, root, true, NULL, &document, err));
    tt_builder_call(b, either, *entry, 0, end);
    tt_builder_call(b, either, document, 0, end);
    *entry = either;
    return tt_builder_status(b, err);
}

tt_status tt_compile_tools(const char *json, size_t len, const tt_call_choice *choice,
                           const char *document, json_t *relaxed, tt_automaton *out, tt_error *err)
{
    json_t *tools = NULL, *root = NULL;
    tt_builder b;
    uint32_t entry = 0;
    if (document != NULL && !choice->required)
        return tt_fail(err, TT_ERR_INVALID,
                       "a document in place of calls needs calls that are required");
    if (document != NULL)
        TT_TRY(parse_schema(document, strlen(document), &root, err));
    tt_status st = parse(json, len, TT_TOOLS_BYTES, "tools", &tools, err);
    if (st != TT_OK) {
        json_decref(root);
        return st;
    }
    tt_builder_init(&b);
    st = tt_call_rule(&b, tools, choice, relaxed, &entry, err);
    if (st == TT_OK && document != NULL)
        st = add_document(&b, root, &entry, err);
    st = finish(&b, st, entry, "tools", out, err);
    json_decref(tools);
    json_decref(root);
    return st;
}
