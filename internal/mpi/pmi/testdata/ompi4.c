/* Calls each function of libpmi.c once, with buffers of their exact sizes, and prints what they return. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

int PMI_Init(int *), PMI_Finalize(void), PMI_Get_universe_size(int *), PMI_Get_appnum(int *), PMI_Barrier(void);
int PMI_KVS_Get_my_name(char[], int), PMI_KVS_Put(const char[], const char[], const char[]);
int PMI_KVS_Get(const char[], const char[], char[], int), PMI_Get_clique_size(int *), PMI_Get_clique_ranks(int[], int);

int main(void)
{
	enum { small = 8 };
	signal(SIGPIPE, SIG_IGN);
	int spawned, number = -1, rc = PMI_Init(&spawned);
	if (rc != 0)
		return printf("init %d\n", rc), 0;
	char *name = malloc(small), *value = malloc(small);
	int *ranks = malloc(2 * sizeof *ranks);
	rc = PMI_KVS_Get_my_name(name, small);
	printf("name %d %s\n", rc, rc == 0 ? name : "");
	rc = PMI_Get_universe_size(&number);
	printf("universe %d %d\n", rc, rc == 0 ? number : 0);
	rc = PMI_Get_appnum(&number);
	printf("appnum %d %d\n", rc, rc == 0 ? number : 0);
	printf("put %d\n", PMI_KVS_Put("kvs", "key", "value"));
	rc = PMI_KVS_Get("kvs", "key", value, small);
	printf("get %d %s\n", rc, rc == 0 ? value : "");
	rc = PMI_Get_clique_size(&number);
	printf("clique %d %d\n", rc, rc == 0 ? number : 0);
	rc = PMI_Get_clique_ranks(ranks, 2);
	printf("ranks %d %d\n", rc, rc == 0 ? ranks[0] : 0);
	printf("barrier %d\n", PMI_Barrier());
	printf("finalize %d\n", PMI_Finalize());
	free(name), free(value), free(ranks);
}
