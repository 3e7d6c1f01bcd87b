/* Statements: tokens to syntax tree. */
#include <string.h>

#include "tokenizer/jinja_parser.h"

/* ---- cursor ---- */

bool tt_jp_is(const jparser *p, const char *name)
{
    return p->t->type == JTOK_NAME && tt_jstr_is(p->t->text, name);
}

bool tt_jp_skip(jparser *p, const char *name)
{
    if (!tt_jp_is(p, name))
        return false;
    p->t++;
    return true;
}

static const char *describe(jtoken_type type)
{
    static const char *const names[] = {"the end of the template",
                                        "text",
                                        "'{%'",
                                        "'%}'",
                                        "'{{'",
                                        "'}}'",
                                        "a name",
                                        "a string",
                                        "an integer",
                                        "a number",
                                        "'+'",
                                        "'-'",
                                        "'/'",
                                        "'//'",
                                        "'*'",
                                        "'%'",
                                        "'**'",
                                        "'~'",
                                        "'['",
                                        "']'",
                                        "'('",
                                        "')'",
                                        "'{'",
                                        "'}'",
                                        "'=='",
                                        "'!='",
                                        "'>'",
                                        "'>='",
                                        "'<'",
                                        "'<='",
                                        "'='",
                                        "'.'",
                                        "':'",
                                        "'|'",
                                        "','",
                                        "';'"};
    return (size_t)type < sizeof names / sizeof names[0] ? names[type] : "a token";
}

tt_status tt_jp_unexpected(jparser *p)
{
    p->r->line = p->t->line;
    if (p->t->type == JTOK_NAME)
        return tt_jfail(p->r, "unexpected '%.*s'", (int)p->t->text->n, p->t->text->p);
    return tt_jfail(p->r, "unexpected %s", describe(p->t->type));
}

tt_status tt_jp_expect(jparser *p, jtoken_type type)
{
    if (p->t->type == type) {
        p->t++;
        return TT_OK;
    }
    p->r->line = p->t->line;
    if (p->t->type == JTOK_NAME)
        return tt_jfail(p->r, "expected %s, got '%.*s'", describe(type), (int)p->t->text->n,
                        p->t->text->p);
    return tt_jfail(p->r, "expected %s, got %s", describe(type), describe(p->t->type));
}

tt_status tt_jp_expect_name(jparser *p, const jstr **name)
{
    const jstr *text = p->t->text;
    J_TRY(tt_jp_expect(p, JTOK_NAME));
    *name = text;
    return TT_OK;
}

tt_status tt_jp_enter(jparser *p)
{
    p->r->line = p->t->line;
    if (++p->depth > J_MAX_PARSE_DEPTH)
        return tt_jlimit(p->r, "the template nests deeper than %d levels", J_MAX_PARSE_DEPTH);
    return TT_OK;
}

tt_status tt_jp_node(jparser *p, jkind kind, uint32_t line, jnode **out)
{
    jnode *n;
    p->r->line = line;
    J_TRY(tt_jcharge(p->r, 1));
    J_NEW(p->r, n, 1);
    n->kind = (uint8_t)kind;
    n->line = line;
    *out = n;
    return TT_OK;
}

static tt_status deepest(jnode *child, void *ctx)
{
    uint16_t *depth = ctx;
    if (child->depth > *depth)
        *depth = child->depth;
    return TT_OK;
}

tt_status tt_jp_done(jparser *p, jnode *n)
{
    uint16_t depth = 0;
    J_TRY(tt_jchildren(n, deepest, &depth));
    n->depth = (uint16_t)(depth + 1);
    if (n->depth > J_MAX_NODE_DEPTH) {
        p->r->line = n->line;
        return tt_jlimit(p->r, "the template nests deeper than %d levels", J_MAX_NODE_DEPTH);
    }
    return TT_OK;
}

/* ---- statements ---- */

static tt_status parse_statement(jparser *p, jnode **out);

static bool at_end_tag(const jparser *p, const char *const *ends)
{
    for (; ends != NULL && *ends != NULL; ends++)
        if (tt_jp_is(p, *ends))
            return true;
    return false;
}

static tt_status flush(jparser *p, jnode **output, jnodes *body)
{
    if (*output == NULL)
        return TT_OK;
    jnode *n = *output;
    *output = NULL;
    J_TRY(tt_jp_done(p, n));
    return tt_jnodes_add(p->r, body, n);
}

static tt_status add_output(jparser *p, jnode **output, jnode *part)
{
    if (*output == NULL)
        J_TRY(tt_jp_node(p, JN_OUTPUT, part->line, output));
    return tt_jnodes_add(p->r, &(*output)->list, part);
}

static tt_status parse_data(jparser *p, jnode **output)
{
    jnode *n = NULL;
    J_TRY(tt_jp_node(p, JN_DATA, p->t->line, &n));
    n->value = J_STR(p->t->text);
    p->t++;
    return add_output(p, output, n);
}

