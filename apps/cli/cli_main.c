/* TinyTitanCLI: generation and chat in one process. This file chooses what runs and how it ends. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/disks_path.h"
#include "base/heat_path.h"
#include "base/json.h"
#include "base/limits.h"
#include "cli/chat_loop.h"
#include "cli/cli_engine.h"
#include "cli/cli_options.h"
#include "cli/generate.h"
#include "cli/interrupt.h"
#include "cli/report.h"
#include "cli/text_out.h"

enum { EXIT_ANSWERED = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

static int fail(const tt_error *err)
{
    if (err->status == TT_ERR_ABORTED && tt_interrupted()) {
        tt_out_notice("%s", tt_interrupt_words());
        return tt_interrupt_code();
    }
    /* A reader that went away knows it. */
    if (!tt_out_reader_left())
        tt_out_error(err);
    return EXIT_FAILED;
}

static int print(const char *text, size_t len)
{
    if (tt_out_text(text, len))
        return EXIT_ANSWERED;
    if (!tt_out_reader_left())
        fprintf(stderr, "TinyTitanCLI: standard output cannot be written\n");
    return EXIT_FAILED;
}

static int print_help(void)
{
    tt_buf b;
    tt_error err = {.offset = -1};
    tt_buf_init(&b, 1 << 20);
    tt_cli_options_help(&b);
    int rc = tt_buf_status(&b, &err) == TT_OK ? print(b.data, b.len) : fail(&err);
    tt_buf_free(&b);
    return rc;
}

static int print_version(void)
{
    char line[64];
    int n = snprintf(line, sizeof line, "TinyTitanCLI %s\n", tt_version());
    return print(line, (size_t)n);
}

/* ---- the plan ---- */

static int run_plan(tt_engine *e)
{
    tt_error err = {.offset = -1}, other = {.offset = -1};
    tt_status plan = tt_engine_plan(e, &err);
    if (plan != TT_OK && plan != TT_ERR_BUDGET)
        return fail(&err);
    if (tt_engine_text_optional(e, &other) != TT_OK)
        return fail(&other);
    if (plan == TT_OK && e->tok != NULL) {
        plan = tt_engine_grammar(e, &err);
        if (plan != TT_OK && plan != TT_ERR_BUDGET)
            return fail(&err);
    }
    if (tt_report_plan(e, plan == TT_OK ? NULL : &err, &other) != TT_OK)
        return fail(&other);
    return plan == TT_OK ? EXIT_ANSWERED : fail(&err);
}

/* ---- one answer ---- */

static tt_status make_prompt(tt_engine *e, tt_prompt *prompt, tt_error *err)
{
    const tt_cli_options *o = e->o;
    char *text = NULL, *messages = NULL;
    size_t len = 0;
    tt_status st;
    if (o->messages != NULL) {
        st = tt_prompt_messages(o->messages, o->system, &messages, err);
    } else {
        bool from_stdin = strcmp(o->prompt, "-") == 0;
        if (from_stdin)
            TT_TRY(tt_prompt_read("-", &text, &len, err));
        /* The newline that ends what a shell pipes in is not part of the prompt. */
        if (from_stdin && len > 0 && text[len - 1] == '\n')
            len--;
        const char *given = from_stdin ? text : o->prompt;
        if (!from_stdin)
            len = strlen(given);
        st = e->chat ? tt_prompt_single(o->system, given, len, &messages, err)
                     : tt_prompt_raw(e->tok, given, len, prompt, err);
    }
    if (st == TT_OK && messages != NULL)
        st = tt_prompt_chat(e->tok, messages, e->tools, o->thinking, prompt, err);
    tt_free(messages);
    tt_free(text);
    return st;
}

static tt_status check_prompt(const tt_engine *e, const tt_prompt *prompt, tt_error *err)
{
    if (prompt->n == 0)
        return tt_fail(err, TT_ERR_INVALID, "the prompt is empty");
    if (prompt->n > e->plan.max_context)
        return tt_fail(err, TT_ERR_CONTEXT,
                       "the prompt has %zu tokens, the context is %u: shorten it or raise "
                       "--max-context",
                       prompt->n, e->plan.max_context);
    return TT_OK;
}

