/* Expressions: syntax tree to values. */
#include <string.h>

#include "tokenizer/jinja_int.h"

static tt_status eval_name(jrun *r, jnode *n, jscope *scope, jval *out)
{
    const jval *slot = tt_jscope_slot(scope, n->name);
    if (slot == NULL)
        return tt_jfail(r, "name '%.*s' is not known here", (int)n->name->n, n->name->p);
    if (slot->type == JT_MISSING)
        return tt_jundef_name(r, n->name, out);
    *out = *slot;
    return TT_OK;
}

static tt_status eval_items(jrun *r, jnode *n, jscope *scope, jval *out)
{
    jlist *l = NULL;
    J_TRY(tt_jlist_new(r, n->list.n, &l));
    for (uint32_t i = 0; i < n->list.n; i++) {
        jval v;
        J_TRY(tt_jeval(r, n->list.v[i], scope, &v));
        J_TRY(tt_jlist_add(r, l, v));
    }
    *out = n->kind == JN_LIST ? J_LIST(l) : J_TUPLE(l);
    return TT_OK;
}

static tt_status eval_dict(jrun *r, jnode *n, jscope *scope, jval *out)
{
    jdict *d = NULL;
    J_TRY(tt_jdict_new(r, &d));
    for (uint32_t i = 0; i < n->list.n; i += 2) {
        jval k, v;
        J_TRY(tt_jeval(r, n->list.v[i], scope, &k));
        J_TRY(tt_jeval(r, n->list.v[i + 1], scope, &v));
        J_TRY(tt_jdict_set(r, d, k, v));
    }
    *out = J_DICT(d);
    return TT_OK;
}

static tt_status eval_cond(jrun *r, jnode *n, jscope *scope, jval *out)
{
    jval test;
    J_TRY(tt_jeval(r, n->a, scope, &test));
    if (tt_jtruth(test))
        return tt_jeval(r, n->b, scope, out);
    if (n->c != NULL)
        return tt_jeval(r, n->c, scope, out);
    return tt_jundef(r, "the inline if-expression evaluated to false and no else was given", out);
}

static tt_status eval_concat(jrun *r, jnode *n, jscope *scope, jval *out)
{
    jval sum, v;
    J_TRY(tt_jeval(r, n->list.v[0], scope, &v));
    J_TRY(tt_jto_str(r, v, &sum));
    for (uint32_t i = 1; i < n->list.n; i++) {
        J_TRY(tt_jeval(r, n->list.v[i], scope, &v));
        J_TRY(tt_jto_str(r, v, &v));
        J_TRY(tt_jconcat(r, sum.s, v.s, &sum));
    }
    *out = sum;
    return TT_OK;
}

static tt_status compare(jrun *r, int op, jval a, jval b, bool *yes)
{
    switch (op) {
    case JTOK_EQ:
        return tt_jequal(r, a, b, yes);
    case JTOK_NE:
        J_TRY(tt_jequal(r, a, b, yes));
        *yes = !*yes;
        return TT_OK;
    case JTOK_IN:
        return tt_jcontains(r, a, b, yes);
    case JTOK_NOTIN:
        J_TRY(tt_jcontains(r, a, b, yes));
        *yes = !*yes;
        return TT_OK;
    default:
        return tt_jorder(r, op, a, b, yes);
    }
}

static tt_status eval_compare(jrun *r, jnode *n, jscope *scope, jval *out)
{
    jval left, right;
    bool yes = true;
    J_TRY(tt_jeval(r, n->a, scope, &left));
    for (uint32_t i = 0; i < n->list.n && yes; i++) {
        J_TRY(tt_jeval(r, n->list.v[i]->a, scope, &right));
        r->line = n->list.v[i]->line;
        J_TRY(compare(r, n->list.v[i]->op, left, right, &yes));
        left = right;
    }
    *out = J_BOOL(yes);
    return TT_OK;
}

static tt_status eval_arith(jrun *r, jnode *n, jscope *scope, jval *out)
{
    jval sum, v;
    J_TRY(tt_jeval(r, n->a, scope, &sum));
    for (uint32_t i = 0; i < n->list.n; i++) {
        J_TRY(tt_jeval(r, n->list.v[i]->a, scope, &v));
        r->line = n->list.v[i]->line;
        J_TRY(tt_jarith(r, n->list.v[i]->op, sum, v, &sum));
    }
    *out = sum;
    return TT_OK;
}