static tt_status parse_variable(jparser *p, jnode **output)
{
    jnode *n = NULL;
    p->t++;
    J_TRY(tt_jp_tuple(p, false, true, JSTOP_NONE, false, &n));
    J_TRY(add_output(p, output, n));
    return tt_jp_expect(p, JTOK_VARIABLE_END);
}

/* Text and tags up to one of the end tags (left as the current token) or the end. */
static tt_status subparse(jparser *p, const char *const *ends, jnodes *body)
{
    jnode *output = NULL, *n = NULL;
    while (p->t->type != JTOK_EOF) {
        if (p->t->type == JTOK_DATA) {
            J_TRY(parse_data(p, &output));
        } else if (p->t->type == JTOK_VARIABLE_BEGIN) {
            J_TRY(parse_variable(p, &output));
        } else {
            J_TRY(flush(p, &output, body));
            J_TRY(tt_jp_expect(p, JTOK_BLOCK_BEGIN));
            if (at_end_tag(p, ends))
                return TT_OK;
            J_TRY(parse_statement(p, &n));
            J_TRY(tt_jnodes_add(p->r, body, n));
            J_TRY(tt_jp_expect(p, JTOK_BLOCK_END));
        }
    }
    return flush(p, &output, body);
}

static tt_status parse_body(jparser *p, const char *const *ends, bool drop_end, jnodes *body)
{
    uint32_t line = p->t->line;
    if (p->t->type == JTOK_COLON)
        p->t++;
    J_TRY(tt_jp_expect(p, JTOK_BLOCK_END));
    J_TRY(subparse(p, ends, body));
    if (p->t->type == JTOK_EOF) {
        p->r->line = line;
        return tt_jfail(p->r, "the template ends inside a block: '%s' is missing", ends[0]);
    }
    if (drop_end)
        p->t++;
    return TT_OK;
}

static tt_status check_target(jparser *p, jnode *n)
{
    p->r->line = n->line;
    if (n->kind == JN_TUPLE) {
        n->op = JC_STORE;
        for (uint32_t i = 0; i < n->list.n; i++)
            J_TRY(check_target(p, n->list.v[i]));
        return TT_OK;
    }
    if (n->kind != JN_NAME)
        return tt_jfail(p->r, "this is nothing to assign to");
    n->op = JC_STORE;
    return TT_OK;
}

static tt_status name_target(jparser *p, jctx ctx, jnode **out)
{
    static const char *const constants[] = {"true", "false", "none", "True", "False", "None"};
    jnode *n = NULL;
    J_TRY(tt_jp_node(p, JN_NAME, p->t->line, &n));
    J_TRY(tt_jp_expect_name(p, &n->name));
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++)
        if (tt_jstr_is(n->name, constants[i]))
            return tt_jfail(p->r, "'%s' is a constant: choose another name", constants[i]);
    n->op = (uint8_t)ctx;
    *out = n;
    return TT_OK;
}

static tt_status parse_target(jparser *p, jstop stop, bool with_namespace, jnode **out)
{
    if (with_namespace && p->t->type == JTOK_NAME && p->t[1].type == JTOK_DOT) {
        jnode *n = NULL;
        J_TRY(tt_jp_node(p, JN_NSREF, p->t->line, &n));
        J_TRY(tt_jp_expect_name(p, &n->name));
        p->t++;
        J_TRY(tt_jp_expect_name(p, &n->attr));
        *out = n;
        return TT_OK;
    }
    J_TRY(tt_jp_tuple(p, true, true, stop, false, out));
    return check_target(p, *out);
}

static tt_status parse_set(jparser *p, jnode **out)
{
    static const char *const ends[] = {"endset", NULL};
    jnode *n = NULL;
    J_TRY(tt_jp_node(p, JN_ASSIGN, p->t->line, &n));
    p->t++;
    J_TRY(parse_target(p, JSTOP_NONE, true, &n->a));
    *out = n;
    if (p->t->type == JTOK_ASSIGN) {
        p->t++;
        return tt_jp_tuple(p, false, true, JSTOP_NONE, false, &n->b);
    }
    n->kind = JN_ASSIGN_BLOCK;
    J_TRY(tt_jp_filter(p, NULL, false, &n->b));
    return parse_body(p, ends, true, &n->list);
}

