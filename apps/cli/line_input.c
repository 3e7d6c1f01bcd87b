#include "cli/line_input.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/limits.h"
#include "cli/interrupt.h"

#define MAX_LINE      (4 * TT_MIB)
#define HISTORY_LINES 1000
#define PROMPT        "> "

struct tt_line_input {
    EditLine *el; /* NULL: plain lines */
    History *history;
    char history_file[TT_MAX_PATH];
    bool interrupted;
    tt_buf line; /* plain: what was read; [0, used) is the line handed out last */
    size_t used;
    bool at_end;
};

/* ---- history ---- */

bool tt_history_path(const char *state_home, const char *home, char *out)
{
    int n = -1;
    if (state_home != NULL && state_home[0] == '/')
        n = snprintf(out, TT_MAX_PATH, "%s/tinytitan/history", state_home);
    else if (home != NULL && home[0] == '/')
        n = snprintf(out, TT_MAX_PATH, "%s/.local/state/tinytitan/history", home);
    return n > 0 && (size_t)n < TT_MAX_PATH;
}

/* Makes the folders above `path`. */
static bool make_parents(const char *path)
{
    char part[TT_MAX_PATH];
    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return false;
    }
    return true;
}

static void open_history(tt_line_input *in)
{
    HistEvent ev;
    in->history = history_init();
    if (in->history == NULL)
        return;
    history(in->history, &ev, H_SETSIZE, HISTORY_LINES);
    history(in->history, &ev, H_SETUNIQUE, 1);
    el_set(in->el, EL_HIST, history, in->history);
    if (!tt_history_path(getenv("XDG_STATE_HOME"), getenv("HOME"), in->history_file) ||
        !make_parents(in->history_file)) {
        in->history_file[0] = '\0';
        return;
    }
    /* A missing file is an empty history. */
    history(in->history, &ev, H_LOAD, in->history_file);
}

/* Writes a history to the file: whole under another name first, unless the file is something that a
 * user has put there instead, such as a link. */
static void save(History *h, const char *file)
{
    char tmp[TT_MAX_PATH + 32];
    struct stat sb;
    HistEvent ev;
    if (lstat(file, &sb) == 0 && !S_ISREG(sb.st_mode)) {
        history(h, &ev, H_SAVE, file);
        return;
    }
    snprintf(tmp, sizeof tmp, "%s.tmp.%ld", file, (long)getpid());
    if (history(h, &ev, H_SAVE, tmp) < 0 || rename(tmp, file) != 0)
        unlink(tmp);
}

/* Puts a line behind those that are in the file by now: other dialogues have written theirs. */
static void add_to_file(const char *file, const char *line)
{
    char dir[TT_MAX_PATH];
    HistEvent ev;
    History *all = history_init();
    if (all == NULL)
        return;
    snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(file, '/') - file), file);
    /* Where there are no locks two lines at once may lose one. */
    int lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock >= 0)
        (void)!flock(lock, LOCK_EX);
    history(all, &ev, H_SETSIZE, HISTORY_LINES);
    history(all, &ev, H_SETUNIQUE, 1);
    history(all, &ev, H_LOAD, file);
    history(all, &ev, H_ENTER, line);
    save(all, file);
    if (lock >= 0)
        close(lock);
    history_end(all);
}

/* Saved line by line: a killed program loses nothing. */
static void remember(tt_line_input *in, const char *line)
{
    HistEvent ev;
    if (in->history == NULL || line[0] == '\0')
        return;
    history(in->history, &ev, H_ENTER, line);
    if (in->history_file[0] != '\0')
        add_to_file(in->history_file, line);
}

/* ---- edited lines ---- */

static char *prompt(EditLine *el)
{
    static char text[] = PROMPT;
    (void)el;
    return text;
}

#define REPLACEMENT 0xfffd

/* Bytes that follow `c` in a UTF-8 character, and the bits it carries; -1 for no first byte. */
static int following(unsigned char c, uint32_t *bits)
{
    int more = c < 0x80 ? 0 : c < 0xc2 ? -1 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : c < 0xf5 ? 3 : -1;
    *bits = more <= 0 ? c : c & (0x3fu >> more);
    return more;
}

/* Too long a form, a surrogate, or beyond the last character. */
static bool is_character(uint32_t c, int more)
{
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    return c >= least[more] && c <= 0x10ffff && !(c >= 0xd800 && c < 0xe000);
}

/* 1 a byte, 0 end, -1 interrupted or failed. */
static int read_byte(EditLine *el, tt_line_input *in, unsigned char *c)
{
    for (;;) {
        switch (tt_interrupt_wait(STDIN_FILENO)) {
        case TT_INPUT_INTERRUPTED:
            in->interrupted = true;
            errno = EINTR;
            return -1;
        case TT_INPUT_RESIZED:
            el_resize(el);
            continue;
        case TT_INPUT_RESUMED:
            /* The shell has put its own terminal modes in place. */
            el_set(el, EL_PREP_TERM, 1);
            el_set(el, EL_REFRESH);
            continue;
        case TT_INPUT_READY:
            break;
        }
        ssize_t n = read(STDIN_FILENO, c, 1);
        if (n >= 0)
            return (int)n;
        if (errno != EINTR && errno != EAGAIN)
            return -1;
    }
}

