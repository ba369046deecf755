/* The client side of PMI-1 as a library, for Open MPI up to 4.1: its component pmix/flux loads a library of this interface
 * (FLUX_PMI_LIBRARY_PATH) and has no other way to ranks that mpirun has not started. It speaks PMI-1's lines
 * on the socket that gorun's ranks inherit (PMI_FD). One call at a time, as the interface wants it. */

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <errno.h>

enum { SUCCESS = 0, FAIL = -1, NOT_INITIALIZED = 1, TOO_SHORT = 5, LINE = 4096, NAME = 256, KEY = 64, VALUE = 1024 };

static struct {
	int fd, rank, size, ready;
	char name[NAME];
} job = {-1, 0, 1, 0, ""};

/* number is what a variable says. */
static int number(const char *variable, int otherwise)
{
	const char *text = getenv(variable);
	return text && *text ? atoi(text) : otherwise;
}

static int send_line(const char *line)
{
	size_t left = strlen(line);
	while (left > 0) {
		ssize_t n = write(job.fd, line, left);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return FAIL;
		line += n;
		left -= (size_t)n;
	}
	return SUCCESS;
}

/* read_line takes one line without its end. The server sends nothing that was not asked for. */
static int read_line(char *line)
{
	size_t n = 0;
	while (n + 1 < LINE) {
		ssize_t got = read(job.fd, line + n, LINE - 1 - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return FAIL;
		n += (size_t)got;
		if (line[n - 1] == '\n') {
			line[n - 1] = 0;
			return SUCCESS;
		}
	}
	return FAIL;
}

/* ask sends a line and reads the answer, which must be the command want. */
static int ask(const char *line, const char *want, char *answer)
{
	char head[64];
	if (job.fd < 0)
		return NOT_INITIALIZED;
	snprintf(head, sizeof head, "cmd=%s", want);
	if (send_line(line) != SUCCESS || read_line(answer) != SUCCESS)
		return FAIL;
	size_t n = strlen(head);
	return strncmp(answer, head, n) == 0 && (answer[n] == ' ' || answer[n] == 0) ? SUCCESS : FAIL;
}

/* word finds a word " key=" of an answer and returns what follows; a value goes on to the end of the line. */
static const char *word(const char *answer, const char *key)
{
	char text[64];
	snprintf(text, sizeof text, " %s=", key);
	const char *at = strstr(answer, text);
	return at ? at + strlen(text) : NULL;
}

static int copy_word(char *to, int length, const char *from)
{
	size_t n = from ? strcspn(from, " ") : 0;
	if (!from || length <= 0)
		return FAIL;
	if (n >= (size_t)length)
		return TOO_SHORT;
	memcpy(to, from, n);
	to[n] = 0;
	return SUCCESS;
}

static int number_of(const char *line, const char *want, const char *key, int *value)
{
	char answer[LINE];
	int rc = ask(line, want, answer);
	if (rc != SUCCESS)
		return rc;
	const char *text = word(answer, key);
	if (!text)
		return FAIL;
	*value = atoi(text);
	return SUCCESS;
}

int PMI_Init(int *spawned)
{
	char answer[LINE];
	int rc = -1;
	if (spawned)
		*spawned = 0;
	if (job.ready)
		return SUCCESS;
	job.fd = number("PMI_FD", -1);
	job.rank = number("PMI_RANK", 0);
	job.size = number("PMI_SIZE", 1);
	if (number_of("cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init", "rc", &rc) != SUCCESS || rc != 0)
		return FAIL;
	if (ask("cmd=get_my_kvsname\n", "my_kvsname", answer) != SUCCESS || copy_word(job.name, NAME, word(answer, "kvsname")) != SUCCESS)
		return FAIL;
	job.ready = 1;
	return SUCCESS;
}

int PMI_Initialized(int *initialized)
{
	*initialized = job.ready;
	return SUCCESS;
}

int PMI_Finalize(void)
{
	char answer[LINE];
	int rc = ask("cmd=finalize\n", "finalize_ack", answer);
	job.ready = 0;
	return rc;
}

int PMI_Get_size(int *size)
{
	*size = job.size;
	return SUCCESS;
}

int PMI_Get_rank(int *rank)
{
	*rank = job.rank;
	return SUCCESS;
}

int PMI_Get_universe_size(int *size)
{
	int rc = number_of("cmd=get_universe_size\n", "universe_size", "size", size);
	if (rc == SUCCESS && *size < job.size) /* -1: no bound */
		*size = job.size;
	return rc;
}

int PMI_Get_appnum(int *appnum) { return number_of("cmd=get_appnum\n", "appnum", "appnum", appnum); }

int PMI_Barrier(void)
{
	char answer[LINE];
	return ask("cmd=barrier_in\n", "barrier_out", answer);
}

int PMI_Abort(int code, const char *message)
{
	char line[64];
	if (message)
		fprintf(stderr, "%s\n", message);
	snprintf(line, sizeof line, "cmd=abort exitcode=%d\n", code);
	if (job.fd >= 0 && send_line(line) == SUCCESS)
		for (;;)
			pause(); /* gorun ends this rank */
	_exit(code);
}

int PMI_KVS_Get_my_name(char name[], int length) { return copy_word(name, length, job.name); }
int PMI_KVS_Get_name_length_max(int *length) { return *length = NAME, SUCCESS; }
int PMI_KVS_Get_key_length_max(int *length) { return *length = KEY, SUCCESS; }
int PMI_KVS_Get_value_length_max(int *length) { return *length = VALUE, SUCCESS; }
int PMI_KVS_Commit(const char name[]) { return (void)name, SUCCESS; }

int PMI_KVS_Put(const char name[], const char key[], const char value[])
{
	char line[LINE];
	int rc = -1, n = snprintf(line, sizeof line, "cmd=put kvsname=%s key=%s value=%s\n", name, key, value);
	if (n < 0 || n >= LINE)
		return TOO_SHORT;
	if (number_of(line, "put_result", "rc", &rc) != SUCCESS)
		return FAIL;
	return rc == 0 ? SUCCESS : FAIL;
}

int PMI_KVS_Get(const char name[], const char key[], char value[], int length)
{
	char line[LINE], answer[LINE];
	int n = snprintf(line, sizeof line, "cmd=get kvsname=%s key=%s\n", name, key);
	if (n < 0 || n >= LINE || ask(line, "get_result", answer) != SUCCESS)
		return FAIL;
	const char *rc = word(answer, "rc"), *text = word(answer, "value");
	if (!rc || atoi(rc) != 0 || !text || length <= 0)
		return FAIL;
	if (strlen(text) >= (size_t)length)
		return TOO_SHORT;
	strcpy(value, text); /* blanks and all: Open MPI fills its values up with them */
	return SUCCESS;
}

/* clique lists the ranks of this rank's node, at most length of them, and returns how many there are. The mapping
 * is blocks (first node, nodes, ranks each), in the order of the ranks. */
static int clique(int ranks[], int length)
{
	char mapping[LINE];
	int node[3], count = 0, own = -1;
	if (PMI_KVS_Get(job.name, "PMI_process_mapping", mapping, sizeof mapping) != SUCCESS)
		return FAIL;
	for (int pass = 0; pass < 2; pass++) { /* first which node is ours, then who is on it */
		int rank = 0;
		while (rank < job.size) {
			int before = rank;
			for (const char *at = strstr(mapping, ",("); at; at = strstr(at + 1, ",(")) {
				if (sscanf(at, ",(%d,%d,%d)", &node[0], &node[1], &node[2]) != 3 || node[0] < 0 || node[0] > INT_MAX - job.size || node[2] < 1)
					return FAIL;
				for (int n = 0; n < node[1] && rank < job.size; n++)
					for (int i = 0; i < node[2] && rank < job.size; i++, rank++) {
						if (pass == 0 && rank == job.rank)
							own = node[0] + n;
						if (pass == 1 && node[0] + n == own && count++ < length)
							ranks[count - 1] = rank;
					}
			}
			if (rank == before)
				return FAIL;
		}
	}
	return count;
}

int PMI_Get_clique_size(int *size)
{
	*size = clique(NULL, 0);
	return *size > 0 ? SUCCESS : FAIL;
}

int PMI_Get_clique_ranks(int ranks[], int length)
{
	int count = clique(ranks, length);
	return count > 0 && count <= length ? SUCCESS : FAIL;
}
