/* Walking the syntax tree. */
#include <string.h>

#include "tokenizer/jinja_int.h"

tt_status tt_jnodes_add(jrun *r, jnodes *list, jnode *n)
{
    if (list->n == list->cap) {
        uint32_t cap = list->cap == 0 ? 4 : 2 * list->cap;
        jnode **v;
        J_NEW(r, v, cap);
        if (list->n > 0)
            memcpy(v, list->v, list->n * sizeof *v);
        list->v = v;
        list->cap = cap;
    }
    list->v[list->n++] = n;
    return TT_OK;
}

typedef tt_status (*visit_fn)(jnode *child, void *ctx);

static tt_status one(jnode *n, visit_fn fn, void *ctx)
{
    return n == NULL ? TT_OK : fn(n, ctx);
}

static tt_status all(const jnodes *list, visit_fn fn, void *ctx)
{
    for (uint32_t i = 0; i < list->n; i++)
        TT_TRY(fn(list->v[i], ctx));
    return TT_OK;
}

/* Order matters: name analysis treats a name by whether it is read or written first. */
tt_status tt_jchildren(jnode *n, visit_fn fn, void *ctx)
{
    switch ((jkind)n->kind) {
    case JN_FOR:
        TT_TRY(one(n->a, fn, ctx));
        TT_TRY(one(n->b, fn, ctx));
        TT_TRY(all(&n->list, fn, ctx));
        TT_TRY(all(&n->list2, fn, ctx));
        return one(n->c, fn, ctx);
    case JN_FILTER_BLOCK:
        TT_TRY(all(&n->list, fn, ctx));
        return one(n->a, fn, ctx);
    case JN_FILTER:
    case JN_TEST:
    case JN_CALL:
        TT_TRY(one(n->a, fn, ctx));
        TT_TRY(all(&n->list, fn, ctx));
        TT_TRY(all(&n->list2, fn, ctx));
        TT_TRY(one(n->b, fn, ctx));
        return one(n->c, fn, ctx);
    default:
        TT_TRY(one(n->a, fn, ctx));
        TT_TRY(one(n->b, fn, ctx));
        TT_TRY(one(n->c, fn, ctx));
        TT_TRY(all(&n->list, fn, ctx));
        TT_TRY(all(&n->list2, fn, ctx));
        return all(&n->list3, fn, ctx);
    }
}
