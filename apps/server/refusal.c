#include "server/refusal.h"

#include <stdarg.h>
#include <stdio.h>

bool tt_refuse(tt_refusal *why, int status, const char *code, const char *param, const char *fmt,
               ...)
{
    va_list args;
    why->status = status;
    why->code = code;
    snprintf(why->param, sizeof why->param, "%s", param != NULL ? param : "");
    va_start(args, fmt);
    vsnprintf(why->message, sizeof why->message, fmt, args);
    va_end(args);
    return false;
}
