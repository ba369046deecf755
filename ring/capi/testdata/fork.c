/* Each rank and a fork of it call at once; then rank 1 ends, by closing or by exiting, while a fork of it lives on. */
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

/* Whether this process has memory that it shares with other ranks. */
static int shares(void)
{
	char line[512];
	int found = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	CHECK(maps != NULL);
	while (fgets(line, sizeof line, maps) != NULL)
		found |= strstr(line, "gorun-ring") != NULL;
	fclose(maps);
	return found;
}

int main(int argc, char **argv)
{
	ring_comm comm;
	float x = 1, y = 0;
	int code = RING_OK, status;
	CHECK(argc == 3);
	OK(ring_init(&comm, NULL));
	ring_info info = info_of(comm);
	ring_call call = call_of(RING_ALLREDUCE, RING_FLOAT32, RING_SUM, &y, 1, &x, 1);
	OK(ring_run(comm, &call, 0));
	CHECK(shares() == (strcmp(argv[2], "shm") == 0));
	pid_t child = fork();
	if (child == 0) {
		alarm(20);
		for (int i = 0; i < 1000; i++)
			WANT(RING_FORKED, ring_run(comm, &call, 0));
		CHECK(!shares());
		WANT(RING_FORKED, ring_close(comm));
		exit(42); /* with all that is done at a program's end */
	}
	for (int i = 0; i < 1000; i++) {
		OK(ring_run(comm, &call, 0));
		CHECK(y == info.ranks);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 42);
	if (info.rank == 1) {
		OK(ring_run(comm, &call, 0)); /* others may be told of its end before they are through with this */
		if (fork() == 0) {
			sleep(20); /* gorun ends it with the job */
			_exit(0);
		}
		puts("all right");
		fflush(stdout);
		if (strcmp(argv[1], "close") == 0) {
			OK(ring_close(comm));
			sleep(1);
		}
		_exit(0);
	}
	double begun = now();
	while (code == RING_OK)
		code = ring_run(comm, &call, 0);
	CHECK(code == RING_PEER);
	CHECK(now() - begun < 5); /* the goal is at once; the fork lives longer */
	ring_close(comm);
	puts("all right");
	return 0;
}
