/* Which names each scope declares and where their first value comes from. Jinja2 decides this when
 * it compiles a template; the rules (and their surprises) are reproduced here step by step. */
#include <string.h>

#include "tokenizer/jinja_int.h"

/* ---- one scope's symbols ---- */

static jsymbol *own(const jframe *f, const jstr *name)
{
    for (uint32_t i = 0; i < f->n; i++)
        if (f->sym[i].name == name)
            return &f->sym[i];
    return NULL;
}

static bool known(const jframe *f, const jstr *name)
{
    for (; f != NULL; f = f->parent)
        if (own(f, name) != NULL)
            return true;
    return false;
}

static tt_status define(jrun *r, jframe *f, const jstr *name, jload load, bool stored)
{
    jsymbol *s = own(f, name);
    J_TRY(tt_jcharge(r, 1 + f->n / 16));
    if (s == NULL) {
        if (f->n == f->cap) {
            uint32_t cap = f->cap == 0 ? 8 : 2 * f->cap;
            jsymbol *sym;
            J_NEW(r, sym, cap);
            if (f->n > 0)
                memcpy(sym, f->sym, f->n * sizeof *sym);
            f->sym = sym;
            f->cap = cap;
        }
        s = &f->sym[f->n++];
        s->name = name;
    }
    s->load = load;
    s->stored |= stored;
    return TT_OK;
}

static tt_status store(jrun *r, jframe *f, const jstr *name)
{
    jsymbol *s = own(f, name);
    if (s != NULL) {
        s->stored = true;
        return TT_OK;
    }
    return define(r, f, name, known(f->parent, name) ? JL_ALIAS : JL_UNDEFINED, true);
}

static tt_status load(jrun *r, jframe *f, const jstr *name)
{
    return known(f, name) ? TT_OK : define(r, f, name, JL_RESOLVE, false);
}

static tt_status copy_frame(jrun *r, const jframe *f, jframe **out)
{
    jframe *c;
    J_NEW(r, c, 1);
    *c = *f;
    J_NEW(r, c->sym, f->n + 1);
    c->cap = f->n + 1;
    if (f->n > 0)
        memcpy(c->sym, f->sym, f->n * sizeof *f->sym);
    *out = c;
    return tt_jcharge(r, f->n / 8);
}

/* A name that only some branches of an `if` set must first be looked up outside. */
static tt_status merge_branches(jrun *r, jframe *f, jframe *const branch[3])
{
    jframe *before = NULL;
    J_TRY(copy_frame(r, f, &before));
    J_TRY(tt_jcharge(r, (uint64_t)f->n * f->n / 32));
    for (int b = 0; b < 3; b++)
        for (uint32_t i = 0; i < branch[b]->n; i++) {
            const jsymbol *s = &branch[b]->sym[i];
            J_TRY(define(r, f, s->name, s->load, s->stored));
        }
    for (uint32_t i = 0; i < f->n; i++) {
        jsymbol *s = &f->sym[i];
        const jsymbol *old = own(before, s->name);
        int n = 0;
        for (int b = 0; b < 3; b++) {
            const jsymbol *in = own(branch[b], s->name);
            n += in != NULL && in->stored;
        }
        if (n == 0 || n == 3 || (old != NULL && old->stored))
            continue;
        s->load = known(f->parent, s->name) ? JL_ALIAS : JL_RESOLVE;
    }
    return TT_OK;
}

/* ---- collecting a scope's names ---- */

typedef struct collector {
    jrun *r;
    jframe *f;
    bool as_param;
} collector;

static tt_status collect(jnode *n, void *ctx);

static tt_status collect_list(collector *c, const jnodes *list)
{
    for (uint32_t i = 0; i < list->n; i++)
        J_TRY(collect(list->v[i], c));
    return TT_OK;
}

static tt_status collect_if(collector *c, jnode *n)
{
    J_TRY(collect(n->a, c));
    const jnodes *parts[3] = {&n->list, &n->list2, &n->list3};
    jframe *branch[3], *f = c->f;
    for (int b = 0; b < 3; b++) {
        J_TRY(copy_frame(c->r, f, &branch[b]));
        c->f = branch[b];
        tt_status st = collect_list(c, parts[b]);
        c->f = f;
        J_TRY(st);
    }
    return merge_branches(c->r, f, branch);
}

