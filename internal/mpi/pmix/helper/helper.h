/* gorun-pmix is a PMIx server for the ranks of one host. It loads the libpmix that their MPI uses, and
 * passes what the library asks of a host to gorun's agent: fences, data of ranks elsewhere, published
 * names, aborts. The agent is its parent and trusted; the ranks are clients of the library.
 *
 * Files: main.c the story; frames.c messages of the agent; library.c functions of libpmix; job.c the
 * job's description for the library; requests.c what the library asks; names.c values of
 * published names; questions.c what other hosts ask; peers.c who may connect. */
#ifndef GORUN_PMIX_HELPER_H
#define GORUN_PMIX_HELPER_H

#include <pmix.h>
#include <pmix_server.h>
#include <stdbool.h>
#include <stdint.h>

/* Messages begin with their length in 4 bytes and their type in one. Numbers have 8 bytes, texts
 * their length in 4 bytes before them; all are little-endian. */
enum type {
	/* of the agent */
	BEGIN = 'B',  /* the job, or a world of it that was spawned: see job.c */
	ANSWER = 'A', /* id, status, text: to a request */
	WANT = 'W',   /* id, world, rank, key: another host asks for the data of a rank here when it has the key, if it is not empty */
	ECHO = 'S',   /* id: the helper sends it back, after all that it has sent before */
	/* of the helper */
	LOADED = 'L',    /* version of libpmix */
	FAILED = 'X',    /* text: the helper ends */
	CONTEXT = 'E',   /* world, rank, text: its environment, NAME=value with a NUL after each */
	READY = 'R',     /* all environments are sent */
	ENTERED = 'I',   /* world, rank: it has called PMIx_Init */
	LEFT = 'Z',      /* world, rank: it has called PMIx_Finalize */
	ABORT = 'T',     /* id, world, rank, code, text */
	SPAWN = 'N',     /* id, world, rank, count, then of each program: ranks, folder, host, words and environment with their counts */
	MEET = 'M',      /* id, text, count, then world and rank (-1: all) of each that meets: data of those here for all of them */
	FENCE = 'F',     /* id, text: data of the ranks here for all */
	FETCH = 'D',     /* id, world, rank, key or empty: data of a rank elsewhere */
	PUBLISH = 'P',   /* id, count, then key and value of each */
	LOOKUP = 'K',    /* id, seconds to wait, count, then each key */
	UNPUBLISH = 'U', /* id, count, then each key */
	HELD = 'V',      /* id, status, text: the answer to WANT */
};

/* message is one that is written or read. */
struct message {
	char *bytes;
	size_t size, room;
	size_t at;  /* of the next item to read */
	int broken; /* an item was missing or memory ran out */
};

void message_begin(struct message *m, enum type type);
void message_number(struct message *m, uint64_t n);
/* message_text takes no bytes at NULL, whatever their size. */
void message_text(struct message *m, const void *text, size_t size);
void message_string(struct message *m, const char *text);
/* message_send sends m and frees it. It may be called by any thread. The process ends if the agent is gone. */
void message_send(struct message *m);
/* message_receive returns the type, or 0 when the agent has closed its end. */
int message_receive(struct message *m);
uint64_t message_take_number(struct message *m);
/* message_left returns how many bytes were not taken, which bound the items that can follow. */
size_t message_left(const struct message *m);
/* message_take_text returns memory inside of m, which is followed by other items. */
const char *message_take_text(struct message *m, size_t *size);
/* message_take_string returns a copy that the caller frees. */
char *message_take_string(struct message *m);
/* fail tells the agent why the helper cannot go on, and ends the process. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* FUNCTIONS are those of libpmix that the helper calls. */
#define FUNCTIONS(X) \
	X(PMIx_Error_string) X(PMIx_Get_version) X(PMIx_Info_load) X(PMIx_generate_regex) X(PMIx_generate_ppn) \
	X(PMIx_server_init) X(PMIx_server_finalize) X(PMIx_server_register_nspace) X(PMIx_server_register_client) \
	X(PMIx_server_setup_fork) X(PMIx_server_dmodex_request) X(PMIx_Get)

#define POINTER(name) __typeof__(name) *name##_;
struct library {
	FUNCTIONS(POINTER)
};
#undef POINTER
extern struct library pmix;
/* library_load loads the library of that path, or the system's if it is empty. */
void library_load(const char *path);

/* job describes the ranks of one host within a job, or within a world of it. */
struct job {
	struct job *next; /* worlds in the order of their start */
	uint64_t world;   /* 0: the job itself */
	char *name;   /* of the job's namespace */
	char *host;   /* this one */
	char *folder; /* for files of the library */
	uint64_t size, locals;
	uint64_t *ranks; /* of this host */
};
extern struct job job;
/* job_begin reads BEGIN, starts the library's server and describes the job, or a world, to it. */
struct job *job_begin(struct message *m);
/* job_send_contexts sends the environment of each rank here. */
void job_send_contexts(const struct job *of);
/* job_find returns the job or world with a name, job_number that with a number, or NULL. They may be called by any thread. */
struct job *job_find(const char *name);
struct job *job_number(uint64_t world);

extern pmix_server_module_t requests;
/* requests_answer handles ANSWER. */
void requests_answer(struct message *m);

/* names_append appends the value of a published name, with the rank that publishes it. It returns 0 for a type that is not
 * passed on. */
int names_append(struct message *m, pmix_rank_t rank, const pmix_value_t *value);
/* names_read reads what names_append of any host has written, or a hostile host in its place. It returns 0 unless that is a
 * value of a type that is passed on. names_free frees the value. */
int names_read(const char *text, size_t size, pmix_rank_t *rank, pmix_value_t *value);
void names_free(pmix_value_t *value);

/* questions_take handles WANT. */
void questions_take(struct message *m);

#endif