/* libedit's source of characters. Its own reader would retry after Ctrl-C. */
static int read_char(EditLine *el, wchar_t *out)
{
    tt_line_input *in = NULL;
    unsigned char c;
    uint32_t bits;
    el_get(el, EL_CLIENTDATA, &in);
    int n = read_byte(el, in, &c);
    if (n != 1)
        return n;
    int more = following(c, &bits);
    bool good = more >= 0;
    for (int i = 0; i < more && good; i++) {
        n = read_byte(el, in, &c);
        if (n != 1)
            return n;
        good = (c & 0xc0) == 0x80;
        bits = bits << 6 | (c & 0x3fu);
    }
    *out = (wchar_t)(good && is_character(bits, more) ? bits : REPLACEMENT);
    return 1;
}

static tt_status open_editor(tt_line_input *in, tt_error *err)
{
    in->el = el_init("TinyTitanCLI", stdin, stdout, stderr);
    if (in->el == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "the line editor cannot be started");
    el_set(in->el, EL_CLIENTDATA, in);
    el_set(in->el, EL_GETCFN, read_char);
    el_set(in->el, EL_PROMPT, prompt);
    el_set(in->el, EL_EDITOR, "emacs");
    el_set(in->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
    open_history(in);
    el_source(in->el, NULL); /* the user's ~/.editrc has the last word */
    return TT_OK;
}

static tt_line_event read_edited(tt_line_input *in, const char **line, size_t *len, tt_error *err)
{
    int n = 0;
    in->interrupted = false;
    errno = 0;
    /* Before the prompt shows: what is typed as soon as it does must not be echoed twice. */
    el_set(in->el, EL_PREP_TERM, 1);
    const char *got = el_gets(in->el, &n);
    if (got == NULL || n <= 0) {
        /* The cursor stands behind the prompt. */
        fputc('\n', stdout);
        fflush(stdout);
        if (in->interrupted) {
            el_reset(in->el);
            return TT_LINE_INTERRUPTED;
        }
        if (n < 0 && errno != 0 && errno != EIO) {
            (void)tt_fail_errno(err, errno, "standard input", "cannot be read");
            return TT_LINE_FAILED;
        }
        return TT_LINE_END;
    }
    tt_buf_clear(&in->line);
    tt_buf_append(&in->line, got, strcspn(got, "\n"));
    if (tt_buf_status(&in->line, err) != TT_OK)
        return TT_LINE_FAILED;
    *line = in->line.len > 0 ? in->line.data : "";
    *len = in->line.len;
    remember(in, *line);
    return TT_LINE_TEXT;
}

/* ---- plain lines ---- */

/* Reads until the buffer holds a whole line or the input ends. */
static tt_line_event fill(tt_line_input *in, size_t *len, tt_error *err)
{
    for (size_t seen = 0;;) {
        char *end =
            in->line.len > seen ? memchr(in->line.data + seen, '\n', in->line.len - seen) : NULL;
        if (end != NULL) {
            *len = (size_t)(end - in->line.data);
            return TT_LINE_TEXT;
        }
        if (in->at_end) {
            *len = in->line.len;
            return in->line.len > 0 ? TT_LINE_TEXT : TT_LINE_END;
        }
        seen = in->line.len;
        if (tt_interrupt_wait(STDIN_FILENO) == TT_INPUT_INTERRUPTED)
            return TT_LINE_INTERRUPTED;
        char piece[4096];
        ssize_t n = read(STDIN_FILENO, piece, sizeof piece);
        if (n < 0 && errno != EINTR && errno != EAGAIN) {
            (void)tt_fail_errno(err, errno, "standard input", "cannot be read");
            return TT_LINE_FAILED;
        }
        in->at_end = n == 0;
        if (n > 0)
            tt_buf_append(&in->line, piece, (size_t)n);
        if (tt_buf_status(&in->line, err) != TT_OK)
            return TT_LINE_FAILED;
    }
}

static tt_line_event read_plain(tt_line_input *in, const char **line, size_t *len, tt_error *err)
{
    size_t n = 0;
    if (in->used > 0) {
        in->line.len -= in->used;
        memmove(in->line.data, in->line.data + in->used, in->line.len);
        in->used = 0;
    }
    tt_line_event event = fill(in, &n, err);
    if (event != TT_LINE_TEXT)
        return event;
    in->used = n < in->line.len ? n + 1 : n;
    in->line.data[n] = '\0';
    *line = in->line.data;
    *len = n;
    return TT_LINE_TEXT;
}

/* ---- the door ---- */

/* The editor measures and converts characters by the locale; text here is UTF-8 in any. */
static void choose_locale(void)
{
    if (setlocale(LC_CTYPE, "") == NULL || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

tt_status tt_line_input_open(tt_line_input **out, tt_error *err)
{
    tt_line_input *in = calloc(1, sizeof *in);
    if (in == NULL)
        return tt_fail(err, TT_ERR_NOMEM, "out of memory for the line editor");
    tt_buf_init(&in->line, MAX_LINE);
    tt_status st = TT_OK;
    if (isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1) {
        choose_locale();
        st = open_editor(in, err);
    }
    if (st != TT_OK)
        tt_line_input_close(&in);
    else
        *out = in;
    return st;
}

void tt_line_input_close(tt_line_input **input)
{
    if (input == NULL || *input == NULL)
        return;
    tt_line_input *in = *input;
    if (in->history != NULL)
        history_end(in->history);
    if (in->el != NULL)
        el_end(in->el);
    tt_buf_free(&in->line);
    free(in);
    *input = NULL;
}

bool tt_line_input_edits(const tt_line_input *in)
{
    return in->el != NULL;
}

tt_line_event tt_line_input_read(tt_line_input *in, const char **line, size_t *len, tt_error *err)
{
    return in->el != NULL ? read_edited(in, line, len, err) : read_plain(in, line, len, err);
}
