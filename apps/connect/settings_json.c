#include "connect/settings_json.h"

#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

typedef struct scan {
    const char *text;
    size_t len, at;
    const char *wrong; /* what is missing at `at`; NULL: nothing so far */
} scan;

typedef struct span {
    size_t begin, end;
} span;

static bool fault(scan *s, const char *what)
{
    if (s->wrong == NULL)
        s->wrong = what;
    return false;
}

static char peek(const scan *s)
{
    return s->at < s->len ? s->text[s->at] : '\0';
}

/* A comment that begins here is passed over. */
static bool skip_comment(scan *s)
{
    const char *from = s->text + s->at, *end;
    size_t left = s->len - s->at;
    if (left < 2 || from[0] != '/' || (from[1] != '/' && from[1] != '*'))
        return false;
    if (from[1] == '/') {
        end = memchr(from, '\n', left);
        s->at = end != NULL ? (size_t)(end - s->text) : s->len;
        return true;
    }
    end = memmem(from + 2, left - 2, "*/", 2);
    if (end == NULL) {
        (void)fault(s, "the end of a comment");
        s->at = s->len;
        return false;
    }
    s->at = (size_t)(end - s->text) + 2;
    return true;
}

static void skip(scan *s)
{
    do {
        while (s->at < s->len && strchr(" \t\r\n", s->text[s->at]) != NULL &&
               s->text[s->at] != '\0')
            s->at++;
    } while (skip_comment(s));
}

static bool scan_string(scan *s)
{
    for (s->at++; s->at < s->len && s->text[s->at] != '"'; s->at++) {
        if ((unsigned char)s->text[s->at] < ' ')
            return fault(s, "the end of a text");
        if (s->text[s->at] == '\\')
            s->at++;
    }
    if (s->at >= s->len) {
        s->at = s->len;
        return fault(s, "the end of a text");
    }
    s->at++;
    return true;
}

/* Numbers and words; what they are is looked at when the whole is read as a tree. */
static bool scan_word(scan *s)
{
    size_t from = s->at;
    while (s->at < s->len && s->text[s->at] != '\0' &&
           strchr("+-.0123456789abcdefghijklmnopqrstuvwxyzE", s->text[s->at]) != NULL)
        s->at++;
    return s->at > from || fault(s, "a value");
}

static bool scan_value(scan *s, unsigned depth);

/* After an element: true when another one follows, or is wrong. */
static bool more(scan *s, char close)
{
    skip(s);
    if (peek(s) == ',') {
        s->at++;
        skip(s);
        return peek(s) != close;
    }
    if (peek(s) != close)
        return fault(s, close == '}' ? "a comma or }" : "a comma or ]");
    return false;
}

static bool scan_key(scan *s)
{
    if (peek(s) != '"')
        return fault(s, "a name in quotes");
    if (!scan_string(s))
        return false;
    skip(s);
    if (peek(s) != ':')
        return fault(s, "a colon");
    s->at++;
    skip(s);
    return true;
}

static bool scan_group(scan *s, unsigned depth, char close)
{
    if (depth == TT_SETTINGS_DEPTH)
        return fault(s, "less nesting");
    s->at++;
    skip(s);
    for (bool next = peek(s) != close; next; next = more(s, close))
        if ((close == '}' && !scan_key(s)) || !scan_value(s, depth + 1))
            return false;
    if (s->wrong != NULL || peek(s) != close)
        return fault(s, close == '}' ? "}" : "]");
    s->at++;
    return true;
}

static bool scan_value(scan *s, unsigned depth)
{
    char c = peek(s);
    return c == '{'   ? scan_group(s, depth, '}')
           : c == '[' ? scan_group(s, depth, ']')
           : c == '"' ? scan_string(s)
                      : scan_word(s);
}

static tt_status tell(const scan *s, const char *file, tt_error *err)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < s->at && i < s->len; i++) {
        column = s->text[i] == '\n' ? 1 : column + 1;
        line += s->text[i] == '\n';
    }
    return tt_fail_at(err, TT_ERR_FORMAT, file, (int64_t)s->at,
                      "is damaged: line %zu, column %zu lacks %s; it was left as it is", line,
                      column, s->wrong);
}

