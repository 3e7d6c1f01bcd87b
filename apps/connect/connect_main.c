/* tinytitan-connect: tells a client where the server is. Without --write it prints what it would
 * write. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/args.h"
#include "base/file.h"
#include "connect/connect_clients.h"
#include "connect/connect_files.h"
#include "connect/settings_json.h"

#define MOST_KEY 513u

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

typedef struct options {
    bool write, help, version;
    uint32_t port, context;
    const char *model, *key_file;
} options;

static int fail(const tt_error *err)
{
    bool named = err->file[0] == '\0' || strstr(err->message, err->file) != NULL;
    fprintf(stderr, "tinytitan-connect: %s%s%s\n", named ? "" : err->file, named ? "" : ": ",
            err->message);
    return EXIT_FAILED;
}

static void fill_table(tt_arg table[16], options *o)
{
    const tt_arg rows[] = {
        TT_OPT_HEADING("Options"),
        TT_OPT_FLAG("write", &o->write,
                    "write the settings, and keep what was there beside it; without this they are "
                    "printed"),
        TT_OPT_U32("port", &o->port, "N", 1, 65535, "of the server on 127.0.0.1 (default 8080)"),
        TT_OPT_STRING("model", &o->model, "ID",
                      "the model to begin with (default: the one that the server has in memory)"),
        TT_OPT_U32("context", &o->context, "N", 1, 4194304,
                   "its context, when no server is to be asked"),
        TT_OPT_STRING("api-key-file", &o->key_file, "FILE",
                      "the file that the server has its key from; settings name it and do not hold "
                      "the key"),
        TT_OPT_STOP("version", &o->version, "print the version"),
        TT_OPT_STOP("help", &o->help, "print this"),
        TT_OPT_END,
    };
    memcpy(table, rows, sizeof rows);
}

static int print_help(void)
{
    tt_arg table[16];
    options o;
    tt_buf b;
    tt_buf_init(&b, 1 << 16);
    fill_table(table, &o);
    tt_buf_puts(&b, "tinytitan-connect: settings of clients for TinyTitanServer.\n\n"
                    "  tinytitan-connect CLIENT [options]\n\nClients\n");
    for (const tt_connect_client *c = tt_connect_clients; c->name != NULL; c++)
        tt_buf_printf(&b, "  %-12s %s\n", c->name, c->title);
    tt_buf_putc(&b, '\n');
    tt_args_help(table, &b);
    tt_buf_puts(&b,
                "\nEnvironment: HOME, XDG_CONFIG_HOME, CODEX_HOME and CLAUDE_CONFIG_DIR say where\n"
                "clients keep their settings.\n"
                "Exit: 1 failed, 2 wrong command line.\n");
    bool ok = b.failed == TT_OK && fwrite(b.data, 1, b.len, stdout) == b.len;
    tt_buf_free(&b);
    return ok && fflush(stdout) == 0 ? EXIT_DONE : EXIT_FAILED;
}

/* ---- what is wished ---- */

static tt_status read_key(const char *path, char key[MOST_KEY], tt_error *err)
{
    char *text = NULL;
    size_t len = 0;
    TT_TRY(tt_file_read(path, MOST_KEY, &text, &len, err));
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    bool ok = len > 0 && len < MOST_KEY;
    for (size_t i = 0; i < len; i++)
        ok = ok && text[i] > ' ' && text[i] <= '~';
    if (ok) {
        memcpy(key, text, len);
        key[len] = '\0';
    }
    tt_free(text);
    return ok ? TT_OK
              : tt_fail_at(err, TT_ERR_INVALID, path, -1,
                           "holds no key of 1 to 512 visible characters");
}

static tt_status choose_models(const options *o, const char *key, tt_connect_models *m,
                               tt_error *err)
{
    if (o->model != NULL && o->context > 0) {
        *m = (tt_connect_models){.n = 1};
        m->list[0].context = o->context;
        if (strlen(o->model) >= sizeof m->list[0].id)
            return tt_fail(err, TT_ERR_INVALID, "--model has more than 127 characters");
        snprintf(m->list[0].id, sizeof m->list[0].id, "%s", o->model);
        return TT_OK;
    }
    TT_TRY(tt_connect_ask((uint16_t)o->port, key, m, err));
    for (size_t i = 0; o->model != NULL && i <= m->n; i++) {
        if (i == m->n)
            return tt_fail(err, TT_ERR_NOT_FOUND,
                           "the server has no model %.127s that can be loaded", o->model);
        m->chosen = i;
        if (strcmp(m->list[i].id, o->model) == 0)
            break;
    }
    return TT_OK;
}

/* Settings name the key's file, from wherever the client is started. */
static tt_status absolute(const char *path, char out[TT_MAX_PATH], tt_error *err)
{
    char *real = realpath(path, NULL);
    bool fits = real != NULL && strlen(real) < TT_MAX_PATH && strchr(real, '\'') == NULL;
    if (fits)
        strcpy(out, real);
    int e = errno;
    bool found = real != NULL;
    free(real);
    if (!found)
        return tt_fail_errno(err, e, path, "the key cannot be read");
    return fits ? TT_OK
                : tt_fail_at(err, TT_ERR_INVALID, path, -1,
                             "the path of a key must be shorter and have no quote in it");
}

/* ---- printing and writing ---- */

/* The edits as one object, as they will stand there. */
static tt_status print_edits(const tt_connect_plan *p, tt_error *err)
{
    tt_buf text;
    tt_buf_init(&text, TT_SETTINGS_MAX);
    tt_status st = tt_connect_apply(p, &text, err);
    if (st == TT_OK)
        fwrite(text.data, 1, text.len, stdout);
    tt_buf_free(&text);
    return st;
}

