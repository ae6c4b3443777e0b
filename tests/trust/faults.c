/* Lets the n-th operation on files below a folder fail, or end the process: loaded with LD_PRELOAD.

   Counted are writes, fsync, renames, and files and folders that are made; what is removed is counted only if the
   process is to end, because a removal that fails is not what a full or failing disk does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OFF, COUNT, FAIL, END };
static char below[PATH_MAX];
static size_t length;
static volatile int mode = OFF;
static volatile long seen, wanted;

void faults_arm(const char *folder, long number, int how) {
    snprintf(below, sizeof below, "%s", folder);
    length = strlen(below);
    seen = 0;
    wanted = number;
    mode = how;
}

long faults_disarm(void) {
    mode = OFF;
    return seen;
}

static int is_below(const char *path) {
    return strncmp(path, below, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static int is_open_below(int handle) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return is_below(path);
}

/* Whether this operation is the one to fail; it does not return if the process is to end. */
static int is_due(int error) {
    if (__sync_add_and_fetch(&seen, 1) != wanted || mode == COUNT) return 0;
    if (mode == END) _exit(137);
    errno = error;
    return 1;
}

#define FIND(name) do { if (!next) next = dlsym(RTLD_NEXT, name); } while (0)

ssize_t write(int handle, const void *content, size_t size) {
    static ssize_t (*next)(int, const void *, size_t);
    if (mode && is_open_below(handle) && is_due(ENOSPC)) return -1;
    FIND("write");
    return next(handle, content, size);
}

ssize_t pwrite64(int handle, const void *content, size_t size, off64_t place) {
    static ssize_t (*next)(int, const void *, size_t, off64_t);
    if (mode && is_open_below(handle) && is_due(ENOSPC)) return -1;
    FIND("pwrite64");
    return next(handle, content, size, place);
}

ssize_t writev(int handle, const struct iovec *parts, int number) {
    static ssize_t (*next)(int, const struct iovec *, int);
    if (mode && is_open_below(handle) && is_due(ENOSPC)) return -1;
    FIND("writev");
    return next(handle, parts, number);
}

int fsync(int handle) {
    static int (*next)(int);
    if (mode && is_open_below(handle) && is_due(EIO)) return -1;
    FIND("fsync");
    return next(handle);
}

int rename(const char *from, const char *to) {
    static int (*next)(const char *, const char *);
    if (mode && is_below(to) && is_due(EIO)) return -1;
    FIND("rename");
    return next(from, to);
}

int mkdir(const char *path, mode_t rights) {
    static int (*next)(const char *, mode_t);
    if (mode && is_below(path) && is_due(ENOSPC)) return -1;
    FIND("mkdir");
    return next(path, rights);
}

int unlink(const char *path) {
    static int (*next)(const char *);
    if (mode == END && is_below(path)) is_due(EIO);
    FIND("unlink");
    return next(path);
}

static int is_made(const char *path, int flags) {
    return mode && (flags & O_CREAT) && is_below(path) && is_due(ENOSPC);
}

#define OPEN(name)                                       \
    int name(const char *path, int flags, ...) {         \
        static int (*next)(const char *, int, ...);      \
        va_list rest;                                    \
        va_start(rest, flags);                           \
        mode_t rights = va_arg(rest, mode_t);            \
        va_end(rest);                                    \
        if (is_made(path, flags)) return -1;             \
        FIND(#name);                                     \
        return next(path, flags, rights);                \
    }

OPEN(open)
OPEN(open64)

int openat(int folder, const char *path, int flags, ...) {
    static int (*next)(int, const char *, int, ...);
    va_list rest;
    va_start(rest, flags);
    mode_t rights = va_arg(rest, mode_t);
    va_end(rest);
    if (is_made(path, flags)) return -1;
    FIND("openat");
    return next(folder, path, flags, rights);
}