/* The span of the object that the text is; false when there are only blanks, or with s->wrong. */
static bool find_root(scan *s, span *root)
{
    if (s->len >= 3 && memcmp(s->text, "\xef\xbb\xbf", 3) == 0)
        s->at = 3;
    skip(s);
    if (s->wrong != NULL || s->at == s->len)
        return false;
    if (peek(s) != '{')
        return fault(s, "an object");
    root->begin = s->at;
    if (!scan_value(s, 0))
        return false;
    root->end = s->at;
    skip(s);
    return s->wrong == NULL && (s->at == s->len || fault(s, "the end of the file"));
}

/* ---- as a tree ---- */

/* What a reader without comments and commas at the end takes. */
static void clean(const char *text, span v, tt_buf *out)
{
    scan s = {.text = text, .len = v.end, .at = v.begin};
    while (skip(&s), s.at < s.len) {
        size_t from = s.at;
        char c = peek(&s);
        if (c == '"')
            (void)scan_string(&s);
        else
            s.at++;
        if (c == ',') {
            skip(&s);
            if (peek(&s) == '}' || peek(&s) == ']')
                continue;
            tt_buf_putc(out, ',');
        } else {
            tt_buf_append(out, text + from, s.at - from);
            /* Two words must not become one. */
            if (c != '"' && s.at < s.len && strchr(" \t\r\n/", text[s.at]) != NULL)
                tt_buf_putc(out, ' ');
        }
    }
}

static json_t *tree_of(const char *text, span v)
{
    tt_buf b;
    json_error_t ignored;
    tt_buf_init(&b, TT_SETTINGS_MAX + 2);
    clean(text, v, &b);
    json_t *tree = b.failed == TT_OK && b.len > 0
                       ? json_loadb(b.data, b.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &ignored)
                       : NULL;
    tt_buf_free(&b);
    return tree;
}

tt_status tt_settings_load(const tt_buf *text, const char *file, json_t **out, tt_error *err)
{
    scan s = {.text = text->data != NULL ? text->data : "", .len = text->len};
    span root;
    bool there = find_root(&s, &root);
    if (s.wrong != NULL)
        return tell(&s, file, err);
    json_t *tree = there ? tree_of(s.text, root) : json_object();
    if (tree == NULL)
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                          "is damaged: a text, number or word in it is none; it was left as it is");
    *out = tree;
    return TT_OK;
}

tt_status tt_settings_check(const tt_buf *text, const char *file, tt_error *err)
{
    json_t *tree = NULL;
    TT_TRY(tt_settings_load(text, file, &tree, err));
    json_decref(tree);
    return TT_OK;
}

/* ---- finding ---- */

typedef struct member {
    span key, value;
    size_t comma; /* behind the value, or 0 */
} member;

static bool key_is(const char *text, span key, const char *name)
{
    json_t *decoded = tree_of(text, key);
    bool same = json_is_string(decoded) && strcmp(json_string_value(decoded), name) == 0;
    json_decref(decoded);
    return same;
}

/* The next member of an object, or element of an array, after *at; false at its end. The whole was
 * read before, so nothing can be wrong. */
static bool step(const char *text, span group, size_t *at, member *m)
{
    scan s = {.text = text, .len = group.end, .at = *at == 0 ? group.begin + 1 : *at};
    bool object = text[group.begin] == '{';
    skip(&s);
    if (s.at + 1 >= group.end)
        return false;
    m->key.begin = s.at;
    if (object) {
        (void)scan_string(&s);
        m->key.end = s.at;
        skip(&s);
        s.at++;
        skip(&s);
    }
    m->value.begin = s.at;
    (void)scan_value(&s, 0);
    m->value.end = s.at;
    skip(&s);
    m->comma = peek(&s) == ',' ? s.at : 0;
    *at = m->comma != 0 ? m->comma + 1 : s.at;
    return true;
}

static bool find_member(const char *text, span object, const char *name, member *out)
{
    member m;
    bool found = false;
    for (size_t at = 0; step(text, object, &at, &m);)
        if (key_is(text, m.key, name)) {
            *out = m;
            found = true;
        }
    return found;
}

static bool last_member(const char *text, span group, member *out)
{
    bool found = false;
    for (size_t at = 0; step(text, group, &at, out);)
        found = true;
    return found;
}

/* ---- writing ---- */

typedef struct style {
    const char *line_end;
    char unit[9]; /* of indentation */
} style;

