/* The last failed call of a thread; ring.c keeps one for each. */
#ifndef RING_FAILURE_H
#define RING_FAILURE_H

#include "ring.h"

typedef struct ring_failure {
	int32_t rank; /* that failed first, or -1 */
	char text[2048];
} ring_failure;

/* The highest handle of a communicator or queue that was given out. */
extern uint64_t given;

/* A descriptor of the library's that a forked child is to close, or is not any more. */
void hold_descriptor(int fd, int open);

#endif
