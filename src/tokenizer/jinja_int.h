/* jinja_int.h: what the files of the Jinja interpreter share: values, syntax tree, one rendering.
 *
 * Owns:      the types; the names of the functions that cross its files.
 * Not here:  anything for callers outside src/tokenizer/jinja*.c.
 * Laws:      (1) everything but the output lives in the rendering's arena and dies with it;
 * (2) values never change once made, except namespaces, loop and cycler counters, iterators, and
 * lists by way of their own pop and clear (the sandbox of Jinja2 3.1.2 lets those two through);
 * (3) every loop over data charges steps.
 * Threads:   one rendering belongs to one thread.
 */
#ifndef TT_TOKENIZER_JINJA_INT_H
#define TT_TOKENIZER_JINJA_INT_H

#include "base/arena.h"
#include "base/buf.h"
#include "tokenizer/jinja.h"

/* ---- values ---- */

typedef enum jtype {
    JT_MISSING, /* no value: an unset name, an argument left out */
    JT_UNDEF,
    JT_NONE,
    JT_BOOL,
    JT_INT,
    JT_FLOAT,
    JT_STR,
    JT_LIST,
    JT_TUPLE,
    JT_DICT,
    JT_VIEW, /* dict.keys(), .values(), .items() */
    JT_RANGE,
    JT_ITER,
    JT_NAMESPACE,
    JT_MACRO,
    JT_FUNC,   /* a global function */
    JT_METHOD, /* a method bound to its value */
    JT_LOOP,
    JT_CYCLER,
    JT_JOINER
} jtype;

typedef struct jrun jrun;
typedef struct jnode jnode;
typedef struct jscope jscope;

/* UTF-8 text with its number of code points. `spare` is shared room behind the text. */
typedef struct jstr {
    const char *p;
    uint32_t n, cp;
    struct jspare *spare;
} jstr;

typedef struct jval {
    uint8_t type;
    uint8_t flag; /* JT_STR: Markup; JT_TUPLE: a groupby pair */
    union {
        bool b;
        int64_t i;
        double f;
        const jstr *s;
        struct jlist *list; /* JT_LIST, JT_TUPLE */
        struct jdict *dict; /* JT_DICT, JT_NAMESPACE */
        struct jview *view;
        struct jrange *range;
        struct jiter *iter;
        struct jmacro *macro;
        const struct jbuiltin *func;
        struct jmethod *method;
        struct jloop *loop;
        struct jcycler *cycler;
        struct jjoiner *joiner;
        const struct jundef *undef;
    };
} jval;

#define J_MARKUP 1
#define J_GROUP  1

typedef struct jlist {
    jval *v;
    uint32_t n, cap;
} jlist;

typedef struct jentry {
    jval k, v;
    uint64_t hash;
} jentry;

/* Insertion order in `e`; `index` (open addressing, entry number + 1) from nine entries on. */
typedef struct jdict {
    jentry *e;
    uint32_t n, cap;
    uint32_t *index;
    uint32_t mask;
    bool busy; /* being printed: a second visit prints {...} */
} jdict;

typedef struct jview {
    jdict *dict;
    enum { JVIEW_KEYS, JVIEW_VALUES, JVIEW_ITEMS } kind;
} jview;

typedef struct jrange {
    int64_t start, stop, step, n;
} jrange;

/* Why a value is undefined, for the message. */
typedef struct jundef {
    const char *hint; /* or NULL */
    const jstr *name; /* or NULL: `key` */
    jval obj, key;
    bool has_obj;
} jundef;

typedef struct jiter {
    /* *more false at the end. */
    tt_status (*next)(jrun *r, struct jiter *it, jval *out, bool *more);
    jval src;
    int64_t pos, n, step;
    struct jiter *inner;
    const struct jbuiltin *fn; /* map, select: filter or test; NULL: none */
    const struct jargs *args;
    jval path, dflt; /* attribute path (list of parts), default */
    bool has_path, negate;
    jdict *seen;
    jnode *node; /* loop filter */
    jscope *scope;
    bool started;
    const jstr *missing_name; /* map, select: unknown callable, an error when first used */
} jiter;

