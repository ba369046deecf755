/* What the two stand-ins share: work for a stream's thread. */
#include <stddef.h>

typedef void (*standin_work)(void *arg); /* frees arg itself */
int standin_enqueue(void *stream, standin_work work, void *arg);
int standin_current(void); /* whether this thread has a context */
void standin_live(const char *what, int by);
int standin_env(const char *name, int otherwise);
