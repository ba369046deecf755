/* A client of PMIx without MPI: every rank commits a name late and in two parts, and asks for that of the next rank, without
 * a fence between. */
#include <pmix.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void) {
	pmix_proc_t me, other;
	pmix_value_t value, *found;
	char name[64];
	int status = PMIx_Init(&me, NULL, 0);
	if (status != PMIX_SUCCESS) {
		printf("PMIx_Init: %s\n", PMIx_Error_string(status));
		return 1;
	}
	memset(&other, 0, sizeof other);
	strcpy(other.nspace, me.nspace);
	other.rank = PMIX_RANK_WILDCARD;
	if (PMIx_Get(&other, PMIX_JOB_SIZE, NULL, 0, &found) != PMIX_SUCCESS)
		return 2;
	other.rank = (me.rank + 1) % found->data.uint32;
	for (int part = 1; part <= 2; part++) {
		usleep(me.rank * 100000);
		snprintf(name, sizeof name, "part %d of rank %u", part, me.rank);
		value.type = PMIX_STRING;
		value.data.string = name;
		if (PMIx_Put(PMIX_GLOBAL, part == 1 ? "first" : "second", &value) != PMIX_SUCCESS || PMIx_Commit() != PMIX_SUCCESS)
			return 3;
	}
	for (int part = 1; part <= 2; part++) {
		status = PMIx_Get(&other, part == 1 ? "first" : "second", NULL, 0, &found);
		printf("%u: %s\n", me.rank, status == PMIX_SUCCESS ? found->data.string : PMIx_Error_string(status));
	}
	fflush(stdout);
	status = PMIx_Fence(NULL, 0, NULL, 0); /* nobody leaves before the others have what they want */
	PMIx_Finalize(NULL, 0);
	return status == PMIX_SUCCESS ? 0 : 4;
}