static tt_status eval_logic(jrun *r, jnode *n, jscope *scope, jval *out)
{
    bool stop_at = n->kind == JN_OR;
    for (uint32_t i = 0; i < n->list.n; i++) {
        J_TRY(tt_jeval(r, n->list.v[i], scope, out));
        if (tt_jtruth(*out) == stop_at)
            break;
    }
    return TT_OK;
}

static tt_status eval_slice(jrun *r, jnode *n, jscope *scope, jval *out)
{
    jval subject, bound[3] = {J_MISSING, J_MISSING, J_MISSING};
    jnode *slice = n->b;
    J_TRY(tt_jeval(r, n->a, scope, &subject));
    if (slice->a != NULL)
        J_TRY(tt_jeval(r, slice->a, scope, &bound[0]));
    if (slice->b != NULL)
        J_TRY(tt_jeval(r, slice->b, scope, &bound[1]));
    if (slice->c != NULL)
        J_TRY(tt_jeval(r, slice->c, scope, &bound[2]));
    r->line = n->line;
    return tt_jslice(r, subject, bound, out);
}

static tt_status eval_getitem(jrun *r, jnode *n, jscope *scope, jval *out)
{
    jval subject, key;
    if (n->b->kind == JN_SLICE)
        return eval_slice(r, n, scope, out);
    J_TRY(tt_jeval(r, n->a, scope, &subject));
    J_TRY(tt_jeval(r, n->b, scope, &key));
    r->line = n->line;
    return tt_jgetitem(r, subject, key, out);
}

/* ---- arguments ---- */

static tt_status star_args(jrun *r, jnode *n, jscope *scope, jlist *pos)
{
    jval v, item;
    jiter *it = NULL;
    bool more = true;
    J_TRY(tt_jeval(r, n->b, scope, &v));
    J_TRY(tt_jiter(r, v, &it));
    for (;;) {
        J_TRY(tt_jnext(r, it, &item, &more));
        if (!more)
            return TT_OK;
        J_TRY(tt_jlist_add(r, pos, item));
    }
}

static tt_status star_keywords(jrun *r, jnode *n, jscope *scope, jdict *kw)
{
    jval v, old;
    J_TRY(tt_jeval(r, n->c, scope, &v));
    if (v.type != JT_DICT)
        return tt_jfail(r, "the argument behind ** must be a mapping, not %s", tt_jtype_name(v));
    for (uint32_t i = 0; i < v.dict->n; i++) {
        if (v.dict->e[i].k.type != JT_STR)
            return tt_jfail(r, "keywords must be text");
        J_TRY(tt_jdict_get(r, kw, v.dict->e[i].k, &old));
        if (old.type != JT_MISSING)
            return tt_jfail(r, "a keyword argument is given twice");
        J_TRY(tt_jdict_set(r, kw, v.dict->e[i].k, v.dict->e[i].v));
    }
    return TT_OK;
}

static tt_status eval_args(jrun *r, jnode *n, jscope *scope, jargs *args)
{
    jlist *pos = NULL;
    jval v;
    *args = (jargs){0};
    if (n->list.n == 0 && n->list2.n == 0 && n->b == NULL && n->c == NULL)
        return TT_OK;
    J_TRY(tt_jlist_new(r, n->list.n, &pos));
    for (uint32_t i = 0; i < n->list.n; i++) {
        J_TRY(tt_jeval(r, n->list.v[i], scope, &v));
        J_TRY(tt_jlist_add(r, pos, v));
    }
    if (n->b != NULL)
        J_TRY(star_args(r, n, scope, pos));
    if (n->list2.n > 0 || n->c != NULL)
        J_TRY(tt_jdict_new(r, &args->kw));
    for (uint32_t i = 0; i < n->list2.n; i++) {
        J_TRY(tt_jeval(r, n->list2.v[i]->a, scope, &v));
        J_TRY(tt_jdict_set(r, args->kw, J_STR(n->list2.v[i]->name), v));
    }
    if (n->c != NULL)
        J_TRY(star_keywords(r, n, scope, args->kw));
    args->pos = pos->v;
    args->npos = pos->n;
    return TT_OK;
}

