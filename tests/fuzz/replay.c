/* Runs files, or all files of folders, through a fuzz target: the corpus as a plain test, with any
 * compiler. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned long inputs;

/* The input stands in a block of exactly its size, so that reading past it is seen. */
static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    if (!f || fstat(fileno(f), &st) != 0) {
        perror(path);
        if (f)
            fclose(f);
        return 1;
    }
    size_t size = (size_t)st.st_size;
    uint8_t *data = malloc(size ? size : 1);
    int failed = !data || fread(data, 1, size, f) != size;
    fclose(f);
    if (failed) {
        perror(path);
    } else {
        printf("%s (%zu bytes)\n", path, size);
        fflush(stdout);
        LLVMFuzzerTestOneInput(data, size);
        inputs++;
    }
    free(data);
    return failed;
}

static int run_folder(const char *path)
{
    struct dirent **list;
    int n = scandir(path, &list, NULL, alphasort);
    int failed = n < 0;
    if (failed)
        perror(path);
    for (int i = 0; i < n; i++) {
        char file[4096];
        if (list[i]->d_name[0] != '.') {
            snprintf(file, sizeof file, "%s/%s", path, list[i]->d_name);
            failed |= run_file(file);
        }
        free(list[i]);
    }
    if (n >= 0)
        free(list);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode))
            failed |= run_folder(argv[i]);
        else
            failed |= run_file(argv[i]);
    }
    if (inputs == 0) {
        fprintf(stderr, "%s: no input; give files or folders\n", argv[0]);
        failed = 1;
    }
    return failed;
}
