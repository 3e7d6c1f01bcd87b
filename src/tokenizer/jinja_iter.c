/* Iteration, ranges, views and slices. */
#include <string.h>

#include "tokenizer/jinja_int.h"

bool tt_jiterable(jval v)
{
    switch ((jtype)v.type) {
    case JT_UNDEF:
    case JT_STR:
    case JT_LIST:
    case JT_TUPLE:
    case JT_DICT:
    case JT_VIEW:
    case JT_RANGE:
    case JT_ITER:
    case JT_LOOP:
        return true;
    default:
        return false;
    }
}

jval tt_jrange_item(const jrange *g, int64_t i)
{
    return J_INT(g->start + i * g->step);
}

tt_status tt_jview_item(jrun *r, const jview *v, uint32_t i, jval *out)
{
    const jentry *e = &v->dict->e[i];
    if (v->kind != JVIEW_ITEMS) {
        *out = v->kind == JVIEW_KEYS ? e->k : e->v;
        return TT_OK;
    }
    jlist *pair = NULL;
    J_TRY(tt_jlist_new(r, 2, &pair));
    J_TRY(tt_jlist_add(r, pair, e->k));
    J_TRY(tt_jlist_add(r, pair, e->v));
    *out = J_TUPLE(pair);
    return TT_OK;
}

/* ---- iterators over values that hold their items ---- */

static tt_status next_list(jrun *r, jiter *it, jval *out, bool *more)
{
    const jlist *l = it->src.list;
    *more = it->pos >= 0 && it->pos < (int64_t)l->n;
    if (*more)
        *out = l->v[it->pos];
    else
        it->pos = INT64_MIN / 2; /* an ended iterator stays ended */
    it->pos += it->step;
    return TT_OK;
}

static tt_status next_str(jrun *r, jiter *it, jval *out, bool *more)
{
    const jstr *s = it->src.s;
    *more = it->step > 0 ? it->pos < (int64_t)s->n : it->pos > 0;
    if (!*more)
        return TT_OK;
    const char *p = s->p + it->pos, *q = p;
    if (it->step > 0)
        tt_jcp_next(&q);
    else
        tt_jcp_prev(&q);
    it->pos = q - s->p;
    return q > p ? tt_jsubstr(r, s, (size_t)(p - s->p), (size_t)(q - s->p), out)
                 : tt_jsubstr(r, s, (size_t)(q - s->p), (size_t)(p - s->p), out);
}

static tt_status next_view(jrun *r, jiter *it, jval *out, bool *more)
{
    *more = it->pos >= 0 && it->pos < (int64_t)it->src.view->dict->n;
    if (*more)
        J_TRY(tt_jview_item(r, it->src.view, (uint32_t)it->pos, out));
    it->pos += it->step;
    return TT_OK;
}

static tt_status next_range(jrun *r, jiter *it, jval *out, bool *more)
{
    *more = it->pos >= 0 && it->pos < it->src.range->n;
    if (*more)
        *out = tt_jrange_item(it->src.range, it->pos);
    it->pos += it->step;
    return TT_OK;
}

static tt_status next_nothing(jrun *r, jiter *it, jval *out, bool *more)
{
    *more = false;
    return TT_OK;
}

/* `loop` iterates as pairs of the next item and itself; only its own for uses that in practice. */
static tt_status next_loop(jrun *r, jiter *it, jval *out, bool *more)
{
    return tt_jfail(r, "iterating over 'loop' is not supported");
}

tt_status tt_jnext(jrun *r, jiter *it, jval *out, bool *more)
{
    J_TRY(tt_jenter(r));
    tt_status st = it->next(r, it, out, more);
    r->depth--;
    return st;
}

static tt_status make(jrun *r, jval v, bool reversed, jiter **out)
{
    jiter *it;
    int64_t n = 0;
    J_NEW(r, it, 1);
    it->src = v;
    it->step = reversed ? -1 : 1;
    switch ((jtype)v.type) {
    case JT_LIST:
    case JT_TUPLE:
        it->next = next_list;
        n = v.list->n;
        break;
    case JT_STR:
        it->next = next_str;
        n = v.s->n + 1;
        break;
    case JT_RANGE:
        it->next = next_range;
        n = v.range->n;
        break;
    case JT_DICT: {
        jview *view;
        J_NEW(r, view, 1);
        *view = (jview){.dict = v.dict, .kind = JVIEW_KEYS};
        it->src = (jval){.type = JT_VIEW, .view = view};
        it->next = next_view;
        n = v.dict->n;
        break;
    }
    case JT_VIEW:
        it->next = next_view;
        n = v.view->dict->n;
        break;
    case JT_LOOP:
        it->next = next_loop;
        break;
    default:
        it->next = next_nothing;
        break;
    }
    it->pos = reversed ? n - 1 : 0;
    *out = it;
    return TT_OK;
}

tt_status tt_jiter(jrun *r, jval v, jiter **out)
{
    if (v.type == JT_ITER) {
        *out = v.iter;
        return TT_OK;
    }
    if (!tt_jiterable(v))
        return tt_jfail(r, "'%s' object is not iterable", tt_jtype_name(v));
    return make(r, v, false, out);
}

tt_status tt_jiter_reversed(jrun *r, jval v, jiter **out, bool *possible)
{
    *possible = tt_jiterable(v) && v.type != JT_ITER && v.type != JT_LOOP;
    return *possible ? make(r, v, true, out) : TT_OK;
}

