/* Loaded before the peer's libraries (LD_PRELOAD): keeps llama.cpp from copying weights into
 * layouts of its own, which the peer's API cannot switch off. A memory-mapped file then stays what
 * is computed on. Everything else goes to the real function. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *ggml_backend_reg_get_proc_address(void *reg, const char *name);

void *ggml_backend_reg_get_proc_address(void *reg, const char *name)
{
    static void *(*real)(void *, const char *);
    if (strcmp(name, "ggml_backend_dev_get_extra_bufts") == 0)
        return NULL;
    if (real == NULL) {
        /* Loaded by node without RTLD_GLOBAL, so RTLD_NEXT does not see it. */
        void *lib = dlopen("libggml-base.so", RTLD_LAZY | RTLD_NOLOAD);
        if (lib != NULL) {
            real = (void *(*)(void *, const char *))dlsym(lib, "ggml_backend_reg_get_proc_address");
            dlclose(lib); /* whoever loaded it keeps it */
        }
    }
    if (real == NULL) { /* without it the peer would run with other threads than asked for */
        fprintf(stderr, "no_repack: libggml-base.so is not loaded\n");
        abort();
    }
    return real(reg, name);
}
