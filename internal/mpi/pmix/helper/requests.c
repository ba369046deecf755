/* The functions that libpmix calls to ask its host. They run on the library's one thread and may not wait: each
 * sends a message to the agent. The id of the message is the address of the pending request. */
#include "helper.h"

#include <stdlib.h>
#include <string.h>

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

/* text_of returns the text of a fact, or NULL. A rank may send a text that is none. */
static const char *text_of(const char *key, const pmix_info_t info[], size_t facts)
{
	for (size_t i = 0; i < facts; i++)
		if (strcmp(info[i].key, key) == 0 && info[i].value.type == PMIX_STRING && info[i].value.data.string)
			return info[i].value.data.string;
	return NULL;
}

/* text_about returns the text of a fact about a program, or about all of them, or "". */
static const char *text_about(const char *key, const pmix_app_t *app, const pmix_info_t info[], size_t facts)
{
	const char *text = text_of(key, app->info, app->ninfo);
	if (!text)
		text = text_of(key, info, facts);
	return text ? text : "";
}

static void append_program(struct message *m, const pmix_app_t *app, const pmix_info_t info[], size_t facts)
{
	message_number(m, app->maxprocs > 0 ? (uint64_t)app->maxprocs : 0);
	const char *folder = text_about(PMIX_WDIR, app, info, facts);
	message_string(m, app->cwd && !*folder ? app->cwd : folder);
	const char *host = text_about(PMIX_HOST, app, info, facts);
	message_string(m, *host ? host : text_about(PMIX_ADD_HOST, app, info, facts));
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

/* is_here reports whether a rank is on this host. */
static bool is_here(const struct job *of, uint64_t rank)
{
	for (uint64_t i = 0; i < of->locals; i++)
		if (of->ranks[i] == rank)
			return true;
	return false;
}

/* Some versions of the library ask for ranks of this host, too, and free the request when the rank commits, before the answer. */
static pmix_status_t fetch(const pmix_proc_t *proc, const pmix_info_t info[], size_t facts, pmix_modex_cbfunc_t answer,
	void *call)
{
	const struct job *of = job_find(proc->nspace);
	if (!of || proc->rank >= of->size || is_here(of, proc->rank))
		return PMIX_ERR_NOT_FOUND;
	const char *key = text_of(PMIX_REQUIRED_KEY, info, facts);
	struct message m;
	message_begin(&m, FETCH);
	message_number(&m, expect((struct pending){.type = FETCH, .data = answer, .call = call}));
	message_number(&m, of->world);
	message_number(&m, proc->rank);
	message_string(&m, key ? key : "");
	message_send(&m);
	return PMIX_SUCCESS;
}

/* is_data reports whether a fact is a value to publish; others say how, such as for how long. */
static int is_data(const pmix_info_t *info) { return strncmp(info->key, "pmix", 4) != 0; }

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
		if (!is_data(&info[i]))
			continue;
		message_string(&m, info[i].key);
		if (!names_append(&m, proc->rank, &info[i].value)) {
			free(m.bytes);
			free((void *)(uintptr_t)id);
			return PMIX_ERR_NOT_SUPPORTED;
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
		if (length > 0 && names_read(value, length, &data[count].proc.rank, &data[count].value)) {
			strncpy(data[count].proc.nspace, job.name, sizeof data[count].proc.nspace - 1);
			strncpy(data[count].key, p->keys[i], sizeof data[count].key - 1);
			count++;
		}
		free(p->keys[i]);
	}
	free(p->keys);
	if (status == PMIX_SUCCESS && count == 0)
		status = PMIX_ERR_NOT_FOUND;
	else if (status == PMIX_SUCCESS && count < keys)
		status = PMIX_ERR_PARTIAL_SUCCESS;
	p->found(status, data, count, p->call);
	for (size_t i = 0; i < count; i++) /* the library has copied the values */
		names_free(&data[i].value);
	free(data);
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