static tt_status parse_for(jparser *p, jnode **out)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    jnode *n = NULL;
    J_TRY(tt_jp_node(p, JN_FOR, p->t->line, &n));
    p->t++;
    J_TRY(parse_target(p, JSTOP_IN, false, &n->a));
    if (!tt_jp_skip(p, "in"))
        return tt_jfail(p->r, "'in' is missing in a for");
    J_TRY(tt_jp_tuple(p, false, false, JSTOP_RECURSIVE, false, &n->b));
    if (tt_jp_skip(p, "if"))
        J_TRY(tt_jp_expression(p, true, &n->c));
    n->flag = tt_jp_skip(p, "recursive");
    J_TRY(parse_body(p, ends, false, &n->list));
    *out = n;
    if (tt_jp_skip(p, "endfor"))
        return TT_OK;
    p->t++;
    return parse_body(p, ends, true, &n->list2);
}

static tt_status parse_if(jparser *p, jnode **out)
{
    static const char *const ends[] = {"endif", "elif", "else", NULL};
    static const char *const last[] = {"endif", NULL};
    jnode *n = NULL;
    J_TRY(tt_jp_node(p, JN_IF, p->t->line, &n));
    *out = n;
    jnode *branch = n;
    for (;;) {
        p->t++;
        J_TRY(tt_jp_tuple(p, false, false, JSTOP_NONE, false, &branch->a));
        J_TRY(parse_body(p, ends, false, &branch->list));
        if (branch != n)
            J_TRY(tt_jp_done(p, branch));
        if (!tt_jp_is(p, "elif"))
            break;
        J_TRY(tt_jp_node(p, JN_IF, p->t->line, &branch));
        J_TRY(tt_jnodes_add(p->r, &n->list2, branch));
    }
    if (tt_jp_skip(p, "else"))
        return parse_body(p, last, true, &n->list3);
    p->t++;
    return TT_OK;
}

static tt_status parse_with(jparser *p, jnode **out)
{
    static const char *const ends[] = {"endwith", NULL};
    jnode *n = NULL, *target = NULL, *value = NULL;
    J_TRY(tt_jp_node(p, JN_WITH, p->t->line, &n));
    p->t++;
    while (p->t->type != JTOK_BLOCK_END) {
        if (n->list.n > 0)
            J_TRY(tt_jp_expect(p, JTOK_COMMA));
        J_TRY(parse_target(p, JSTOP_NONE, false, &target));
        target->op = JC_PARAM;
        for (uint32_t i = 0; i < target->list.n; i++)
            target->list.v[i]->op = JC_PARAM;
        J_TRY(tt_jp_expect(p, JTOK_ASSIGN));
        J_TRY(tt_jp_expression(p, true, &value));
        J_TRY(tt_jnodes_add(p->r, &n->list, target));
        J_TRY(tt_jnodes_add(p->r, &n->list2, value));
    }
    *out = n;
    return parse_body(p, ends, true, &n->list3);
}

static tt_status parse_signature(jparser *p, jnode *n)
{
    jnode *arg = NULL, *value = NULL;
    J_TRY(tt_jp_expect(p, JTOK_LPAREN));
    while (p->t->type != JTOK_RPAREN) {
        if (n->list.n > 0)
            J_TRY(tt_jp_expect(p, JTOK_COMMA));
        J_TRY(name_target(p, JC_PARAM, &arg));
        for (uint32_t i = 0; i < n->list.n; i++)
            if (n->list.v[i]->name == arg->name)
                return tt_jfail(p->r, "argument '%.*s' appears twice", (int)arg->name->n,
                                arg->name->p);
        if (p->t->type == JTOK_ASSIGN) {
            p->t++;
            J_TRY(tt_jp_expression(p, true, &value));
            J_TRY(tt_jnodes_add(p->r, &n->list2, value));
        } else if (n->list2.n > 0) {
            return tt_jfail(p->r, "an argument without a default follows one with a default");
        }
        J_TRY(tt_jnodes_add(p->r, &n->list, arg));
    }
    p->t++;
    return TT_OK;
}

static tt_status parse_macro(jparser *p, jnode **out)
{
    static const char *const ends[] = {"endmacro", NULL};
    jnode *n = NULL, *target = NULL;
    J_TRY(tt_jp_node(p, JN_MACRO, p->t->line, &n));
    p->t++;
    J_TRY(name_target(p, JC_STORE, &target));
    n->name = target->name;
    J_TRY(parse_signature(p, n));
    *out = n;
    return parse_body(p, ends, true, &n->list3);
}

static tt_status parse_call_block(jparser *p, jnode **out)
{
    static const char *const ends[] = {"endcall", NULL};
    jnode *n = NULL;
    J_TRY(tt_jp_node(p, JN_CALL_BLOCK, p->t->line, &n));
    p->t++;
    if (p->t->type == JTOK_LPAREN)
        J_TRY(parse_signature(p, n));
    J_TRY(tt_jp_expression(p, true, &n->a));
    if (n->a->kind != JN_CALL)
        return tt_jfail(p->r, "a call block needs a call");
    *out = n;
    return parse_body(p, ends, true, &n->list3);
}

