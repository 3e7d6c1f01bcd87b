/* Expressions: tokens to syntax tree. */
#include <string.h>

#include "tokenizer/jinja_parser.h"

static tt_status binary_operand(jparser *p, jnode *chain, int op, jnode *right)
{
    jnode *n = NULL;
    J_TRY(tt_jp_node(p, JN_OPERAND, right->line, &n));
    n->op = (uint8_t)op;
    n->a = right;
    J_TRY(tt_jp_done(p, n));
    return tt_jnodes_add(p->r, &chain->list, n);
}

static tt_status parse_call_args(jparser *p, jnode *n);
static tt_status parse_unary(jparser *p, bool with_filter, jnode **out);

/* ---- primaries ---- */

static tt_status parse_strings(jparser *p, jnode *n)
{
    jval v = J_STR(p->t->text);
    p->t++;
    while (p->t->type == JTOK_STRING) {
        J_TRY(tt_jconcat(p->r, v.s, p->t->text, &v));
        p->t++;
    }
    n->value = v;
    return TT_OK;
}

static tt_status parse_list(jparser *p, jnode **out)
{
    jnode *n = NULL, *item = NULL;
    J_TRY(tt_jp_node(p, JN_LIST, p->t->line, &n));
    p->t++;
    while (p->t->type != JTOK_RBRACKET) {
        if (n->list.n > 0)
            J_TRY(tt_jp_expect(p, JTOK_COMMA));
        if (p->t->type == JTOK_RBRACKET)
            break;
        J_TRY(tt_jp_expression(p, true, &item));
        J_TRY(tt_jnodes_add(p->r, &n->list, item));
    }
    p->t++;
    *out = n;
    return tt_jp_done(p, n);
}

static tt_status parse_dict(jparser *p, jnode **out)
{
    jnode *n = NULL, *item = NULL;
    J_TRY(tt_jp_node(p, JN_DICT, p->t->line, &n));
    p->t++;
    while (p->t->type != JTOK_RBRACE) {
        if (n->list.n > 0)
            J_TRY(tt_jp_expect(p, JTOK_COMMA));
        if (p->t->type == JTOK_RBRACE)
            break;
        J_TRY(tt_jp_expression(p, true, &item));
        J_TRY(tt_jnodes_add(p->r, &n->list, item));
        J_TRY(tt_jp_expect(p, JTOK_COLON));
        J_TRY(tt_jp_expression(p, true, &item));
        J_TRY(tt_jnodes_add(p->r, &n->list, item));
    }
    p->t++;
    *out = n;
    return tt_jp_done(p, n);
}

static tt_status parse_name(jparser *p, jnode **out)
{
    const jstr *name = p->t->text;
    jnode *n = NULL;
    J_TRY(tt_jp_node(p, JN_CONST, p->t->line, &n));
    if (tt_jstr_is(name, "true") || tt_jstr_is(name, "True")) {
        n->value = J_BOOL(true);
    } else if (tt_jstr_is(name, "false") || tt_jstr_is(name, "False")) {
        n->value = J_BOOL(false);
    } else if (tt_jstr_is(name, "none") || tt_jstr_is(name, "None")) {
        n->value = J_NONE;
    } else {
        n->kind = JN_NAME;
        n->name = name;
    }
    p->t++;
    *out = n;
    return TT_OK;
}

static tt_status parse_primary(jparser *p, jnode **out)
{
    jnode *n = NULL;
    switch (p->t->type) {
    case JTOK_NAME:
        return parse_name(p, out);
    case JTOK_STRING:
        J_TRY(tt_jp_node(p, JN_CONST, p->t->line, &n));
        *out = n;
        return parse_strings(p, n);
    case JTOK_INTEGER:
    case JTOK_FLOAT:
        J_TRY(tt_jp_node(p, JN_CONST, p->t->line, &n));
        n->value = p->t->value;
        p->t++;
        *out = n;
        return TT_OK;
    case JTOK_LPAREN:
        p->t++;
        J_TRY(tt_jp_tuple(p, false, true, JSTOP_NONE, true, out));
        return tt_jp_expect(p, JTOK_RPAREN);
    case JTOK_LBRACKET:
        return parse_list(p, out);
    case JTOK_LBRACE:
        return parse_dict(p, out);
    default:
        return tt_jp_unexpected(p);
    }
}

