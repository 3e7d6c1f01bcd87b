#include "cli/text_out.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/args.h"
#include "base/limits.h"
#include "cli/controls.h"

#define NAME "TinyTitanCLI"

static struct {
    bool quiet, out_terminal, err_terminal;
    bool mid_line;        /* standard output stands inside a line */
    bool progress;        /* a progress line stands on the terminal */
    int failed;           /* errno of the write that failed */
    tt_controls controls; /* of standard output */
} out;

void tt_out_init(bool quiet)
{
    out.quiet = quiet;
    out.out_terminal = isatty(STDOUT_FILENO) == 1;
    out.err_terminal = isatty(STDERR_FILENO) == 1;
}

/* As a terminal may show it; false when it was not written. */
static bool write_shown(FILE *to, tt_controls *controls, const char *text, size_t len)
{
    tt_buf b;
    tt_buf_init(&b, 4 * TT_GIB);
    tt_controls_show(controls, text, len, &b);
    bool ok = tt_buf_status(&b, NULL) == TT_OK;
    if (!ok)
        errno = ENOMEM;
    ok = ok && (b.len == 0 || fwrite(b.data, 1, b.len, to) == b.len);
    tt_buf_free(&b);
    return ok;
}

bool tt_out_text(const char *text, size_t len)
{
    if (out.failed != 0)
        return false;
    if (len == 0)
        return true;
    tt_out_progress_end();
    bool ok = out.out_terminal ? write_shown(stdout, &out.controls, text, len)
                               : fwrite(text, 1, len, stdout) == len;
    if (!ok || fflush(stdout) != 0) {
        out.failed = errno != 0 ? errno : EIO;
        return false;
    }
    out.mid_line = text[len - 1] != '\n';
    return true;
}

bool tt_out_puts(const char *text)
{
    return tt_out_text(text, strlen(text));
}

bool tt_out_end_line(void)
{
    return !out.mid_line || tt_out_text("\n", 1);
}

bool tt_out_failed(void)
{
    return out.failed != 0;
}

bool tt_out_reader_left(void)
{
    return out.failed == EPIPE;
}

bool tt_out_is_terminal(void)
{
    return out.out_terminal;
}

/* On a terminal both streams share the line. */
static void begin_error_line(void)
{
    tt_out_progress_end();
    if (out.out_terminal && out.err_terminal)
        (void)tt_out_end_line();
}

/* Messages quote files, templates and models. */
static void put_error(const char *text)
{
    tt_controls none = {0};
    if (!out.err_terminal || !write_shown(stderr, &none, text, strlen(text)))
        fputs(text, stderr);
}

void tt_out_notice(const char *fmt, ...)
{
    char *text = NULL;
    if (out.quiet)
        return;
    begin_error_line();
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    fputs(NAME ": ", stderr);
    put_error(n >= 0 ? text : fmt);
    fputc('\n', stderr);
    free(n >= 0 ? text : NULL);
}

void tt_out_report(const char *text)
{
    if (out.quiet)
        return;
    begin_error_line();
    put_error(text);
}

/* What the library calls options, in the user's words. */
static const tt_arg_name names[] = {
    {"max_context", "--max-context"},          {"kv_bits", "--kv-bits"},
    {"prompt_cache", "--prompt-cache-memory"}, {"prefill_chunk", "--prefill-chunk"},
    {"expert_slots", "--expert-cache-slots"},  {"ram_budget", "--ram-budget"},
    {"yarn_factor", "--rope-scaling"},         {NULL, NULL}};

void tt_out_error(const tt_error *err)
{
    tt_error e = *err;
    tt_args_translate(names, &e);
    begin_error_line();
    fputs(NAME ": ", stderr);
    if (e.file[0] != '\0' && strstr(e.message, e.file) == NULL) {
        put_error(e.file);
        fputs(": ", stderr);
    }
    if (e.file[0] != '\0' && e.offset >= 0)
        fprintf(stderr, "byte %lld: ", (long long)e.offset);
    put_error(e.message[0] != '\0' ? e.message : tt_status_text(e.status));
    fputc('\n', stderr);
}

void tt_out_progress(const char *fmt, ...)
{
    if (out.quiet || !out.err_terminal || (out.out_terminal && out.mid_line))
        return;
    va_list ap;
    va_start(ap, fmt);
    fputs("\r\033[K", stderr);
    vfprintf(stderr, fmt, ap);
    fflush(stderr);
    va_end(ap);
    out.progress = true;
}

void tt_out_progress_end(void)
{
    if (!out.progress)
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    out.progress = false;
}