typedef struct jargs {
    jval *pos;
    uint32_t npos;
    jdict *kw; /* NULL: none */
} jargs;

/* A filter, test, method or function. `spec` lists its parameters: names separated by blanks, `?`
 * behind the optional ones, `/` before those that cannot be named; NULL hands over `raw` alone.
 * `a` holds one value a parameter, JT_MISSING where left out. fn NULL: known and not supported. */
typedef struct jbuiltin {
    const char *name, *spec;
    tt_status (*fn)(jrun *r, jval self, jval *a, const jargs *raw, jval *out);
} jbuiltin;

typedef struct jmethod {
    jval self;
    const jbuiltin *b;
} jmethod;

typedef struct jmacro {
    jnode *node;
    jscope *scope;    /* where it was defined */
    const jstr *name; /* NULL: a call block */
} jmacro;

typedef struct jloop {
    jval iterable;
    jiter *it;
    jval after, current, before, changed;
    int64_t index0, length; /* length -1: not asked yet */
    uint32_t depth0;
    jnode *node;   /* recursive loops only, else NULL */
    jscope *scope; /* around the loop */
} jloop;

typedef struct jcycler {
    jlist *items;
    uint32_t pos;
} jcycler;

typedef struct jjoiner {
    jval sep;
    bool used;
} jjoiner;

/* ---- syntax tree ---- */

typedef enum jkind {
    /* statements */
    JN_TEMPLATE,
    JN_OUTPUT,
    JN_FOR,
    JN_IF,
    JN_MACRO,
    JN_CALL_BLOCK,
    JN_GENERATION,
    JN_FILTER_BLOCK,
    JN_WITH,
    JN_BLOCK,
    JN_ASSIGN,
    JN_ASSIGN_BLOCK,
    JN_BREAK,
    JN_CONTINUE,
    /* expressions */
    JN_DATA,
    JN_CONST,
    JN_NAME,
    JN_NSREF,
    JN_TUPLE,
    JN_LIST,
    JN_DICT,
    JN_COND,
    JN_FILTER,
    JN_TEST,
    JN_CALL,
    JN_GETITEM,
    JN_GETATTR,
    JN_SLICE,
    JN_CONCAT,
    JN_COMPARE,
    JN_ARITH,
    JN_AND,
    JN_OR,
    JN_NOT,
    JN_NEG,
    JN_POS,
    /* parts */
    JN_OPERAND, /* op, a */
    JN_KEYWORD  /* name, a */
} jkind;

typedef enum jctx { JC_LOAD, JC_STORE, JC_PARAM } jctx;

typedef struct jnodes {
    jnode **v;
    uint32_t n, cap;
} jnodes;

/* Names that a scope declares, and how each gets its value when the scope is entered. */
typedef enum jload { JL_PARAM, JL_RESOLVE, JL_ALIAS, JL_UNDEFINED } jload;

typedef struct jsymbol {
    const jstr *name;
    jload load;
    bool stored;
} jsymbol;

typedef struct jframe {
    struct jframe *parent;
    jsymbol *sym;
    uint32_t n, cap;
} jframe;

/*               a        b       c         list     list2     list3
 * OUTPUT                                   parts
 * FOR           target   iter    test      body     else                flag: recursive
 * IF            test                       body     elifs     else
 * MACRO, CALL_BLOCK (a: call), GENERATION  params   defaults  body
 * FILTER_BLOCK  filter                     body
 * WITH                                     targets  values    body
 * BLOCK                                    body                         flag: required
 * ASSIGN        target   value
 * ASSIGN_BLOCK  target   filter            body
 * COND          test     then    else
 * FILTER, TEST, CALL  subject  *args **kw  args     keywords
 * GETITEM       subject  index;  GETATTR   subject, name
 * SLICE         start    stop    step
 * DICT                                     key, value, key, value ...
 * COMPARE, ARITH  first                    operands
 */
