/*
 * What is read of a file is what was last written to it, whatever way it went: `coherence WAY
 * FOLDER` changes a file in one way, and looks at each change by read(2), by a map, and around the
 * cache. Threads that read, by both, keep the cache full meanwhile. Exit code 1 and a line for
 * stale bytes, 77 where the host does not have the way, 2 for all else that fails.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLOCK 4096
#define BLOCKS 64
#define WRITERS 2
#define READERS 2
#define BYTES ((off_t)BLOCK * BLOCKS)

static const char *way;
static char path[4096], other[4096];
static atomic_int has_ended;
static long rounds = 32;

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", way, what, strerror(errno));
	exit(2);
}
static void check(int holds, const char *what)
{
	if (!holds)
		fail(what);
}
static int opened(const char *name, int flags)
{
	int fd = open(name, flags | O_CLOEXEC, 0644);
	check(fd >= 0, name);
	return fd;
}
static void *block_of_memory(size_t bytes)
{
	void *block = aligned_alloc(BLOCK, bytes);
	check(block != NULL, "memory");
	return block;
}
static void fill(uint32_t *block, uint32_t value)
{
	for (int i = 0; i < BLOCK / 4; i++)
		block[i] = value;
}

/* A thread that writes. */
struct writer {
	int number, direct, buffered, source;
	uint32_t *block;
	uint32_t *map;
	aio_context_t aio;
	int ring;
	struct io_uring_params params;
	char *submissions, *completions;
	struct io_uring_sqe *entries;
};

