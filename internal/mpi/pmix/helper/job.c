#define _GNU_SOURCE
#include "helper.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

struct job job;

static pthread_mutex_t listing = PTHREAD_MUTEX_INITIALIZER; /* of the worlds */

struct job *job_find(const char *name)
{
	pthread_mutex_lock(&listing);
	struct job *found = &job;
	while (found && strncmp(name, found->name, PMIX_MAX_NSLEN) != 0)
		found = found->next;
	pthread_mutex_unlock(&listing);
	return found;
}

struct job *job_number(uint64_t world)
{
	pthread_mutex_lock(&listing);
	struct job *found = &job;
	while (found && found->world != world)
		found = found->next;
	pthread_mutex_unlock(&listing);
	return found;
}

/* job_add adds a world to the list. */
static void job_add(struct job *of)
{
	pthread_mutex_lock(&listing);
	of->next = job.next;
	job.next = of;
	pthread_mutex_unlock(&listing);
}

/* infos is a list of facts for the library, which copies them. */
struct infos {
	pmix_info_t *list;
	size_t count, room;
};

static pmix_info_t *make(size_t count)
{
	pmix_info_t *list = calloc(count, sizeof *list);
	if (!list)
		fail("no memory for %zu facts about the job", count);
	return list;
}

static void say(struct infos *all, const char *key, const void *value, pmix_data_type_t type)
{
	if (all->count == all->room)
		fail("more than %zu facts", all->room);
	pmix.PMIx_Info_load_(&all->list[all->count++], key, value, type);
}

static void say_number(struct infos *all, const char *key, uint64_t n)
{
	uint32_t number = (uint32_t)n;
	say(all, key, &number, PMIX_UINT32);
}

/* say_rank describes one rank: its number, host, place on the host and program. */
static void say_rank(struct infos *all, struct message *m, uint64_t rank)
{
	struct infos facts = {.room = 6};
	facts.list = make(facts.room);
	pmix_rank_t number = (pmix_rank_t)rank;
	uint64_t host = message_take_number(m);
	uint16_t local = (uint16_t)message_take_number(m);
	uint64_t program = message_take_number(m);
	pmix_rank_t in_program = (pmix_rank_t)message_take_number(m);
	say(&facts, PMIX_RANK, &number, PMIX_PROC_RANK);
	say_number(&facts, PMIX_NODEID, host);
	say(&facts, PMIX_LOCAL_RANK, &local, PMIX_UINT16);
	say(&facts, PMIX_NODE_RANK, &local, PMIX_UINT16);
	say_number(&facts, PMIX_APPNUM, program);
	say(&facts, PMIX_APP_RANK, &in_program, PMIX_PROC_RANK);
	pmix_data_array_t array = {.type = PMIX_INFO, .size = facts.count, .array = facts.list};
	say(all, PMIX_PROC_INFO_ARRAY, &array, PMIX_DATA_ARRAY);
	free(facts.list);
}

static void check(pmix_status_t status, const char *what)
{
	if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED)
		fail("%s: %s", what, pmix.PMIx_Error_string_(status));
}

static void start_server(uint64_t host)
{
	struct infos all = {.room = 4};
	all.list = make(all.room);
	pmix_rank_t number = (pmix_rank_t)host;
	say(&all, PMIX_SERVER_TMPDIR, job.folder, PMIX_STRING);
	say(&all, PMIX_SYSTEM_TMPDIR, job.folder, PMIX_STRING);
	say(&all, PMIX_SERVER_RANK, &number, PMIX_PROC_RANK);
	say(&all, PMIX_HOSTNAME, job.host, PMIX_STRING);
	check(pmix.PMIx_server_init_(&requests, all.list, all.count), "start the server");
	free(all.list);
}

/* crowded reports whether ranks have to share processors: they should not poll then. */
static bool crowded(void)
{
	cpu_set_t set;
	uint64_t ranks = 0;
	for (struct job *of = &job; of; of = of->next)
		ranks += of->locals;
	return sched_getaffinity(0, sizeof set, &set) == 0 && ranks > (uint64_t)CPU_COUNT(&set);
}

/* BEGIN: texts name, this host, folder, hosts with commas, each host's ranks with semicolons, this
 * host's ranks with commas; numbers: world, the parent's world and rank, ranks that there may be, this host's, size, hosts,
 * programs, ranks here; each rank here; then for each rank of the job its host, local rank, program, and place among the
 * program's ranks. */