struct jnode {
    uint8_t kind, flag, op;
    uint16_t depth;
    uint32_t line;
    const jstr *name, *attr;
    jval value;
    const jbuiltin *fn; /* FILTER, TEST: NULL when unknown */
    jnode *a, *b, *c;
    jnodes list, list2, list3;
    jframe *frame, *frame2, *frame3; /* FOR: body, test, else */
    bool uses_loop, uses_caller, uses_kwargs, uses_varargs;
};

/* Operators: token types double as operators of ARITH and COMPARE. */
typedef enum jtoken_type {
    JTOK_EOF,
    JTOK_DATA,
    JTOK_BLOCK_BEGIN,
    JTOK_BLOCK_END,
    JTOK_VARIABLE_BEGIN,
    JTOK_VARIABLE_END,
    JTOK_NAME,
    JTOK_STRING,
    JTOK_INTEGER,
    JTOK_FLOAT,
    JTOK_ADD,
    JTOK_SUB,
    JTOK_DIV,
    JTOK_FLOORDIV,
    JTOK_MUL,
    JTOK_MOD,
    JTOK_POW,
    JTOK_TILDE,
    JTOK_LBRACKET,
    JTOK_RBRACKET,
    JTOK_LPAREN,
    JTOK_RPAREN,
    JTOK_LBRACE,
    JTOK_RBRACE,
    JTOK_EQ,
    JTOK_NE,
    JTOK_GT,
    JTOK_GTEQ,
    JTOK_LT,
    JTOK_LTEQ,
    JTOK_ASSIGN,
    JTOK_DOT,
    JTOK_COLON,
    JTOK_PIPE,
    JTOK_COMMA,
    JTOK_SEMICOLON,
    JTOK_IN,    /* operators only */
    JTOK_NOTIN, /* operators only */
} jtoken_type;

typedef struct jtoken {
    uint8_t type;
    uint32_t line;
    const jstr *text; /* DATA, NAME (interned), STRING */
    jval value;       /* INTEGER, FLOAT */
} jtoken;

/* ---- one rendering ---- */

struct jscope {
    jframe *frame;
    jval *slot; /* one a symbol of the frame */
    jscope *parent;
};

typedef enum jsignal { JSIG_NONE, JSIG_BREAK, JSIG_CONTINUE } jsignal;

struct jrun {
    tt_jinja_options o;
    tt_error *err;
    tt_arena arena;
    tt_buf out;
    uint64_t steps, next_clock;
    double deadline;
    uint32_t line;
    uint32_t depth; /* C recursion of eval, exec, print, compare */
    uint32_t calls; /* macros and recursive loops inside one another */
    jsignal signal;
    jdict *names;    /* interned names */
    jdict *vars;     /* the template's variables */
    jdict *exported; /* top-level assignments */
    jnodes blocks;
    jscope *root;
};

/* ---- jinja.c: limits and faults ---- */

#define J_TRY(expr) TT_TRY(expr)
#define J_NEW(r, ptr, count)                                                                       \
    do {                                                                                           \
        (ptr) = tt_jalloc((r), (size_t)(count), sizeof *(ptr));                                    \
        if ((ptr) == NULL)                                                                         \
            return tt_jmemory(r);                                                                  \
    } while (0)

void *tt_jalloc(jrun *r, size_t count, size_t size);
tt_status tt_jmemory(jrun *r); /* the failure of the allocation before it */
tt_status tt_jfail(jrun *r, const char *fmt, ...) TT_PRINTF(2, 3);
tt_status tt_jlimit(jrun *r, const char *fmt, ...) TT_PRINTF(2, 3);
tt_status tt_jcharge(jrun *r, uint64_t steps);
tt_status tt_jenter(jrun *r); /* one level of C recursion; pair with r->depth-- */
tt_status tt_jlex(jrun *r, const char *source, size_t len, jtoken **tokens);
tt_status tt_jparse(jrun *r, jtoken *tokens, jnode **tree);
tt_status tt_janalyze(jrun *r, jnode *tree);
tt_status tt_jexec(jrun *r, const jnodes *nodes, jscope *scope);
tt_status tt_jrender_root(jrun *r, jnode *tree);

