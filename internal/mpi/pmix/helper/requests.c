/* The functions that libpmix calls to ask its host. They run on the library's one thread and may not wait: each
 * sends a message to the agent. The id of the message is the address of the pending request. */
#include "helper.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* pending is a request that the agent has not answered. */
struct pending {
	enum type type;
	pmix_modex_cbfunc_t data;
	pmix_op_cbfunc_t done;
	pmix_lookup_cbfunc_t found;
	pmix_spawn_cbfunc_t spawned;
	void *call; /* of the callback */
	char **keys;
};

static uint64_t expect(struct pending p)
{
	struct pending *kept = malloc(sizeof *kept);
	if (!kept)
		fail("no memory for a request");
	*kept = p;
	return (uint64_t)(uintptr_t)kept;
}

/* ours reports whether a rank is of the job itself. */
static int ours(const pmix_proc_t *proc) { return proc && strncmp(proc->nspace, job.name, PMIX_MAX_NSLEN) == 0; }

/* append_rank appends a rank's world and its number there. */
static void append_rank(struct message *m, const pmix_proc_t *proc)
{
	const struct job *of = job_find(proc->nspace);
	message_number(m, of ? of->world : UINT64_MAX);
	message_number(m, proc->rank);
}

static pmix_status_t entered(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *call)
{
	(void)object, (void)done, (void)call;
	struct message m;
	message_begin(&m, ENTERED);
	append_rank(&m, proc);
	message_send(&m);
	return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t left(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *call)
{
	(void)object, (void)done, (void)call;
	struct message m;
	message_begin(&m, LEFT);
	append_rank(&m, proc);
	message_send(&m);
	return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t aborted(const pmix_proc_t *proc, void *object, int code, const char text[], pmix_proc_t procs[],
	size_t count, pmix_op_cbfunc_t done, void *call)
{
	(void)object, (void)procs, (void)count;
	struct message m;
	message_begin(&m, ABORT);
	message_number(&m, expect((struct pending){.type = ABORT, .done = done, .call = call}));
	append_rank(&m, proc);
	message_number(&m, (uint64_t)code);
	message_string(&m, text ? text : "");
	message_send(&m);
	return PMIX_SUCCESS;
}

static uint64_t length(char **list)
{
	uint64_t n = 0;
	while (list && list[n])
		n++;
	return n;
}

static void append_list(struct message *m, char **list)
{
	message_number(m, length(list));
	for (uint64_t i = 0; list && list[i]; i++)
		message_string(m, list[i]);
}

/* text_of returns the text of a fact about a program, or about all of them, or "". */
static const char *text_of(const char *key, const pmix_app_t *app, const pmix_info_t info[], size_t facts)
{
	for (size_t i = 0; i < app->ninfo; i++)
		if (strcmp(app->info[i].key, key) == 0 && app->info[i].value.type == PMIX_STRING)
			return app->info[i].value.data.string;
	for (size_t i = 0; i < facts; i++)
		if (strcmp(info[i].key, key) == 0 && info[i].value.type == PMIX_STRING)
			return info[i].value.data.string;
	return "";
}

static void append_program(struct message *m, const pmix_app_t *app, const pmix_info_t info[], size_t facts)
{
	message_number(m, app->maxprocs > 0 ? (uint64_t)app->maxprocs : 0);
	const char *folder = text_of(PMIX_WDIR, app, info, facts);
	message_string(m, app->cwd && !*folder ? app->cwd : folder);
	const char *host = text_of(PMIX_HOST, app, info, facts);
	message_string(m, *host ? host : text_of(PMIX_ADD_HOST, app, info, facts));
	/* The words begin with the program, which some versions leave out. */
	char *alone[] = {app->cmd, NULL};
	append_list(m, app->argv && app->argv[0] ? app->argv : alone);
	append_list(m, app->env);
}

static pmix_status_t spawned(const pmix_proc_t *proc, const pmix_info_t info[], size_t facts, const pmix_app_t apps[],
	size_t count, pmix_spawn_cbfunc_t done, void *call)
{
	struct message m;
	message_begin(&m, SPAWN);
	message_number(&m, expect((struct pending){.type = SPAWN, .spawned = done, .call = call}));
	append_rank(&m, proc);
	message_number(&m, count);
	for (size_t i = 0; i < count; i++)
		append_program(&m, &apps[i], info, facts);
	message_send(&m);
	return PMIX_SUCCESS;
}

/* meet asks for a meeting of ranks, perhaps of several worlds. The library has waited for those on this host. */
static void meet(uint64_t id, const pmix_proc_t procs[], size_t count, const char *data, size_t size)
{
	struct message m;
	message_begin(&m, MEET);
	message_number(&m, id);
	message_text(&m, data, size);
	message_number(&m, count);
	for (size_t i = 0; i < count; i++) {
		const struct job *of = job_find(procs[i].nspace);
		message_number(&m, of ? of->world : UINT64_MAX);
		message_number(&m, procs[i].rank == PMIX_RANK_WILDCARD ? UINT64_MAX : procs[i].rank);
	}
	message_send(&m);
}

/* joined lets ranks of several worlds join or part. */
static pmix_status_t joined(const pmix_proc_t procs[], size_t count, const pmix_info_t info[], size_t facts,
	pmix_op_cbfunc_t done, void *call)
{
	(void)info, (void)facts;
	meet(expect((struct pending){.type = MEET, .done = done, .call = call}), procs, count, "", 0);
	return PMIX_SUCCESS;
}

/* whole reports whether procs are all ranks of the job, who have a fence of their own. */
static int whole(const pmix_proc_t procs[], size_t count)
{
	return count > 0 && ours(&procs[0]) && (count == job.size || (count == 1 && procs[0].rank == PMIX_RANK_WILDCARD));
}

static pmix_status_t fence(const pmix_proc_t procs[], size_t count, const pmix_info_t info[], size_t facts, char *data,
	size_t size, pmix_modex_cbfunc_t answer, void *call)
{
	(void)info, (void)facts;
	uint64_t id = expect((struct pending){.type = FENCE, .data = answer, .call = call});
	if (whole(procs, count)) {
		struct message m;
		message_begin(&m, FENCE);
		message_number(&m, id);
		message_text(&m, data, size);
		message_send(&m);
	} else {
		meet(id, procs, count, data, size);
	}
	free(data);
	return PMIX_SUCCESS;
}

static pmix_status_t fetch(const pmix_proc_t *proc, const pmix_info_t info[], size_t facts, pmix_modex_cbfunc_t answer,
	void *call)
{
	const struct job *of = job_find(proc->nspace);
	if (!of || proc->rank >= of->size)
		return PMIX_ERR_NOT_FOUND;
	const char *key = "";
	for (size_t i = 0; i < facts; i++)
		if (strcmp(info[i].key, PMIX_REQUIRED_KEY) == 0 && info[i].value.type == PMIX_STRING)
			key = info[i].value.data.string;
	struct message m;
	message_begin(&m, FETCH);
	message_number(&m, expect((struct pending){.type = FETCH, .data = answer, .call = call}));
	message_number(&m, of->world);
	message_number(&m, proc->rank);
	message_string(&m, key);
	message_send(&m);
	return PMIX_SUCCESS;
}

/* is_data reports whether a fact is a value to publish; others say how, such as for how long. */
static int is_data(const pmix_info_t *info) { return strncmp(info->key, "pmix", 4) != 0; }

/* append_value appends what libpmix of another host can read, with the rank that publishes it. */
static pmix_status_t append_value(struct message *m, const pmix_proc_t *proc, const pmix_info_t *info)
{
	pmix_data_buffer_t buffer = {0};
	pmix_byte_object_t bytes = {0};
	pmix_rank_t rank = proc->rank;
	pmix_status_t status = pmix.PMIx_Data_pack_(NULL, &buffer, &rank, 1, PMIX_PROC_RANK);
	if (status == PMIX_SUCCESS)
		status = pmix.PMIx_Data_pack_(NULL, &buffer, (void *)&info->value, 1, PMIX_VALUE);
	if (status == PMIX_SUCCESS)
		status = pmix.PMIx_Data_unload_(&buffer, &bytes);
	if (status == PMIX_SUCCESS) {
		message_string(m, info->key);
		message_text(m, bytes.bytes, bytes.size);
		free(bytes.bytes);
	}
	free(buffer.base_ptr);
	return status;
}

static pmix_status_t publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t facts, pmix_op_cbfunc_t done,
	void *call)
{
	uint64_t count = 0;
	for (size_t i = 0; i < facts; i++)
		count += (uint64_t)is_data(&info[i]);
	uint64_t id = expect((struct pending){.type = PUBLISH, .done = done, .call = call});
	struct message m;
	message_begin(&m, PUBLISH);
	message_number(&m, id);
	message_number(&m, count);
	for (size_t i = 0; i < facts; i++) {
		pmix_status_t status = is_data(&info[i]) ? append_value(&m, proc, &info[i]) : PMIX_SUCCESS;
		if (status != PMIX_SUCCESS) {
			free(m.bytes);
			free((void *)(uintptr_t)id);
			return status;
		}
	}
	message_send(&m);
	return PMIX_SUCCESS;
}

static char **copy_keys(char **keys)
{
	size_t count = length(keys);
	char **copy = calloc(count + 1, sizeof *copy);
	for (size_t i = 0; copy && i < count; i++)
		if (!(copy[i] = strdup(keys[i])))
			fail("no memory for a name");
	if (!copy)
		fail("no memory for %zu names", count);
	return copy;
}

/* patience returns how many seconds a look-up waits for a name that is not published yet. */
static uint64_t patience(const pmix_info_t info[], size_t facts)
{
	uint64_t seconds = 0;
	for (size_t i = 0; i < facts; i++) {
		if (strcmp(info[i].key, PMIX_WAIT) == 0 && seconds == 0)
			seconds = 24 * 3600;
		if (strcmp(info[i].key, PMIX_TIMEOUT) == 0 && info[i].value.type == PMIX_INT && info[i].value.data.integer > 0)
			seconds = (uint64_t)info[i].value.data.integer;
	}
	return seconds;
}

static pmix_status_t lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t info[], size_t facts,
	pmix_lookup_cbfunc_t found, void *call)
{
	(void)proc;
	struct message m;
	message_begin(&m, LOOKUP);
	message_number(&m, expect((struct pending){.type = LOOKUP, .found = found, .call = call, .keys = copy_keys(keys)}));
	message_number(&m, patience(info, facts));
	append_list(&m, keys);
	message_send(&m);
	return PMIX_SUCCESS;
}

