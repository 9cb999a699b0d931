/* Preloaded into lhssh-sk-helper: libfido2 with emulated devices, each behind a UNIX socket.
 *
 * LH_FIDO_DEVICES lists the sockets, separated by colons. LH_FIDO_ABSENT hides the library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define REPORT 64

struct io {
	void *(*open)(const char *);
	void (*close)(void *);
	int (*read)(void *, unsigned char *, size_t, int);
	int (*write)(void *, const unsigned char *, size_t);
};

extern int fido_dev_set_io_functions(void *, const struct io *);
extern int fido_dev_info_set(void *, size_t, const char *, const char *, const char *, const struct io *, const void *);

static void *device_open(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int *fd = malloc(sizeof *fd);
	if (fd == NULL || strlen(path) >= sizeof address.sun_path)
		return NULL;
	strcpy(address.sun_path, path);
	*fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(*fd, (struct sockaddr *)&address, sizeof address) != 0) {
		close(*fd);
		free(fd);
		return NULL;
	}
	return fd;
}

static void device_close(void *handle)
{
	close(*(int *)handle);
	free(handle);
}

static int device_read(void *handle, unsigned char *to, size_t len, int milliseconds)
{
	struct pollfd ready = {.fd = *(int *)handle, .events = POLLIN};
	if (len < REPORT || poll(&ready, 1, milliseconds) != 1)
		return -1;
	return recv(ready.fd, to, REPORT, MSG_WAITALL) == REPORT ? REPORT : -1;
}

static int device_write(void *handle, const unsigned char *from, size_t len)
{
	/* The first byte is the number of the report. */
	return send(*(int *)handle, from + 1, len - 1, MSG_NOSIGNAL) == (ssize_t)len - 1 ? (int)len : -1;
}

static const struct io io = {device_open, device_close, device_read, device_write};

int fido_dev_info_manifest(void *list, size_t most, size_t *found)
{
	const char *paths = getenv("LH_FIDO_DEVICES");
	char *copy = strdup(paths == NULL ? "" : paths), *rest = copy, *path;
	for (*found = 0; *found < most && (path = strsep(&rest, ":")) != NULL;)
		if (*path != '\0' && fido_dev_info_set(list, (*found)++, path, "test", "test", &io, NULL) != 0)
			return -9;
	free(copy);
	return 0;
}

int fido_dev_open(void *device, const char *path)
{
	int (*real)(void *, const char *) = dlsym(RTLD_NEXT, "fido_dev_open");
	int failed = fido_dev_set_io_functions(device, &io);
	return failed ? failed : real(device, path);
}

void *dlopen(const char *name, int flags)
{
	void *(*real)(const char *, int) = dlsym(RTLD_NEXT, "dlopen");
	Dl_info here;
	if (name == NULL || strcmp(name, "libfido2.so.1") != 0)
		return real(name, flags);
	if (getenv("LH_FIDO_ABSENT") != NULL)
		return real("libfido2-absent.so.1", flags);
	/* The functions above hide those of the library that this one is linked to. */
	return dladdr((void *)&io, &here) ? real(here.dli_fname, flags) : NULL;
}