static void by_pwrite(struct writer *w, int at)
{
	check(pwrite(w->direct, w->block, BLOCK, (off_t)at * BLOCK) == BLOCK, "pwrite");
}
static void by_aio(struct writer *w, int at)
{
	struct iocb request = { .aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = w->direct,
		.aio_buf = (uintptr_t)w->block, .aio_nbytes = BLOCK, .aio_offset = (off_t)at * BLOCK };
	struct iocb *requests = &request;
	struct io_event event;
	check(syscall(SYS_io_submit, w->aio, 1, &requests) == 1, "io_submit");
	check(syscall(SYS_io_getevents, w->aio, 1, 1, &event, NULL) == 1, "io_getevents");
	errno = event.res < 0 ? -event.res : 0;
	check(event.res == BLOCK, "a write of io_submit");
}
static void set_up_ring(struct writer *w)
{
	w->ring = syscall(SYS_io_uring_setup, 4, &w->params);
	if (w->ring < 0 && (errno == ENOSYS || errno == EPERM))
		exit(77);
	check(w->ring >= 0, "io_uring_setup");
	struct io_uring_params *p = &w->params;
	size_t sq = p->sq_off.array + p->sq_entries * sizeof(uint32_t);
	size_t cq = p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
	int access = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_POPULATE;
	w->submissions = mmap(NULL, sq, access, flags, w->ring, IORING_OFF_SQ_RING);
	w->completions = mmap(NULL, cq, access, flags, w->ring, IORING_OFF_CQ_RING);
	w->entries = mmap(NULL, p->sq_entries * sizeof(struct io_uring_sqe), access, flags, w->ring,
		IORING_OFF_SQES);
	check(w->submissions != MAP_FAILED && w->completions != MAP_FAILED, "mmap of a ring");
	check(w->entries != MAP_FAILED, "mmap of a ring's entries");
}
static void by_ring(struct writer *w, int at)
{
	struct io_uring_params *p = &w->params;
	_Atomic uint32_t *tail = (void *)(w->submissions + p->sq_off.tail);
	uint32_t index = *tail & *(uint32_t *)(w->submissions + p->sq_off.ring_mask);
	w->entries[index] = (struct io_uring_sqe){ .opcode = IORING_OP_WRITE, .fd = w->direct,
		.off = (off_t)at * BLOCK, .addr = (uintptr_t)w->block, .len = BLOCK };
	((uint32_t *)(w->submissions + p->sq_off.array))[index] = index;
	atomic_store(tail, *tail + 1);
	check(syscall(SYS_io_uring_enter, w->ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1,
		"io_uring_enter");
	_Atomic uint32_t *head = (void *)(w->completions + p->cq_off.head);
	struct io_uring_cqe *all = (void *)(w->completions + p->cq_off.cqes);
	int result = all[*head & *(uint32_t *)(w->completions + p->cq_off.ring_mask)].res;
	atomic_store(head, *head + 1);
	errno = result < 0 ? -result : 0;
	check(result == BLOCK, "a write of io_uring");
}
static void by_buffered(struct writer *w, int at)
{
	check(pwrite(w->buffered, w->block, BLOCK, (off_t)at * BLOCK) == BLOCK, "pwrite");
}
static void by_map(struct writer *w, int at)
{
	memcpy((char *)w->map + (off_t)at * BLOCK, w->block, BLOCK);
}
/* What waits in the cache is not sent after what was written around it. */
static void by_both(struct writer *w, int at)
{
	uint32_t older[BLOCK / 4];
	fill(older, 1);
	check(pwrite(w->buffered, older, BLOCK, (off_t)at * BLOCK) == BLOCK, "pwrite");
	memcpy((char *)w->map + (off_t)at * BLOCK, older, BLOCK);
	by_aio(w, at);
}
static void by_copy(struct writer *w, int at)
{
	off_t from = (off_t)w->number * BLOCK, to = (off_t)at * BLOCK;
	check(pwrite(w->source, w->block, BLOCK, from) == BLOCK, "pwrite of the source");
	check(copy_file_range(w->source, &from, w->direct, &to, BLOCK, 0) == BLOCK, "copy_file_range");
}
static void by_hole(struct writer *w, int at)
{
	int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	by_buffered(w, at);
	check(fallocate(w->direct, mode, (off_t)at * BLOCK, BLOCK) == 0, "fallocate");
	fill(w->block, 0);
}
static void by_zeros(struct writer *w, int at)
{
	by_buffered(w, at);
	check(fallocate(w->direct, FALLOC_FL_ZERO_RANGE, (off_t)at * BLOCK, BLOCK) == 0, "fallocate");
	fill(w->block, 0);
}
/* Of the last block: what is cut off is zeros when the file is longer again. */
static void by_cut(struct writer *w, int at)
{
	if (at != BLOCKS - 1)
		return by_buffered(w, at);
	by_buffered(w, at);
	check(ftruncate(w->direct, BYTES - BLOCK) == 0 && ftruncate(w->direct, BYTES) == 0, "ftruncate");
	fill(w->block, 0);
}

static const struct { const char *name; void (*write)(struct writer *, int); } ways[] = {
	{ "pwrite", by_pwrite }, { "aio", by_aio }, { "ring", by_ring }, { "buffered", by_buffered },
	{ "map", by_map }, { "both", by_both }, { "copy", by_copy }, { "hole", by_hole },
	{ "zeros", by_zeros }, { "cut", by_cut },
};
static void (*write_block)(struct writer *, int);

static void compare(const uint32_t *found, uint32_t wanted, const char *by, int at)
{
	for (int i = 0; i < BLOCK / 4; i++)
		if (((volatile const uint32_t *)found)[i] != wanted) {
			fprintf(stderr, "%s: block %d by %s: %u instead of %u\n", way, at, by, found[i], wanted);
			exit(1);
		}
}

static void *reads(void *unused)
{
	int fd = opened(path, O_RDONLY);
	uint32_t block[BLOCK / 4], seed = 1;
	volatile char *map = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
	check(map != MAP_FAILED, "mmap");
	while (!has_ended) {
		/* But for the last block, which may be cut off. */
		int at = (seed = seed * 1103515245 + 12345) / 65536 % (BLOCKS - 1);
		check(pread(fd, block, BLOCK, (off_t)at * BLOCK) == BLOCK, "pread");
		(void)map[(off_t)at * BLOCK];
	}
	return unused;
}

static void *writes(void *mine)
{
	struct writer *w = mine;
	int fd = opened(path, O_RDONLY);
	uint32_t *found = block_of_memory(BLOCK);
	for (uint32_t round = 2; round < rounds; round++)
		for (int at = w->number; at < BLOCKS; at += WRITERS) {
			fill(w->block, round);
			write_block(w, at);
			check(pread(fd, found, BLOCK, (off_t)at * BLOCK) == BLOCK, "pread");
			compare(found, *w->block, "read", at);
			compare((uint32_t *)((char *)w->map + (off_t)at * BLOCK), *w->block, "map", at);
			/* Around the cache only now and then: it empties it. */
			if (round % 8)
				continue;
			check(pread(w->direct, found, BLOCK, (off_t)at * BLOCK) == BLOCK, "direct pread");
			compare(found, *w->block, "direct read", at);
		}
	return mine;
}

/* The whole file by the cache, and around it. */
static void compare_whole(void)
{
	char *cached = block_of_memory(BYTES), *direct = block_of_memory(BYTES);
	int by_cache = opened(path, O_RDONLY), around = opened(path, O_RDONLY | O_DIRECT);
	check(pread(by_cache, cached, BYTES, 0) == BYTES, "pread");
	check(fsync(by_cache) == 0, "fsync");
	check(pread(around, direct, BYTES, 0) == BYTES, "direct pread");
	if (memcmp(cached, direct, BYTES)) {
		fprintf(stderr, "%s: what is cached is not what is in the file\n", way);
		exit(1);
	}
}

static void run(void)
{
	pthread_t readers[READERS], writers[WRITERS];
	struct writer all[WRITERS] = { 0 };
	uint32_t block[BLOCK / 4];
	int fd = opened(path, O_RDWR | O_CREAT | O_EXCL);
	int source = opened(other, O_RDWR | O_CREAT | O_EXCL);
	fill(block, 1);
	for (int at = 0; at < BLOCKS; at++)
		check(write(fd, block, BLOCK) == BLOCK, "write");
	check(fsync(fd) == 0, "fsync");
	for (int i = 0; i < WRITERS; i++) {
		struct writer *w = &all[i];
		*w = (struct writer){ .number = i, .buffered = fd, .source = source };
		w->direct = opened(path, O_RDWR | O_DIRECT);
		w->block = block_of_memory(BLOCK);
		w->map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		check(w->map != MAP_FAILED, "mmap");
		check(syscall(SYS_io_setup, 4, &w->aio) == 0, "io_setup");
		if (write_block == by_ring)
			set_up_ring(w);
	}
	for (int i = 0; i < READERS; i++)
		check(pthread_create(&readers[i], NULL, reads, NULL) == 0, "a thread");
	for (int i = 0; i < WRITERS; i++)
		check(pthread_create(&writers[i], NULL, writes, &all[i]) == 0, "a thread");
	for (int i = 0; i < WRITERS; i++)
		pthread_join(writers[i], NULL);
	has_ended = 1;
	for (int i = 0; i < READERS; i++)
		pthread_join(readers[i], NULL);
	compare_whole();
}

/* What was appended without the cache is seen by who has the last page of the file in it. */
static void append(void)
{
	int fd = opened(path, O_RDWR | O_CREAT | O_EXCL), flags = 0;
	check(write(fd, "first", 5) == 5, "write");
	int reader = opened(path, O_RDONLY);
	check(ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0, "lsattr");
	flags |= FS_APPEND_FL;
	check(ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0, "chattr +a");
	int appender = opened(path, O_WRONLY | O_APPEND);
	const volatile char *map = mmap(NULL, BLOCK, PROT_READ, MAP_SHARED, reader, 0);
	check(map != MAP_FAILED, "mmap");
	char found[BLOCK];
	for (int round = 0, length = 5; round < 200; round++, length++) {
		char letter = 'a' + round % 26;
		check(pread(reader, found, BLOCK, 0) == length, "pread");
		(void)map[0];
		check(write(appender, &letter, 1) == 1, "append");
		if (pread(reader, found, BLOCK, 0) != length + 1 || found[length] != letter) {
			fprintf(stderr, "append: byte %d by read: %d\n", length, found[length]);
			exit(1);
		}
		if (map[length] != letter) {
			fprintf(stderr, "append: byte %d by map: %d\n", length, map[length]);
			exit(1);
		}
	}
	flags &= ~FS_APPEND_FL;
	check(ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0, "chattr -a");
}

static void is_content(const char *name, uint32_t wanted)
{
	uint32_t found[BLOCK / 4];
	int fd = opened(name, O_RDONLY);
	check(pread(fd, found, BLOCK, 0) == BLOCK, "pread");
	compare(found, wanted, name, 0);
	close(fd);
}
static void make(const char *name, uint32_t value)
{
	uint32_t block[BLOCK / 4];
	int fd = opened(name, O_WRONLY | O_CREAT | O_TRUNC);
	fill(block, value);
	check(write(fd, block, BLOCK) == BLOCK, "write");
	close(fd);
	is_content(name, value);
}
/* Names that change places, files that are emptied when opened, inodes that are used again. */
static void names(void)
{
	for (uint32_t round = 2; round < rounds; round++) {
		make(path, round);
		make(other, round + 1000);
		check(syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, other, RENAME_EXCHANGE) == 0,
			"renameat2");
		is_content(path, round + 1000);
		is_content(other, round);
		check(unlink(path) == 0, "unlink");
		int fd = opened(path, O_RDWR | O_CREAT | O_EXCL);
		check(ftruncate(fd, BLOCK) == 0, "ftruncate");
		is_content(path, 0);
		close(fd);
		check(rename(path, other) == 0, "rename");
		is_content(other, 0);
	}
}

int main(int count, char **words)
{
	if (count != 3)
		return 2;
	way = words[1];
	snprintf(path, sizeof path, "%s/%s", words[2], way);
	snprintf(other, sizeof other, "%s/%s-other", words[2], way);
	if (!strcmp(way, "append"))
		return append(), 0;
	if (!strcmp(way, "names"))
		return names(), 0;
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
		if (!strcmp(way, ways[i].name))
			return write_block = ways[i].write, run(), 0;
	return 2;
}
