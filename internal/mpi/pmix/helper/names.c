/* Values of published names, as texts of the job's store, where any host may put any bytes. libpmix's own format has types that
 * hold pointers, lists and other values, and the library believes what it reads. So only plain values are passed on. */
#include "helper.h"

#include <stdlib.h>
#include <string.h>

/* plain returns the size of a value of a type without memory of its own, or 0. */
static size_t plain(pmix_data_type_t type)
{
	switch (type) {
	case PMIX_BYTE:
	case PMIX_INT8:
	case PMIX_UINT8:
		return 1;
	case PMIX_INT16:
	case PMIX_UINT16:
		return 2;
	case PMIX_INT32:
	case PMIX_UINT32:
	case PMIX_FLOAT:
		return 4;
	case PMIX_INT64:
	case PMIX_UINT64:
	case PMIX_DOUBLE:
		return 8;
	case PMIX_INT:
	case PMIX_UINT:
		return sizeof(int);
	case PMIX_SIZE:
		return sizeof(size_t);
	}
	return 0;
}

/* A value is a text: numbers rank and type, then its bytes. */
int names_append(struct message *m, pmix_rank_t rank, const pmix_value_t *value)
{
	const void *bytes = &value->data; /* all members begin there */
	size_t size = plain(value->type);
	unsigned char flag = value->type == PMIX_BOOL && value->data.flag;
	if (value->type == PMIX_STRING && value->data.string) {
		bytes = value->data.string;
		size = strlen(value->data.string);
	} else if (value->type == PMIX_BYTE_OBJECT) {
		bytes = value->data.bo.bytes;
		size = value->data.bo.size;
	} else if (value->type == PMIX_BOOL) {
		bytes = &flag;
		size = 1;
	} else if (size == 0) {
		return 0;
	}
	struct message text = {0};
	message_number(&text, rank);
	message_number(&text, value->type);
	message_text(&text, bytes, size);
	message_text(m, text.bytes, text.size);
	m->broken |= text.broken;
	free(text.bytes);
	return 1;
}

int names_read(const char *text, size_t size, pmix_rank_t *rank, pmix_value_t *value)
{
	struct message m = {.bytes = (char *)text, .size = size};
	*rank = (pmix_rank_t)message_take_number(&m);
	uint64_t type = message_take_number(&m);
	size_t length;
	const char *bytes = message_take_text(&m, &length);
	if (m.broken || message_left(&m) > 0 || type > UINT16_MAX)
		return 0;
	memset(value, 0, sizeof *value);
	value->type = (pmix_data_type_t)type;
	switch (value->type) {
	case PMIX_STRING:
		return (value->data.string = strndup(bytes, length)) != NULL;
	case PMIX_BYTE_OBJECT:
		if (!(value->data.bo.bytes = malloc(length + 1)))
			return 0;
		memcpy(value->data.bo.bytes, bytes, length);
		value->data.bo.size = length;
		return 1;
	case PMIX_BOOL:
		value->data.flag = length == 1 && bytes[0] != 0;
		return length == 1;
	}
	if (length == 0 || length != plain(value->type))
		return 0;
	memcpy(&value->data, bytes, length);
	return 1;
}

void names_free(pmix_value_t *value)
{
	if (value->type == PMIX_STRING)
		free(value->data.string);
	else if (value->type == PMIX_BYTE_OBJECT)
		free(value->data.bo.bytes);
}
