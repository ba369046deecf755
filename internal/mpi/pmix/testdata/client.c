/* A rank of PMIx. With the argument "commit" it commits 100 KiB by the name "big" and stays. Else it publishes the name "own" with a value of each type, prints the statuses, and prints what it finds under
 * each of the names of its arguments. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void publish(pmix_data_type_t type, const void *value)
{
	pmix_info_t info;
	memset(&info, 0, sizeof info);
	PMIx_Info_load(&info, "own", value, type);
	printf("publish %d: %d\n", type, PMIx_Publish(&info, 1));
}

static void commit(void)
{
	static char bytes[100 << 10];
	pmix_value_t value = {.type = PMIX_BYTE_OBJECT, .data.bo = {bytes, sizeof bytes}};
	PMIx_Put(PMIX_GLOBAL, "big", &value);
	PMIx_Commit();
	getchar(); /* the end of the test */
}

int main(int argc, char **argv)
{
	pmix_proc_t self;
	if (PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS)
		return 2;
	if (argc == 2 && strcmp(argv[1], "commit") == 0) {
		commit();
		return 0;
	}
	int64_t number = -7;
	bool yes = true;
	publish(PMIX_STRING, "text");
	publish(PMIX_INT64, &number);
	publish(PMIX_BOOL, &yes);
	publish(PMIX_PROC, &self);
	for (int i = 1; i < argc; i++) {
		pmix_pdata_t found;
		memset(&found, 0, sizeof found);
		strncpy(found.key, argv[i], sizeof found.key - 1);
		pmix_status_t status = PMIx_Lookup(&found, 1, NULL, 0);
		printf("%s: %d", argv[i], status);
		if (status == PMIX_SUCCESS && found.value.type == PMIX_STRING)
			printf(" %s", found.value.data.string);
		else if (status == PMIX_SUCCESS)
			printf(" of type %d", found.value.type);
		printf("\n");
	}
	PMIx_Finalize(NULL, 0);
	return 0;
}