static tt_status eval_call(jrun *r, jnode *n, jscope *scope, jval *out)
{
    jval fn;
    jargs args;
    J_TRY(tt_jeval(r, n->a, scope, &fn));
    J_TRY(eval_args(r, n, scope, &args));
    r->line = n->line;
    return tt_jcall(r, fn, &args, out);
}

tt_status tt_jeval_call(jrun *r, jnode *n, jscope *scope, jval caller, jval *out)
{
    jval fn, old, key;
    jargs args;
    tt_status st = TT_OK;
    J_TRY(tt_jeval(r, n->a, scope, &fn));
    J_TRY(eval_args(r, n, scope, &args));
    if (args.kw == NULL)
        J_TRY(tt_jdict_new(r, &args.kw));
    key = tt_jstr_const(r, "caller", &st);
    J_TRY(st);
    J_TRY(tt_jdict_get(r, args.kw, key, &old));
    if (old.type != JT_MISSING)
        return tt_jfail(r, "a call block already passes 'caller'");
    J_TRY(tt_jdict_set(r, args.kw, key, caller));
    r->line = n->line;
    return tt_jcall(r, fn, &args, out);
}

tt_status tt_jeval_filter(jrun *r, jnode *n, jscope *scope, const jval *block, jval *out)
{
    jval subject = J_NONE;
    jargs args;
    if (n->a != NULL && block != NULL)
        J_TRY(tt_jeval_filter(r, n->a, scope, block, &subject));
    else if (n->a != NULL)
        J_TRY(tt_jeval(r, n->a, scope, &subject));
    else if (block != NULL)
        subject = *block;
    J_TRY(eval_args(r, n, scope, &args));
    r->line = n->line;
    if (n->fn == NULL)
        return tt_jfail(r, "no %s named '%.*s'", n->kind == JN_FILTER ? "filter" : "test",
                        (int)n->name->n, n->name->p);
    return tt_jinvoke(r, n->fn, subject, &args, out);
}

static tt_status eval(jrun *r, jnode *n, jscope *scope, jval *out)
{
    jval v;
    switch ((jkind)n->kind) {
    case JN_DATA:
    case JN_CONST:
        *out = n->value;
        return TT_OK;
    case JN_NAME:
        return eval_name(r, n, scope, out);
    case JN_TUPLE:
    case JN_LIST:
        return eval_items(r, n, scope, out);
    case JN_DICT:
        return eval_dict(r, n, scope, out);
    case JN_COND:
        return eval_cond(r, n, scope, out);
    case JN_FILTER:
    case JN_TEST:
        return tt_jeval_filter(r, n, scope, NULL, out);
    case JN_CALL:
        return eval_call(r, n, scope, out);
    case JN_GETITEM:
        return eval_getitem(r, n, scope, out);
    case JN_GETATTR:
        J_TRY(tt_jeval(r, n->a, scope, &v));
        r->line = n->line;
        return tt_jgetattr(r, v, n->name, out);
    case JN_CONCAT:
        return eval_concat(r, n, scope, out);
    case JN_COMPARE:
        return eval_compare(r, n, scope, out);
    case JN_ARITH:
        return eval_arith(r, n, scope, out);
    case JN_AND:
    case JN_OR:
        return eval_logic(r, n, scope, out);
    case JN_NOT:
        J_TRY(tt_jeval(r, n->a, scope, &v));
        *out = J_BOOL(!tt_jtruth(v));
        return TT_OK;
    case JN_NEG:
    case JN_POS:
        J_TRY(tt_jeval(r, n->a, scope, &v));
        return n->kind == JN_NEG ? tt_jneg(r, v, out) : tt_jpos(r, v, out);
    default:
        return tt_jfail(r, "a slice is possible inside brackets only");
    }
}

tt_status tt_jeval(jrun *r, jnode *n, jscope *scope, jval *out)
{
    J_TRY(tt_jenter(r));
    r->line = n->line;
    tt_status st = eval(r, n, scope, out);
    r->depth--;
    return st;
}
