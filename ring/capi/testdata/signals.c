/* Signals of a program that loads the library late, by dlopen: argv[1] is the library, argv[2] what is to be seen. */
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t came;
static sigjmp_buf back;

static void note(int sig) { came = sig; }
static void escape(int sig) { came = sig; siglongjmp(back, 1); }

static void handle(int sig, void (*handler)(int))
{
	struct sigaction act;
	memset(&act, 0, sizeof act);
	act.sa_handler = handler;
	act.sa_flags = SA_ONSTACK;
	CHECK(sigaction(sig, &act, NULL) == 0);
}

static void *load(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		_Exit(9);
	}
	return library;
}

static void *(*symbol(void *library, const char *name))(void)
{
	void *(*f)(void);
	void *s = dlsym(library, name);
	CHECK(s != NULL);
	memcpy(&f, &s, sizeof f);
	return f;
}

static int fault(void) { return *(volatile int *)8; }

/* A fault of the program's own reaches its handler, on the stack it has for that. */
static void survive(void)
{
	came = 0;
	if (sigsetjmp(back, 1) == 0)
		fault();
	CHECK(came == SIGSEGV);
}

static void *survive_in_thread(void *arg)
{
	stack_t stack;
	memset(&stack, 0, sizeof stack);
	CHECK((stack.ss_sp = malloc(stack.ss_size = 1 << 16)) != NULL);
	CHECK(sigaltstack(&stack, NULL) == 0);
	if (sigsetjmp(back, 1) == 0)
		fault();
	CHECK(came == SIGSEGV);
	return arg;
}

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	const char *mode = argv[2];
	unsigned long long caught = status_of("SigCgt", 16), ignored = status_of("SigIgn", 16);
	if (strcmp(mode, "segv before") == 0)
		handle(SIGSEGV, escape);
	void *library = load(argv[1]);
	int (*init)(ring_comm *, const ring_init_options *);
	int (*barrier)(ring_comm);
	void *(*f)(void) = symbol(library, "ring_init");
	memcpy(&init, &f, sizeof init);
	f = symbol(library, "ring_barrier");
	memcpy(&barrier, &f, sizeof barrier);
	ring_comm comm;
	CHECK(init(&comm, NULL) == RING_OK && barrier(comm) == RING_OK);

	if (strcmp(mode, "none") == 0) {
		unsigned long long ours = 1ULL << (SIGSEGV - 1) | 1ULL << (SIGBUS - 1) | 1ULL << (SIGFPE - 1) | 1ULL << (SIGPIPE - 1) | 1ULL << (SIGURG - 1);
		unsigned long long more = (status_of("SigCgt", 16) ^ caught) & ~ours & 0x7fffffffULL;
		if (more != 0 || status_of("SigIgn", 16) != ignored) {
			fprintf(stderr, "signals %llx are caught that were not\n", more);
			return 1;
		}
	} else if (strcmp(mode, "segv before") == 0 || strcmp(mode, "segv after") == 0) {
		pthread_t thread;
		if (strcmp(mode, "segv after") == 0)
			handle(SIGSEGV, escape);
		survive();
		CHECK(barrier(comm) == RING_OK);
		survive();
		CHECK(pthread_create(&thread, NULL, survive_in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
		CHECK(barrier(comm) == RING_OK);
	} else if (strcmp(mode, "int handler") == 0) {
		handle(SIGINT, note);
		CHECK(raise(SIGINT) == 0 && came == SIGINT);
		for (int i = 0; i < 200; i++) { /* between calls, and in them */
			CHECK(kill(getpid(), SIGINT) == 0 && barrier(comm) == RING_OK);
			if (i % 20 == 0)
				nap(1);
		}
	} else if (strcmp(mode, "int") == 0 || strcmp(mode, "term") == 0) {
		kill(getpid(), strcmp(mode, "int") == 0 ? SIGINT : SIGTERM);
		nap(20000);
	} else if (strcmp(mode, "segv") == 0) {
		fault();
	} else if (strcmp(mode, "abort") == 0) {
		abort();
	} else if (strcmp(mode, "pipe") == 0) {
		int ends[2];
		CHECK(pipe(ends) == 0 && close(ends[0]) == 0);
		CHECK(write(ends[1], "x", 1) == -2);
	} else {
		return 3;
	}
	puts("all right");
	return 0;
}