static bool tuple_end(const jparser *p, jstop stop)
{
    switch (p->t->type) {
    case JTOK_VARIABLE_END:
    case JTOK_BLOCK_END:
    case JTOK_RPAREN:
        return true;
    default:
        return (stop == JSTOP_IN && tt_jp_is(p, "in")) ||
               (stop == JSTOP_RECURSIVE && tt_jp_is(p, "recursive"));
    }
}

tt_status tt_jp_tuple(jparser *p, bool simplified, bool cond, jstop stop, bool parens, jnode **out)
{
    jnode *n = NULL, *item = NULL;
    bool is_tuple = false;
    J_TRY(tt_jp_node(p, JN_TUPLE, p->t->line, &n));
    for (;;) {
        if (n->list.n > 0)
            J_TRY(tt_jp_expect(p, JTOK_COMMA));
        if (tuple_end(p, stop))
            break;
        if (simplified)
            J_TRY(parse_primary(p, &item));
        else
            J_TRY(tt_jp_expression(p, cond, &item));
        J_TRY(tt_jnodes_add(p->r, &n->list, item));
        if (p->t->type != JTOK_COMMA)
            break;
        is_tuple = true;
    }
    if (!is_tuple && n->list.n > 0) {
        *out = n->list.v[0];
        return TT_OK;
    }
    if (!is_tuple && !parens) {
        p->r->line = p->t->line;
        return tt_jfail(p->r, "an expression is missing");
    }
    *out = n;
    return tt_jp_done(p, n);
}

/* ---- postfix ---- */

static tt_status slice_part(jparser *p, jnode **out)
{
    if (p->t->type == JTOK_COLON || p->t->type == JTOK_RBRACKET || p->t->type == JTOK_COMMA)
        return TT_OK;
    return tt_jp_expression(p, true, out);
}

static tt_status parse_subscribed(jparser *p, jnode **out)
{
    uint32_t line = p->t->line;
    jnode *start = NULL, *n = NULL;
    if (p->t->type != JTOK_COLON) {
        J_TRY(tt_jp_expression(p, true, &start));
        if (p->t->type != JTOK_COLON) {
            *out = start;
            return TT_OK;
        }
    }
    p->t++;
    J_TRY(tt_jp_node(p, JN_SLICE, line, &n));
    n->a = start;
    J_TRY(slice_part(p, &n->b));
    if (p->t->type == JTOK_COLON) {
        p->t++;
        if (p->t->type != JTOK_RBRACKET && p->t->type != JTOK_COMMA)
            J_TRY(tt_jp_expression(p, true, &n->c));
    }
    *out = n;
    return tt_jp_done(p, n);
}

static tt_status parse_dot(jparser *p, jnode *n)
{
    jnode *key = NULL;
    if (p->t->type == JTOK_NAME) {
        n->kind = JN_GETATTR;
        n->name = p->t->text;
    } else if (p->t->type == JTOK_INTEGER) {
        J_TRY(tt_jp_node(p, JN_CONST, p->t->line, &key));
        key->value = p->t->value;
        n->b = key;
    } else {
        p->r->line = p->t->line;
        return tt_jfail(p->r, "a name or a number is expected behind '.'");
    }
    p->t++;
    return TT_OK;
}

static tt_status parse_brackets(jparser *p, jnode *n)
{
    jnode *key = NULL, *tuple = NULL;
    J_TRY(tt_jp_node(p, JN_TUPLE, p->t->line, &tuple));
    while (p->t->type != JTOK_RBRACKET) {
        if (tuple->list.n > 0)
            J_TRY(tt_jp_expect(p, JTOK_COMMA));
        J_TRY(parse_subscribed(p, &key));
        J_TRY(tt_jnodes_add(p->r, &tuple->list, key));
    }
    p->t++;
    J_TRY(tt_jp_done(p, tuple));
    n->b = tuple->list.n == 1 ? key : tuple;
    return TT_OK;
}

static tt_status parse_subscript(jparser *p, jnode *subject, jnode **out)
{
    jnode *n = NULL;
    J_TRY(tt_jp_node(p, JN_GETITEM, p->t->line, &n));
    n->a = subject;
    bool dot = p->t->type == JTOK_DOT;
    p->t++;
    J_TRY(dot ? parse_dot(p, n) : parse_brackets(p, n));
    *out = n;
    return tt_jp_done(p, n);
}

static tt_status parse_call(jparser *p, jnode *subject, jnode **out)
{
    jnode *n = NULL;
    J_TRY(tt_jp_node(p, JN_CALL, p->t->line, &n));
    n->a = subject;
    J_TRY(parse_call_args(p, n));
    *out = n;
    return tt_jp_done(p, n);
}

