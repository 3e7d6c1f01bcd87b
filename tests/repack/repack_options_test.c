/* Proves that the command line of TinyTitanRepack is read right and that everything wrong in it is
 * refused with the word that is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "repack/repack_options.h"

#define MAX_ARGS 16

static bool parse(const char *line, repack_options *o, char why[512])
{
    static char copy[512];
    char *argv[MAX_ARGS] = {"TinyTitanRepack"}, *save = NULL;
    int argc = 1;
    strcpy(copy, line);
    for (char *p = strtok_r(copy, " ", &save); p != NULL; p = strtok_r(NULL, " ", &save))
        argv[argc++] = strcmp(p, "''") == 0 ? "" : p;
    why[0] = '\0';
    return repack_options_parse(argc, argv, o, why);
}

static void good_lines(void **state)
{
    repack_options o;
    char why[512];
    assert_true(parse("--input-snapshot a --output=b --bits 8 --role-bits embed=4 --threads=3 "
                      "--overwrite --model-id m --quiet",
                      &o, why));
    assert_int_equal(o.mode, MODE_INSTALL);
    assert_string_equal(o.snapshot, "a");
    assert_string_equal(o.output, "b");
    assert_string_equal(o.model_id, "m");
    assert_int_equal(o.policy.build_bits, 8);
    assert_int_equal(o.policy.role_bits[TT_ROLE_EMBED], 4);
    assert_int_equal(o.threads, 3);
    assert_true(o.overwrite);
    assert_true(o.quiet);
    assert_true(parse("--input-snapshot a --output b", &o, why));
    assert_int_equal(o.policy.build_bits, 0);
    assert_true(parse("--verify-install --input-gturbo x", &o, why));
    assert_int_equal(o.mode, MODE_VERIFY);
    assert_true(parse("--inspect --input-gturbo x --json", &o, why));
    assert_int_equal(o.mode, MODE_INSPECT);
    assert_true(o.json);
    assert_true(parse("--version", &o, why));
    assert_int_equal(o.mode, MODE_VERSION);
    assert_true(parse("--output x --help", &o, why));
    assert_int_equal(o.mode, MODE_HELP);
}

static void bad_lines(void **state)
{
    static const struct {
        const char *line, *words;
    } bad[] = {
        {"", "--input-snapshot is missing"},
        {"--input-snapshot a", "--output is missing"},
        {"--output a", "--input-snapshot is missing"},
        {"--verify-install", "--input-gturbo is missing"},
        {"--inspect", "--input-gturbo is missing"},
        {"--input-gturbo x", "--input-gturbo does not go with a conversion"},
        {"--verify-install --inspect --input-gturbo x", "--inspect does not go with"},
        {"--verify-install --input-gturbo x --bits 4", "--bits does not go with --verify-install"},
        {"--discard-partial --output x --json", "--json does not go with --discard-partial"},
        {"--model a --repo b/c --output x", "give one of them"},
        {"--model a --revision main --output x", "--revision needs --repo"},
        {"--plan --output x", "--plan needs --model or --repo"},
        {"--plan --repo a/b", "--output is missing"},
        {"--resume", "--output is missing"},
        {"--resume --input-snapshot a --output x", "--resume does not go with a conversion"},
        {"--verify-install --input-gturbo x --resume", "--resume does not go with --verify"},
        {"--export-snapshot d", "--input-gturbo is missing"},
        {"--list-models --output x", "--output does not go with --list-models"},
        {"--inspect --input-gturbo x --quiet", "--quiet does not go"},
        {"--version --quiet", "--quiet does not go with --version"},
        {"--input-snapshot a --output b --bits 5", "--bits \"5\""},
        {"--input-snapshot a --output b --bits 4x", "--bits \"4x\""},
        {"--input-snapshot a --output b --bits -4", "--bits \"-4\""},
        {"--input-snapshot a --output b --bits ''", "--bits needs a value"},
        {"--input-snapshot a --output b --bits", "--bits needs a value"},
        {"--input-snapshot a --output b --threads 0", "--threads \"0\""},
        {"--input-snapshot a --output b --threads 257", "--threads \"257\""},
        {"--input-snapshot a --output b --threads 9999999", "--threads"},
        {"--input-snapshot a --output b --role-bits x=4", "--role-bits: \"x\" is not a role"},
        {"--input-snapshot a --output b --output c", "--output is given twice"},
        {"--input-snapshot a --output b --overwrite=1", "--overwrite takes no value"},
        {"--input-snapshot a --output b --frob", "unknown option --frob"},
        {"--input-snapshot a --output b c", "unexpected argument c"},
        {"--input-snapshot a --output .", "--output \".\" is not a name"},
        {"--input-snapshot a --output x/..//", "--output \"x/..//\" is not a name"},
        {"--input-snapshot a --output /", "--output \"/\" is not a name"},
        {"--input-snapshot a --output b --model-id a\tb", "--model-id \"a\tb\" is not"},
        {"--version x", "unexpected argument x"},
        {"--version --bogus", "unknown option --bogus"},
        {"-h", "unknown option -h"},
        {"--outpu b", "unknown option --outpu"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        repack_options o;
        char why[512];
        assert_false(parse(bad[i].line, &o, why));
        if (strstr(why, bad[i].words) == NULL)
            fail_msg("\"%s\": \"%s\" does not say \"%s\"", bad[i].line, why, bad[i].words);
    }
}

/* Every flag that is read stands in the help, and the other way round the help names no other. */
static void help_names_every_flag(void **state)
{
    for (const char *p = strstr(repack_usage, "  --"); p != NULL; p = strstr(p + 1, "  --")) {
        char flag[64], line[128], why[512];
        repack_options o;
        size_t n = strcspn(p + 2, " \n");
        memcpy(flag, p + 2, n);
        flag[n] = '\0';
        strcpy(line, flag);
        strcat(line, " x");
        (void)!parse(line, &o, why);
        assert_null(strstr(why, "unknown option"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_lines),
        cmocka_unit_test(bad_lines),
        cmocka_unit_test(help_names_every_flag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
