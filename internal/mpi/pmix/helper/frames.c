#define _GNU_SOURCE
#include "helper.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AGENT = 3, MOST = 1 << 30 };

static pthread_mutex_t sending = PTHREAD_MUTEX_INITIALIZER;

static void append(struct message *m, const void *bytes, size_t size)
{
	if (m->size + size > m->room) {
		size_t room = 2 * (m->size + size);
		char *grown = realloc(m->bytes, room);
		if (!grown) {
			m->broken = 1;
			return;
		}
		m->bytes = grown;
		m->room = room;
	}
	memcpy(m->bytes + m->size, bytes, size);
	m->size += size;
}

static void put(unsigned char *to, uint64_t n, int bytes)
{
	for (int i = 0; i < bytes; i++)
		to[i] = (unsigned char)(n >> (8 * i));
}

static uint64_t get(const char *from, int bytes)
{
	uint64_t n = 0;
	for (int i = 0; i < bytes; i++)
		n |= (uint64_t)(unsigned char)from[i] << (8 * i);
	return n;
}

void message_begin(struct message *m, enum type type)
{
	unsigned char head[5] = {0, 0, 0, 0, (unsigned char)type};
	*m = (struct message){0};
	append(m, head, sizeof head);
}

void message_number(struct message *m, uint64_t n)
{
	unsigned char bytes[8];
	put(bytes, n, 8);
	append(m, bytes, sizeof bytes);
}

void message_text(struct message *m, const void *text, size_t size)
{
	unsigned char head[4];
	if (!text)
		size = 0;
	put(head, size, 4);
	append(m, head, sizeof head);
	if (size > 0)
		append(m, text, size);
}

void message_string(struct message *m, const char *text) { message_text(m, text, strlen(text)); }

/* transfer reads or writes all of bytes. */
static int transfer(char *bytes, size_t size, bool writing)
{
	while (size > 0) {
		ssize_t n = writing ? write(AGENT, bytes, size) : read(AGENT, bytes, size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		bytes += n;
		size -= (size_t)n;
	}
	return 0;
}

void message_send(struct message *m)
{
	if (m->broken || m->size > MOST)
		_exit(1); /* out of memory: the agent sees the end */
	put((unsigned char *)m->bytes, m->size - 4, 4);
	pthread_mutex_lock(&sending);
	if (transfer(m->bytes, m->size, true) != 0)
		_exit(1);
	pthread_mutex_unlock(&sending);
	free(m->bytes);
	*m = (struct message){0};
}

int message_receive(struct message *m)
{
	char head[4];
	if (transfer(head, sizeof head, false) != 0)
		return 0;
	size_t size = get(head, 4);
	if (size < 1 || size > MOST)
		fail("the agent sent a message of %zu bytes", size);
	if (size > m->room) {
		free(m->bytes);
		m->bytes = malloc(size);
		m->room = size;
		if (!m->bytes)
			fail("no memory for %zu bytes", size);
	}
	if (transfer(m->bytes, size, false) != 0)
		return 0;
	m->size = size;
	m->at = 1;
	m->broken = 0;
	return (unsigned char)m->bytes[0];
}

size_t message_left(const struct message *m) { return m->size - m->at; }

uint64_t message_take_number(struct message *m)
{
	if (m->size - m->at < 8) {
		m->broken = 1;
		return 0;
	}
	m->at += 8;
	return get(m->bytes + m->at - 8, 8);
}

const char *message_take_text(struct message *m, size_t *size)
{
	*size = 0;
	if (m->size - m->at < 4) {
		m->broken = 1;
		return "";
	}
	size_t n = get(m->bytes + m->at, 4);
	if (m->size - m->at - 4 < n) {
		m->broken = 1;
		return "";
	}
	m->at += 4 + n;
	*size = n;
	return m->bytes + m->at - n;
}

char *message_take_string(struct message *m)
{
	size_t n;
	const char *text = message_take_text(m, &n);
	char *copy = strndup(text, n);
	if (!copy)
		fail("no memory for %zu bytes", n);
	return copy;
}

void fail(const char *format, ...)
{
	char text[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	struct message m;
	message_begin(&m, FAILED);
	message_string(&m, text);
	message_send(&m);
	_exit(1);
}