static pmix_status_t unpublish(const pmix_proc_t *proc, char **keys, const pmix_info_t info[], size_t facts,
	pmix_op_cbfunc_t done, void *call)
{
	(void)proc, (void)info, (void)facts;
	if (!keys) /* all that the rank has published: the job's store goes with the job */
		return PMIX_OPERATION_SUCCEEDED;
	struct message m;
	message_begin(&m, UNPUBLISH);
	message_number(&m, expect((struct pending){.type = UNPUBLISH, .done = done, .call = call}));
	append_list(&m, keys);
	message_send(&m);
	return PMIX_SUCCESS;
}

pmix_server_module_t requests = {
	.client_connected = entered,
	.client_finalized = left,
	.abort = aborted,
	.spawn = spawned,
	.connect = joined,
	.disconnect = joined,
	.fence_nb = fence,
	.direct_modex = fetch,
	.publish = publish,
	.lookup = lookup,
	.unpublish = unpublish,
};

static pmix_status_t status_of(uint64_t failed)
{
	switch (failed) {
	case 0:
		return PMIX_SUCCESS;
	case 1:
		return PMIX_ERR_NOT_FOUND;
	case 2:
		return PMIX_ERR_DUPLICATE_KEY;
	}
	return PMIX_ERROR;
}

/* unpack reads a published value. */
static int unpack(pmix_pdata_t *to, const char *key, const char *text, size_t size)
{
	char *copy = malloc(size + 1);
	if (!copy)
		return 0;
	memcpy(copy, text, size);
	pmix_byte_object_t bytes = {.bytes = copy, .size = size};
	pmix_data_buffer_t buffer = {0};
	int32_t one = 1;
	int good = pmix.PMIx_Data_load_(&buffer, &bytes) == PMIX_SUCCESS &&
		pmix.PMIx_Data_unpack_(NULL, &buffer, &to->proc.rank, &one, PMIX_PROC_RANK) == PMIX_SUCCESS &&
		(one = 1, pmix.PMIx_Data_unpack_(NULL, &buffer, &to->value, &one, PMIX_VALUE)) == PMIX_SUCCESS;
	strncpy(to->proc.nspace, job.name, sizeof to->proc.nspace - 1);
	strncpy(to->key, key, sizeof to->key - 1);
	free(buffer.base_ptr);
	return good;
}