/* Reports of a finished answer, the parsed one included. */
static tt_status report_answer(tt_engine *e, const tt_answer *a, tt_error *err)
{
    json_t *parsed = NULL;
    char *text = NULL;
    tt_status st = TT_OK;
    if (!e->o->json && tt_out_is_terminal())
        tt_out_end_line();
    if (e->chat) {
        TT_TRY(tt_answer_parse(a, e->tools, &text, err));
        st = tt_json_parse(text, strlen(text), "the answer", &parsed, err);
        tt_free(text);
    }
    if (st != TT_OK)
        return st;
    if (!e->o->json && parsed != NULL)
        tt_report_calls(parsed);
    tt_report_finish(e, a);
    if (e->o->stats)
        tt_report_stats(e, a);
    else
        tt_report_timing(e, a);
    if (e->o->json)
        st = tt_report_json(e, a, parsed, err);
    json_decref(parsed);
    return st;
}

static int run_once(tt_engine *e)
{
    tt_error err = {.offset = -1};
    tt_prompt prompt = {0};
    tt_answer a;
    tt_answer_init(&a);
    tt_status st = make_prompt(e, &prompt, &err);
    if (st == TT_OK)
        st = check_prompt(e, &prompt, &err);
    if (st == TT_OK)
        st = tt_engine_load(e, &err);
    if (st == TT_OK)
        st = tt_generate(e, &prompt, e->sampling.seed, e->o->json, &a, &err);
    if (st == TT_OK)
        st = report_answer(e, &a, &err);
    int rc = st != TT_OK                         ? fail(&err)
             : a.finish == TT_FINISH_INTERRUPTED ? tt_interrupt_code()
                                                 : EXIT_ANSWERED;
    tt_answer_free(&a);
    tt_prompt_free(&prompt);
    return rc;
}

static int run_dialogue(tt_engine *e)
{
    tt_error err = {.offset = -1};
    bool interrupted = false;
    tt_status st = tt_engine_load(e, &err);
    if (st == TT_OK)
        st = tt_chat_loop(e, &interrupted, &err);
    if (st != TT_OK)
        return fail(&err);
    if (tt_out_failed())
        return EXIT_FAILED;
    return interrupted ? tt_interrupt_code() : EXIT_ANSWERED;
}

static int run(tt_engine *e)
{
    tt_error err = {.offset = -1};
    if (tt_interrupt_install(e->o->interactive, &err) != TT_OK)
        return fail(&err);
    if (e->o->plan)
        return run_plan(e);
    if (tt_engine_plan(e, &err) != TT_OK || tt_engine_text(e, &err) != TT_OK ||
        tt_engine_grammar(e, &err) != TT_OK)
        return fail(&err);
    if (e->o->load.expert_slots > e->plan.experts_per_layer)
        tt_out_notice("--expert-cache-slots %u is cut to the %u experts of a layer",
                      e->o->load.expert_slots, e->plan.experts_per_layer);
    if (!e->chat && !e->o->raw)
        tt_out_notice("the install has no chat template: the prompt is continued as it stands");
    return e->o->interactive ? run_dialogue(e) : run_once(e);
}

/* A standard stream that the caller closed must not become the number of a file we open. */
static bool hold_standard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDONLY) != fd)
            return false;
    return true;
}

int main(int argc, char **argv)
{
    double started = tt_now();
    tt_error err = {.offset = -1};
    tt_cli_options o;
    tt_engine e;
    if (!hold_standard_streams())
        return EXIT_FAILED;
    tt_out_init(false);
    if (tt_cli_options_parse(&o, argc - 1, argv + 1, &err) != TT_OK) {
        tt_out_error(&err);
        return EXIT_USAGE;
    }
    if (o.help)
        return print_help();
    if (o.version)
        return print_version();
    tt_out_init(o.quiet);
    char disks[TT_MAX_PATH];
    if (tt_disks_path(getenv("XDG_CACHE_HOME"), getenv("HOME"), disks))
        o.load.probe_file = disks;
    char heat[TT_MAX_PATH];
    if (o.load.heat_profile == NULL && o.load.warm_seconds != 0.0f &&
        tt_heat_path(o.model, getenv("XDG_CACHE_HOME"), getenv("HOME"), heat))
        o.load.heat_profile = heat;
    tt_engine_init(&e, &o, started);
    int rc = run(&e);
    tt_engine_close(&e);
    return rc;
}
