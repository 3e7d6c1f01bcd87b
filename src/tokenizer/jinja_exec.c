/* Statements: loops, branches, assignments, macros. */
#include <string.h>

#include "tokenizer/jinja_int.h"

/* ---- assignment ---- */

static tt_status set_name(jrun *r, const jstr *name, jscope *scope, jval v)
{
    jval *slot = tt_jscope_slot(scope, name);
    if (slot == NULL)
        return tt_jfail(r, "name '%.*s' is not known here", (int)name->n, name->p);
    *slot = v;
    /* Top-level names are seen by blocks and by macros that look them up late. */
    return scope == r->root ? tt_jdict_set(r, r->exported, J_STR(name), v) : TT_OK;
}

static tt_status unpack(jrun *r, jnode *target, jscope *scope, jval v)
{
    jlist *l = NULL;
    J_TRY(tt_jto_list(r, v, &l));
    if (l->n != target->list.n)
        return tt_jfail(r, "%u values cannot be unpacked into %u names", l->n, target->list.n);
    for (uint32_t i = 0; i < l->n; i++)
        J_TRY(tt_jassign(r, target->list.v[i], scope, l->v[i]));
    return TT_OK;
}

tt_status tt_jassign(jrun *r, jnode *target, jscope *scope, jval v)
{
    if (target->kind == JN_TUPLE)
        return unpack(r, target, scope, v);
    if (target->kind == JN_NAME)
        return set_name(r, target->name, scope, v);
    const jval *slot = tt_jscope_slot(scope, target->name);
    if (slot == NULL || slot->type != JT_NAMESPACE)
        return tt_jfail(r, "attributes can be assigned on namespace objects only");
    return tt_jdict_set(r, slot->dict, J_STR(target->attr), v);
}

/* ---- output ---- */

/* What was written since `mark`, taken back out of the output. */
static tt_status capture(jrun *r, size_t mark, jval *out)
{
    if (r->out.failed == TT_ERR_LIMIT)
        return tt_jlimit(r, "its output is longer than %zu bytes", r->out.max);
    J_TRY(tt_buf_status(&r->out, r->err));
    J_TRY(tt_jstr(r, r->out.len > 0 ? r->out.data + mark : "", r->out.len - mark, out));
    r->out.len = mark;
    return TT_OK;
}

static tt_status exec_output(jrun *r, jnode *n, jscope *scope)
{
    for (uint32_t i = 0; i < n->list.n; i++) {
        jval v;
        J_TRY(tt_jeval(r, n->list.v[i], scope, &v));
        J_TRY(tt_jprint(r, &r->out, v));
        if (r->out.failed == TT_ERR_LIMIT)
            return tt_jlimit(r, "its output is longer than %zu bytes", r->out.max);
    }
    return TT_OK;
}

static tt_status exec_capture(jrun *r, jnode *n, jscope *scope)
{
    jscope *inner = NULL;
    jval v;
    size_t mark = r->out.len;
    J_TRY(tt_jscope_new(r, n->frame, scope, &inner));
    J_TRY(tt_jexec(r, &n->list, inner));
    if (r->signal != JSIG_NONE) {
        r->out.len = mark; /* break and continue leave the block without its text */
        return TT_OK;
    }
    J_TRY(capture(r, mark, &v));
    r->line = n->line;
    jnode *filter = n->kind == JN_FILTER_BLOCK ? n->a : n->b;
    if (filter != NULL)
        J_TRY(tt_jeval_filter(r, filter, inner, &v, &v));
    if (n->kind == JN_ASSIGN_BLOCK)
        return tt_jassign(r, n->a, scope, v);
    return tt_jprint(r, &r->out, v);
}

/* ---- loops ---- */