/* tell_found calls back with what a look-up has found. The answer is a list of texts, each a found value or empty. */
static void tell_found(struct pending *p, pmix_status_t status, const char *text, size_t size)
{
	struct message list = {.bytes = (char *)text, .size = size};
	size_t keys = 0, count = 0;
	while (p->keys[keys])
		keys++;
	pmix_pdata_t *data = calloc(keys + 1, sizeof *data);
	for (size_t i = 0; data && i < keys; i++) {
		size_t length;
		const char *value = message_take_text(&list, &length);
		if (length > 0 && unpack(&data[count], p->keys[i], value, length))
			count++;
		free(p->keys[i]);
	}
	free(p->keys);
	if (status == PMIX_SUCCESS && count == 0)
		status = PMIX_ERR_NOT_FOUND;
	else if (status == PMIX_SUCCESS && count < keys)
		status = PMIX_ERR_PARTIAL_SUCCESS;
	p->found(status, data, count, p->call);
	free(data); /* the library has copied the values */
}

void requests_answer(struct message *m)
{
	struct pending *p = (struct pending *)(uintptr_t)message_take_number(m);
	pmix_status_t status = status_of(message_take_number(m));
	size_t size;
	const char *text = message_take_text(m, &size);
	if (m->broken || !p)
		fail("an answer of the agent is broken");
	switch (p->type) {
	case FENCE:
	case FETCH: {
		char *data = malloc(size + 1);
		if (!data)
			fail("no memory for %zu bytes", size);
		memcpy(data, text, size);
		p->data(status, data, size, p->call, free, data);
		break;
	}
	case SPAWN: {
		pmix_nspace_t name = "";
		memcpy(name, text, size < sizeof name ? size : sizeof name - 1);
		p->spawned(status, name, p->call);
		break;
	}
	case LOOKUP:
		tell_found(p, status, text, size);
		break;
	default:
		if (p->done)
			p->done(status, p->call);
	}
	free(p);
}