static style style_of(const tt_buf *text, span root)
{
    style st = {.line_end = "\n", .unit = "  "};
    member m;
    size_t at = 0;
    if (memmem(text->data, text->len, "\r\n", 2) != NULL)
        st.line_end = "\r\n";
    if (!step(text->data, root, &at, &m))
        return st;
    size_t from = m.key.begin;
    while (from > 0 && (text->data[from - 1] == ' ' || text->data[from - 1] == '\t'))
        from--;
    size_t n = m.key.begin - from;
    if (n > 0 && n < sizeof st.unit && from > 0 && text->data[from - 1] == '\n') {
        memcpy(st.unit, text->data + from, n);
        st.unit[n] = '\0';
    }
    return st;
}

/* The blanks that the line of this place begins with. */
static void indent_of(const char *text, size_t at, tt_buf *out)
{
    size_t begin = at, n = 0;
    while (begin > 0 && text[begin - 1] != '\n')
        begin--;
    while (begin + n < at && (text[begin + n] == ' ' || text[begin + n] == '\t'))
        n++;
    tt_buf_append(out, text + begin, n);
}

static void break_line(const style *st, const char *indent, unsigned level, tt_buf *out)
{
    tt_buf_puts(out, st->line_end);
    tt_buf_puts(out, indent);
    while (level-- > 0)
        tt_buf_puts(out, st->unit);
}

static void write_scalar(const json_t *v, tt_buf *out)
{
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    if (text == NULL)
        out->failed = TT_ERR_NOMEM;
    else
        tt_buf_puts(out, text);
    free(text);
}

static void write_name(const char *name, tt_buf *out)
{
    json_t *text = json_string(name);
    write_scalar(text, out);
    json_decref(text);
    tt_buf_puts(out, ": ");
}

static void write_value(const json_t *v, const style *st, const char *indent, unsigned level,
                        tt_buf *out)
{
    const char *name;
    json_t *item;
    size_t i;
    if ((!json_is_object(v) || json_object_size(v) == 0) &&
        (!json_is_array(v) || json_array_size(v) == 0)) {
        write_scalar(v, out);
        return;
    }
    tt_buf_putc(out, json_is_object(v) ? '{' : '[');
    bool first = true;
    json_object_foreach((json_t *)v, name, item)
    {
        tt_buf_puts(out, first ? "" : ",");
        break_line(st, indent, level + 1, out);
        write_name(name, out);
        write_value(item, st, indent, level + 1, out);
        first = false;
    }
    json_array_foreach(v, i, item)
    {
        tt_buf_puts(out, i == 0 ? "" : ",");
        break_line(st, indent, level + 1, out);
        write_value(item, st, indent, level + 1, out);
    }
    break_line(st, indent, level, out);
    tt_buf_putc(out, json_is_object(v) ? '}' : ']');
}

/* Puts `with` in the place of [from, to). */
static tt_status splice(tt_buf *text, size_t from, size_t to, const tt_buf *with, tt_error *err)
{
    tt_buf b;
    TT_TRY(tt_buf_status(with, err));
    tt_buf_init(&b, TT_SETTINGS_MAX);
    tt_buf_append(&b, text->data, from);
    tt_buf_append(&b, with->data, with->len);
    tt_buf_append(&b, text->data + to, text->len - to);
    tt_status st = tt_buf_status(&b, err);
    if (st != TT_OK) {
        tt_buf_free(&b);
        return st;
    }
    tt_buf_free(text);
    *text = b;
    return TT_OK;
}

/* Behind the value: what belongs to its line, a comment, is passed, so that it stays where it is.
 */
static size_t behind(const char *text, size_t len, size_t at)
{
    size_t end = at;
    scan s = {.text = text, .len = len, .at = at};
    for (;;) {
        while (s.at < len && (text[s.at] == ' ' || text[s.at] == '\t'))
            s.at++;
        if (!skip_comment(&s) || memchr(text + end, '\n', s.at - end) != NULL)
            return end;
        end = s.at;
    }
}

/* Whether a group and its last member begin on one line. */
static bool on_one_line(const tt_buf *text, span group, const member *last)
{
    return memchr(text->data + group.begin, '\n', last->key.begin - group.begin) == NULL;
}

