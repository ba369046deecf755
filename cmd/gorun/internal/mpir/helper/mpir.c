// gorun-mpir holds the table of a job's processes in the variables that debuggers of whole jobs read (The MPIR Process Acquisition
// Interface 1.0, MPI Forum, 2010). It is built with its debug information, by which they know the types, and runs until its standard input ends.
//
// Its input is a record per rank, in their order: host, program and process, each ended by a zero byte; then an empty record ends the table.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifndef PR_SET_PTRACER
#define PR_SET_PTRACER 0x59616d61
#endif

typedef struct {
	char *host_name;
	char *executable_name;
	int pid;
} MPIR_PROCDESC;

enum { debug_spawned = 1 };

MPIR_PROCDESC *MPIR_proctable;
int MPIR_proctable_size;
volatile int MPIR_debug_state;
volatile int MPIR_being_debugged;
volatile int MPIR_debug_gate;
char *MPIR_debug_abort_string;
int MPIR_i_am_starter;      // not a rank itself
int MPIR_partial_attach_ok; // ranks go on without a debugger at each
int MPIR_ignore_queues;

void MPIR_Breakpoint(void);
void __attribute__((noinline)) MPIR_Breakpoint(void) {
	__asm__ volatile(""); // else the compiler leaves its call out
}

// The most bytes of a word.
enum { longest = 4096 };

// word reads one word, or returns NULL at the end of the input, or if it is too long.
static char *word(void) {
	char text[longest];
	size_t n = 0;
	for (int c; n < sizeof text && (c = getchar()) != EOF;) {
		text[n++] = (char)c;
		if (c == 0)
			return strdup(text);
	}
	return NULL;
}

// read_table returns whether the whole table has come.
static int read_table(void) {
	for (;;) {
		char *host = word();
		if (!host)
			return 0;
		if (!*host)
			return 1;
		char *program = word(), *pid = word();
		if (!program || !pid)
			return 0;
		MPIR_PROCDESC *larger = realloc(MPIR_proctable, (size_t)(MPIR_proctable_size + 1) * sizeof *larger);
		if (!larger)
			return 0;
		MPIR_proctable = larger;
		MPIR_proctable[MPIR_proctable_size++] = (MPIR_PROCDESC){host, program, atoi(pid)};
		free(pid);
	}
}

int main(void) {
	prctl(PR_SET_PTRACER, -1L, 0, 0, 0); // Yama: a debugger need not be the parent
	signal(SIGINT, SIG_IGN);             // gorun decides what Ctrl-C ends
	MPIR_i_am_starter = MPIR_partial_attach_ok = 1;
	if (!read_table()) {
		fputs("gorun-mpir: the table of processes is not complete\n", stderr);
		return 1;
	}
	MPIR_debug_state = debug_spawned;
	MPIR_Breakpoint();
	puts("ready");
	fflush(stdout);
	for (char rest[256];;) {
		ssize_t n = read(STDIN_FILENO, rest, sizeof rest);
		if (n == 0 || (n < 0 && errno != EINTR))
			return 0;
	}
}