/* Items of it->inner whose test is true. */
static tt_status next_filtered(jrun *r, jiter *it, jval *out, bool *more)
{
    for (;;) {
        jscope *scope = NULL;
        jval test;
        J_TRY(tt_jnext(r, it->inner, out, more));
        if (!*more)
            return TT_OK;
        J_TRY(tt_jscope_new(r, it->node->frame2, it->scope, &scope));
        J_TRY(tt_jassign(r, it->node->a, scope, *out));
        J_TRY(tt_jeval(r, it->node->c, scope, &test));
        if (tt_jtruth(test))
            return TT_OK;
    }
}

static tt_status loop_iter(jrun *r, jnode *n, jscope *scope, jval iterable, jiter **out)
{
    J_TRY(tt_jiter(r, iterable, out));
    if (n->c == NULL)
        return TT_OK;
    jiter *it;
    J_NEW(r, it, 1);
    *it = (jiter){.next = next_filtered, .inner = *out, .node = n, .scope = scope};
    *out = it;
    return TT_OK;
}

static tt_status loop_next(jrun *r, jloop *loop, jval *out, bool *more)
{
    if (loop->after.type != JT_MISSING) {
        *out = loop->after;
        loop->after = J_MISSING;
        *more = true;
    } else {
        J_TRY(tt_jnext(r, loop->it, out, more));
        if (!*more)
            return TT_OK;
    }
    loop->index0++;
    loop->before = loop->current;
    loop->current = *out;
    return TT_OK;
}

static tt_status loop_body(jrun *r, jnode *n, jscope *scope, jloop *loop, jval item)
{
    jscope *body = NULL;
    J_TRY(tt_jscope_new(r, n->frame, scope, &body));
    if (n->uses_loop) {
        static const char name[] = "loop";
        jval key = tt_jdict_get_text(r->names, name, sizeof name - 1);
        *tt_jscope_slot(body, key.s) = (jval){.type = JT_LOOP, .loop = loop};
    }
    J_TRY(tt_jassign(r, n->a, body, item));
    return tt_jexec(r, &n->list, body);
}

static tt_status run_loop(jrun *r, jnode *n, jscope *scope, jval iterable, uint32_t depth0)
{
    jloop *loop;
    bool more = true, any = false;
    J_NEW(r, loop, 1);
    *loop = (jloop){.iterable = n->c == NULL ? iterable : J_NONE,
                    .index0 = -1,
                    .length = -1,
                    .depth0 = depth0,
                    .node = n->flag ? n : NULL,
                    .scope = scope};
    J_TRY(loop_iter(r, n, scope, iterable, &loop->it));
    for (;;) {
        jval item;
        r->line = n->line;
        J_TRY(loop_next(r, loop, &item, &more));
        if (!more)
            break;
        J_TRY(loop_body(r, n, scope, loop, item));
        if (r->signal == JSIG_BREAK) {
            r->signal = JSIG_NONE;
            break;
        }
        /* Jinja2 marks a loop as run at the end of a body, which `continue` skips. */
        if (r->signal == JSIG_CONTINUE)
            r->signal = JSIG_NONE;
        else
            any = true;
    }
    if (any || n->list2.n == 0)
        return TT_OK;
    jscope *other = NULL;
    J_TRY(tt_jscope_new(r, n->frame3, scope, &other));
    return tt_jexec(r, &n->list2, other);
}

static tt_status enter_call(jrun *r)
{
    if (r->calls >= r->o.max_depth)
        return tt_jlimit(r, "macros nest deeper than %u calls", r->o.max_depth);
    r->calls++;
    return TT_OK;
}

static tt_status recursive_loop(jrun *r, jnode *n, jscope *scope, jval iterable, uint32_t depth0,
                                jval *out)
{
    size_t mark = r->out.len;
    J_TRY(enter_call(r));
    J_TRY(run_loop(r, n, scope, iterable, depth0));
    r->calls--;
    return capture(r, mark, out);
}

tt_status tt_jloop_recurse(jrun *r, jloop *loop, jval iterable, jval *out)
{
    if (loop->node == NULL)
        return tt_jfail(r, "a loop needs the 'recursive' marker to be called");
    return recursive_loop(r, loop->node, loop->scope, iterable, loop->depth0 + 1, out);
}