static tt_status parse_postfix(jparser *p, jnode **node)
{
    for (;;) {
        if (p->t->type == JTOK_DOT || p->t->type == JTOK_LBRACKET)
            J_TRY(parse_subscript(p, *node, node));
        else if (p->t->type == JTOK_LPAREN)
            J_TRY(parse_call(p, *node, node));
        else
            return TT_OK;
    }
}

/* ---- calls, filters, tests ---- */

static tt_status bad_call(jparser *p, uint32_t line)
{
    p->r->line = line;
    return tt_jfail(p->r, "the arguments of a call are out of order");
}

static tt_status parse_keyword(jparser *p, jnode *n)
{
    jnode *k = NULL;
    J_TRY(tt_jp_node(p, JN_KEYWORD, p->t->line, &k));
    k->name = p->t->text;
    for (uint32_t i = 0; i < n->list2.n; i++)
        if (n->list2.v[i]->name == k->name)
            return tt_jfail(p->r, "keyword argument '%.*s' is given twice", (int)k->name->n,
                            k->name->p);
    p->t += 2;
    J_TRY(tt_jp_expression(p, true, &k->a));
    J_TRY(tt_jp_done(p, k));
    return tt_jnodes_add(p->r, &n->list2, k);
}

static tt_status parse_call_args(jparser *p, jnode *n)
{
    uint32_t line = p->t->line;
    jnode *arg = NULL;
    bool comma = false;
    J_TRY(tt_jp_expect(p, JTOK_LPAREN));
    while (p->t->type != JTOK_RPAREN) {
        if (comma) {
            J_TRY(tt_jp_expect(p, JTOK_COMMA));
            if (p->t->type == JTOK_RPAREN)
                break;
        }
        if (p->t->type == JTOK_MUL) {
            if (n->b != NULL || n->c != NULL)
                return bad_call(p, line);
            p->t++;
            J_TRY(tt_jp_expression(p, true, &n->b));
        } else if (p->t->type == JTOK_POW) {
            if (n->c != NULL)
                return bad_call(p, line);
            p->t++;
            J_TRY(tt_jp_expression(p, true, &n->c));
        } else if (p->t->type == JTOK_NAME && p->t[1].type == JTOK_ASSIGN) {
            if (n->c != NULL)
                return bad_call(p, line);
            J_TRY(parse_keyword(p, n));
        } else {
            if (n->b != NULL || n->c != NULL || n->list2.n > 0)
                return bad_call(p, line);
            J_TRY(tt_jp_expression(p, true, &arg));
            J_TRY(tt_jnodes_add(p->r, &n->list, arg));
        }
        comma = true;
    }
    return tt_jp_expect(p, JTOK_RPAREN);
}

/* name or dotted.name */
static tt_status dotted_name(jparser *p, const jstr **name)
{
    J_TRY(tt_jp_expect_name(p, name));
    while (p->t->type == JTOK_DOT) {
        const jstr *more = NULL;
        jval v, dot;
        tt_status st = TT_OK;
        p->t++;
        J_TRY(tt_jp_expect_name(p, &more));
        dot = tt_jstr_const(p->r, ".", &st);
        J_TRY(st);
        J_TRY(tt_jconcat(p->r, *name, dot.s, &v));
        J_TRY(tt_jconcat(p->r, v.s, more, &v));
        *name = v.s;
    }
    return TT_OK;
}

tt_status tt_jp_filter(jparser *p, jnode *subject, bool inline_start, jnode **out)
{
    jnode *node = subject;
    while (p->t->type == JTOK_PIPE || inline_start) {
        jnode *n = NULL;
        if (!inline_start)
            p->t++;
        inline_start = false;
        J_TRY(tt_jp_node(p, JN_FILTER, p->t->line, &n));
        J_TRY(dotted_name(p, &n->name));
        n->fn = tt_jfilter(n->name);
        n->a = node;
        if (p->t->type == JTOK_LPAREN)
            J_TRY(parse_call_args(p, n));
        J_TRY(tt_jp_done(p, n));
        node = n;
    }
    *out = node;
    return TT_OK;
}

