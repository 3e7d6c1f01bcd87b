/* args.h: command lines of the programs, parsed from a table that also writes their --help.
 *
 * Owns:      "--name value" and "--name=value", types and ranges, refusals with a suggestion; what
 *            the library calls an option in the user's words.
 * Not here:  what options mean together (each program checks that), printing, exiting.
 * Laws:      (1) nothing unknown is accepted: flags, values, stray words, an option given twice;
 *            (2) the listing is written from the table that parses;  (3) what an option writes to
 *            keeps its value when the option is absent.
 * Threads:   any; a table belongs to one thread.
 */
#ifndef TT_BASE_ARGS_H
#define TT_BASE_ARGS_H

#include "base/buf.h"
#include "base/status.h"

#define TT_ARG_LIST_MAX 64u /* values of one repeated option */

typedef struct tt_arg_list {
    const char *items[TT_ARG_LIST_MAX]; /* borrowed from argv */
    uint32_t n;
} tt_arg_list;

typedef enum tt_arg_type {
    TT_ARG_END,
    TT_ARG_HEADING,
    TT_ARG_FLAG,
    TT_ARG_STOP,
    TT_ARG_STRING,
    TT_ARG_LIST,
    TT_ARG_U32,
    TT_ARG_U64,
    TT_ARG_SIZE,
    TT_ARG_FLOAT,
    TT_ARG_ENUM
} tt_arg_type;

/* One option. Tables are arrays of the TT_OPT_ macros below and end with TT_OPT_END. */
typedef struct tt_arg {
    tt_arg_type type;
    const char *name;  /* without dashes; the text of a heading */
    const char *value; /* word for the value in the listing */
    const char *help;
    union {
        bool *flag;
        const char **string; /* borrowed from argv */
        tt_arg_list *list;
        uint32_t *u32;
        uint64_t *u64;
        float *f32;
        int *choice; /* index into choices */
    } out;
    uint64_t min, max;          /* U32, U64, SIZE: inclusive; max 0 means no bound of ours */
    double fmin, fmax;          /* FLOAT: inclusive */
    const char *const *choices; /* ENUM: words, NULL at the end */
    bool required;
    bool given; /* written by tt_args_parse */
} tt_arg;

/* The trailing arguments are further fields, in practice `.required = true`. */
#define TT_OPT_HEADING(text)                                                                       \
    {                                                                                              \
        .type = TT_ARG_HEADING, .name = (text)                                                     \
    }
#define TT_OPT_FLAG(name_, out_, help_)                                                            \
    {                                                                                              \
        .type = TT_ARG_FLAG, .name = (name_), .help = (help_), .out.flag = (out_)                  \
    }
/* A flag instead of which nothing is required: --help, --version. */
#define TT_OPT_STOP(name_, out_, help_)                                                            \
    {                                                                                              \
        .type = TT_ARG_STOP, .name = (name_), .help = (help_), .out.flag = (out_)                  \
    }
#define TT_OPT_STRING(name_, out_, value_, help_, ...)                                             \
    {                                                                                              \
        .type = TT_ARG_STRING, .name = (name_), .value = (value_), .help = (help_),                \
        .out.string = (out_), __VA_ARGS__                                                          \
    }
/* May be given again and again. */
#define TT_OPT_LIST(name_, out_, value_, help_, ...)                                               \
    {                                                                                              \
        .type = TT_ARG_LIST, .name = (name_), .value = (value_), .help = (help_),                  \
        .out.list = (out_), __VA_ARGS__                                                            \
    }
#define TT_OPT_U32(name_, out_, value_, min_, max_, help_, ...)                                    \
    {                                                                                              \
        .type = TT_ARG_U32, .name = (name_), .value = (value_), .help = (help_),                   \
        .out.u32 = (out_), .min = (min_), .max = (max_), __VA_ARGS__                               \
    }
#define TT_OPT_U64(name_, out_, value_, min_, max_, help_, ...)                                    \
    {                                                                                              \
        .type = TT_ARG_U64, .name = (name_), .value = (value_), .help = (help_),                   \
        .out.u64 = (out_), .min = (min_), .max = (max_), __VA_ARGS__                               \
    }
/* Bytes: "4096", "512M", "1.5G", "16GiB"; K, M, G, T are powers of 1024. */
#define TT_OPT_SIZE(name_, out_, value_, min_, max_, help_, ...)                                   \
    {                                                                                              \
        .type = TT_ARG_SIZE, .name = (name_), .value = (value_), .help = (help_),                  \
        .out.u64 = (out_), .min = (min_), .max = (max_), __VA_ARGS__                               \
    }
#define TT_OPT_FLOAT(name_, out_, value_, min_, max_, help_, ...)                                  \
    {                                                                                              \
        .type = TT_ARG_FLOAT, .name = (name_), .value = (value_), .help = (help_),                 \
        .out.f32 = (out_), .fmin = (min_), .fmax = (max_), __VA_ARGS__                             \
    }
/* One word of `choices_`; the listing shows them as "a|b|c". */
#define TT_OPT_ENUM(name_, out_, choices_, help_, ...)                                             \
    {                                                                                              \
        .type = TT_ARG_ENUM, .name = (name_), .help = (help_), .out.choice = (out_),               \
        .choices = (choices_), __VA_ARGS__                                                         \
    }
#define TT_OPT_END                                                                                 \
    {                                                                                              \
        .type = TT_ARG_END                                                                         \
    }

/* Parses argv[0..argc), which holds options only (program and command names are not among them).
 * Everything that is wrong is TT_ERR_INVALID with a sentence for the user; what came before the
 * fault has been written. */
TT_MUST_CHECK tt_status tt_args_parse(tt_arg *table, int argc, char *const *argv, tt_error *err);
/* Whether the last parse met option `name`. */
bool tt_args_given(const tt_arg *table, const char *name);
/* Appends the listing: headings, and a line or more an option, at most 100 columns. */
void tt_args_help(const tt_arg *table, tt_buf *out);
/* "512M", "1.5G" and so on to bytes; `what` names the value in the error. */
TT_MUST_CHECK tt_status tt_args_size(const char *text, const char *what, uint64_t *out,
                                     tt_error *err);
/* Whether a backend takes a level, as far as the words alone tell; NULL and "auto" go with any. */
TT_MUST_CHECK tt_status tt_args_backend(const char *backend, const char *level, tt_error *err);

/* An option of the library and what the program's user writes for it. */
typedef struct tt_arg_name {
    const char *option, *flag;
} tt_arg_name;
/* Puts flags in the place of options ("max_context" -> "--max-context") in a message of the
 * library. `names` ends with an entry of NULL. */
void tt_args_translate(const tt_arg_name *names, tt_error *err);

/* The word of `words` (NULL at the end) that `text` was probably meant to be, or NULL. */
const char *tt_args_nearest(const char *text, const char *const *words);

#endif
