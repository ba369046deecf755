#define _GNU_SOURCE
#include "helper.h"

#include <dlfcn.h>

struct library pmix;

void library_load(const char *path)
{
	const char *name = *path ? path : "libpmix.so.2";
	/* Global, because the library's plugins take its symbols from there. */
	void *handle = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
	if (!handle)
		fail("%s", dlerror());
#define FIND(function) \
	if (!(*(void **)&pmix.function##_ = dlsym(handle, #function))) \
		fail("%s has no " #function ": it is older than 4.2", name);
	FUNCTIONS(FIND)
#undef FIND
	struct message m;
	message_begin(&m, LOADED);
	message_string(&m, pmix.PMIx_Get_version_());
	message_send(&m);
}