static bool test_argument_follows(const jparser *p)
{
    switch (p->t->type) {
    case JTOK_NAME:
        return !tt_jp_is(p, "else") && !tt_jp_is(p, "or") && !tt_jp_is(p, "and");
    case JTOK_STRING:
    case JTOK_INTEGER:
    case JTOK_FLOAT:
    case JTOK_LBRACKET:
    case JTOK_LBRACE:
        return true;
    default:
        return false;
    }
}

static tt_status parse_test(jparser *p, jnode *subject, jnode **out)
{
    jnode *n = NULL, *arg = NULL, *negation = NULL;
    uint32_t line = p->t->line;
    p->t++;
    bool negated = tt_jp_skip(p, "not");
    J_TRY(tt_jp_node(p, JN_TEST, line, &n));
    J_TRY(dotted_name(p, &n->name));
    n->fn = tt_jtest(n->name);
    n->a = subject;
    if (p->t->type == JTOK_LPAREN) {
        J_TRY(parse_call_args(p, n));
    } else if (test_argument_follows(p)) {
        if (tt_jp_is(p, "is"))
            return tt_jfail(p->r, "tests cannot be chained with 'is'");
        J_TRY(parse_primary(p, &arg));
        J_TRY(parse_postfix(p, &arg));
        J_TRY(tt_jnodes_add(p->r, &n->list, arg));
    }
    J_TRY(tt_jp_done(p, n));
    *out = n;
    if (!negated)
        return TT_OK;
    J_TRY(tt_jp_node(p, JN_NOT, line, &negation));
    negation->a = n;
    *out = negation;
    return tt_jp_done(p, negation);
}

static tt_status parse_filter_expr(jparser *p, jnode **node)
{
    for (;;) {
        if (p->t->type == JTOK_PIPE)
            J_TRY(tt_jp_filter(p, *node, false, node));
        else if (tt_jp_is(p, "is"))
            J_TRY(parse_test(p, *node, node));
        else if (p->t->type == JTOK_LPAREN)
            J_TRY(parse_call(p, *node, node));
        else
            return TT_OK;
    }
}

/* ---- operators, loosest last ---- */

static tt_status parse_unary(jparser *p, bool with_filter, jnode **out)
{
    jnode *n = NULL;
    J_TRY(tt_jp_enter(p));
    if (p->t->type == JTOK_SUB || p->t->type == JTOK_ADD) {
        J_TRY(tt_jp_node(p, p->t->type == JTOK_SUB ? JN_NEG : JN_POS, p->t->line, &n));
        p->t++;
        J_TRY(parse_unary(p, false, &n->a));
        J_TRY(tt_jp_done(p, n));
    } else {
        J_TRY(parse_primary(p, &n));
    }
    J_TRY(parse_postfix(p, &n));
    if (with_filter)
        J_TRY(parse_filter_expr(p, &n));
    p->depth--;
    *out = n;
    return TT_OK;
}

typedef tt_status (*level_fn)(jparser *p, jnode **out);

/* A chain of operators of one level, evaluated from the left. */
static tt_status parse_chain(jparser *p, jkind kind, const uint8_t *ops, size_t n_ops,
                             level_fn operand, jnode **out)
{
    uint32_t line = p->t->line;
    jnode *left = NULL, *right = NULL, *chain = NULL;
    J_TRY(operand(p, &left));
    while (memchr(ops, p->t->type, n_ops) != NULL) {
        int op = p->t->type;
        p->t++;
        if (chain == NULL) {
            J_TRY(tt_jp_node(p, kind, line, &chain));
            chain->a = left;
        }
        J_TRY(operand(p, &right));
        J_TRY(binary_operand(p, chain, op, right));
    }
    *out = chain == NULL ? left : chain;
    return chain == NULL ? TT_OK : tt_jp_done(p, chain);
}

static tt_status unary_operand(jparser *p, jnode **out)
{
    return parse_unary(p, true, out);
}

static tt_status parse_pow(jparser *p, jnode **out)
{
    static const uint8_t ops[] = {JTOK_POW};
    return parse_chain(p, JN_ARITH, ops, sizeof ops, unary_operand, out);
}

static tt_status parse_math2(jparser *p, jnode **out)
{
    static const uint8_t ops[] = {JTOK_MUL, JTOK_DIV, JTOK_FLOORDIV, JTOK_MOD};
    return parse_chain(p, JN_ARITH, ops, sizeof ops, parse_pow, out);
}