/* ---- jinja_tree.c ---- */

/* Calls `fn` on every child, in the order in which Jinja2 visits them. */
tt_status tt_jchildren(jnode *n, tt_status (*fn)(jnode *child, void *ctx), void *ctx);
tt_status tt_jnodes_add(jrun *r, jnodes *list, jnode *n);

/* ---- jinja_value.c ---- */

#define J_NONE     ((jval){.type = JT_NONE})
#define J_MISSING  ((jval){.type = JT_MISSING})
#define J_BOOL(x)  ((jval){.type = JT_BOOL, .b = (x)})
#define J_INT(x)   ((jval){.type = JT_INT, .i = (x)})
#define J_FLOAT(x) ((jval){.type = JT_FLOAT, .f = (x)})
#define J_STR(x)   ((jval){.type = JT_STR, .s = (x)})
#define J_LIST(x)  ((jval){.type = JT_LIST, .list = (x)})
#define J_TUPLE(x) ((jval){.type = JT_TUPLE, .list = (x)})
#define J_DICT(x)  ((jval){.type = JT_DICT, .dict = (x)})
#define J_ITER(x)  ((jval){.type = JT_ITER, .iter = (x)})

const char *tt_jtype_name(jval v); /* Python's name of the type */
bool tt_jtruth(jval v);
bool tt_jis_int(jval v, int64_t *i); /* int or bool */
tt_status tt_jlist_new(jrun *r, uint32_t cap, jlist **out);
tt_status tt_jlist_add(jrun *r, jlist *l, jval v);
tt_status tt_jdict_new(jrun *r, jdict **out);
tt_status tt_jdict_set(jrun *r, jdict *d, jval k, jval v);
tt_status tt_jdict_get(jrun *r, const jdict *d, jval k, jval *out); /* JT_MISSING: not there */
jval tt_jdict_get_text(const jdict *d, const char *key, size_t len);
tt_status tt_jhash(jrun *r, jval v, uint64_t *hash); /* fails for unhashable values */
tt_status tt_jhashable(jrun *r, jval v, bool *yes);
tt_status tt_jequal(jrun *r, jval a, jval b, bool *eq);
/* op is JTOK_LT, JTOK_LTEQ, JTOK_GT or JTOK_GTEQ */
tt_status tt_jorder(jrun *r, int op, jval a, jval b, bool *yes);
tt_status tt_jcontains(jrun *r, jval item, jval container, bool *yes);
tt_status tt_jsame(jval a, jval b, bool *yes);
tt_status tt_jlength(jrun *r, jval v, int64_t *n); /* fails for values without a length */
bool tt_jhas_length(jval v);
tt_status tt_jundef(jrun *r, const char *hint, jval *out);
tt_status tt_jundef_name(jrun *r, const jstr *name, jval *out);
tt_status tt_jundef_of(jrun *r, jval obj, jval key, jval *out);
tt_status tt_jfail_undef(jrun *r, jval v); /* the error of using it */
tt_status tt_jfrom_json(jrun *r, const json_t *j, jval *out);

/* ---- jinja_iter.c ---- */

bool tt_jiterable(jval v);
tt_status tt_jiter(jrun *r, jval v, jiter **out); /* fails for values that cannot be iterated */
tt_status tt_jiter_reversed(jrun *r, jval v, jiter **out, bool *possible);
tt_status tt_jnext(jrun *r, jiter *it, jval *out, bool *more);
tt_status tt_jto_list(jrun *r, jval v, jlist **out); /* always a fresh list */
tt_status tt_jview_item(jrun *r, const jview *v, uint32_t i, jval *out);
jval tt_jrange_item(const jrange *g, int64_t i);
/* Python's slice of a sequence; `bound` holds start, stop, step. */
tt_status tt_jslice(jrun *r, jval v, const jval bound[3], jval *out);

/* ---- jinja_str.c, jinja_text.c ---- */

