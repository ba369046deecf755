/* Counts to so many steps, together with whoever is there: its state is the count. It says in which epochs it was. */
#include "check.h"
#include <stddef.h>

int main(int argc, char **argv)
{
	ring_init_options options;
	int64_t count = 0, committed = 0, steps = argc > 1 ? atoll(argv[1]) : 0;
	int updated = 7, code;
	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.left_epoch = -1;
	ring_comm comm;
	WANT(RING_INVALID, ring_init(&comm, &options));
	options.size = offsetof(ring_init_options, left_epoch); /* as a program has it that was built before there were epochs */
	do {
		OK(ring_init(&comm, &options));
		ring_info info = info_of(comm), old = info;
		old.size = offsetof(ring_info, epoch); /* that of a program built before there were epochs */
		old.epoch = 77;
		OK(ring_comm_info(comm, &old));
		CHECK(old.epoch == 77 && info.epoch > options.left_epoch);
		WANT(RING_INVALID, ring_check_hosts(comm, NULL));
		WANT(RING_INVALID, ring_abort(comm, NULL));
		printf("epoch %d: rank %d of %d\n", info.epoch, info.rank, info.ranks);
		fflush(stdout);
		code = ring_broadcast(comm, &count, 1, RING_INT64, 0);
		while (code == RING_OK && (count < steps || info.ranks == 1)) {
			int64_t one = info.rank == 0;
			if ((code = ring_allreduce(comm, &one, &one, 1, RING_INT64, RING_SUM)) != RING_OK)
				break;
			committed = count += one;
			OK(ring_hosts_updated(comm, &updated));
			CHECK(updated == 0 || updated == 1);
			if ((code = ring_check_hosts(comm, &updated)) != RING_OK || updated)
				break;
			nap(1);
		}
		CHECK(code == RING_OK || code == RING_PEER);
		count = committed;
		OK(ring_close(comm));
		options.left_epoch = info.epoch;
		options.size = sizeof options;
	} while (code != RING_OK || updated);
	CHECK(count == steps);
	puts("all right");
	return 0;
}