static tt_status exec_for(jrun *r, jnode *n, jscope *scope)
{
    jval iterable;
    J_TRY(tt_jeval(r, n->b, scope, &iterable));
    if (!n->flag)
        return run_loop(r, n, scope, iterable, 0);
    J_TRY(recursive_loop(r, n, scope, iterable, 0, &iterable));
    return tt_jprint(r, &r->out, iterable);
}

static tt_status peek(jrun *r, jloop *loop, bool *more)
{
    *more = true;
    if (loop->after.type != JT_MISSING)
        return TT_OK;
    jval v;
    J_TRY(tt_jnext(r, loop->it, &v, more));
    if (*more)
        loop->after = v;
    return TT_OK;
}

static tt_status loop_count(jrun *r, jloop *loop)
{
    jlist *rest = NULL;
    if (loop->length >= 0)
        return TT_OK;
    if (tt_jhas_length(loop->iterable) && loop->iterable.type != JT_LOOP)
        return tt_jlength(r, loop->iterable, &loop->length);
    J_TRY(tt_jto_list(r, J_ITER(loop->it), &rest));
    J_TRY(tt_jiter(r, J_LIST(rest), &loop->it));
    loop->length = (int64_t)rest->n + loop->index0 + 1 + (loop->after.type != JT_MISSING);
    return TT_OK;
}

static tt_status loop_neighbour(jrun *r, jloop *loop, const jstr *name, jval *out)
{
    bool more = true;
    if (tt_jstr_is(name, "previtem")) {
        if (loop->index0 == 0)
            return tt_jundef(r, "there is no previous item", out);
        *out = loop->before;
        return TT_OK;
    }
    J_TRY(peek(r, loop, &more));
    if (tt_jstr_is(name, "last"))
        *out = J_BOOL(!more);
    else if (!more)
        return tt_jundef(r, "there is no next item", out);
    else
        *out = loop->after;
    return TT_OK;
}

tt_status tt_jloop_attr(jrun *r, jloop *loop, const jstr *name, jval *out)
{
    *out = J_MISSING;
    if (tt_jstr_is(name, "index0"))
        *out = J_INT(loop->index0);
    else if (tt_jstr_is(name, "index"))
        *out = J_INT(loop->index0 + 1);
    else if (tt_jstr_is(name, "first"))
        *out = J_BOOL(loop->index0 == 0);
    else if (tt_jstr_is(name, "depth"))
        *out = J_INT((int64_t)loop->depth0 + 1);
    else if (tt_jstr_is(name, "depth0"))
        *out = J_INT(loop->depth0);
    else if (tt_jstr_is(name, "previtem") || tt_jstr_is(name, "nextitem") ||
             tt_jstr_is(name, "last"))
        return loop_neighbour(r, loop, name, out);
    else if (tt_jstr_is(name, "length") || tt_jstr_is(name, "revindex") ||
             tt_jstr_is(name, "revindex0")) {
        J_TRY(loop_count(r, loop));
        int64_t back = tt_jstr_is(name, "length")     ? 0
                       : tt_jstr_is(name, "revindex") ? loop->index0
                                                      : loop->index0 + 1;
        *out = J_INT(loop->length - back);
    }
    return TT_OK;
}

/* ---- macros ---- */

static tt_status take_keyword(jrun *r, jdict *kw, const jstr *name, jdict **rest, jval *out)
{
    /* The dictionary of the call stays as it is: what is taken is copied around. */
    *out = J_MISSING;
    if (kw == NULL)
        return TT_OK;
    J_TRY(tt_jdict_get(r, kw, J_STR(name), out));
    if (out->type == JT_MISSING)
        return TT_OK;
    jdict *copy = NULL;
    J_TRY(tt_jdict_new(r, &copy));
    for (uint32_t i = 0; i < kw->n; i++) {
        const jstr *k = kw->e[i].k.s;
        if (k->n != name->n || memcmp(k->p, name->p, k->n) != 0)
            J_TRY(tt_jdict_set(r, copy, kw->e[i].k, kw->e[i].v));
    }
    *rest = copy;
    return TT_OK;
}

