#include "repack/repack_options.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "format/install_layout.h"

const char repack_usage[] =
    "usage: TinyTitanRepack --input-snapshot DIR --output X.gturbo [options]\n"
    "       TinyTitanRepack --model NAME --output X.gturbo [--resume] [--plan] [options]\n"
    "       TinyTitanRepack --repo ORG/NAME [--revision REV] --output X.gturbo [options]\n"
    "       TinyTitanRepack --resume --output X.gturbo\n"
    "       TinyTitanRepack --discard-partial --output X.gturbo\n"
    "       TinyTitanRepack --list-models [--json]\n"
    "       TinyTitanRepack --verify-install --input-gturbo X.gturbo [--against DIR] [--quiet]\n"
    "       TinyTitanRepack --inspect --input-gturbo X.gturbo [--json]\n"
    "       TinyTitanRepack --export-snapshot DIR --input-gturbo X.gturbo [--quiet]\n"
    "\n"
    "Converts a checkpoint (safetensors with config.json) into a verified install, from a "
    "directory\n"
    "or straight from a hub.\n"
    "\n"
    "  --input-snapshot DIR   directory of the checkpoint\n"
    "  --model NAME           a checkpoint of the catalogue (--list-models)\n"
    "  --repo ORG/NAME        a repository of the hub\n"
    "  --revision REV         its commit, tag or branch (default main)\n"
    "  --output X.gturbo      install to write; it appears when it is complete\n"
    "  --resume               continue an installation that was interrupted\n"
    "  --plan                 tell tensors, sizes, disk and time, and download headers only\n"
    "  --discard-partial      remove what an interrupted installation left\n"
    "  --list-models          the catalogue\n"
    "  --model-id ID          name of the model (default: the name of DIR or of the repository)\n"
    "  --bits 4|8|16          width of attention, experts and other projections (default 4; 16\n"
    "                         keeps the checkpoint's precision; quantized checkpoints are copied,\n"
    "                         and what they left unquantized stays so unless this is given)\n"
    "  --role-bits R=N,...    width by role: embed, head, attn, delta, delta-ab, mlp, experts,\n"
    "                         shared, router, shared-gate, mtp-fc, mix, inject, indexer,\n"
    "                         ngram-key, ngram-value (default: embed, head and mix 8; router,\n"
    "                         shared-gate, delta-ab, inject, indexer and ngram-key 16; the\n"
    "                         others --bits)\n"
    "  --overwrite            replace an install at --output, once the new one is complete\n"
    "  --threads N            threads to work with (default: one a physical core)\n"
    "\n"
    "  --verify-install       read and check every byte of an install and issue its receipt\n"
    "  --against DIR          convert parts of this checkpoint again, and compare them\n"
    "  --inspect              show what an install holds\n"
    "  --export-snapshot DIR  write the install back as an MLX checkpoint\n"
    "  --input-gturbo X       the install to verify, inspect or export\n"
    "  --json                 JSON instead of tables; of an installation one event a line\n"
    "\n"
    "  --quiet                no progress and no summary\n"
    "  --version              print the version\n"
    "  --help                 print this help\n"
    "\n"
    "environment: HF_ENDPOINT (the hub, https://huggingface.co), HF_TOKEN, HTTPS_PROXY, NO_PROXY\n"
    "exit status: 0 done, 1 failed, 2 wrong command line, 128 and the number of the signal that\n"
    "stopped it\n";

enum flag {
    F_SNAPSHOT,
    F_MODEL,
    F_REPO,
    F_REVISION,
    F_RESUME,
    F_PLAN,
    F_DISCARD,
    F_LIST,
    F_AGAINST,
    F_EXPORT,
    F_OUTPUT,
    F_MODEL_ID,
    F_BITS,
    F_ROLE_BITS,
    F_OVERWRITE,
    F_THREADS,
    F_VERIFY,
    F_INSPECT,
    F_GTURBO,
    F_JSON,
    F_QUIET,
    F_VERSION,
    F_HELP,
    F_COUNT
};

