#include "helper.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static void echo(uint64_t id)
{
	struct message m;
	message_begin(&m, ECHO);
	message_number(&m, id);
	message_send(&m);
}

/* The agent is at descriptor 3. Argument 1 is the path of libpmix, or empty. */
int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	if (argc != 2) {
		fprintf(stderr, "gorun-pmix is started by gorun's agent\n");
		return 2;
	}
	library_load(argv[1]);

	struct message m = {0};
	for (int type; (type = message_receive(&m)) != 0;) {
		switch (type) {
		case BEGIN:
			job_send_contexts(job_begin(&m));
			break;
		case ANSWER:
			requests_answer(&m);
			break;
		case WANT:
			questions_take(&m);
			break;
		case ECHO:
			echo(message_take_number(&m));
			break;
		default:
			fail("the agent sent a message of type %d", type);
		}
		if (m.broken)
			fail("a message of type %c of the agent is too short", type);
	}
	if (job.name)
		pmix.PMIx_server_finalize_();
	return 0;
}