/* A new last member of an object, whose text is `item`. */
static tt_status append_item(tt_buf *text, span group, const style *st, const tt_buf *item,
                             tt_error *err)
{
    tt_buf b, indent;
    member last;
    tt_buf_init(&b, TT_SETTINGS_MAX);
    tt_buf_init(&indent, TT_SETTINGS_MAX);
    tt_buf_puts(&indent, "");
    size_t from, to;
    if (last_member(text->data, group, &last)) {
        bool line = on_one_line(text, group, &last);
        from = last.comma != 0 ? last.comma + 1 : last.value.end;
        to = behind(text->data, group.end, from);
        indent_of(text->data, last.key.begin, &indent);
        tt_buf_puts(&b, last.comma != 0 ? "" : ",");
        tt_buf_append(&b, text->data + from, to - from);
        break_line(st, indent.data, line ? 1 : 0, &b);
        tt_buf_append(&b, item->data, item->len);
        tt_buf_puts(&b, last.comma != 0 ? "," : "");
        if (line)
            break_line(st, indent.data, 0, &b);
    } else {
        to = from = group.end - 1;
        while (from > group.begin + 1 && strchr(" \t\r\n", text->data[from - 1]) != NULL)
            from--;
        indent_of(text->data, group.begin, &indent);
        break_line(st, indent.data, 1, &b);
        tt_buf_append(&b, item->data, item->len);
        break_line(st, indent.data, 0, &b);
    }
    tt_status status = splice(text, from, to, &b, err);
    tt_buf_free(&b);
    tt_buf_free(&indent);
    return status;
}

/* The indentation that the members of a group have, or will have. */
static void inner_indent(const tt_buf *text, span group, const style *st, tt_buf *out)
{
    member last;
    bool any = last_member(text->data, group, &last);
    indent_of(text->data, any ? last.key.begin : group.begin, out);
    if (!any || on_one_line(text, group, &last))
        tt_buf_puts(out, st->unit);
}

static tt_status add_member(tt_buf *text, span object, const style *st, const char *const *path,
                            const json_t *value, tt_error *err)
{
    tt_buf item, indent;
    json_t *v = json_incref((json_t *)value);
    size_t n = 0;
    while (path[n + 1] != NULL)
        n++;
    for (; n > 0; n--)
        v = json_pack("{s:o}", path[n], v);
    tt_buf_init(&item, TT_SETTINGS_MAX);
    tt_buf_init(&indent, TT_SETTINGS_MAX);
    tt_buf_puts(&indent, "");
    inner_indent(text, object, st, &indent);
    write_name(path[0], &item);
    write_value(v, st, indent.data, 0, &item);
    tt_status status = append_item(text, object, st, &item, err);
    json_decref(v);
    tt_buf_free(&item);
    tt_buf_free(&indent);
    return status;
}

/* ---- changing ---- */

typedef struct place {
    span object;             /* the last one on the way that is there */
    const char *const *rest; /* of the path, from that object's member on */
    member m;                /* of rest[0] and the path's last, when there */
    bool found;
    style st;
} place;

static tt_status not_object(const char *name, const char *file, tt_error *err)
{
    return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                      "\"%s\" in it is no object; it was left as it is", name);
}

static tt_status find_place(tt_buf *text, const char *const *path, const char *file, place *p,
                            tt_error *err)
{
    TT_TRY(tt_settings_check(text, file, err));
    scan s = {.text = text->data != NULL ? text->data : "", .len = text->len};
    if (!find_root(&s, &p->object)) {
        /* A comment may be all there is. */
        bool ended = text->len == 0 || text->data[text->len - 1] == '\n';
        tt_buf_puts(text, ended ? "{}\n" : "\n{}\n");
        TT_TRY(tt_buf_status(text, err));
        s = (scan){.text = text->data, .len = text->len};
        (void)find_root(&s, &p->object);
    }
    p->st = style_of(text, p->object);
    for (p->rest = path;; p->rest++) {
        p->found = find_member(text->data, p->object, p->rest[0], &p->m);
        if (!p->found || p->rest[1] == NULL)
            return TT_OK;
        if (text->data[p->m.value.begin] != '{')
            return not_object(p->rest[0], file, err);
        p->object = p->m.value;
    }
}

static tt_status put_value(tt_buf *text, const place *p, const json_t *value, tt_error *err)
{
    tt_buf b, indent;
    tt_buf_init(&b, TT_SETTINGS_MAX);
    tt_buf_init(&indent, TT_SETTINGS_MAX);
    tt_buf_puts(&indent, "");
    indent_of(text->data, p->m.key.begin, &indent);
    write_value(value, &p->st, indent.data, 0, &b);
    tt_status st = splice(text, p->m.value.begin, p->m.value.end, &b, err);
    tt_buf_free(&b);
    tt_buf_free(&indent);
    return st;
}