tt_status tt_jstr(jrun *r, const char *p, size_t n, jval *out); /* copies */
tt_status tt_jstr_borrow(jrun *r, const char *p, size_t n, jval *out);
tt_status tt_jstr_buf(jrun *r, tt_buf *b, jval *out); /* copies and frees the buffer */
jval tt_jstr_const(jrun *r, const char *text, tt_status *st);
tt_status tt_jconcat(jrun *r, const jstr *a, const jstr *b, jval *out);
tt_status tt_jsubstr(jrun *r, const jstr *s, size_t from, size_t to, jval *out); /* bytes */
size_t tt_jcp_offset(const jstr *s, size_t cp); /* byte offset of a code point */
size_t tt_jcp_index(const jstr *s, size_t offset);
uint32_t tt_jcp_next(const char **p); /* decodes valid UTF-8 */
uint32_t tt_jcp_prev(const char **p);
size_t tt_jcp_put(uint32_t cp, char out[4]);
bool tt_jstr_is(const jstr *s, const char *text);
const char *tt_jfind(const char *hay, size_t n, const char *needle, size_t m);
int tt_jstr_cmp(const jstr *a, const jstr *b);
tt_status tt_jstr_repeat(jrun *r, const jstr *s, int64_t times, jval *out);
tt_status tt_jstr_replace(jrun *r, const jstr *s, const jstr *old, const jstr *with, int64_t count,
                          jval *out);
tt_status tt_jstr_strip(jrun *r, const jstr *s, const jstr *chars, bool left, bool right,
                        jval *out);
tt_status tt_jstr_join(jrun *r, const jstr *sep, jval iterable, const jval *path, bool convert,
                       jval *out);
tt_status tt_jescape(jrun *r, jval v, jval *out); /* Markup */
const jbuiltin *tt_jstr_method(const jstr *name);
tt_status tt_jstr_lines(jrun *r, jval v, bool keep, jlist **out); /* splitlines */
tt_status tt_jstr_pad(jrun *r, jval v, int64_t left, int64_t right, const jstr *fill, jval *out);

/* ---- jinja_unicode.c ---- */

bool tt_jcp_space(uint32_t cp);
bool tt_jcp_printable(uint32_t cp);
bool tt_jcp_alpha(uint32_t cp);
bool tt_jcp_decimal(uint32_t cp);
bool tt_jcp_digit(uint32_t cp);
bool tt_jcp_numeric(uint32_t cp);
bool tt_jcp_lower(uint32_t cp);
bool tt_jcp_upper(uint32_t cp);
bool tt_jcp_title(uint32_t cp);
bool tt_jcp_cased(uint32_t cp);
bool tt_jcp_ignorable(uint32_t cp);
bool tt_jcp_name(uint32_t cp, bool first);
int tt_jcp_decimal_value(uint32_t cp); /* -1: none */
/* Full case mappings; return the number of code points written. */
typedef enum jcase { JCASE_LOWER, JCASE_UPPER, JCASE_TITLE, JCASE_FOLD } jcase;
unsigned tt_jcp_case(uint32_t cp, jcase how, uint32_t out[4]);
tt_status tt_jstr_case(jrun *r, const jstr *s, jcase how, jval *out);
tt_status tt_jstr_capitalize(jrun *r, const jstr *s, jval *out);
tt_status tt_jstr_title(jrun *r, const jstr *s, jval *out);
tt_status tt_jstr_swapcase(jrun *r, const jstr *s, jval *out);

/* ---- jinja_repr.c ---- */

tt_status tt_jto_str(jrun *r, jval v, jval *out); /* Python's str() */
tt_status tt_jprint(jrun *r, tt_buf *b, jval v);  /* appends str() */
tt_status tt_jrepr(jrun *r, tt_buf *b, jval v, bool ascii);
void tt_jfloat_repr(char out[40], double f);
/* printf of one double with a '.' whatever the locale; fmt is e, f or g */
void tt_jfloat_printf(tt_buf *b, char fmt, int precision, bool alternate, double f);
tt_status tt_jtojson(jrun *r, jval self, jval *a, const jargs *raw, jval *out);
/* Python's int(text, base) and float(text); *ok false when it is no number */
tt_status tt_jparse_int(jrun *r, const jstr *s, int base, int64_t *i, bool *ok);
bool tt_jparse_float(const jstr *s, double *f);

