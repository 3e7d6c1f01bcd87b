/* Proves that every broken install of tests/golden/gturbo-broken.txt is refused for the reason that
 * stands there, with the install and the file named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"
#include "repack/verify.h"
#include "support/mini_install.h"
#include "support/tempdir.h"

#define GOLDEN "tests/golden/gturbo-v2"
#define LIST   "tests/golden/gturbo-broken.txt"

enum { NAME, FILE_, CHANGE, WHO, STATUS, WORDS, COLUMNS };

static char dir[512], install[600];

/* Replaces the first `old` in a file of the install. */
static void replace(const char *rel, const char *old, const char *new, const char *name)
{
    size_t len = 0, n = strlen(old);
    char *text = mini_slurp(install, rel, &len), *at = memmem(text, len, old, n);
    if (at == NULL)
        fail_msg("%s: \"%s\" is not in %s", name, old, rel);
    tt_buf b;
    tt_buf_init(&b, 1 << 24);
    tt_buf_append(&b, text, (size_t)(at - text));
    tt_buf_puts(&b, new);
    tt_buf_append(&b, at + n, len - (size_t)(at - text) - n);
    mini_spew(install, rel, b.data, b.len);
    tt_buf_free(&b);
    free(text);
}

static void unescape(char *text)
{
    char *to = text;
    for (; *text != '\0'; text++) {
        if (text[0] == '\\' && text[1] == 'n') {
            *to++ = '\n';
            text++;
        } else {
            *to++ = *text;
        }
    }
    *to = '\0';
}

static void put_bytes(const char *rel, const char *args)
{
    char *end = NULL;
    size_t len = 0, at = strtoul(args, &end, 10);
    char *bytes = mini_slurp(install, rel, &len);
    for (end++; *end != '\0'; end += 2, at++) {
        const char hex[3] = {end[0], end[1], '\0'};
        assert_true(at < len);
        bytes[at] = (char)strtoul(hex, NULL, 16);
    }
    mini_spew(install, rel, bytes, len);
    free(bytes);
}

/* SHA-256 of the first n bytes of a file, or of all of it for 0. */
static void digest(const char *root, const char *rel, size_t n, char hex[TT_SHA256_HEX])
{
    size_t len = 0;
    char *bytes = mini_slurp(root, rel, &len);
    assert_int_equal(tt_sha256_of(bytes, n > 0 ? n : len, hex, NULL), TT_OK);
    free(bytes);
}

/* Digests of the file, and of its index where it has one, follow what is in it now. */
static void sign(const char *rel, const char *name)
{
    char was[TT_SHA256_HEX], is[TT_SHA256_HEX];
    for (size_t n = strstr(rel, "weights.bin") != NULL ? 16384 : 0;; n = 0) {
        digest(GOLDEN, rel, n, was);
        digest(install, rel, n, is);
        if (strcmp(was, is) != 0)
            replace(TT_MANIFEST_NAME, was, is, name);
        if (n == 0)
            return;
    }
}

static void change(char *const *row)
{
    const char *rel = row[FILE_];
    char path[1300], aside[1300], *what = row[CHANGE], *args;
    bool is_signed = strncmp(what, "signed ", 7) == 0;
    what += is_signed ? 7 : 0;
    snprintf(path, sizeof path, "%s/%s", install, rel);
    snprintf(aside, sizeof aside, "%s/aside", dir);
    args = strchr(what, ' ') != NULL ? strchr(what, ' ') + 1 : what + strlen(what);
    if (strncmp(what, "bytes ", 6) == 0) {
        put_bytes(rel, args);
    } else if (strncmp(what, "text ", 5) == 0) {
        char *new = strstr(args, " => ");
        assert_non_null(new);
        *new = '\0';
        unescape(args);
        unescape(new + 4);
        replace(rel, args, new + 4, row[NAME]);
    } else if (strncmp(what, "cut ", 4) == 0 || strncmp(what, "grow ", 5) == 0) {
        assert_int_equal(truncate(path, strtol(args, NULL, 10)), 0);
    } else if (strncmp(what, "write ", 6) == 0) {
        mini_spew(install, rel, args, strlen(args));
    } else {
        assert_int_equal(rename(path, aside), 0);
        if (strcmp(what, "link") == 0)
            assert_int_equal(symlink(aside, path), 0);
        else if (strcmp(what, "folder") == 0)
            assert_int_equal(mkdir(path, 0755), 0);
        else
            assert_string_equal(what, "remove");
    }
    if (is_signed)
        sign(rel, row[NAME]);
}

static bool refused(char *const *row)
{
    tt_install *in = NULL;
    tt_error err = {0};
    tempdir_make(dir);
    snprintf(install, sizeof install, "%s/broken.gturbo", dir);
    mini_copy(GOLDEN, install);
    change(row);
    tt_status st = tt_install_open(install, 0, NULL, NULL, &in, &err);
    if (strcmp(row[WHO], "verify") == 0 && st == TT_OK) {
        tt_install_close(&in);
        st = tt_verify_run(install, false, 0, NULL, NULL, &err);
    } else if (strcmp(row[WHO], "verify") == 0) {
        print_error("%s: does not even open\n", row[NAME]);
        st = TT_ERR_INTERNAL;
    }
    tt_install_close(&in);
    tempdir_remove(dir);
    bool named = strstr(err.file, install) != NULL || strstr(err.message, install) != NULL;
    if (strcmp(tt_status_name(st), row[STATUS]) == 0 && strstr(err.message, row[WORDS]) != NULL &&
        named)
        return true;
    print_error("%s: %s: %s: %s\n", row[NAME], tt_status_name(st), err.file, err.message);
    return false;
}

static void broken_installs_are_refused(void **state)
{
    size_t len = 0, n = 0, good = 0;
    char *text = mini_slurp("tests/golden", "gturbo-broken.txt", &len), *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        char *row[COLUMNS], *rest = line;
        if (line[0] == '#')
            continue;
        for (int i = 0; i < COLUMNS; i++) {
            row[i] = strsep(&rest, "\t");
            if (row[i] == NULL || row[i][0] == '\0')
                fail_msg("%s: column %d of \"%s\" is missing", LIST, i + 1, line);
        }
        if (rest != NULL)
            fail_msg("%s: \"%s\" has too many columns", LIST, line);
        good += refused(row);
        n++;
    }
    assert_int_equal(good, n);
    assert_true(n >= 80);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_installs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