static void print_notes(const tt_connect_plan *p)
{
    if (p->notes.len > 0)
        printf("\nThen:\n\n    ");
    for (size_t i = 0; i < p->notes.len; i++) {
        putchar(p->notes.data[i]);
        if (p->notes.data[i] == '\n' && i + 1 < p->notes.len)
            printf("    ");
    }
}

static int print_plan(const tt_connect_plan *p)
{
    tt_error err = {.offset = -1};
    if (p->path[0] == '\0') {
        fwrite(p->text.data, 1, p->text.len, stdout);
        return fflush(stdout) == 0 ? EXIT_DONE : EXIT_FAILED;
    }
    printf("%s %s:\n\n", p->n > 0 ? "Into" : "The whole of", p->path);
    if (p->n == 0)
        fwrite(p->text.data, 1, p->text.len, stdout);
    else if (print_edits(p, &err) != TT_OK)
        return fail(&err);
    print_notes(p);
    printf("\n--write writes it.\n");
    return fflush(stdout) == 0 ? EXIT_DONE : EXIT_FAILED;
}

static tt_status make_text(const tt_connect_plan *p, tt_buf *text, bool *same, tt_error *err)
{
    tt_buf old;
    bool exists = false;
    tt_buf_init(&old, TT_SETTINGS_MAX);
    tt_status st = tt_connect_read(p->path, &old, &exists, err);
    if (st == TT_OK && p->n == 0)
        tt_buf_append(text, p->text.data, p->text.len);
    else if (st == TT_OK) {
        tt_buf_append(text, old.data, old.len);
        st = tt_connect_apply(p, text, err);
    }
    if (st == TT_OK)
        st = tt_buf_status(text, err);
    *same = exists && st == TT_OK && old.len == text->len &&
            (old.len == 0 || memcmp(old.data, text->data, old.len) == 0);
    tt_buf_free(&old);
    return st;
}

static int write_plan(const tt_connect_plan *p)
{
    tt_error err = {.offset = -1};
    char copy[TT_MAX_PATH + 64];
    tt_buf text;
    bool same = false;
    tt_buf_init(&text, TT_SETTINGS_MAX);
    tt_status st = make_text(p, &text, &same, &err);
    if (st == TT_OK && !same)
        st = tt_connect_write(p->path, &text, copy, &err);
    tt_buf_free(&text);
    if (st != TT_OK)
        return fail(&err);
    if (same)
        printf("%s says so already; nothing was changed\n", p->path);
    else if (copy[0] != '\0')
        printf("%s is written; what was there is in %s\n", p->path, copy);
    else
        printf("%s is written\n", p->path);
    print_notes(p);
    return fflush(stdout) == 0 ? EXIT_DONE : EXIT_FAILED;
}

static int run(const tt_connect_client *c, const options *o)
{
    tt_error err = {.offset = -1};
    char key[MOST_KEY] = "", key_file[TT_MAX_PATH];
    static tt_connect_wish w;
    static tt_connect_plan p;
    w.port = (uint16_t)o->port;
    w.home = getenv("HOME");
    w.config_home = getenv("XDG_CONFIG_HOME");
    w.codex_home = getenv("CODEX_HOME");
    w.claude_dir = getenv("CLAUDE_CONFIG_DIR");
    if (o->key_file != NULL) {
        if (read_key(o->key_file, key, &err) != TT_OK ||
            absolute(o->key_file, key_file, &err) != TT_OK)
            return fail(&err);
        w.key_file = key_file;
    }
    if (choose_models(o, o->key_file != NULL ? key : NULL, &w.models, &err) != TT_OK)
        return fail(&err);
    tt_status st = tt_connect_make(c, &w, &p, &err);
    int rc = st != TT_OK ? fail(&err) : o->write ? write_plan(&p) : print_plan(&p);
    tt_connect_plan_free(&p);
    return rc;
}

static const tt_connect_client *find_client(const char *name)
{
    for (const tt_connect_client *c = tt_connect_clients; c->name != NULL; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

int main(int argc, char **argv)
{
    tt_error err = {.offset = -1};
    tt_arg table[16];
    options o = {.port = 8080};
    bool named = argc > 1 && argv[1][0] != '-';
    const tt_connect_client *c = named ? find_client(argv[1]) : NULL;
    fill_table(table, &o);
    tt_status st = tt_args_parse(table, argc - 1 - named, argv + 1 + named, &err);
    if (st == TT_OK && o.help)
        return print_help();
    if (st == TT_OK && o.version)
        return printf("tinytitan-connect %s\n", tt_version()) > 0 ? EXIT_DONE : EXIT_FAILED;
    if (st == TT_OK && c == NULL)
        st = named ? tt_fail(&err, TT_ERR_INVALID, "no client %.40s; --help lists them", argv[1])
                   : tt_fail(&err, TT_ERR_INVALID, "which client? --help lists them");
    if (st == TT_OK && o.write && strcmp(c->name, "sdk") == 0)
        st = tt_fail(&err, TT_ERR_INVALID, "the SDKs have no settings file to --write");
    if (st == TT_OK && o.context > 0 && o.model == NULL)
        st = tt_fail(&err, TT_ERR_INVALID, "--context is of a --model");
    if (st != TT_OK) {
        fprintf(stderr, "tinytitan-connect: %s\n", err.message);
        return EXIT_USAGE;
    }
    return run(c, &o);
}