/* Sorts items by their keys, stably; fails where keys cannot be compared. */
tt_status tt_jsort(jrun *r, jval *items, jval *keys, uint32_t n, bool reverse);

/* ---- jinja_num.c ---- */

tt_status tt_jarith(jrun *r, int op, jval a, jval b, jval *out);
tt_status tt_jneg(jrun *r, jval v, jval *out);
tt_status tt_jpos(jrun *r, jval v, jval *out);
tt_status tt_jround(jrun *r, double f, int64_t digits, double *out);
tt_status tt_jint_pow(jrun *r, int64_t base, int64_t exp, int64_t *out);
int tt_jnum_cmp(jval a, jval b); /* int, bool or float: -1, 0, 1; 2 when unordered */

/* ---- jinja_format.c ---- */

tt_status tt_jpercent(jrun *r, jval fmt, jval args, jval *out);
tt_status tt_jformat(jrun *r, jval fmt, const jargs *args, jval *out);

/* ---- jinja_attr.c, jinja_call.c, jinja_filter*.c, jinja_is.c, jinja_method.c ---- */

tt_status tt_jgetattr(jrun *r, jval obj, const jstr *name, jval *out);
tt_status tt_jgetitem(jrun *r, jval obj, jval key, jval *out);
tt_status tt_jattr_path(jrun *r, jval attribute, jlist **path);
tt_status tt_jattr_walk(jrun *r, jval v, const jlist *path, jval dflt, jval *out);
tt_status tt_jbind(jrun *r, const char *what, const char *spec, const jargs *args, jval *a);
tt_status tt_jinvoke(jrun *r, const jbuiltin *b, jval self, const jargs *args, jval *out);
tt_status tt_jcall(jrun *r, jval fn, const jargs *args, jval *out);
tt_status tt_jcall_macro(jrun *r, const jmacro *m, const jargs *args, jval *out);
tt_status tt_jloop_recurse(jrun *r, jloop *loop, jval iterable, jval *out);
tt_status tt_jloop_attr(jrun *r, jloop *loop, const jstr *name, jval *out); /* MISSING: none */
const jbuiltin *tt_jfilter(const jstr *name);
const jbuiltin *tt_jfilter_seq(const jstr *name);
const jbuiltin *tt_jtest(const jstr *name);
const jbuiltin *tt_jglobal(const char *name, size_t len);
const jbuiltin *tt_jmethod(jval v, const jstr *name);
const jbuiltin *tt_jbuiltin_find(const jbuiltin *table, const jstr *name);

/* ---- jinja_eval.c ---- */

tt_status tt_jeval(jrun *r, jnode *n, jscope *scope, jval *out);
/* A call with the keyword argument `caller` added. */
tt_status tt_jeval_call(jrun *r, jnode *n, jscope *scope, jval caller, jval *out);
/* A filter or test; `block` is what the innermost filter of a filter or set block works on. */
tt_status tt_jeval_filter(jrun *r, jnode *n, jscope *scope, const jval *block, jval *out);
tt_status tt_jassign(jrun *r, jnode *target, jscope *scope, jval v);
tt_status tt_jscope_new(jrun *r, jframe *frame, jscope *parent, jscope **out);
jval *tt_jscope_slot(jscope *scope, const jstr *name);

#define J_MAX_PARAMS      8      /* of a builtin */
#define J_MAX_PARSE_DEPTH 100    /* brackets and blocks inside one another */
#define J_MAX_NODE_DEPTH  400    /* syntax tree; published templates stay under 40 */
#define J_MAX_RECURSION   1500   /* evaluation; stays under 1 MiB of stack */
#define J_MAX_RANGE       100000 /* as in Jinja2's sandbox */

#endif
