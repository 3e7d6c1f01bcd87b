/* Renders the input as a chat template over a fixed conversation: any template ends in text or in
 * an error, within its limits. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <jansson.h>

#include "tokenizer/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static json_t *variables(void)
{
    return json_loads(
        "{\"messages\": [{\"role\": \"system\", \"content\": \"Be kind.\"},"
        " {\"role\": \"user\", \"content\": \"Zo\\u00eb \\ud83e\\udd8a <b>?\"},"
        " {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"function\":"
        " {\"name\": \"f\", \"arguments\": {\"a\": 1, \"b\": [1.5, true]}}}]},"
        " {\"role\": \"tool\", \"content\": [{\"type\": \"text\", \"text\": \"part\"}]}],"
        " \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}],"
        " \"add_generation_prompt\": true, \"n\": 3, \"f\": -0.5, \"s\": \"a, b\\n c\"}",
        0, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static json_t *vars;
    if (vars == NULL)
        vars = variables();
    tt_jinja_options o;
    tt_jinja_options_default(&o);
    o.max_steps = 100000;
    o.max_memory = (size_t)4 << 20;
    o.max_output = (size_t)1 << 20;
    o.now = 0;
    char *text = NULL;
    size_t len = 0;
    tt_error err;
    if (tt_jinja_render((const char *)data, size, vars, &o, &text, &len, &err) == TT_OK) {
        if (text == NULL || text[len] != '\0' || len > o.max_output)
            abort();
        tt_free(text);
    }
    return 0;
}