struct job *job_begin(struct message *m)
{
	bool first = !job.name;
	struct job *of = first ? &job : calloc(1, sizeof *of);
	if (!of)
		fail("no memory for a world");
	char *name = message_take_string(m);
	of->host = message_take_string(m);
	of->folder = message_take_string(m);
	char *hosts = message_take_string(m), *ranks = message_take_string(m), *peers = message_take_string(m);
	of->world = message_take_number(m);
	struct job *parents = job_number(message_take_number(m));
	pmix_proc_t parent = {.rank = (pmix_rank_t)message_take_number(m)};
	uint64_t universe = message_take_number(m);
	uint64_t host = message_take_number(m);
	of->size = message_take_number(m);
	uint64_t count = message_take_number(m), programs = message_take_number(m);
	of->locals = message_take_number(m);
	/* Before memory is allocated for them: each rank here has 8 bytes in the message, each rank of the job 32. */
	size_t left = message_left(m);
	if (m->broken || of->size > left / 32 || of->locals > (left - 32 * of->size) / 8 || of->locals > of->size ||
		first != !of->world || !parents)
		fail("the job's description is broken");
	if (!(of->ranks = calloc(of->locals + 1, sizeof *of->ranks)))
		fail("no memory for %zu ranks", (size_t)of->locals);
	for (uint64_t i = 0; i < of->locals; i++)
		of->ranks[i] = message_take_number(m);
	of->name = name;
	if (first)
		start_server(host);
	else
		job_add(of);

	char *host_map, *rank_map;
	check(pmix.PMIx_generate_regex_(hosts, &host_map), "describe the hosts");
	check(pmix.PMIx_generate_ppn_(ranks, &rank_map), "describe the ranks");
	struct infos all = {.room = 22 + of->size};
	all.list = make(all.room);
	bool remove = true;
	say(&all, PMIX_JOBID, of->name, PMIX_STRING);
	say_number(&all, PMIX_JOB_SIZE, of->size);
	say_number(&all, PMIX_UNIV_SIZE, universe);
	say_number(&all, PMIX_MAX_PROCS, universe);
	say_number(&all, PMIX_NUM_NODES, count);
	say_number(&all, PMIX_LOCAL_SIZE, of->locals);
	say_number(&all, PMIX_NODE_SIZE, of->locals);
	say_number(&all, PMIX_JOB_NUM_APPS, programs);
	if (of->locals > 0)
		say(&all, PMIX_LOCAL_PEERS, peers, PMIX_STRING);
	say(&all, PMIX_NODE_MAP, host_map, PMIX_REGEX);
	say(&all, PMIX_PROC_MAP, rank_map, PMIX_REGEX);
	say(&all, PMIX_TMPDIR, of->folder, PMIX_STRING);
	say(&all, PMIX_NSDIR, of->folder, PMIX_STRING);
	say(&all, PMIX_TDIR_RMCLEAN, &remove, PMIX_BOOL);
	if (crowded()) { /* Open MPI asks only whether the fact is there, and would yield for a false one, too */
		bool share = true;
		say(&all, PMIX_NODE_OVERSUBSCRIBED, &share, PMIX_BOOL);
	}
	if (!first) {
		bool yes = true;
		strncpy(parent.nspace, parents->name, sizeof parent.nspace - 1);
		say(&all, PMIX_SPAWNED, &yes, PMIX_BOOL);
		say(&all, PMIX_PARENT_ID, &parent, PMIX_PROC);
	}
	for (uint64_t rank = 0; rank < of->size && !m->broken; rank++)
		say_rank(&all, m, rank);
	if (!m->broken)
		check(pmix.PMIx_server_register_nspace_(of->name, (int)of->locals, all.list, all.count, NULL, NULL), "describe the job");
	free(all.list);
	free(hosts);
	free(ranks);
	free(peers);
	free(host_map);
	free(rank_map);
	return of;
}

void job_send_contexts(const struct job *of)
{
	struct message m;
	for (uint64_t i = 0; i < of->locals; i++) {
		pmix_proc_t proc = {.rank = (pmix_rank_t)of->ranks[i]};
		strncpy(proc.nspace, of->name, sizeof proc.nspace - 1);
		check(pmix.PMIx_server_register_client_(&proc, getuid(), getgid(), NULL, NULL, NULL), "register a rank");
		char **context = NULL;
		check(pmix.PMIx_server_setup_fork_(&proc, &context), "set up a rank");
		message_begin(&m, CONTEXT);
		message_number(&m, of->world);
		message_number(&m, of->ranks[i]);
		size_t size = 0;
		for (char **v = context; v && *v; v++)
			size += strlen(*v) + 1;
		char *text = malloc(size + 1), *end = text;
		if (!text)
			fail("no memory for %zu bytes", size);
		for (char **v = context; v && *v; v++) {
			end = stpcpy(end, *v) + 1;
			free(*v);
		}
		free(context);
		message_text(&m, text, size);
		free(text);
		message_send(&m);
	}
	message_begin(&m, READY);
	message_send(&m);
}
