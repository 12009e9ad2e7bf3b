/*
 * Rids disk.img of what was deleted, and lays it out anew: normal.img is the same bytes whenever the
 * content is the same, and packed.img has in front what a program reads first.
 * `cc trim.c $(pkg-config --cflags --libs extant) && ./a.out`
 */
#include <extant.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int main(void)
{
    static const char *const first[] = { "/srv/app/data", "/not/there" };
    extant_trimmed trimmed = { .struct_size = sizeof trimmed };
    extant_built built = { .struct_size = sizeof built };
    uint64_t bytes;

    must(extant_trim("disk.img", NULL, EXTANT_DRY_RUN | EXTANT_SCRUB, &trimmed), "a dry run");
    printf("would clean something: %s\n", trimmed.blocks > 0 ? "yes" : "no");
    must(extant_trim("disk.img", NULL, EXTANT_SCRUB, &trimmed), "a trim");
    printf("emptied: %s\n", trimmed.blocks > 0 && trimmed.free_blocks > 0 ? "yes" : "no");
    must(extant_trim("disk.img", NULL, EXTANT_SCRUB, &trimmed), "another one");
    printf("cleaned again: %lu blocks\n", (unsigned long)trimmed.blocks);

    must(extant_normalize("disk.img", NULL, "normal.img", &built), "normalize");
    bytes = built.bytes;
    must(extant_normalize("normal.img", NULL, "again.img", &built), "normalize again");
    printf("normal: %u bytes a block, as it was: %s\n", built.block_size,
           built.bytes == bytes ? "yes" : "no");
    must(extant_repack("disk.img", NULL, "packed.img", first, 2, &built), "repack");
    printf("packed: %u bytes a block\n", built.block_size);
    printf("out of order: %s\n",
           strerror(extant_repack("disk.img", NULL, "packed.img", NULL, 0, NULL)));
    return 0;
}