static tt_status collect(jnode *n, void *ctx)
{
    collector *c = ctx;
    c->r->line = n->line;
    J_TRY(tt_jcharge(c->r, 1 + c->f->n / 32)); /* names are looked for one by one */
    switch ((jkind)n->kind) {
    case JN_NAME:
        if (c->as_param || n->op == JC_PARAM)
            return define(c->r, c->f, n->name, JL_PARAM, true);
        return n->op == JC_STORE ? store(c->r, c->f, n->name) : load(c->r, c->f, n->name);
    case JN_NSREF:
        return load(c->r, c->f, n->name);
    case JN_IF:
        return collect_if(c, n);
    case JN_MACRO:
        return store(c->r, c->f, n->name);
    case JN_ASSIGN:
        J_TRY(collect(n->b, c));
        return collect(n->a, c);
    case JN_FOR:
        return collect(n->b, c);
    case JN_CALL_BLOCK:
    case JN_FILTER_BLOCK:
    case JN_ASSIGN_BLOCK:
        return collect(n->a, c);
    case JN_WITH:
        return collect_list(c, &n->list2);
    case JN_GENERATION:
    case JN_BLOCK:
        return TT_OK;
    default:
        return tt_jchildren(n, collect, c);
    }
}

static tt_status inner(jrun *r, jframe *parent, jframe **out)
{
    J_NEW(r, *out, 1);
    (*out)->parent = parent;
    return TT_OK;
}

/* ---- is a special name read before it is written? ---- */

typedef struct finder {
    jrun *r;
    const char *const *names;
    unsigned live, found; /* a bit a name */
} finder;

static tt_status find_names(jnode *n, void *ctx)
{
    finder *f = ctx;
    J_TRY(tt_jcharge(f->r, 1));
    if (n->kind == JN_BLOCK)
        return TT_OK;
    if (n->kind != JN_NAME)
        return tt_jchildren(n, find_names, f);
    for (unsigned i = 0; f->names[i] != NULL; i++) {
        if (!tt_jstr_is(n->name, f->names[i]))
            continue;
        if (n->op == JC_LOAD && (f->live & 1u << i))
            f->found |= 1u << i;
        else
            f->live &= ~(1u << i);
    }
    return TT_OK;
}

static tt_status undeclared(jrun *r, const jnodes *body, const char *const *names, unsigned *found)
{
    finder f = {.r = r, .names = names, .live = ~0u};
    for (uint32_t i = 0; i < body->n; i++)
        J_TRY(find_names(body->v[i], &f));
    *found = f.found;
    return TT_OK;
}

/* ---- the walk that gives every statement its scope ---- */

typedef struct place {
    jrun *r;
    jframe *f;
    bool soft;    /* inside an if: unknown filters and tests fail only when reached */
    bool in_loop; /* break and continue are possible */
} place;

static tt_status walk(jnode *n, void *ctx);

static tt_status walk_list(const place *p, const jnodes *list)
{
    place here = *p;
    for (uint32_t i = 0; i < list->n; i++)
        J_TRY(walk(list->v[i], &here));
    return TT_OK;
}

static tt_status special_name(jrun *r, const char *text, const jstr **out)
{
    jval v = tt_jdict_get_text(r->names, text, strlen(text));
    if (v.type == JT_MISSING) {
        J_TRY(tt_jstr(r, text, strlen(text), &v));
        J_TRY(tt_jdict_set(r, r->names, v, v));
    }
    *out = v.s;
    return TT_OK;
}

static tt_status declare(jrun *r, jframe *f, const char *name)
{
    const jstr *s = NULL;
    J_TRY(special_name(r, name, &s));
    return define(r, f, s, JL_PARAM, true);
}

static tt_status no_loop_target(jnode *n, void *ctx)
{
    jrun *r = ctx;
    J_TRY(tt_jcharge(r, 1));
    if (n->kind == JN_NAME && n->op == JC_STORE && tt_jstr_is(n->name, "loop")) {
        r->line = n->line;
        return tt_jfail(r, "'loop' cannot be assigned inside a for");
    }
    return tt_jchildren(n, no_loop_target, r);
}