#define IN(mode)   (1u << (mode))
#define IN_WRITING (IN(MODE_INSTALL) | IN(MODE_HUB))
static const struct {
    const char *name;
    bool value;
    unsigned modes; /* where it may stand */
} flags[F_COUNT] = {
    [F_SNAPSHOT] = {"--input-snapshot", true, IN(MODE_INSTALL)},
    [F_MODEL] = {"--model", true, IN(MODE_HUB) | IN(MODE_PLAN)},
    [F_REPO] = {"--repo", true, IN(MODE_HUB) | IN(MODE_PLAN)},
    [F_REVISION] = {"--revision", true, IN(MODE_HUB) | IN(MODE_PLAN)},
    [F_RESUME] = {"--resume", false, IN(MODE_HUB)},
    [F_PLAN] = {"--plan", false, IN(MODE_PLAN)},
    [F_DISCARD] = {"--discard-partial", false, IN(MODE_DISCARD)},
    [F_LIST] = {"--list-models", false, IN(MODE_LIST)},
    [F_AGAINST] = {"--against", true, IN(MODE_VERIFY)},
    [F_EXPORT] = {"--export-snapshot", true, IN(MODE_EXPORT)},
    [F_OUTPUT] = {"--output", true, IN_WRITING | IN(MODE_PLAN) | IN(MODE_DISCARD)},
    [F_MODEL_ID] = {"--model-id", true, IN_WRITING | IN(MODE_PLAN)},
    [F_BITS] = {"--bits", true, IN_WRITING | IN(MODE_PLAN)},
    [F_ROLE_BITS] = {"--role-bits", true, IN_WRITING | IN(MODE_PLAN)},
    [F_OVERWRITE] = {"--overwrite", false, IN_WRITING},
    [F_THREADS] = {"--threads", true, IN_WRITING | IN(MODE_VERIFY)},
    [F_VERIFY] = {"--verify-install", false, IN(MODE_VERIFY)},
    [F_INSPECT] = {"--inspect", false, IN(MODE_INSPECT)},
    [F_GTURBO] = {"--input-gturbo", true, IN(MODE_VERIFY) | IN(MODE_INSPECT) | IN(MODE_EXPORT)},
    [F_JSON] = {"--json", false,
                IN_WRITING | IN(MODE_VERIFY) | IN(MODE_INSPECT) | IN(MODE_PLAN) | IN(MODE_LIST) |
                    IN(MODE_EXPORT)},
    [F_QUIET] = {"--quiet", false, IN_WRITING | IN(MODE_VERIFY) | IN(MODE_EXPORT)},
    [F_VERSION] = {"--version", false, IN(MODE_VERSION)},
    [F_HELP] = {"--help", false, IN(MODE_HELP)},
};

typedef struct command_line {
    const char *value[F_COUNT]; /* "" for flags without a value */
} command_line;

static bool take(int argc, char **argv, int *i, command_line *c, char why[512])
{
    const char *arg = argv[*i];
    const char *equals = strchr(arg, '=');
    size_t len = equals != NULL ? (size_t)(equals - arg) : strlen(arg);
    int f = 0;
    while (f < F_COUNT && !(strlen(flags[f].name) == len && memcmp(flags[f].name, arg, len) == 0))
        f++;
    if (f == F_COUNT) {
        snprintf(why, 512, arg[0] == '-' ? "unknown option %.200s" : "unexpected argument %.200s",
                 arg);
        return false;
    }
    if (c->value[f] != NULL) {
        snprintf(why, 512, "%s is given twice", flags[f].name);
        return false;
    }
    if (!flags[f].value) {
        if (equals != NULL)
            snprintf(why, 512, "%s takes no value", flags[f].name);
        c->value[f] = "";
        return equals == NULL;
    }
    const char *value = equals != NULL ? equals + 1 : *i + 1 < argc ? argv[++*i] : "";
    if (value[0] == '\0') {
        snprintf(why, 512, "%s needs a value", flags[f].name);
        return false;
    }
    c->value[f] = value;
    return true;
}

static bool number(const char *text, unsigned min, unsigned max, unsigned *out)
{
    unsigned long v = 0;
    size_t n = strspn(text, "0123456789");
    if (n < 1 || n > 6 || text[n] != '\0')
        return false;
    for (size_t i = 0; i < n; i++)
        v = 10 * v + (unsigned long)(text[i] - '0');
    *out = (unsigned)v;
    return v >= min && v <= max;
}

static bool choose_mode(const command_line *c, repack_mode *mode, char why[512])
{
    *mode =
        c->value[F_HELP] != NULL      ? MODE_HELP
        : c->value[F_VERSION] != NULL ? MODE_VERSION
        : c->value[F_VERIFY] != NULL  ? MODE_VERIFY
        : c->value[F_INSPECT] != NULL ? MODE_INSPECT
        : c->value[F_EXPORT] != NULL  ? MODE_EXPORT
        : c->value[F_LIST] != NULL    ? MODE_LIST
        : c->value[F_DISCARD] != NULL ? MODE_DISCARD
        : c->value[F_PLAN] != NULL    ? MODE_PLAN
        : c->value[F_SNAPSHOT] == NULL && (c->value[F_MODEL] != NULL || c->value[F_REPO] != NULL ||
                                           c->value[F_RESUME] != NULL)
            ? MODE_HUB
            : MODE_INSTALL;
    static const char *const doing[] = {
        [MODE_INSTALL] = "a conversion", [MODE_HUB] = "an installation from a hub",
        [MODE_PLAN] = "--plan",          [MODE_DISCARD] = "--discard-partial",
        [MODE_LIST] = "--list-models",   [MODE_VERIFY] = "--verify-install",
        [MODE_INSPECT] = "--inspect",    [MODE_EXPORT] = "--export-snapshot",
        [MODE_HELP] = "--help",          [MODE_VERSION] = "--version",
    };
    for (int f = 0; f < F_COUNT && *mode != MODE_HELP; f++) {
        if (c->value[f] != NULL && !(flags[f].modes & IN(*mode))) {
            snprintf(why, 512, "%s does not go with %s", flags[f].name, doing[*mode]);
            return false;
        }
    }
    return true;
}

