/* Proves that no command line does harm: the input is the words of TinyTitanCLI or, after a first
 * word "repack", of TinyTitanRepack, each on a line of its own. What is accepted keeps its ranges,
 * what is refused is refused in words. */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "cli/cli_options.h"
#include "repack/repack_options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MOST_WORDS 200

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void cli(int argc, char **argv)
{
    tt_cli_options o;
    tt_error err = {0};
    tt_status st = tt_cli_options_parse(&o, argc, argv, &err);
    if (st != TT_OK) {
        must(st == TT_ERR_INVALID && err.message[0] != '\0');
        return;
    }
    if (o.help || o.version)
        return;
    tt_sampler *s = NULL;
    tt_sampler_options so;
    tt_sampler_options_default(&so);
    tt_cli_sampling_apply(&o, &so);
    must(tt_sampler_create(&so, 16, &s, &err) == TT_OK);
    tt_sampler_close(&s);
    must(o.model != NULL && o.model[0] != '\0');
    must(o.plan || (o.prompt != NULL) + (o.messages != NULL) + o.interactive == 1);
    must(o.load.prefill_chunk % TT_BLOCK == 0 && o.load.prefill_chunk <= 65536);
    must(o.load.threads <= TT_MAX_THREADS && o.load.expert_slots <= TT_MAX_EXPERTS);
    must(o.load.max_context <= TT_MAX_CONTEXT && o.stop.n <= TT_ARG_LIST_MAX);
    must(o.load.yarn_factor == 0 || (o.load.yarn_factor >= 1 && o.load.yarn_factor <= 64));
    must(o.load.io_piece % 4096 == 0 && o.load.io_depth <= 256);
}

static void repack(int argc, char **argv)
{
    repack_options o;
    char why[512] = "";
    if (!repack_options_parse(argc, argv, &o, why)) {
        must(why[0] != '\0' && strlen(why) < sizeof why);
        return;
    }
    must(o.mode != MODE_INSTALL || (o.snapshot != NULL && o.output != NULL));
    must((o.mode != MODE_VERIFY && o.mode != MODE_INSPECT) || o.gturbo != NULL);
    must(o.threads <= TT_MAX_THREADS);
    must(o.policy.build_bits == 0 || o.policy.build_bits == 4 || o.policy.build_bits == 8 ||
         o.policy.build_bits == 16);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *argv[MOST_WORDS], *save = text;
    int argc = 0;
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    for (char *word = strsep(&save, "\n"); word != NULL && argc < MOST_WORDS;
         word = strsep(&save, "\n"))
        argv[argc++] = word;
    if (strcmp(argv[0], "repack") == 0)
        repack(argc, argv);
    else
        cli(argc, argv);
    free(text);
    return 0;
}