static tt_status walk_for(const place *p, jnode *n)
{
    static const char *const names[] = {"loop", NULL};
    jrun *r = p->r;
    J_TRY(tt_jchildren(n, no_loop_target, r));
    place here = *p;
    J_TRY(walk(n->b, &here));
    J_TRY(inner(r, p->f, &n->frame));
    unsigned used = 0;
    J_TRY(undeclared(r, &n->list, names, &used));
    n->uses_loop = n->flag || used != 0;
    if (n->uses_loop)
        J_TRY(declare(r, n->frame, "loop"));
    collector c = {.r = r, .f = n->frame, .as_param = true};
    J_TRY(collect(n->a, &c));
    c.as_param = false;
    J_TRY(collect_list(&c, &n->list));
    if (n->c != NULL) {
        J_TRY(inner(r, p->f, &n->frame2));
        c = (collector){.r = r, .f = n->frame2, .as_param = true};
        J_TRY(collect(n->a, &c));
        c.as_param = false;
        J_TRY(collect(n->c, &c));
        here = (place){.r = r, .f = n->frame2};
        J_TRY(walk(n->c, &here));
    }
    here = (place){.r = r, .f = n->frame, .in_loop = true};
    J_TRY(walk_list(&here, &n->list));
    J_TRY(inner(r, p->f, &n->frame3));
    c = (collector){.r = r, .f = n->frame3};
    J_TRY(collect_list(&c, &n->list2));
    here = (place){.r = r, .f = n->frame3, .in_loop = p->in_loop && !n->flag};
    return walk_list(&here, &n->list2);
}

static tt_status collect_macro(jrun *r, jnode *n)
{
    collector c = {.r = r, .f = n->frame};
    J_TRY(collect_list(&c, &n->list));
    J_TRY(collect_list(&c, &n->list2));
    return collect_list(&c, &n->list3);
}

static tt_status walk_macro(const place *p, jnode *n)
{
    static const char *const names[] = {"caller", "kwargs", "varargs", NULL};
    jrun *r = p->r;
    bool own_caller = false, own_kwargs = false, own_varargs = false;
    J_TRY(inner(r, p->f, &n->frame));
    J_TRY(collect_macro(r, n));
    unsigned used = 0;
    J_TRY(undeclared(r, &n->list3, names, &used));
    for (uint32_t i = 0; i < n->list.n; i++) {
        const jstr *arg = n->list.v[i]->name;
        own_kwargs |= tt_jstr_is(arg, "kwargs");
        own_varargs |= tt_jstr_is(arg, "varargs");
        if (!tt_jstr_is(arg, "caller"))
            continue;
        own_caller = true;
        if (i + n->list2.n < n->list.n && (used & 1) != 0)
            return tt_jfail(r, "an argument named 'caller' needs a default");
    }
    n->uses_caller = (used & 1) != 0;
    n->uses_kwargs = (used & 2) != 0 && !own_kwargs;
    n->uses_varargs = (used & 4) != 0 && !own_varargs;
    if (n->uses_caller && !own_caller)
        J_TRY(declare(r, n->frame, "caller"));
    if (n->uses_kwargs)
        J_TRY(declare(r, n->frame, "kwargs"));
    if (n->uses_varargs)
        J_TRY(declare(r, n->frame, "varargs"));
    J_TRY(collect_macro(r, n));
    place here = {.r = r, .f = n->frame};
    J_TRY(walk_list(&here, &n->list2));
    return walk_list(&here, &n->list3);
}

static tt_status walk_with(const place *p, jnode *n)
{
    J_TRY(walk_list(p, &n->list2));
    J_TRY(inner(p->r, p->f, &n->frame));
    collector c = {.r = p->r, .f = n->frame};
    J_TRY(collect_list(&c, &n->list));
    J_TRY(collect_list(&c, &n->list3));
    place here = {.r = p->r, .f = n->frame, .in_loop = p->in_loop};
    return walk_list(&here, &n->list3);
}

static tt_status walk_capture(const place *p, jnode *n)
{
    J_TRY(inner(p->r, p->f, &n->frame));
    collector c = {.r = p->r, .f = n->frame};
    J_TRY(collect_list(&c, &n->list));
    if (n->kind == JN_FILTER_BLOCK)
        J_TRY(collect(n->a, &c));
    place here = {.r = p->r, .f = n->frame, .in_loop = p->in_loop};
    J_TRY(walk_list(&here, &n->list));
    jnode *filter = n->kind == JN_FILTER_BLOCK ? n->a : n->b;
    return filter == NULL ? TT_OK : walk(filter, &here);
}