static jval *special_slot(jrun *r, jscope *scope, const char *name)
{
    jval key = tt_jdict_get_text(r->names, name, strlen(name));
    return tt_jscope_slot(scope, key.s);
}

static tt_status bind_special(jrun *r, const jmacro *m, jscope *scope, const jargs *args, jdict *kw,
                              bool found_caller)
{
    const jnode *n = m->node;
    if (n->uses_caller && !found_caller) {
        jval caller = J_MISSING;
        static const jstr name = {.p = "caller", .n = 6, .cp = 6};
        J_TRY(take_keyword(r, kw, &name, &kw, &caller));
        if (caller.type == JT_MISSING || caller.type == JT_NONE)
            J_TRY(tt_jundef(r, "No caller defined", &caller));
        *special_slot(r, scope, "caller") = caller;
    }
    if (n->uses_kwargs) {
        if (kw == NULL)
            J_TRY(tt_jdict_new(r, &kw));
        *special_slot(r, scope, "kwargs") = J_DICT(kw);
    } else if (kw != NULL && kw->n > 0) {
        return tt_jfail(r, "macro takes no keyword argument '%.*s'", (int)kw->e[0].k.s->n,
                        kw->e[0].k.s->p);
    }
    uint32_t taken = args->npos < n->list.n ? args->npos : n->list.n;
    if (n->uses_varargs) {
        jlist *rest = NULL;
        J_TRY(tt_jlist_new(r, args->npos - taken, &rest));
        for (uint32_t i = taken; i < args->npos; i++)
            J_TRY(tt_jlist_add(r, rest, args->pos[i]));
        *special_slot(r, scope, "varargs") = J_TUPLE(rest);
    } else if (args->npos > n->list.n) {
        return tt_jfail(r, "macro takes not more than %u arguments", n->list.n);
    }
    return TT_OK;
}

static tt_status bind_macro(jrun *r, const jmacro *m, jscope *scope, const jargs *args)
{
    jnode *n = m->node;
    jdict *kw = args->kw;
    bool found_caller = false;
    for (uint32_t i = 0; i < n->list.n; i++) {
        const jstr *name = n->list.v[i]->name;
        jval v = J_MISSING;
        if (i < args->npos)
            v = args->pos[i];
        else
            J_TRY(take_keyword(r, kw, name, &kw, &v));
        found_caller |= tt_jstr_is(name, "caller") && (i >= args->npos || args->npos >= n->list.n);
        *tt_jscope_slot(scope, name) = v;
    }
    J_TRY(bind_special(r, m, scope, args, kw, found_caller));
    uint32_t first_default = n->list.n - n->list2.n;
    for (uint32_t i = 0; i < n->list.n; i++) {
        jval *slot = tt_jscope_slot(scope, n->list.v[i]->name);
        if (slot->type != JT_MISSING)
            continue;
        if (i >= first_default)
            J_TRY(tt_jeval(r, n->list2.v[i - first_default], scope, slot));
        else
            J_TRY(tt_jundef(r, "a macro parameter was not provided", slot));
    }
    return TT_OK;
}

tt_status tt_jcall_macro(jrun *r, const jmacro *m, const jargs *args, jval *out)
{
    jscope *scope = NULL;
    size_t mark = r->out.len;
    J_TRY(enter_call(r));
    J_TRY(tt_jscope_new(r, m->node->frame, m->scope, &scope));
    J_TRY(bind_macro(r, m, scope, args));
    J_TRY(tt_jexec(r, &m->node->list3, scope));
    r->calls--;
    return capture(r, mark, out);
}

static tt_status new_macro(jrun *r, jnode *n, jscope *scope, jval *out)
{
    jmacro *m;
    J_NEW(r, m, 1);
    *m = (jmacro){.node = n, .scope = scope, .name = n->name};
    *out = (jval){.type = JT_MACRO, .macro = m};
    return TT_OK;
}

