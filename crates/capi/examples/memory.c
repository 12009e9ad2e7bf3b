/*
 * An image behind functions of the program, here in its memory: built, written and read there, and
 * then told by its bytes. The functions may be called from several threads at once: a lock keeps
 * them apart.
 */
#include <errno.h>
#include <extant.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct memory {
    pthread_mutex_t lock;
    unsigned char *bytes;
    size_t size;
    int flushes;
    int released;
};

static uint64_t memory_size(void *context)
{
    return ((struct memory *)context)->size;
}

static int memory_read(void *context, uint64_t offset, void *bytes, size_t length)
{
    struct memory *memory = context;

    if (offset > memory->size || length > memory->size - offset)
        return EIO;
    pthread_mutex_lock(&memory->lock);
    memcpy(bytes, memory->bytes + offset, length);
    pthread_mutex_unlock(&memory->lock);
    return 0;
}

static int memory_write(void *context, uint64_t offset, const void *bytes, size_t length)
{
    struct memory *memory = context;

    if (offset > memory->size || length > memory->size - offset)
        return EIO;
    pthread_mutex_lock(&memory->lock);
    memcpy(memory->bytes + offset, bytes, length);
    pthread_mutex_unlock(&memory->lock);
    return 0;
}

static int memory_flush(void *context)
{
    struct memory *memory = context;

    pthread_mutex_lock(&memory->lock);
    memory->flushes++;
    pthread_mutex_unlock(&memory->lock);
    return 0;
}

static void memory_release(void *context)
{
    ((struct memory *)context)->released++;
}

static void must(int failed)
{
    char words[256];

    if (failed == 0)
        return;
    extant_error(words, sizeof words);
    fprintf(stderr, "%s\n", words);
    exit(1);
}

int main(void)
{
    struct memory memory = { .size = 4 << 20 };
    extant_device device = {
        .struct_size = sizeof device,
        .context = &memory,
        .size = memory_size,
        .read_at = memory_read,
        .write_at = memory_write,
        .flush = memory_flush,
        .release = memory_release,
    };
    extant_build_options how = { .struct_size = sizeof how, .profile = EXTANT_EXT2 };
    extant_open_options written = { .struct_size = sizeof written, .access = EXTANT_WRITE };
    extant_builder *builder;
    extant_volume *volume;
    extant_file *file;
    extant_report *report;
    char buffer[32];
    size_t length;

    memory.bytes = calloc(1, memory.size);
    if (memory.bytes == NULL)
        return 1;
    pthread_mutex_init(&memory.lock, NULL);

    how.size = memory.size;
    must(extant_builder_open(&builder));
    must(extant_build_device(builder, &device, &how, NULL));
    must(extant_builder_close(builder));

    must(extant_open_device(&device, &written, &volume));
    must(extant_file_create(volume, "/hello", &file));
    must(extant_file_write(file, 3, "there", 5));
    must(extant_file_write(file, 0, "hi ", 3));
    must(extant_file_sync(file));
    must(extant_file_read(file, 0, buffer, sizeof buffer, &length));
    printf("%.*s\n", (int)length, buffer);
    must(extant_file_close(file));
    must(extant_close(volume));

    must(extant_check_device(&device, NULL, &report));
    printf("exit code %d, flushed: %s, released: %d\n", extant_report_exit_code(report),
           memory.flushes > 0 ? "yes" : "no", memory.released);
    must(extant_report_close(report));

    fwrite(memory.bytes, 1, memory.size, stderr);
    pthread_mutex_destroy(&memory.lock);
    free(memory.bytes);
    return 0;
}
