/* Proves what is seen while TinyTitanRepack works: a bar with rate, time left and file that fits
 * the terminal, one line every tenth in a pipe, objects for programs, nothing when it is to be
 * quiet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "repack/repack_progress.h"
#include "support/mini_install.h"
#include "support/tempdir.h"

static char dir[512], *seen;
static int kept[3] = {-1, -1, -1};

static int setup(void **state)
{
    tempdir_make(dir);
    return 0;
}

static int teardown(void **state)
{
    free(seen);
    seen = NULL;
    tempdir_remove(dir);
    return 0;
}

/* Lets a stream go elsewhere, and back. */
static void divert(int stream, int to)
{
    fflush(stdout);
    fflush(stderr);
    kept[stream] = dup(stream);
    assert_true(kept[stream] >= 0 && dup2(to, stream) == stream);
    close(to);
}

static void restore(int stream)
{
    fflush(stdout);
    fflush(stderr);
    assert_int_equal(dup2(kept[stream], stream), stream);
    close(kept[stream]);
}

static void to_file(int stream)
{
    char path[600];
    snprintf(path, sizeof path, "%s/seen", dir);
    divert(stream, open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
}

static void from_file(int stream)
{
    size_t n = 0;
    restore(stream);
    free(seen);
    seen = mini_slurp(dir, "seen", &n);
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *s = strstr(text, what); s != NULL; s = strstr(s + 1, what))
        n++;
    return n;
}

static void go(repack_progress *p, uint64_t from, uint64_t total)
{
    for (uint64_t i = from; i <= total; i++)
        assert_true(p->events.progress(p->events.ctx, i, total));
}

static void one_line_every_tenth_in_a_pipe(void **state)
{
    repack_progress p;
    to_file(2);
    repack_progress_init(&p, "converting", false, false);
    p.events.note(p.events.ctx, TT_NOTE_STAGE, "writing a");
    go(&p, 0, 1000);
    repack_progress_end(&p);
    from_file(2);
    assert_int_equal(count(seen, "\n"), 10);
    assert_non_null(strstr(seen, "converting  10 %  "));
    assert_non_null(strstr(seen, "converting 100 %  "));
    assert_int_equal(count(seen, " MB/s  ETA "), 10);
    assert_null(strchr(seen, '\r'));
    assert_null(strchr(seen, '\033'));
    /* Another count begins anew; one that begins near its end is not told tenth by tenth. */
    to_file(2);
    go(&p, 0, 500);
    go(&p, 955, 1000);
    p.events.note(p.events.ctx, TT_NOTE_WARNING, "look");
    from_file(2);
    assert_int_equal(count(seen, "converting"), 12);
    assert_non_null(strstr(seen, "warning: look\n"));
}

/* What a terminal of so many columns gets. */
static void on_a_terminal(unsigned short columns, const char *stage, char out[4096])
{
    repack_progress p;
    struct winsize size = {.ws_row = 24, .ws_col = columns};
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int end = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(end >= 0 && ioctl(end, TIOCSWINSZ, &size) == 0);
    divert(2, end);
    repack_progress_init(&p, "installing", false, false);
    bool tty = p.tty;
    p.events.note(p.events.ctx, TT_NOTE_STAGE, stage);
    bool on = p.events.progress(p.events.ctx, 0, 71903645408) &&
              p.events.progress(p.events.ctx, 71903645408, 71903645408);
    repack_progress_end(&p);
    restore(2);
    /* A terminal gives what it has piece by piece, and an error when nobody writes any more. */
    ssize_t n;
    size_t len = 0;
    while ((n = read(master, out + len, 4095 - len)) > 0)
        len += (size_t)n;
    close(master);
    assert_true(tty && on && len > 0);
    out[len] = '\0';
}

static void a_bar_that_fits_a_terminal(void **state)
{
    static const char stage[] = "downloading model-00003-of-00014.safetensors";
    for (unsigned short columns = 40; columns <= 160; columns += 20) {
        char text[4096], *save = NULL;
        on_a_terminal(columns, stage, text);
        assert_null(strchr(text, '\n'));
        assert_non_null(strstr(text, "[>  "));
        assert_non_null(strstr(text, "==] 100 %"));
        if (columns >= 80) {
            assert_non_null(strstr(text, "71.9 of 71.9 GB  "));
            assert_non_null(strstr(text, " MB/s  ETA "));
            assert_non_null(strstr(text, "model-0"));
        }
        if (columns >= 140)
            assert_non_null(strstr(text, stage));
        /* Rewritten in place: no line is as long as the terminal, and the last is cleared. */
        assert_string_equal(text + strlen(text) - 4, "\r\033[K");
        for (char *line = strtok_r(text, "\r", &save); line != NULL;
             line = strtok_r(NULL, "\r", &save)) {
            char *clear = strstr(line, "\033[K");
            assert_non_null(clear);
            assert_true(clear - line < columns);
        }
    }
}

static void objects_for_programs(void **state)
{
    repack_progress p;
    to_file(1);
    repack_progress_init(&p, "converting", false, true);
    p.events.note(p.events.ctx, TT_NOTE_STAGE, "writing a");
    p.events.progress(p.events.ctx, 100, 1000);
    p.events.progress(p.events.ctx, 1000, 1000);
    p.events.note(p.events.ctx, TT_NOTE_INFO, "so");
    p.events.note(p.events.ctx, TT_NOTE_WARNING, "look");
    repack_progress_end(&p);
    from_file(1);
    static const char *const events[] = {"stage", "progress", "progress", "note", "warning"};
    char *save = NULL;
    size_t n = 0;
    for (char *line = strtok_r(seen, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save), n++) {
        json_t *o = json_loads(line, 0, NULL);
        assert_true(n < sizeof events / sizeof *events);
        assert_string_equal(json_string_value(json_object_get(o, "event")), events[n]);
        if (strcmp(events[n], "progress") == 0) {
            assert_string_equal(json_string_value(json_object_get(o, "stage")), "writing a");
            assert_int_equal(json_integer_value(json_object_get(o, "done")), n == 1 ? 100 : 1000);
            assert_int_equal(json_integer_value(json_object_get(o, "total")), 1000);
            assert_true(json_is_real(json_object_get(o, "rate")));
        } else {
            assert_true(json_is_string(json_object_get(o, "text")));
        }
        /* The time left is told once there is a rate. */
        if (n == 2)
            assert_true(json_real_value(json_object_get(o, "eta")) == 0);
        json_decref(o);
    }
    assert_int_equal(n, 5);
}

static void quiet_but_for_warnings(void **state)
{
    repack_progress p;
    to_file(2);
    repack_progress_init(&p, "converting", true, false);
    p.events.note(p.events.ctx, TT_NOTE_STAGE, "writing a");
    p.events.note(p.events.ctx, TT_NOTE_INFO, "so");
    go(&p, 0, 100);
    p.events.note(p.events.ctx, TT_NOTE_WARNING, "look");
    from_file(2);
    assert_string_equal(seen, "warning: look\n");
}

int main(void)
{
#define T(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
    const struct CMUnitTest tests[] = {T(one_line_every_tenth_in_a_pipe),
                                       T(a_bar_that_fits_a_terminal), T(objects_for_programs),
                                       T(quiet_but_for_warnings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