tt_status tt_jto_list(jrun *r, jval v, jlist **out)
{
    jiter *it = NULL;
    jlist *l = NULL;
    jval item;
    bool more = true;
    int64_t n = 0;
    if (tt_jhas_length(v) && v.type != JT_LOOP)
        J_TRY(tt_jlength(r, v, &n));
    J_TRY(tt_jiter(r, v, &it));
    J_TRY(tt_jlist_new(r, (uint32_t)n, &l));
    for (;;) {
        J_TRY(tt_jnext(r, it, &item, &more));
        if (!more)
            break;
        J_TRY(tt_jlist_add(r, l, item));
    }
    *out = l;
    return TT_OK;
}

/* ---- slices ---- */

static tt_status bound_of(jrun *r, jval v, int64_t dflt, int64_t *out)
{
    *out = dflt;
    if (v.type == JT_NONE || v.type == JT_MISSING || tt_jis_int(v, out))
        return TT_OK;
    return tt_jfail(r, "slice indices must be integers or None");
}

static int64_t clamp(int64_t i, int64_t n, int64_t low, int64_t high)
{
    if (i < 0)
        i += n;
    return i < low ? low : i > high ? high : i;
}

/* Python's slice.indices(): positions start, start + step, ... of which there are `count`. */
static tt_status indices(jrun *r, const jval bound[3], int64_t n, int64_t *start, int64_t *step,
                         int64_t *count)
{
    J_TRY(bound_of(r, bound[2], 1, step));
    if (*step == 0)
        return tt_jfail(r, "slice step cannot be zero");
    if (*step < -INT64_MAX / 2)
        *step = -INT64_MAX / 2;
    if (*step > INT64_MAX / 2)
        *step = INT64_MAX / 2;
    bool back = *step < 0;
    int64_t low = back ? -1 : 0, high = back ? n - 1 : n, stop = 0;
    bool no_start = bound[0].type == JT_NONE || bound[0].type == JT_MISSING;
    bool no_stop = bound[1].type == JT_NONE || bound[1].type == JT_MISSING;
    J_TRY(bound_of(r, bound[0], 0, start));
    J_TRY(bound_of(r, bound[1], 0, &stop));
    *start = no_start ? (back ? high : low) : clamp(*start, n, low, high);
    stop = no_stop ? (back ? low : high) : clamp(stop, n, low, high);
    int64_t span = back ? *start - stop : stop - *start, stride = back ? -*step : *step;
    *count = span <= 0 ? 0 : (span - 1) / stride + 1;
    return TT_OK;
}

static tt_status slice_str(jrun *r, jval v, int64_t start, int64_t step, int64_t count, jval *out)
{
    const jstr *s = v.s;
    size_t from = tt_jcp_offset(s, (size_t)(start < 0 ? 0 : start));
    if (step == 1) {
        J_TRY(tt_jsubstr(r, s, from, tt_jcp_offset(s, (size_t)(start + count)), out));
        out->flag = v.flag;
        return TT_OK;
    }
    tt_buf b;
    tt_buf_init(&b, s->n);
    const char *p = s->p + from;
    for (int64_t i = 0; i < count; i++) {
        const char *q = p;
        tt_jcp_next(&q);
        tt_buf_append(&b, p, (size_t)(q - p));
        if (i + 1 == count)
            break;
        for (int64_t k = 0; k < step; k++)
            tt_jcp_next(&p);
        for (int64_t k = 0; k > step; k--)
            tt_jcp_prev(&p);
    }
    J_TRY(tt_jstr_buf(r, &b, out));
    out->flag = v.flag;
    return tt_jcharge(r, s->n / 64);
}

static tt_status slice_range(jrun *r, const jrange *g, int64_t start, int64_t step, int64_t count,
                             jval *out)
{
    jrange *n;
    J_NEW(r, n, 1);
    n->start = g->start + start * g->step;
    n->n = count;
    if (__builtin_mul_overflow(g->step, step, &n->step) ||
        __builtin_mul_overflow(n->step, count, &n->stop) ||
        __builtin_add_overflow(n->stop, n->start, &n->stop))
        return tt_jfail(r, "a range needs more than 64 bits");
    *out = (jval){.type = JT_RANGE, .range = n};
    return TT_OK;
}

tt_status tt_jslice(jrun *r, jval v, const jval bound[3], jval *out)
{
    int64_t n = 0, start = 0, step = 1, count = 0;
    if (v.type == JT_UNDEF)
        return tt_jfail_undef(r, v);
    if (v.type != JT_STR && v.type != JT_LIST && v.type != JT_TUPLE && v.type != JT_RANGE)
        return tt_jfail(r, "'%s' object cannot be sliced", tt_jtype_name(v));
    J_TRY(tt_jlength(r, v, &n));
    J_TRY(indices(r, bound, n, &start, &step, &count));
    if (v.type == JT_STR)
        return slice_str(r, v, start, step, count, out);
    if (v.type == JT_RANGE)
        return slice_range(r, v.range, start, step, count, out);
    jlist *l = NULL;
    J_TRY(tt_jlist_new(r, (uint32_t)count, &l));
    for (int64_t i = 0; i < count; i++)
        l->v[i] = v.list->v[start + i * step];
    l->n = (uint32_t)count;
    *out = v.type == JT_LIST ? J_LIST(l) : J_TUPLE(l);
    return tt_jcharge(r, (uint64_t)count / 8);
}
