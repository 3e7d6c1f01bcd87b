#include <stdlib.h>

#include "base/status.h"

const char *tt_version(void)
{
    return TT_VERSION_STRING;
}

void tt_free(void *p)
{
    free(p);
}