static tt_status walk_block(const place *p, jnode *n)
{
    J_TRY(inner(p->r, NULL, &n->frame));
    collector c = {.r = p->r, .f = n->frame};
    J_TRY(collect_list(&c, &n->list));
    place here = {.r = p->r, .f = n->frame};
    return walk_list(&here, &n->list);
}

static tt_status walk_callable(const place *p, jnode *n)
{
    if (n->fn == NULL && !p->soft && n->kind != JN_CALL) {
        p->r->line = n->line;
        return tt_jfail(p->r, "no %s named '%.*s'", n->kind == JN_FILTER ? "filter" : "test",
                        (int)n->name->n, n->name->p);
    }
    place here = *p;
    return tt_jchildren(n, walk, &here);
}

static tt_status walk(jnode *n, void *ctx)
{
    place here = *(const place *)ctx;
    here.r->line = n->line;
    J_TRY(tt_jcharge(here.r, 1));
    switch ((jkind)n->kind) {
    case JN_FOR:
        return walk_for(&here, n);
    case JN_CALL_BLOCK:
        J_TRY(walk(n->a, &here));
        return walk_macro(&here, n);
    case JN_MACRO:
    case JN_GENERATION:
        return walk_macro(&here, n);
    case JN_WITH:
        return walk_with(&here, n);
    case JN_FILTER_BLOCK:
    case JN_ASSIGN_BLOCK:
        return walk_capture(&here, n);
    case JN_BLOCK:
        return walk_block(&here, n);
    case JN_BREAK:
    case JN_CONTINUE:
        if (!here.in_loop)
            return tt_jfail(here.r, "'%s' outside a loop",
                            n->kind == JN_BREAK ? "break" : "continue");
        return TT_OK;
    case JN_FILTER:
    case JN_TEST:
        return walk_callable(&here, n);
    case JN_IF:
    case JN_COND:
        here.soft = true;
        return tt_jchildren(n, walk, &here);
    default:
        return tt_jchildren(n, walk, &here);
    }
}

tt_status tt_janalyze(jrun *r, jnode *tree)
{
    J_TRY(inner(r, NULL, &tree->frame));
    collector c = {.r = r, .f = tree->frame};
    J_TRY(collect_list(&c, &tree->list));
    place here = {.r = r, .f = tree->frame};
    return walk_list(&here, &tree->list);
}

/* ---- scopes at run time ---- */

jval *tt_jscope_slot(jscope *scope, const jstr *name)
{
    for (; scope != NULL; scope = scope->parent) {
        const jsymbol *s = own(scope->frame, name);
        if (s != NULL)
            return &scope->slot[s - scope->frame->sym];
    }
    return NULL;
}

static jval resolve(const jrun *r, const jstr *name)
{
    jval v = tt_jdict_get_text(r->exported, name->p, name->n);
    if (v.type == JT_MISSING)
        v = tt_jdict_get_text(r->vars, name->p, name->n);
    if (v.type == JT_MISSING) {
        const jbuiltin *b = tt_jglobal(name->p, name->n);
        if (b != NULL)
            v = (jval){.type = JT_FUNC, .func = b};
    }
    return v;
}

tt_status tt_jscope_new(jrun *r, jframe *frame, jscope *parent, jscope **out)
{
    jscope *s;
    J_TRY(tt_jcharge(r, 1 + frame->n));
    J_NEW(r, s, 1);
    s->frame = frame;
    s->parent = parent;
    J_NEW(r, s->slot, frame->n + 1);
    for (uint32_t i = 0; i < frame->n; i++) {
        const jsymbol *sym = &frame->sym[i];
        if (sym->load == JL_RESOLVE) {
            s->slot[i] = resolve(r, sym->name);
        } else if (sym->load == JL_ALIAS) {
            const jval *outer = tt_jscope_slot(parent, sym->name);
            if (outer != NULL)
                s->slot[i] = *outer;
        }
    }
    *out = s;
    return TT_OK;
}