static bool need(const command_line *c, int f, char why[512])
{
    if (c->value[f] == NULL)
        snprintf(why, 512, "%s is missing", flags[f].name);
    return c->value[f] != NULL;
}

/* What can be said of the names without looking at a disk. */
static bool names_are_good(const repack_options *o, char why[512])
{
    size_t len = o->output != NULL ? strlen(o->output) : 0;
    while (len > 0 && o->output[len - 1] == '/')
        len--;
    const char *end = o->output != NULL ? o->output + len : NULL;
    const char *last = end;
    while (last != NULL && last > o->output && last[-1] != '/')
        last--;
    if (o->output != NULL && (last == end || (end - last == 1 && last[0] == '.') ||
                              (end - last == 2 && last[0] == '.' && last[1] == '.'))) {
        snprintf(why, 512, "--output \"%.200s\" is not a name for an install", o->output);
        return false;
    }
    if (o->model_id != NULL && !tt_model_id_valid(o->model_id)) {
        snprintf(why, 512,
                 "--model-id \"%.100s\" is not 1 to %u of A-Z a-z 0-9 . _ : / + @ - as a name "
                 "must be",
                 o->model_id, TT_MAX_MODEL_ID);
        return false;
    }
    return true;
}

/* Which of --model, --repo and --revision go together. */
static bool hub_words_are_good(const repack_options *o, char why[512])
{
    const char *wrong = NULL;
    if (o->model != NULL && o->repository != NULL)
        wrong = "--model and --repo name the same thing: give one of them";
    else if (o->revision != NULL && o->repository == NULL)
        wrong = "--revision needs --repo: models of the catalogue have theirs";
    else if (o->mode == MODE_PLAN && o->model == NULL && o->repository == NULL)
        wrong = "--plan needs --model or --repo";
    if (wrong != NULL)
        snprintf(why, 512, "%s", wrong);
    return wrong == NULL;
}

bool repack_options_parse(int argc, char **argv, repack_options *o, char why[512])
{
    command_line c = {0};
    tt_error err;
    *o = (repack_options){0};
    for (int i = 1; i < argc; i++)
        if (!take(argc, argv, &i, &c, why))
            return false;
    if (!choose_mode(&c, &o->mode, why))
        return false;
    o->snapshot = c.value[F_SNAPSHOT];
    o->output = c.value[F_OUTPUT];
    o->model_id = c.value[F_MODEL_ID];
    o->gturbo = c.value[F_GTURBO];
    o->overwrite = c.value[F_OVERWRITE] != NULL;
    o->json = c.value[F_JSON] != NULL;
    o->quiet = c.value[F_QUIET] != NULL;
    o->model = c.value[F_MODEL];
    o->repository = c.value[F_REPO];
    o->revision = c.value[F_REVISION];
    o->against = c.value[F_AGAINST];
    o->export_dir = c.value[F_EXPORT];
    o->resume = c.value[F_RESUME] != NULL;
    o->policy_given = c.value[F_BITS] != NULL || c.value[F_ROLE_BITS] != NULL;
    if (!hub_words_are_good(o, why))
        return false;
    if (o->mode == MODE_INSTALL && (!need(&c, F_SNAPSHOT, why) || !need(&c, F_OUTPUT, why)))
        return false;
    if ((o->mode == MODE_HUB || o->mode == MODE_PLAN || o->mode == MODE_DISCARD) &&
        !need(&c, F_OUTPUT, why))
        return false;
    if ((o->mode == MODE_VERIFY || o->mode == MODE_INSPECT || o->mode == MODE_EXPORT) &&
        !need(&c, F_GTURBO, why))
        return false;
    if (!names_are_good(o, why))
        return false;
    const char *bits = c.value[F_BITS];
    if (bits != NULL &&
        (!number(bits, 4, 16, &o->policy.build_bits) ||
         (o->policy.build_bits != 4 && o->policy.build_bits != 8 && o->policy.build_bits != 16))) {
        snprintf(why, 512, "--bits \"%.100s\" is not 4, 8 or 16", bits);
        return false;
    }
    const char *threads = c.value[F_THREADS];
    if (threads != NULL && !number(threads, 1, TT_MAX_THREADS, &o->threads)) {
        snprintf(why, 512, "--threads \"%.100s\" is not 1 to %u", threads, TT_MAX_THREADS);
        return false;
    }
    if (c.value[F_ROLE_BITS] != NULL &&
        tt_policy_parse_roles(c.value[F_ROLE_BITS], &o->policy, &err) != TT_OK) {
        snprintf(why, 512, "--role-bits: %.400s", err.message);
        return false;
    }
    return true;
}
