/*
 * What libextant does, from the first call to the last: an image is built, listed, changed in one
 * step, read and checked. `cc tour.c $(pkg-config --cflags --libs extant) && ./a.out disk.img`
 */
#include <extant.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Ends the program with the words of the call that failed in this thread. */
static void must(int failed, const char *what)
{
    char words[256];

    if (failed == 0)
        return;
    extant_error(words, sizeof words);
    fprintf(stderr, "%s: %s (%s)\n", what, words, strerror(failed));
    exit(1);
}

static void build(const char *image)
{
    extant_builder *builder;
    extant_build_options options = { .struct_size = sizeof options };
    extant_built built = { .struct_size = sizeof built };
    extant_new_file file = { .struct_size = sizeof file };

    must(extant_builder_open(&builder), "a builder");
    file.mode = S_IFREG | 0644;
    file.content = "extant\n";
    file.content_bytes = 7;
    must(extant_builder_add(builder, "/etc/hostname", &file), "a file");
    memset(&file, 0, sizeof file);
    file.struct_size = sizeof file;
    file.mode = S_IFLNK | 0777;
    file.target = "hostname";
    must(extant_builder_add(builder, "/etc/name", &file), "a symlink");

    options.free_bytes = 8 << 20;
    options.label = "tour";
    options.flags = EXTANT_REPLACE;
    must(extant_build(builder, image, &options, &built), "the image");
    extant_builder_close(builder);
    printf("built: %s, journal: %s\n", built.bytes > (8 << 20) ? "with room" : "too small",
           built.has_journal ? "yes" : "no");
}

/* All of it reaches the image, or nothing. */
static void change(const char *image)
{
    extant_volume *volume;
    extant_open_options options = { .struct_size = sizeof options };

    options.access = EXTANT_CHANGE;
    must(extant_open(image, &options, &volume), "changes");
    must(extant_mkdir_all(volume, "/srv/app"), "directories");
    must(extant_write(volume, "/srv/app/data", "some data\n", 10), "a file");
    must(extant_chown(volume, "/srv/app/data", 1000, 1000), "an owner");
    must(extant_set_attribute(volume, "/srv/app/data", "user.note", "kept", 4), "an attribute");
    must(extant_rename(volume, "/etc/hostname", "/etc/host"), "another name");
    must(extant_commit(volume), "the commit");
}

static void look(const char *image)
{
    extant_volume *volume;
    extant_walk *walk;
    extant_metadata metadata = { .struct_size = sizeof metadata };
    extant_space space = { .struct_size = sizeof space };
    const char *path;
    char buffer[64];
    size_t length;

    must(extant_open(image, NULL, &volume), "the volume");
    must(extant_walk_tree(volume, "/", &walk), "a walk");
    for (;;) {
        must(extant_walk_next(walk, &path, &metadata), "the next entry");
        if (path == NULL)
            break;
        printf("%06o %4lu %s\n", metadata.mode, (unsigned long)metadata.uid, path);
    }
    extant_walk_close(walk);

    must(extant_read(volume, "/srv/app/data", 5, buffer, sizeof buffer, &length), "a file");
    printf("data: %.*s", (int)length, buffer);
    must(extant_readlink(volume, "/etc/name", buffer, sizeof buffer, &length), "a symlink");
    printf("name: %.*s\n", (int)length, buffer);
    must(extant_get_attribute(volume, "/srv/app/data", "user.note", buffer, sizeof buffer, &length),
         "an attribute");
    printf("note: %.*s\n", (int)length, buffer);
    must(extant_statfs(volume, &space), "the room");
    printf("blocks of %lu bytes\n", (unsigned long)space.block_size);

    /* A failure has a number, and words that the handle keeps. */
    if (extant_stat(volume, "/etc/hostname", &metadata) != 0) {
        extant_volume_error(volume, buffer, sizeof buffer);
        printf("gone: %s\n", buffer);
    }
    must(extant_close(volume), "the end");
}

int main(int count, char **words)
{
    const char *image = count > 1 ? words[1] : "disk.img";
    extant_report *report;

    build(image);
    change(image);
    look(image);
    must(extant_check(image, NULL, &report), "a check");
    printf("problems: %lu\n", (unsigned long)extant_report_count(report));
    extant_report_close(report);
    return 0;
}
