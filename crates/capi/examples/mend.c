/*
 * Mends an image. With "all" everything, whatever is lost by it; otherwise what loses nothing, and
 * takes that back again. `cc mend.c $(pkg-config --cflags --libs extant) && ./a.out disk.img all`
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

/* What would be lost, without a byte written. */
static void plan(const char *image)
{
    extant_mended *mended;
    extant_repair_options how = { .struct_size = sizeof how, .scope = EXTANT_SCOPE_ALL,
                                  .flags = EXTANT_DRY_RUN };
    extant_outcome outcome = { .struct_size = sizeof outcome };
    char words[256];
    size_t at;

    must(extant_repair(image, NULL, &how, &mended), "a dry run");
    must(extant_mended_outcome(mended, &outcome), "its outcome");
    for (at = 0; at < outcome.changes; at++) {
        must(extant_mended_loss(mended, at, words, sizeof words), "a loss");
        if (words[0] != '\0')
            printf("would mend: costs %s\n", words);
    }
    extant_mended_close(mended);
}

/* Mends it, says what is left, and returns how many blocks were written. */
static uint64_t mend(const char *image, uint32_t scope)
{
    static const char *const severities[] = { "advice", "error", "stopping", "fatal" };
    extant_mended *mended;
    extant_report *left;
    extant_repair_options how = { .struct_size = sizeof how, .scope = scope };
    extant_outcome outcome = { .struct_size = sizeof outcome };
    extant_problem problem = { .struct_size = sizeof problem };

    must(extant_repair(image, NULL, &how, &mended), "a repair");
    must(extant_mended_outcome(mended, &outcome), "its outcome");
    printf("mended to exit code %lu%s\n", (unsigned long)outcome.exit_code,
           outcome.blocks > 0 ? ", in one change" : "");
    must(extant_mended_left(mended, &left), "what is left");
    extant_mended_close(mended);
    if (extant_report_count(left) > 0) {
        must(extant_report_problem(left, 0, &problem, NULL, 0), "a problem");
        printf("left: %s\n", severities[problem.severity]);
    }
    extant_report_close(left);
    return outcome.blocks;
}

int main(int count, char **words)
{
    const char *image = count > 1 ? words[1] : "disk.img";
    extant_mended *mended;
    extant_heal_options how = { .struct_size = sizeof how,
                                .flags = EXTANT_CHECK_ALWAYS | EXTANT_KEEP_UNDO };
    extant_open_options still = { .struct_size = sizeof still };
    char reason[256];
    uint64_t written, undone;

    if (count > 2 && strcmp(words[2], "all") == 0) {
        mend(image, EXTANT_SCOPE_ALL);
        return 0;
    }
    plan(image);
    written = mend(image, EXTANT_SCOPE_SAFE);
    if (written == 0)
        return 0;
    must(extant_undo(image, &still, &undone), "an undo");
    printf("undone: %s\n", undone == written ? "all of it" : "a part");

    must(extant_heal(image, NULL, &how, &mended), "a volume that is ready");
    must(extant_mended_reason(mended, reason, sizeof reason), "the reason");
    printf("healed: checked, as %s\n", reason);
    extant_mended_close(mended);
    must(extant_undo(image, NULL, NULL), "another undo");
    return 0;
}
