/* Stands in for the library of an old driver, with only the functions that every driver has. GORUN_TEST_DRIVER makes it
 * misbehave, and GORUN_TEST_GPUS is the number of GPUs that it reports. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
	char busIdLegacy[16];
	unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
	char busId[32];
} pciInfo;
typedef struct { unsigned long long total, free, used; } memoryInfo;

static void misbehave(void)
{
	const char *how = getenv("GORUN_TEST_DRIVER");
	if (how && !strcmp(how, "crash"))
		*(volatile int *)0 = 1;
	if (how && !strcmp(how, "abort"))
		abort();
	while (how && !strcmp(how, "hang"))
		pause();
}

int nvmlInit_v2(void) { return 0; }
int nvmlInit_v1(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int result) { return result ? "an error" : "success"; }
int nvmlDeviceGetCount_v2(unsigned int *count) 
{
	const char *gpus = getenv("GORUN_TEST_GPUS");
	misbehave();
	*count = gpus ? (unsigned int)atoi(gpus) : 2;
	return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) { *device = (void *)(long)(index + 1); return 0; }
int nvmlDeviceGetPciInfo_v2(void *device, pciInfo *pci)
{
	memset(pci, 0, sizeof *pci);
	pci->bus = 0x10 * (unsigned int)(long)device;
	return 0;
}
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned int length) { snprintf(uuid, length, "GPU-%ld", (long)device); return 0; }
int nvmlDeviceGetName(void *device, char *name, unsigned int length) { (void)device; snprintf(name, length, "Tesla K80"); return 0; }
int nvmlDeviceGetMemoryInfo(void *device, memoryInfo *m) { (void)device; m->total = 12ull << 30; m->used = 1ull << 30; m->free = 11ull << 30; return 0; }
