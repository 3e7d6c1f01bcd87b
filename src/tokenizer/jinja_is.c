/* Tests: what stands behind `is`, and what select and reject take by name. */
#include <math.h>
#include <string.h>

#include "tokenizer/jinja_int.h"

#define TEST(name) static tt_status name(jrun *r, jval v, jval *a, const jargs *raw, jval *out)

static tt_status yes_no(jval *out, bool yes)
{
    *out = J_BOOL(yes);
    return TT_OK;
}

static tt_status modulo_is(jrun *r, jval v, jval by, jval want, jval *out)
{
    bool eq = false;
    J_TRY(tt_jarith(r, JTOK_MOD, v, by, &v));
    J_TRY(tt_jequal(r, v, want, &eq));
    return yes_no(out, eq);
}

TEST(t_odd)
{
    return modulo_is(r, v, J_INT(2), J_INT(1), out);
}
TEST(t_even)
{
    return modulo_is(r, v, J_INT(2), J_INT(0), out);
}
TEST(t_divisibleby)
{
    return modulo_is(r, v, a[0], J_INT(0), out);
}
TEST(t_defined)
{
    return yes_no(out, v.type != JT_UNDEF);
}
TEST(t_undefined)
{
    return yes_no(out, v.type == JT_UNDEF);
}
TEST(t_none)
{
    return yes_no(out, v.type == JT_NONE);
}
TEST(t_boolean)
{
    return yes_no(out, v.type == JT_BOOL);
}
TEST(t_false)
{
    return yes_no(out, v.type == JT_BOOL && !v.b);
}
TEST(t_true)
{
    return yes_no(out, v.type == JT_BOOL && v.b);
}
TEST(t_integer)
{
    return yes_no(out, v.type == JT_INT);
}
TEST(t_float)
{
    return yes_no(out, v.type == JT_FLOAT);
}
TEST(t_string)
{
    return yes_no(out, v.type == JT_STR);
}
TEST(t_mapping)
{
    return yes_no(out, v.type == JT_DICT);
}
TEST(t_iterable)
{
    return yes_no(out, tt_jiterable(v));
}
TEST(t_escaped)
{
    return yes_no(out, v.type == JT_STR && (v.flag & J_MARKUP));
}

TEST(t_number)
{
    return yes_no(out, v.type == JT_INT || v.type == JT_FLOAT || v.type == JT_BOOL);
}

TEST(t_sequence)
{
    return yes_no(out, tt_jhas_length(v) && v.type != JT_VIEW && v.type != JT_LOOP);
}

TEST(t_callable)
{
    return yes_no(out, v.type == JT_MACRO || v.type == JT_FUNC || v.type == JT_METHOD ||
                           v.type == JT_UNDEF || v.type == JT_LOOP || v.type == JT_JOINER);
}

/* All cased characters are of one case, and there is one. */
static tt_status cased(jrun *r, jval v, bool upper, jval *out)
{
    bool found = false;
    J_TRY(tt_jto_str(r, v, &v));
    for (const char *p = v.s->p, *end = p + v.s->n; p < end;) {
        uint32_t cp = tt_jcp_next(&p);
        if (tt_jcp_title(cp) || (upper ? tt_jcp_lower(cp) : tt_jcp_upper(cp)))
            return yes_no(out, false);
        found |= upper ? tt_jcp_upper(cp) : tt_jcp_lower(cp);
    }
    return yes_no(out, found);
}

TEST(t_lower)
{
    return cased(r, v, false, out);
}
TEST(t_upper)
{
    return cased(r, v, true, out);
}

TEST(t_filter)
{
    uint64_t hash = 0;
    J_TRY(tt_jhash(r, v, &hash)); /* what cannot be a key cannot be asked for */
    return yes_no(out, v.type == JT_STR && tt_jfilter(v.s) != NULL);
}

TEST(t_test)
{
    uint64_t hash = 0;
    J_TRY(tt_jhash(r, v, &hash));
    return yes_no(out, v.type == JT_STR && tt_jtest(v.s) != NULL);
}

TEST(t_sameas)
{
    bool yes = false;
    J_TRY(tt_jsame(v, a[0], &yes));
    return yes_no(out, yes);
}

TEST(t_in)
{
    bool yes = false;
    J_TRY(tt_jcontains(r, v, a[0], &yes));
    return yes_no(out, yes);
}

TEST(t_eq)
{
    bool yes = false;
    J_TRY(tt_jequal(r, v, a[0], &yes));
    return yes_no(out, yes);
}

TEST(t_ne)
{
    bool yes = false;
    J_TRY(tt_jequal(r, v, a[0], &yes));
    return yes_no(out, !yes);
}

static tt_status ordered(jrun *r, int op, jval v, jval other, jval *out)
{
    bool yes = false;
    J_TRY(tt_jorder(r, op, v, other, &yes));
    return yes_no(out, yes);
}

TEST(t_gt)
{
    return ordered(r, JTOK_GT, v, a[0], out);
}
TEST(t_ge)
{
    return ordered(r, JTOK_GTEQ, v, a[0], out);
}
TEST(t_lt)
{
    return ordered(r, JTOK_LT, v, a[0], out);
}
TEST(t_le)
{
    return ordered(r, JTOK_LTEQ, v, a[0], out);
}

static const jbuiltin tests[] = {{"odd", "", t_odd},
                                 {"even", "", t_even},
                                 {"divisibleby", "num", t_divisibleby},
                                 {"defined", "", t_defined},
                                 {"undefined", "", t_undefined},
                                 {"filter", "", t_filter},
                                 {"test", "", t_test},
                                 {"none", "", t_none},
                                 {"boolean", "", t_boolean},
                                 {"false", "", t_false},
                                 {"true", "", t_true},
                                 {"integer", "", t_integer},
                                 {"float", "", t_float},
                                 {"lower", "", t_lower},
                                 {"upper", "", t_upper},
                                 {"string", "", t_string},
                                 {"mapping", "", t_mapping},
                                 {"number", "", t_number},
                                 {"sequence", "", t_sequence},
                                 {"iterable", "", t_iterable},
                                 {"callable", "", t_callable},
                                 {"sameas", "other", t_sameas},
                                 {"escaped", "", t_escaped},
                                 {"in", "seq", t_in},
                                 {"==", "/b", t_eq},
                                 {"eq", "/b", t_eq},
                                 {"equalto", "/b", t_eq},
                                 {"!=", "/b", t_ne},
                                 {"ne", "/b", t_ne},
                                 {">", "/b", t_gt},
                                 {"gt", "/b", t_gt},
                                 {"greaterthan", "/b", t_gt},
                                 {"ge", "/b", t_ge},
                                 {">=", "/b", t_ge},
                                 {"<", "/b", t_lt},
                                 {"lt", "/b", t_lt},
                                 {"lessthan", "/b", t_lt},
                                 {"<=", "/b", t_le},
                                 {"le", "/b", t_le},
                                 {NULL, NULL, NULL}};

const jbuiltin *tt_jtest(const jstr *name)
{
    return tt_jbuiltin_find(tests, name);
}