static tt_status exec_macro(jrun *r, jnode *n, jscope *scope)
{
    jval v;
    J_TRY(new_macro(r, n, scope, &v));
    return set_name(r, n->name, scope, v);
}

static tt_status exec_call_block(jrun *r, jnode *n, jscope *scope)
{
    jval caller, v;
    J_TRY(new_macro(r, n, scope, &caller));
    J_TRY(tt_jeval_call(r, n->a, scope, caller, &v));
    return tt_jprint(r, &r->out, v);
}

/* ---- the rest ---- */

static tt_status exec_if(jrun *r, jnode *n, jscope *scope)
{
    jval test;
    J_TRY(tt_jeval(r, n->a, scope, &test));
    if (tt_jtruth(test))
        return tt_jexec(r, &n->list, scope);
    for (uint32_t i = 0; i < n->list2.n; i++) {
        J_TRY(tt_jeval(r, n->list2.v[i]->a, scope, &test));
        if (tt_jtruth(test))
            return tt_jexec(r, &n->list2.v[i]->list, scope);
    }
    return tt_jexec(r, &n->list3, scope);
}

static tt_status exec_with(jrun *r, jnode *n, jscope *scope)
{
    jscope *inner = NULL;
    J_TRY(tt_jscope_new(r, n->frame, scope, &inner));
    for (uint32_t i = 0; i < n->list.n; i++) {
        jval v;
        J_TRY(tt_jeval(r, n->list2.v[i], scope, &v));
        J_TRY(tt_jassign(r, n->list.v[i], inner, v));
    }
    return tt_jexec(r, &n->list3, inner);
}

static tt_status exec_scoped(jrun *r, jnode *n, jscope *parent, const jnodes *body)
{
    jscope *inner = NULL;
    J_TRY(tt_jscope_new(r, n->frame, parent, &inner));
    return tt_jexec(r, body, inner);
}

static tt_status exec_one(jrun *r, jnode *n, jscope *scope)
{
    jval v;
    switch ((jkind)n->kind) {
    case JN_OUTPUT:
        return exec_output(r, n, scope);
    case JN_FOR:
        return exec_for(r, n, scope);
    case JN_IF:
        return exec_if(r, n, scope);
    case JN_MACRO:
        return exec_macro(r, n, scope);
    case JN_CALL_BLOCK:
        return exec_call_block(r, n, scope);
    case JN_GENERATION:
        return exec_scoped(r, n, scope, &n->list3);
    case JN_FILTER_BLOCK:
    case JN_ASSIGN_BLOCK:
        return exec_capture(r, n, scope);
    case JN_WITH:
        return exec_with(r, n, scope);
    case JN_BLOCK:
        if (n->flag)
            return tt_jfail(r, "required block '%.*s' is not filled in", (int)n->name->n,
                            n->name->p);
        return exec_scoped(r, n, NULL, &n->list);
    case JN_ASSIGN:
        J_TRY(tt_jeval(r, n->b, scope, &v));
        r->line = n->line;
        return tt_jassign(r, n->a, scope, v);
    case JN_BREAK:
        r->signal = JSIG_BREAK;
        return TT_OK;
    case JN_CONTINUE:
        r->signal = JSIG_CONTINUE;
        return TT_OK;
    default:
        return tt_jfail(r, "this statement cannot be run");
    }
}

tt_status tt_jexec(jrun *r, const jnodes *nodes, jscope *scope)
{
    J_TRY(tt_jenter(r));
    for (uint32_t i = 0; i < nodes->n && r->signal == JSIG_NONE; i++) {
        r->line = nodes->v[i]->line;
        J_TRY(tt_jcharge(r, 1));
        J_TRY(exec_one(r, nodes->v[i], scope));
    }
    r->depth--;
    return TT_OK;
}

tt_status tt_jrender_root(jrun *r, jnode *tree)
{
    J_TRY(tt_jscope_new(r, tree->frame, NULL, &r->root));
    return tt_jexec(r, &tree->list, r->root);
}
