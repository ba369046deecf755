/* Requests of other hosts for data that a rank here has committed, or is about to. One thread waits for all of it: another
 * host may request anything. The agent bounds how much a host may request at a time. */
#define _GNU_SOURCE
#include "helper.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* wanted is the data that another host wants. */
struct wanted {
	struct wanted *next;
	uint64_t id;
	pmix_proc_t proc;
	char *key;
};

static pthread_mutex_t listing = PTHREAD_MUTEX_INITIALIZER; /* of arrived */
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static struct wanted *arrived;

/* held answers another host with what a rank here has committed. */
static void held(pmix_status_t status, char *data, size_t size, void *call)
{
	struct message m;
	message_begin(&m, HELD);
	message_number(&m, (uint64_t)(uintptr_t)call);
	message_number(&m, status == PMIX_SUCCESS ? 0 : 1);
	message_text(&m, data, size);
	message_send(&m);
}

/* known is data that a rank has committed, which stays. */
struct known {
	struct known *next;
	pmix_proc_t proc;
	char key[];
};

static struct known *all_known; /* of the thread that waits */

static int is_known(const struct wanted *w)
{
	for (const struct known *k = all_known; k; k = k->next)
		if (strcmp(k->key, w->key) == 0 && memcmp(&k->proc, &w->proc, sizeof k->proc) == 0)
			return 1;
	return 0;
}

/* committed reports whether a rank has committed what is wanted. The library makes a copy of the value for that, which stays: it
 * is asked for each value once, as another host may request the same one without end. */
static int committed(const struct wanted *w)
{
	if (is_known(w))
		return 1;
	pmix_value_t *copy = NULL;
	pmix_info_t here;
	memset(&here, 0, sizeof here);
	bool yes = true;
	pmix.PMIx_Info_load_(&here, PMIX_OPTIONAL, &yes, PMIX_BOOL);
	if (pmix.PMIx_Get_(&w->proc, w->key, &here, 1, &copy) != PMIX_SUCCESS)
		return 0;
	size_t size = strlen(w->key) + 1;
	struct known *k = malloc(sizeof *k + size);
	if (!k)
		fail("no memory for a name");
	k->proc = w->proc;
	memcpy(k->key, w->key, size);
	k->next = all_known;
	all_known = k;
	return 1;
}

/* ask asks the library for the data, and frees w. */
static void ask(struct wanted *w)
{
	pmix_status_t status = pmix.PMIx_server_dmodex_request_(&w->proc, held, (void *)(uintptr_t)w->id);
	if (status != PMIX_SUCCESS)
		held(status, NULL, 0, (void *)(uintptr_t)w->id);
	free(w->key);
	free(w);
}

/* The library does not say when a rank commits more data. A rank that is asked for what it will commit is about to. */
enum { FIRST_PAUSE = 500, LAST_PAUSE = 100 * 1000 }; /* microseconds */

/* await asks the library for all wanted data as soon as it has the keys. */
_Noreturn static void *await(void *argument)
{
	(void)argument;
	struct wanted *waiting = NULL;
	for (useconds_t pause = FIRST_PAUSE;; pause = pause < LAST_PAUSE ? 2 * pause : LAST_PAUSE) {
		pthread_mutex_lock(&listing);
		while (!arrived && !waiting)
			pthread_cond_wait(&came, &listing);
		if (arrived)
			pause = FIRST_PAUSE;
		struct wanted **end = &arrived;
		while (*end)
			end = &(*end)->next;
		*end = waiting;
		struct wanted *all = arrived;
		arrived = NULL;
		pthread_mutex_unlock(&listing);
		for (waiting = NULL; all;) {
			struct wanted *w = all;
			all = w->next;
			if (!*w->key || committed(w)) {
				ask(w);
				continue;
			}
			w->next = waiting;
			waiting = w;
		}
		if (waiting)
			usleep(pause);
	}
}

void questions_take(struct message *m)
{
	static bool begun;
	struct wanted *w = calloc(1, sizeof *w);
	if (!w)
		fail("no memory for a request");
	w->id = message_take_number(m);
	const struct job *of = job_number(message_take_number(m));
	w->proc.rank = (pmix_rank_t)message_take_number(m);
	if (!of || !of->name)
		fail("the agent asks for ranks of a world that is not known");
	strncpy(w->proc.nspace, of->name, sizeof w->proc.nspace - 1);
	w->key = message_take_string(m);
	pthread_mutex_lock(&listing);
	w->next = arrived;
	arrived = w;
	pthread_cond_signal(&came);
	pthread_mutex_unlock(&listing);
	pthread_t thread;
	if (!begun && pthread_create(&thread, NULL, await, NULL) != 0)
		fail("no thread for requests");
	if (!begun)
		pthread_detach(thread);
	begun = true;
}
