/* A rank of PMIx. With the argument "commit" it commits 100 KiB by the name "big" and stays. With "nothing" it sends texts and
 * bytes that are NULL. With "twice" another process of the rank ends, and then it asks for data that it commits itself. Else it
 * publishes the name "own" with a value of each type, prints the statuses, and prints what it finds under each of the names of its
 * arguments. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* no_texts returns facts about a program. The library frees them. */
static pmix_info_t *no_texts(void)
{
	pmix_info_t *facts = calloc(3, sizeof *facts);
	PMIx_Info_load(&facts[0], PMIX_WDIR, NULL, PMIX_STRING);
	PMIx_Info_load(&facts[1], PMIX_HOST, NULL, PMIX_STRING);
	PMIx_Info_load(&facts[2], PMIX_ADD_HOST, NULL, PMIX_STRING);
	return facts;
}

/* send_nothing publishes, fetches, spawns and aborts with NULL where there may be a text. */
static void send_nothing(pmix_proc_t *self)
{
	publish(PMIX_STRING, NULL);
	publish(PMIX_BYTE_OBJECT, NULL);
	pmix_info_t key;
	memset(&key, 0, sizeof key);
	PMIx_Info_load(&key, PMIX_REQUIRED_KEY, NULL, PMIX_STRING);
	pmix_proc_t other = *self;
	other.rank = 1;
	pmix_value_t *value;
	printf("get: %d\n", PMIx_Get(&other, "a", &key, 1, &value));
	char *words[] = {"true", NULL};
	pmix_nspace_t name;
	pmix_app_t app = {.cmd = "true", .argv = words, .maxprocs = 1};
	printf("spawn: %d\n", PMIx_Spawn(no_texts(), 3, &app, 1, name));
	app = (pmix_app_t){.cmd = "true", .argv = words, .maxprocs = 1, .info = no_texts(), .ninfo = 3};
	printf("spawn: %d\n", PMIx_Spawn(NULL, 0, &app, 1, name));
	printf("abort: %d\n", PMIx_Abort(1, NULL, NULL, 0));
}

static void answered(pmix_status_t status, pmix_value_t *value, void *call)
{
	(void)status, (void)value;
	*(volatile int *)call = 1;
}

/* be_twice asks for data of the rank itself after another process of it, which has begun later, has ended. */
static int be_twice(void)
{
	int begin[2];
	pmix_proc_t self;
	char byte = 0;
	if (pipe(begin) != 0)
		return 2;
	pid_t other = fork();
	if (other == 0)
		_exit(read(begin[0], &byte, 1) != 1 || PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS);
	int status = 0;
	if (PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS || write(begin[1], &byte, 1) != 1 || waitpid(other, &status, 0) < 0 ||
		status != 0)
		return 3;
	usleep(200 * 1000); /* the library learns that it has ended */
	volatile int done = 0;
	PMIx_Get_nb(&self, "late", NULL, 0, answered, (void *)&done);
	pmix_value_t value = {.type = PMIX_STRING, .data.string = "text"};
	PMIx_Put(PMIX_GLOBAL, "late", &value);
	PMIx_Commit();
	for (int i = 0; !done && i < 3000; i++)
		usleep(1000);
	PMIx_Finalize(NULL, 0);
	return 0;
}

int main(int argc, char **argv)
{
	pmix_proc_t self;
	if (argc == 2 && strcmp(argv[1], "twice") == 0)
		return be_twice();
	if (PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS)
		return 2;
	if (argc == 2 && strcmp(argv[1], "commit") == 0) {
		commit();
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], "nothing") == 0) {
		send_nothing(&self);
		PMIx_Finalize(NULL, 0);
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