static tt_status parse_concat(jparser *p, jnode **out)
{
    jnode *first = NULL, *n = NULL, *item = NULL;
    uint32_t line = p->t->line;
    J_TRY(parse_math2(p, &first));
    *out = first;
    if (p->t->type != JTOK_TILDE)
        return TT_OK;
    J_TRY(tt_jp_node(p, JN_CONCAT, line, &n));
    J_TRY(tt_jnodes_add(p->r, &n->list, first));
    while (p->t->type == JTOK_TILDE) {
        p->t++;
        J_TRY(parse_math2(p, &item));
        J_TRY(tt_jnodes_add(p->r, &n->list, item));
    }
    *out = n;
    return tt_jp_done(p, n);
}

static tt_status parse_math1(jparser *p, jnode **out)
{
    static const uint8_t ops[] = {JTOK_ADD, JTOK_SUB};
    return parse_chain(p, JN_ARITH, ops, sizeof ops, parse_concat, out);
}

static int compare_op(jparser *p)
{
    switch (p->t->type) {
    case JTOK_EQ:
    case JTOK_NE:
    case JTOK_LT:
    case JTOK_LTEQ:
    case JTOK_GT:
    case JTOK_GTEQ:
        return (p->t++)->type;
    default:
        break;
    }
    if (tt_jp_skip(p, "in"))
        return JTOK_IN;
    if (tt_jp_is(p, "not") && p->t[1].type == JTOK_NAME && tt_jstr_is(p->t[1].text, "in")) {
        p->t += 2;
        return JTOK_NOTIN;
    }
    return JTOK_EOF;
}

static tt_status parse_compare(jparser *p, jnode **out)
{
    jnode *first = NULL, *n = NULL, *right = NULL;
    uint32_t line = p->t->line;
    int op;
    J_TRY(parse_math1(p, &first));
    *out = first;
    while ((op = compare_op(p)) != JTOK_EOF) {
        if (n == NULL) {
            J_TRY(tt_jp_node(p, JN_COMPARE, line, &n));
            n->a = first;
        }
        J_TRY(parse_math1(p, &right));
        J_TRY(binary_operand(p, n, op, right));
    }
    if (n == NULL)
        return TT_OK;
    *out = n;
    return tt_jp_done(p, n);
}

static tt_status parse_not(jparser *p, jnode **out)
{
    if (!tt_jp_is(p, "not"))
        return parse_compare(p, out);
    jnode *n = NULL;
    J_TRY(tt_jp_enter(p));
    J_TRY(tt_jp_node(p, JN_NOT, p->t->line, &n));
    p->t++;
    J_TRY(parse_not(p, &n->a));
    p->depth--;
    *out = n;
    return tt_jp_done(p, n);
}

static tt_status parse_logic(jparser *p, jkind kind, const char *word, level_fn operand,
                             jnode **out)
{
    jnode *first = NULL, *n = NULL, *item = NULL;
    uint32_t line = p->t->line;
    J_TRY(operand(p, &first));
    *out = first;
    while (tt_jp_skip(p, word)) {
        if (n == NULL) {
            J_TRY(tt_jp_node(p, kind, line, &n));
            J_TRY(tt_jnodes_add(p->r, &n->list, first));
        }
        J_TRY(operand(p, &item));
        J_TRY(tt_jnodes_add(p->r, &n->list, item));
    }
    if (n == NULL)
        return TT_OK;
    *out = n;
    return tt_jp_done(p, n);
}

static tt_status parse_and(jparser *p, jnode **out)
{
    return parse_logic(p, JN_AND, "and", parse_not, out);
}

static tt_status parse_or(jparser *p, jnode **out)
{
    return parse_logic(p, JN_OR, "or", parse_and, out);
}

static tt_status parse_condexpr(jparser *p, jnode **out)
{
    jnode *value = NULL;
    uint32_t line = p->t->line;
    J_TRY(parse_or(p, &value));
    while (tt_jp_skip(p, "if")) {
        jnode *n = NULL;
        J_TRY(tt_jp_node(p, JN_COND, line, &n));
        n->b = value;
        J_TRY(parse_or(p, &n->a));
        if (tt_jp_skip(p, "else")) {
            J_TRY(tt_jp_enter(p));
            J_TRY(parse_condexpr(p, &n->c));
            p->depth--;
        }
        J_TRY(tt_jp_done(p, n));
        value = n;
    }
    *out = value;
    return TT_OK;
}

tt_status tt_jp_expression(jparser *p, bool cond, jnode **out)
{
    return cond ? parse_condexpr(p, out) : parse_or(p, out);
}
