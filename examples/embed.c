/* embed.c: asks a model one question and streams the answer.
 *
 *   cc embed.c $(pkg-config --cflags --libs tinytitan) -o embed
 *   ./embed MODEL.gturbo "Tell me a story about a fox." [MAX_TOKENS]
 *
 * A complete program on the public header: open, render the chat, prefill, sample, decode, stream.
 * A model without a chat template continues the text instead.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tinytitan/tinytitan.h>

/* Everything that has to be given back, in one place. */
typedef struct engine {
    tt_tokenizer *tok;
    tt_model *model;
    tt_session *session;
    tt_sampler *sampler;
    tt_decoder *decoder;
} engine;

static tt_status open_engine(engine *e, const char *path, tt_error *err)
{
    tt_model_options options;
    tt_sampler_options sampling;
    tt_model_info info;
    tt_status st;

    tt_model_options_default(&options); /* everything chosen by the engine and the machine */
    if ((st = tt_tokenizer_open(path, &e->tok, err)) != TT_OK)
        return st;
    if ((st = tt_model_open(path, &options, NULL, NULL, &e->model, err)) != TT_OK)
        return st;
    if ((st = tt_session_create(e->model, &e->session, err)) != TT_OK)
        return st;
    tt_model_get_info(e->model, &info);
    (void)tt_tokenizer_sampling_defaults(e->tok, &sampling); /* plain defaults if there are none */
    sampling.seed = 1;
    if ((st = tt_sampler_create(&sampling, info.vocab_size, &e->sampler, err)) != TT_OK)
        return st;
    return tt_decoder_create(e->tok, true, &e->decoder, err);
}

static void close_engine(engine *e)
{
    tt_decoder_close(&e->decoder);
    tt_sampler_close(&e->sampler);
    tt_session_close(&e->session);
    tt_model_close(&e->model);
    tt_tokenizer_close(&e->tok);
}

/* Writes `text` as a JSON string. */
static char *json_string(const char *text)
{
    char *out = malloc(6 * strlen(text) + 3), *p = out;
    if (out == NULL)
        return NULL;
    *p++ = '"';
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            p += sprintf(p, "\\%c", c);
        else if (c < 0x20)
            p += sprintf(p, "\\u%04x", c);
        else
            *p++ = (char)c;
    }
    *p++ = '"';
    *p = '\0';
    return out;
}

/* The ids that the model is to continue. */
static tt_status make_prompt(const engine *e, const char *question, uint32_t **ids, size_t *n,
                             tt_error *err)
{
    if (!tt_tokenizer_has_template(e->tok))
        return tt_tokenizer_encode(e->tok, question, strlen(question), false, ids, n, err);

    char *content = json_string(question), *messages = NULL, *prompt = NULL;
    size_t len = 0;
    tt_status st = TT_ERR_NOMEM;
    if (content != NULL && (messages = malloc(strlen(content) + 64)) != NULL) {
        tt_chat_options chat = {.thinking = TT_THINKING_DEFAULT};
        sprintf(messages, "[{\"role\": \"user\", \"content\": %s}]", content);
        st = tt_chat_render(e->tok, messages, &chat, &prompt, &len, err);
    } else {
        snprintf(err->message, sizeof err->message, "out of memory for the prompt");
    }
    /* The template writes special tokens such as <|im_start|> as text: they become their ids. */
    if (st == TT_OK)
        st = tt_tokenizer_encode(e->tok, prompt, len, true, ids, n, err);
    free(content);
    free(messages);
    tt_free(prompt);
    return st;
}

static bool is_stop(const engine *e, uint32_t id)
{
    size_t n = 0;
    const uint32_t *stop = tt_tokenizer_stop_ids(e->tok, &n);
    for (size_t i = 0; i < n; i++)
        if (stop[i] == id)
            return true;
    return false;
}

static tt_status answer(engine *e, const char *question, long max_tokens, tt_error *err)
{
    uint32_t *ids = NULL, id = 0;
    size_t n = 0, len = 0;
    const char *text = NULL;
    tt_status st = make_prompt(e, question, &ids, &n, err);
    if (st != TT_OK)
        return st;
    for (size_t i = 0; i < n; i++)
        tt_sampler_accept(e->sampler, ids[i], false);
    st = tt_session_sync(e->session, ids, n, NULL, NULL, err);
    tt_free(ids);

    while (st == TT_OK && max_tokens-- > 0) {
        st = tt_session_sample(e->session, e->sampler, &id, err);
        if (st != TT_OK || is_stop(e, id))
            break;
        tt_sampler_accept(e->sampler, id, true);
        if ((st = tt_decoder_push(e->decoder, id, &text, &len, err)) != TT_OK)
            break;
        fwrite(text, 1, len, stdout);
        fflush(stdout);
        if (max_tokens > 0)
            st = tt_session_decode(e->session, id, err);
    }
    tt_decoder_flush(e->decoder, &text, &len);
    fwrite(text, 1, len, stdout);
    putchar('\n');
    return st;
}

int main(int argc, char **argv)
{
    engine e = {0};
    tt_error err = {0};
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: %s MODEL.gturbo QUESTION [MAX_TOKENS]\n", argv[0]);
        return 2;
    }
    tt_status st = open_engine(&e, argv[1], &err);
    if (st == TT_OK)
        st = answer(&e, argv[2], argc > 3 ? strtol(argv[3], NULL, 10) : 200, &err);
    if (st != TT_OK)
        fprintf(stderr, "%s: %s: %s\n", argv[0], tt_status_text(st), err.message);
    close_engine(&e);
    return st == TT_OK ? 0 : 1;
}