tt_status tt_settings_set(tt_buf *text, const char *const *path, const json_t *value,
                          const char *file, tt_error *err)
{
    place p;
    TT_TRY(find_place(text, path, file, &p, err));
    if (!p.found)
        return add_member(text, p.object, &p.st, p.rest, value, err);
    json_t *now = tree_of(text->data, p.m.value);
    bool same = json_equal(now, value);
    json_decref(now);
    return same ? TT_OK : put_value(text, &p, value, err);
}

/* The last of that name, with its line and the comma on one side of it. */
static tt_status remove_one(tt_buf *text, const place *p, tt_error *err)
{
    member m, before = {0};
    bool first = true;
    tt_buf none = {0};
    for (size_t at = 0; step(text->data, p->object, &at, &m) && m.key.begin < p->m.key.begin;
         first = false)
        before = m;
    size_t from = p->m.key.begin, to = p->m.comma != 0 ? p->m.comma + 1 : p->m.value.end;
    if (p->m.comma == 0 && !first)
        from = before.comma;
    else
        while (from > 0 && strchr(" \t\r\n", text->data[from - 1]) != NULL)
            from--;
    return splice(text, from, to, &none, err);
}

tt_status tt_settings_remove(tt_buf *text, const char *const *path, const char *file, tt_error *err)
{
    place p;
    /* Without the last of a name the one before it would count. */
    for (;;) {
        TT_TRY(find_place(text, path, file, &p, err));
        if (!p.found)
            return TT_OK;
        TT_TRY(remove_one(text, &p, err));
    }
}

/* ---- arrays ---- */

static bool is_ours(const json_t *v, const char *key, const char *ours)
{
    const char *text = json_string_value(json_object_get(v, key));
    return text != NULL && strcmp(text, ours) == 0;
}

/* The array anew: elements of others as they were written, then ours. */
static tt_status rebuild(tt_buf *text, const place *p, const char *key, const char *ours,
                         const json_t *values, tt_error *err)
{
    tt_buf b, indent;
    member m;
    size_t at = 0, n = 0, i;
    json_t *v;
    tt_buf_init(&b, TT_SETTINGS_MAX);
    tt_buf_init(&indent, TT_SETTINGS_MAX);
    tt_buf_puts(&indent, "");
    indent_of(text->data, p->m.key.begin, &indent);
    tt_buf_putc(&b, '[');
    while (step(text->data, p->m.value, &at, &m)) {
        json_t *tree = tree_of(text->data, m.value);
        bool out = is_ours(tree, key, ours);
        json_decref(tree);
        if (out)
            continue;
        tt_buf_puts(&b, n++ > 0 ? "," : "");
        break_line(&p->st, indent.data, 1, &b);
        tt_buf_append(&b, text->data + m.value.begin, m.value.end - m.value.begin);
    }
    json_array_foreach(values, i, v)
    {
        tt_buf_puts(&b, n++ > 0 ? "," : "");
        break_line(&p->st, indent.data, 1, &b);
        write_value(v, &p->st, indent.data, 1, &b);
    }
    if (n > 0)
        break_line(&p->st, indent.data, 0, &b);
    tt_buf_putc(&b, ']');
    tt_status st = splice(text, p->m.value.begin, p->m.value.end, &b, err);
    tt_buf_free(&b);
    tt_buf_free(&indent);
    return st;
}

tt_status tt_settings_replace(tt_buf *text, const char *const *path, const char *key,
                              const char *ours, const json_t *values, const char *file,
                              tt_error *err)
{
    place p;
    size_t i;
    json_t *v;
    TT_TRY(find_place(text, path, file, &p, err));
    if (!p.found)
        return add_member(text, p.object, &p.st, p.rest, values, err);
    json_t *now = tree_of(text->data, p.m.value), *mine = json_array();
    bool is_array = json_is_array(now);
    json_array_foreach(now, i, v) if (is_ours(v, key, ours)) json_array_append(mine, v);
    bool same = json_equal(mine, values);
    json_decref(now);
    json_decref(mine);
    if (!is_array)
        return tt_fail_at(err, TT_ERR_FORMAT, file, -1,
                          "\"%s\" in it is no array; it was left as it is", p.rest[0]);
    return same ? TT_OK : rebuild(text, &p, key, ours, values, err);
}