static tt_status parse_generation(jparser *p, jnode **out)
{
    static const char *const ends[] = {"endgeneration", NULL};
    J_TRY(tt_jp_node(p, JN_GENERATION, p->t->line, out));
    p->t++;
    return parse_body(p, ends, true, &(*out)->list3);
}

static tt_status parse_filter_block(jparser *p, jnode **out)
{
    static const char *const ends[] = {"endfilter", NULL};
    jnode *n = NULL;
    J_TRY(tt_jp_node(p, JN_FILTER_BLOCK, p->t->line, &n));
    p->t++;
    J_TRY(tt_jp_filter(p, NULL, true, &n->a));
    *out = n;
    return parse_body(p, ends, true, &n->list);
}

static tt_status blank_only(jnode *n, void *ctx)
{
    jparser *p = ctx;
    bool blank = n->kind == JN_OUTPUT;
    for (uint32_t i = 0; blank && i < n->list.n; i++) {
        const jnode *part = n->list.v[i];
        blank = part->kind == JN_DATA;
        const char *s = blank ? part->value.s->p : NULL, *end = blank ? s + part->value.s->n : NULL;
        while (blank && s < end)
            blank = tt_jcp_space(tt_jcp_next(&s));
    }
    return blank ? TT_OK : tt_jfail(p->r, "a required block may hold white space only");
}

static tt_status parse_block(jparser *p, jnode **out)
{
    static const char *const ends[] = {"endblock", NULL};
    jnode *n = NULL;
    J_TRY(tt_jp_node(p, JN_BLOCK, p->t->line, &n));
    p->t++;
    J_TRY(tt_jp_expect_name(p, &n->name));
    n->op = tt_jp_skip(p, "scoped");
    n->flag = tt_jp_skip(p, "required");
    J_TRY(parse_body(p, ends, true, &n->list));
    if (n->flag)
        J_TRY(tt_jchildren(n, blank_only, p));
    if (p->t->type == JTOK_NAME && p->t->text == n->name)
        p->t++;
    for (uint32_t i = 0; i < p->r->blocks.n; i++)
        if (p->r->blocks.v[i]->name == n->name)
            return tt_jfail(p->r, "block '%.*s' is defined twice", (int)n->name->n, n->name->p);
    *out = n;
    return tt_jnodes_add(p->r, &p->r->blocks, n);
}

static tt_status parse_print(jparser *p, jnode **out)
{
    jnode *n = NULL, *item = NULL;
    J_TRY(tt_jp_node(p, JN_OUTPUT, p->t->line, &n));
    p->t++;
    while (p->t->type != JTOK_BLOCK_END) {
        if (n->list.n > 0)
            J_TRY(tt_jp_expect(p, JTOK_COMMA));
        J_TRY(tt_jp_expression(p, true, &item));
        J_TRY(tt_jnodes_add(p->r, &n->list, item));
    }
    *out = n;
    return TT_OK;
}

static tt_status parse_break(jparser *p, jnode **out)
{
    jkind kind = tt_jp_is(p, "break") ? JN_BREAK : JN_CONTINUE;
    J_TRY(tt_jp_node(p, kind, p->t->line, out));
    p->t++;
    return TT_OK;
}

static tt_status parse_refused(jparser *p, jnode **out)
{
    return tt_jfail(p->r, "'%.*s' is not supported in chat templates", (int)p->t->text->n,
                    p->t->text->p);
}

static tt_status parse_statement(jparser *p, jnode **out)
{
    static const struct {
        const char *name;
        tt_status (*parse)(jparser *p, jnode **out);
    } tags[] = {{"for", parse_for},           {"if", parse_if},
                {"set", parse_set},           {"macro", parse_macro},
                {"call", parse_call_block},   {"filter", parse_filter_block},
                {"with", parse_with},         {"block", parse_block},
                {"print", parse_print},       {"break", parse_break},
                {"continue", parse_break},    {"generation", parse_generation},
                {"include", parse_refused},   {"import", parse_refused},
                {"from", parse_refused},      {"extends", parse_refused},
                {"autoescape", parse_refused}};
    J_TRY(tt_jp_enter(p));
    if (p->t->type != JTOK_NAME)
        return tt_jfail(p->r, "the name of a tag is missing");
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        if (!tt_jp_is(p, tags[i].name))
            continue;
        J_TRY(tags[i].parse(p, out));
        p->depth--;
        return tt_jp_done(p, *out);
    }
    return tt_jfail(p->r, "unknown tag '%.*s'", (int)p->t->text->n, p->t->text->p);
}

tt_status tt_jparse(jrun *r, jtoken *tokens, jnode **tree)
{
    jparser p = {.r = r, .t = tokens};
    jnode *n = NULL;
    J_TRY(tt_jp_node(&p, JN_TEMPLATE, 1, &n));
    J_TRY(subparse(&p, NULL, &n->list));
    *tree = n;
    return tt_jp_done(&p, n);
}