/* held answers another host with what a rank here has committed. */
static void held(pmix_status_t status, char *data, size_t size, void *call)
{
	struct message m;
	message_begin(&m, HELD);
	message_number(&m, (uint64_t)(uintptr_t)call);
	message_number(&m, status == PMIX_SUCCESS ? 0 : 1);
	message_text(&m, data, data ? size : 0);
	message_send(&m);
}

/* wanted is the data that another host wants. */
struct wanted {
	uint64_t id;
	pmix_proc_t proc;
	char *key;
};

/* The library does not say when a rank commits more data. A rank that is asked for what it will commit is about to. */
enum { FIRST_PAUSE = 500, LAST_PAUSE = 100 * 1000 }; /* microseconds */

static int committed(const struct wanted *w)
{
	pmix_value_t *value = NULL;
	pmix_info_t here;
	memset(&here, 0, sizeof here);
	bool yes = true;
	pmix.PMIx_Info_load_(&here, PMIX_OPTIONAL, &yes, PMIX_BOOL);
	return pmix.PMIx_Get_(&w->proc, w->key, &here, 1, &value) == PMIX_SUCCESS; /* value is small and stays */
}

/* await asks the library for the data as soon as it has the key. */
static void *await(void *argument)
{
	struct wanted *w = argument;
	for (useconds_t pause = FIRST_PAUSE; *w->key && !committed(w); pause = pause < LAST_PAUSE ? 2 * pause : LAST_PAUSE)
		usleep(pause);
	pmix_status_t status = pmix.PMIx_server_dmodex_request_(&w->proc, held, (void *)(uintptr_t)w->id);
	if (status != PMIX_SUCCESS)
		held(status, NULL, 0, (void *)(uintptr_t)w->id);
	free(w->key);
	free(w);
	return NULL;
}

void requests_want(struct message *m)
{
	struct wanted *w = calloc(1, sizeof *w);
	if (!w)
		fail("no memory for a request");
	w->id = message_take_number(m);
	const struct job *of = job_number(message_take_number(m));
	w->proc.rank = (pmix_rank_t)message_take_number(m);
	if (!of)
		fail("the agent asks for ranks of a world that is not known");
	strncpy(w->proc.nspace, of->name, sizeof w->proc.nspace - 1);
	w->key = message_take_string(m);
	pthread_t thread;
	if (pthread_create(&thread, NULL, await, w) != 0)
		fail("no thread for a request");
	pthread_detach(thread);
}
