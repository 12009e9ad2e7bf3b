/*
 * libextant: ext2, ext3 and ext4 images for programs, without root and without a mount.
 *
 * Made by cbindgen from the sources in crates/capi: do not change it here. docs/PROGRAMS.md is
 * its manual.
 *
 * Every call that returns int returns 0, or the number that Linux has for the failure (ENOENT);
 * extant_error and the function of that kind for each handle have the words. Strings end with a
 * NUL. Paths in a volume, names of attributes and paths of the host are bytes; other strings are
 * UTF-8. A pointer that must not be NULL, and is, gives EINVAL.
 *
 * A struct that begins with struct_size is filled with zeros but for what is set, and has its own
 * size there: extant_open_options options = { .struct_size = sizeof options }. A smaller one of an
 * older header is taken as it is; a larger one of a newer header too, unless it asks for what this
 * library does not know (E2BIG).
 *
 * Volumes and files may be used from several threads at once, walks and builders from one at a
 * time (a second one waits). A handle whose call ended by a fault inside of the library answers
 * ENOTRECOVERABLE from then on.
 */

#ifndef EXTANT_H
#define EXTANT_H

#include <stddef.h>
#include <stdint.h>

// No failure.
#define EXTANT_KIND_NONE 0

// No such file, directory, partition or attribute.
#define EXTANT_KIND_NOT_FOUND 1

// The name is there already.
#define EXTANT_KIND_EXISTS 2

// A part of the path, or the object, is no directory.
#define EXTANT_KIND_NOT_DIRECTORY 3

// The object is a directory.
#define EXTANT_KIND_IS_DIRECTORY 4

// The directory has names.
#define EXTANT_KIND_NOT_EMPTY 5

// The image is in use: mounted, or open elsewhere, and one of the two writes.
#define EXTANT_KIND_IN_USE 6

// The volume, the image or the device was opened for reading, or is closed.
#define EXTANT_KIND_READ_ONLY 7

// Not allowed on this object, or by the host.
#define EXTANT_KIND_NOT_PERMITTED 8

// No room for it.
#define EXTANT_KIND_NO_SPACE 9

// Larger than the format has room for.
#define EXTANT_KIND_TOO_LARGE 10

// Words, numbers, pointers or paths that make no sense.
#define EXTANT_KIND_INVALID 11

// The volume has a feature, or the image a form, with which this cannot be done.
#define EXTANT_KIND_UNSUPPORTED 12

// The bytes are no ext2, ext3 or ext4 volume.
#define EXTANT_KIND_NOT_A_VOLUME 13

// Something on the volume, in its journal or in an archive is damaged.
#define EXTANT_KIND_DAMAGED 14

// The volume is to be checked before it is written.
#define EXTANT_KIND_NEEDS_CHECK 15

// The device, or the host, failed.
#define EXTANT_KIND_IO 16

// The library itself failed: a fault of it that is to be reported.
#define EXTANT_KIND_FAULT 17

// The words say all.
#define EXTANT_KIND_OTHER 18

// Read only: writes nothing, not even a time; a journal that waits is replayed in memory.
#define EXTANT_READ 0

// Written as a mount does.
#define EXTANT_WRITE 1

// Changed: extant_commit brings all changes to the image, or none.
#define EXTANT_CHANGE 2

// Write a volume that is marked as having errors. That may damage it more.
#define EXTANT_DESPITE_ERRORS 1

// Read over damage. Not with EXTANT_WRITE and EXTANT_CHANGE.
#define EXTANT_FORCE_READ 2

// It is always the second of `time`.
#define EXTANT_FIXED_TIME 4

// ext4.
#define EXTANT_EXT4 0

// ext3.
#define EXTANT_EXT3 3

// ext2.
#define EXTANT_EXT2 2

// Replace an image that is there, and write over a block device.
#define EXTANT_REPLACE 1

// All files belong to `uid` and `gid`.
#define EXTANT_OWNER 2

// No time is later than `newest`.
#define EXTANT_NEWEST 4

// The volume's UUID is `uuid`, and does not follow from the content.
#define EXTANT_UUID 8

// Nothing that harms a user of the volume.
#define EXTANT_ADVICE 0

// The volume is damaged.
#define EXTANT_ERROR 1

// The volume is damaged, and what depends on this cannot be judged.
#define EXTANT_STOPPING 2

// Nothing can be checked.
#define EXTANT_FATAL 3

// All that loses no byte of a file, no name and no attribute.
#define EXTANT_SCOPE_SAFE 0

// What e2fsck mends with -p, and nothing if that is not all.
#define EXTANT_SCOPE_PREEN 1

// Everything; what is lost by it is said.
#define EXTANT_SCOPE_ALL 2

// Only say what would be mended: nothing is written.
#define EXTANT_DRY_RUN 1

// Keep nothing for extant_undo.
#define EXTANT_NO_UNDO 2

// Check it in any case.
#define EXTANT_CHECK_ALWAYS 1

// Keep what was there before for extant_undo; where a damaged log is given up, it always is.
#define EXTANT_KEEP_UNDO 2

// It was clean: nothing was written.
#define EXTANT_CLEAN 0

// Its journal was replayed and its orphans were freed; it was not checked.
#define EXTANT_RECOVERED 1

// It was checked, and mended where that was needed and allowed.
#define EXTANT_REPAIRED 2

// `size` bytes at most: whole blocks, and no last group that is too small.
#define EXTANT_SIZE_BYTES 0

// The least size that it can have.
#define EXTANT_SIZE_LEAST 1

// As large as its partition, or what it is in.
#define EXTANT_SIZE_MOST 2

// Clean blocks in use of what was deleted, too.
#define EXTANT_SCRUB 2

// What goes into an image.
typedef struct extant_builder extant_builder;

// An open file. It keeps the image in use until it is closed, also after its volume was; but it is
// written only before that.
typedef struct extant_file extant_file;

// What came of mending a volume.
typedef struct extant_mended extant_mended;

// What a check has found.
typedef struct extant_report extant_report;

// An open volume, or changes of one.
typedef struct extant_volume extant_volume;

// A walk over a directory or a tree. It keeps the image in use until it ends.
typedef struct extant_walk extant_walk;

// A point in time.
typedef struct extant_time {
    // Seconds since 1970.
    int64_t seconds;
    // 0 to 999999999.
    uint32_t nanoseconds;
    // 0.
    uint32_t reserved;
} extant_time;

// A file that the program makes for an image.
typedef struct extant_new_file {
    // The size of this struct.
    size_t struct_size;
    // Type and permissions, as in st_mode: S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO, S_IFCHR, S_IFBLK.
    uint32_t mode;
    // Number of the owner.
    uint32_t uid;
    // Number of the group.
    uint32_t gid;
    // Of a device.
    uint32_t device_major;
    // Of a device.
    uint32_t device_minor;
    // 0.
    uint32_t reserved;
    // When its content last changed.
    struct extant_time modify_time;
    // What is in a regular file, which is copied.
    const void *content;
    // How many bytes that are.
    size_t content_bytes;
    // The target of a symlink; of a regular file, another path in the image that it is a second
    // name of, or NULL.
    const char *target;
} extant_new_file;

// What an image is like. Zeros, and NULL in place of it, are ext4, as large as it has to be.
typedef struct extant_build_options {
    // The size of this struct.
    size_t struct_size;
    // EXTANT_EXT4, EXTANT_EXT3 or EXTANT_EXT2.
    uint32_t profile;
    // EXTANT_REPLACE, EXTANT_OWNER, EXTANT_NEWEST, EXTANT_UUID.
    uint32_t flags;
    // Bytes of a block: 1024 to 65536; 0: 4096.
    uint32_t block_size;
    // With EXTANT_OWNER.
    uint32_t uid;
    // With EXTANT_OWNER.
    uint32_t gid;
    // 0.
    uint32_t reserved;
    // Room besides the content, in bytes.
    uint64_t free_bytes;
    // The image's length in bytes; 0: what it needs.
    uint64_t size;
    // Seconds since 1970, with EXTANT_NEWEST.
    int64_t newest;
    // At most 16 bytes; NULL: none.
    const char *label;
    // With EXTANT_UUID.
    uint8_t uuid[16];
} extant_build_options;

// An image that was built.
typedef struct extant_built {
    // The size of this struct.
    size_t struct_size;
    // Its length in bytes.
    uint64_t bytes;
    // Its blocks.
    uint64_t blocks;
    // Those that are free.
    uint64_t free_blocks;
    // Its inodes.
    uint64_t inodes;
    // Those that are free.
    uint64_t free_inodes;
    // Bytes of a block.
    uint32_t block_size;
    // 1 where it has a journal, else 0.
    uint32_t has_journal;
    // How many warnings extant_builder_warning has.
    uint64_t warnings;
    // Its UUID.
    uint8_t uuid[16];
} extant_built;

// An image behind functions of the program. They return 0 or a number of errno.h, are called from
// several threads at the same time, and must not call into the library for the same volume.
typedef struct extant_device {
    // The size of this struct.
    size_t struct_size;
    // What the functions get first.
    void *context;
    // The length in bytes, which stays as it is.
    uint64_t (*size)(void *context);
    // Fills all of `bytes`, never past the end.
    int (*read_at)(void *context,
                   uint64_t offset,
                   void *bytes,
                   size_t length);
    // Stores all of `bytes`, never past the end. NULL: it is only read.
    int (*write_at)(void *context,
                    uint64_t offset,
                    const void *bytes,
                    size_t length);
    // Makes durable what was stored. NULL: there is nothing to do.
    int (*flush)(void *context);
    // Called once when nothing uses the device any more, also where the call fails that it was
    // given to; not where struct_size is wrong. NULL: there is nothing to do.
    void (*release)(void *context);
} extant_device;

// How a volume is opened. Zeros, and NULL in place of it, are what is most often meant.
typedef struct extant_open_options {
    // The size of this struct.
    size_t struct_size;
    // EXTANT_READ, EXTANT_WRITE or EXTANT_CHANGE.
    uint32_t access;
    // EXTANT_DESPITE_ERRORS, EXTANT_FORCE_READ, EXTANT_FIXED_TIME.
    uint32_t flags;
    // The partition of this number, name or identifier. NULL: all of the image, or its only
    // volume.
    const char *partition;
    // The device of a journal that is on another one. NULL: there is none.
    const char *journal;
    // Where files go and what is durable before what (docs/POLICIES.md). NULL: "modern".
    const char *policies;
    // The volume's first byte in the image, where range_bytes is not 0.
    uint64_t range_start;
    // The volume's length in bytes; 0: not said.
    uint64_t range_bytes;
    // Memory for blocks in bytes; 0: 32 MiB.
    uint64_t cache_bytes;
    // Seconds since 1970, with EXTANT_FIXED_TIME.
    int64_t time;
} extant_open_options;

// Something that is wrong with a volume.
typedef struct extant_problem {
    // The size of this struct.
    size_t struct_size;
    // Its name in docs/CHECK.md, which never changes. The string is the handle's own.
    const char *code;
    // EXTANT_ADVICE, EXTANT_ERROR, EXTANT_STOPPING or EXTANT_FATAL.
    uint32_t severity;
    // 0.
    uint32_t reserved;
    // The inode that it is about, or 0.
    uint64_t ino;
    // The block of the volume that it is about, or 0.
    uint64_t block;
} extant_problem;

// What stat tells.
typedef struct extant_metadata {
    // The size of this struct.
    size_t struct_size;
    // Number of the inode.
    uint64_t ino;
    // Size in bytes.
    uint64_t size;
    // What it occupies, in units of 512 bytes.
    uint64_t sectors;
    // Type and permissions, as in st_mode.
    uint32_t mode;
    // How many names it has.
    uint32_t links;
    // Number of the owner.
    uint32_t uid;
    // Number of the group.
    uint32_t gid;
    // Of a device, else 0.
    uint32_t device_major;
    // Of a device, else 0.
    uint32_t device_minor;
    // Inode flags, as lsattr shows them.
    uint32_t flags;
    // Distinguishes it from earlier inodes of its number.
    uint32_t generation;
    // When it was last read.
    struct extant_time access_time;
    // When its inode last changed.
    struct extant_time change_time;
    // When its content last changed.
    struct extant_time modify_time;
    // When it was made; 0 where the inode has no room for that.
    struct extant_time create_time;
} extant_metadata;

// How a volume is mended. Zeros, and NULL in place of it: what loses nothing, and can be undone.
typedef struct extant_repair_options {
    // The size of this struct.
    size_t struct_size;
    // EXTANT_SCOPE_SAFE, EXTANT_SCOPE_PREEN or EXTANT_SCOPE_ALL.
    uint32_t scope;
    // EXTANT_DRY_RUN, EXTANT_NO_UNDO.
    uint32_t flags;
} extant_repair_options;

// How a volume is made ready for use. Zeros, and NULL in place of it: checked only where there is
// a reason to doubt it, and nothing is kept.
typedef struct extant_heal_options {
    // The size of this struct.
    size_t struct_size;
    // EXTANT_CHECK_ALWAYS, EXTANT_KEEP_UNDO.
    uint32_t flags;
    // 0.
    uint32_t reserved;
} extant_heal_options;

// The size that a volume is to have.
typedef struct extant_resize_options {
    // The size of this struct.
    size_t struct_size;
    // EXTANT_SIZE_BYTES, EXTANT_SIZE_LEAST or EXTANT_SIZE_MOST.
    uint32_t wanted;
    // EXTANT_DRY_RUN.
    uint32_t flags;
    // With EXTANT_SIZE_BYTES.
    uint64_t size;
} extant_resize_options;

// What came of giving a volume another size.
typedef struct extant_resized {
    // The size of this struct.
    size_t struct_size;
    // Bytes of a block.
    uint64_t block_size;
    // How many blocks it had.
    uint64_t blocks_before;
    // How many it has, or would have.
    uint64_t blocks_after;
    // Blocks of files that are at another place.
    uint64_t blocks_moved;
    // Blocks that were written through the log: 0 with EXTANT_DRY_RUN.
    uint64_t blocks;
} extant_resized;

// What came of mending a volume.
typedef struct extant_outcome {
    // The size of this struct.
    size_t struct_size;
    // EXTANT_CLEAN, EXTANT_RECOVERED or EXTANT_REPAIRED.
    uint32_t state;
    // That of fsck: 0 where nothing was wrong, 1 where all is mended or a damaged log was given
    // up, 4 where something is left.
    uint32_t exit_code;
    // How many changes extant_mended_change has.
    uint64_t changes;
    // How many more there are.
    uint64_t omitted;
    // How many checks there were.
    uint64_t rounds;
    // Blocks that were written: 0 with EXTANT_DRY_RUN, and where EXTANT_SCOPE_PREEN left
    // something.
    uint64_t blocks;
} extant_outcome;

// What came of a trim.
typedef struct extant_trimmed {
    // The size of this struct.
    size_t struct_size;
    // Bytes of a block.
    uint64_t block_size;
    // How many blocks are free.
    uint64_t free_blocks;
    // Blocks in use that nothing reads: 0 without EXTANT_SCRUB.
    uint64_t unread_blocks;
    // Blocks in use that were cleaned, or would be, through the log.
    uint64_t blocks;
    // Bytes of free and unread blocks that were no holes.
    uint64_t emptied_bytes;
} extant_trimmed;

// Used and free room of a volume.
typedef struct extant_space {
    // The size of this struct.
    size_t struct_size;
    // Blocks.
    uint64_t blocks;
    // Free ones.
    uint64_t free_blocks;
    // Free ones that others than root can have.
    uint64_t available_blocks;
    // Inodes.
    uint64_t inodes;
    // Free ones.
    uint64_t free_inodes;
    // Bytes of a block.
    uint64_t block_size;
} extant_space;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Of nothing yet. The handle ends with extant_builder_close, also after the image was built.
int extant_builder_open(struct extant_builder **builder);

// Ends a builder. NULL is no error.
int extant_builder_close(struct extant_builder *builder);

// The number of the last call on this builder that failed, 0 if none did; see extant_error.
int extant_builder_error(const struct extant_builder *builder,
                         char *buffer,
                         size_t size);

// Adds a folder, or a file with an archive (tar, cpio, a Debian package, compressed or not) or a
// container image. It is read when the image is built; later sources lie over earlier ones.
int extant_builder_source(const struct extant_builder *builder,
                          const char *path);

// Leaves out what a pattern matches, with all below it: one without "/" matches a name anywhere,
// one with it a path from the root.
int extant_builder_exclude(const struct extant_builder *builder,
                           const char *pattern);

// Adds a file that the program makes. Directories on the way that are missing are made; of two
// files of one path the last counts. A path with `..`, or numbers that no device has, are EINVAL,
// and nothing is added.
int extant_builder_add(const struct extant_builder *builder,
                       const char *path,
                       const struct extant_new_file *file);

// Builds into a file, which has its name only when it is whole, or on a block device. `options`
// and `built` may be NULL. The builder is empty after that, and only its warnings are left.
int extant_build(const struct extant_builder *builder,
                 const char *path,
                 const struct extant_build_options *options,
                 struct extant_built *built);

// Builds behind functions of the program, from the first byte on. What is after the image stays.
int extant_build_device(const struct extant_builder *builder,
                        const struct extant_device *device,
                        const struct extant_build_options *options,
                        struct extant_built *built);

// What could not be kept, or may surprise, after an image was built: a line, cut to `size` bytes
// with the NUL.
int extant_builder_warning(const struct extant_builder *builder,
                           size_t index,
                           char *buffer,
                           size_t size);

// Makes a file (root's, 0644), or cuts one that is there to nothing, and writes its content. It
// may be half done where it fails.
int extant_write(const struct extant_volume *volume,
                 const char *path,
                 const void *content,
                 size_t length);

// Makes a directory: root's, with the mode 0755.
int extant_mkdir(const struct extant_volume *volume,
                 const char *path);

// Makes a directory and those on the way that are missing.
int extant_mkdir_all(const struct extant_volume *volume,
                     const char *path);

// Makes a symlink at `path`.
int extant_symlink(const struct extant_volume *volume,
                   const char *target,
                   const char *path);

// Makes a FIFO, a socket or a device, by the type in `mode`; the numbers are a device's.
int extant_mknod(const struct extant_volume *volume,
                 const char *path,
                 uint32_t mode,
                 uint32_t device_major,
                 uint32_t device_minor);

// Gives an object another name. Symlinks are not followed.
int extant_link(const struct extant_volume *volume,
                const char *original,
                const char *path);

// Moves a name, and replaces what has the new one.
int extant_rename(const struct extant_volume *volume,
                  const char *path,
                  const char *renamed);

// Removes a name of anything but a directory.
int extant_unlink(const struct extant_volume *volume,
                  const char *path);

// Removes an empty directory.
int extant_rmdir(const struct extant_volume *volume,
                 const char *path);

// Removes a name, and of a directory all that is in it. It may be half done where it fails.
int extant_remove_all(const struct extant_volume *volume,
                      const char *path);

// Gives the twelve lower bits of the mode. Symlinks are not followed.
int extant_chmod(const struct extant_volume *volume,
                 const char *path,
                 uint32_t mode);

// Gives an owner and a group. Symlinks are not followed.
int extant_chown(const struct extant_volume *volume,
                 const char *path,
                 uint32_t uid,
                 uint32_t gid);

// Says when the content changed. Symlinks are not followed.
int extant_set_modify_time(const struct extant_volume *volume,
                           const char *path,
                           struct extant_time time);

// Sets an extended attribute ("user.note"); the value is stored as it is. Symlinks are not
// followed.
int extant_set_attribute(const struct extant_volume *volume,
                         const char *path,
                         const char *name,
                         const void *value,
                         size_t length);

// Removes an extended attribute.
int extant_remove_attribute(const struct extant_volume *volume,
                            const char *path,
                            const char *name);

// Checks a volume, as after a replay of its journal; nothing is written. That it is damaged, or no
// volume, is in the report. `options` may be NULL; its access is not looked at. The handle ends
// with extant_report_close.
int extant_check(const char *path,
                 const struct extant_open_options *options,
                 struct extant_report **report);

// The same behind functions of the program.
int extant_check_device(const struct extant_device *device,
                        const struct extant_open_options *options,
                        struct extant_report **report);

// How many problems extant_report_problem has; 0 for a volume without any, and for NULL.
size_t extant_report_count(const struct extant_report *report);

// e2fsck's exit code: 0 for a volume that is what it says (advice aside), 4 for one that is
// damaged, 8 and 12 for one that cannot be judged to the end; -1 for NULL.
int extant_report_exit_code(const struct extant_report *report);

// One problem, in the order in which they were found: what it is, and a line about it, cut to
// `size` bytes with the NUL. `problem` and `buffer` may be NULL.
int extant_report_problem(const struct extant_report *report,
                          size_t index,
                          struct extant_problem *problem,
                          char *buffer,
                          size_t size);

// Ends a report. NULL is no error.
int extant_report_close(struct extant_report *report);

// The number of the last call that failed in this thread, whatever its handle; 0 if none did. Its
// words are copied to `buffer`, cut to `size` bytes with the NUL. `buffer` may be NULL.
int extant_error(char *buffer,
                 size_t size);

// Of which kind the last call that failed in this thread was: EXTANT_KIND_NONE if none did.
uint32_t extant_error_kind(void);

// The version of the library, "0.1.0". The string is the library's own.
const char *extant_version(void);

// Opens a file, for writing too where the volume is written. The handle ends with
// extant_file_close.
int extant_file_open(const struct extant_volume *volume,
                     const char *path,
                     struct extant_file **file);

// Makes a file (root's, 0644), or cuts one that is there to nothing, and opens it.
int extant_file_create(const struct extant_volume *volume,
                       const char *path,
                       struct extant_file **file);

// Closes a file. Nothing becomes durable by that: see extant_file_sync. NULL is no error.
int extant_file_close(struct extant_file *file);

// The number of the last call on this file that failed, 0 if none did; see extant_error.
int extant_file_error(const struct extant_file *file,
                      char *buffer,
                      size_t size);

// What fstat tells.
int extant_file_stat(const struct extant_file *file,
                     struct extant_metadata *metadata);

// Reads at an offset; `length` gets how many bytes: fewer than `size` only at the end.
int extant_file_read(const struct extant_file *file,
                     uint64_t offset,
                     void *buffer,
                     size_t size,
                     size_t *length);

// Writes all of it at an offset; what is between the end and the offset is a hole. A part of it
// may be written where it fails.
int extant_file_write(const struct extant_file *file,
                      uint64_t offset,
                      const void *content,
                      size_t length);

// Sets the size in bytes.
int extant_file_truncate(const struct extant_file *file,
                         uint64_t bytes);

// Makes what was written durable, and all that was done before.
int extant_file_sync(const struct extant_file *file);

// Mends a volume, in memory first, and writes it as one change: a crash leaves it as it was or
// mended. What the scope does not allow is left, and in extant_mended_left. What was there before
// is kept beside the image for extant_undo. `options` may be NULL, and its access is not looked
// at; `how` may be NULL. The handle ends with extant_mended_close. Where the call fails nothing
// was written.
int extant_repair(const char *path,
                  const struct extant_open_options *options,
                  const struct extant_repair_options *how,
                  struct extant_mended **mended);

// Takes the last repair of an image back: its blocks are to the byte what they were. `blocks` is
// set to how many those are, 0 where they were already, and may be NULL. Fails where there is none
// to undo, and where the volume was changed since. `options` as for extant_repair.
int extant_undo(const char *path,
                const struct extant_open_options *options,
                uint64_t *blocks);

// Makes a volume ready for use, for the moment before a machine boots from it: nothing for one
// that is clean, which costs a read of its superblock; recovery for one that was not unmounted; a
// check, and a repair that loses nothing, where there is a reason to doubt it. `options` as for
// extant_repair; `how` may be NULL. The handle ends with extant_mended_close. Where the call fails
// nothing was written.
int extant_heal(const char *path,
                const struct extant_open_options *options,
                const struct extant_heal_options *how,
                struct extant_mended **mended);

// Gives a volume another size, in memory first, and writes it as one change: a crash leaves it as
// it was or as it is to be. A journal that waits and orphans are brought to an end before. A file
// that ends with the volume becomes longer or shorter with it. `options` as for extant_repair;
// `how` may not be NULL; `resized` is filled with what came of it, and may be NULL. Where the call
// fails the volume is as it was: EUCLEAN for one that is not clean, ENOSPC where its files need
// more, or where it is in has no room.
int extant_resize(const char *path,
                  const struct extant_open_options *options,
                  const struct extant_resize_options *how,
                  struct extant_resized *resized);

// Changes what a volume says of itself and has of its own, in memory first, and writes it as one
// change: a crash leaves it as it was or as it is to be. `words` are those of tune2fs, letters and
// values apart, one a string, `count` of them: "-L", "root", "-O", "^has_journal". Users and
// groups are numbers. `options` as for extant_repair; `flags` are 0 or EXTANT_DRY_RUN. `blocks`
// becomes how many were written through the log, and may be NULL. Where the call fails the volume
// is as it was: EUCLEAN for one that is not clean, EOPNOTSUPP for what it cannot have, EINVAL for
// words that say nothing; extant_error has why.
int extant_tune(const char *path,
                const struct extant_open_options *options,
                const char *const *words,
                size_t count,
                uint32_t flags,
                uint64_t *blocks);

// What came of it, in numbers.
int extant_mended_outcome(const struct extant_mended *mended,
                          struct extant_outcome *outcome);

// One problem that was mended, or would be, in the order in which they were: what it is, and a
// line about it, cut to `size` bytes with the NUL. `problem` and `buffer` may be NULL.
int extant_mended_change(const struct extant_mended *mended,
                         size_t index,
                         struct extant_problem *problem,
                         char *buffer,
                         size_t size);

// What was lost by mending it, in words, cut to `size` bytes with the NUL: bytes of a file, a
// name, an attribute. No words where nothing was.
int extant_mended_loss(const struct extant_mended *mended,
                       size_t index,
                       char *buffer,
                       size_t size);

// Why extant_heal checked the volume, cut to `size` bytes with the NUL. No words where it did not,
// and after extant_repair.
int extant_mended_reason(const struct extant_mended *mended,
                         char *buffer,
                         size_t size);

// The last check: what is left. A volume that was not checked is EINVAL. The report ends with
// extant_report_close, before or after `mended`.
int extant_mended_left(const struct extant_mended *mended,
                       struct extant_report **report);

// The path of the file with the bytes before, without a NUL; `length` is 0 where none are kept. As
// for extant_readlink.
int extant_mended_undo(const struct extant_mended *mended,
                       char *buffer,
                       size_t size,
                       size_t *length);

// Ends it. NULL is no error.
int extant_mended_close(struct extant_mended *mended);

// Makes holes of the free blocks of a volume, and with EXTANT_SCRUB cleans blocks in use of what
// was deleted. A journal that waits and orphans are brought to an end before. What is kept for
// extant_undo goes. `options` as for extant_repair; `flags` are EXTANT_DRY_RUN and EXTANT_SCRUB;
// `trimmed` is filled with what came of it, and may be NULL. A crash leaves fewer blocks emptied,
// and nothing else. A volume that is refused is as it was: EUCLEAN for one that is not clean,
// EINVAL for one whose journal is on another device.
int extant_trim(const char *path,
                const struct extant_open_options *options,
                uint32_t flags,
                struct extant_trimmed *trimmed);

// Writes a volume, laid out anew with its own options, to a new file, which has its name only when
// it is whole: what extant_build made comes out byte for byte if its files are as they were. The
// file holds the volume alone, and the image is only read. The modify time stands for the other
// times too. `options` as for extant_repair; `built` may be NULL. EEXIST where `out` is there,
// EUCLEAN for a volume that is not clean; for what no build makes extant_error says what that is.
int extant_normalize(const char *path,
                     const struct extant_open_options *options,
                     const char *out,
                     struct extant_built *built);

// Writes a volume, laid out anew, to a new file as extant_normalize does, with what is at `count`
// paths in front: inodes, directories and data of what a program reads when it starts, in that
// order. Paths lead through symlinks; what is not there is passed over. `first` may be NULL where
// `count` is 0. All of its files stays, and the numbers and times of creation of inodes do not.
int extant_repack(const char *path,
                  const struct extant_open_options *options,
                  const char *out,
                  const char *const *first,
                  size_t count,
                  struct extant_built *built);

// Opens the volume in an image or on a block device of the host. `options` may be NULL. The handle
// is stored in `volume`, or NULL where it fails; it ends with extant_close or extant_commit.
int extant_open(const char *path,
                const struct extant_open_options *options,
                struct extant_volume **volume);

// The same behind functions of the program. The struct is copied; what it points to is used until
// `release` is called.
int extant_open_device(const struct extant_device *device,
                       const struct extant_open_options *options,
                       struct extant_volume **volume);

// Ends a volume: makes durable what was written, and leaves it clean. An error is one of the
// writes: not all of them are in the image. Changes that were not committed are dropped. The
// handle is gone whatever is returned; NULL is no error.
int extant_close(struct extant_volume *volume);

// Ends changes: all of them reach the image, or none. The handle is gone whatever is returned. A
// volume that was not opened with EXTANT_CHANGE is EINVAL, and is closed.
int extant_commit(struct extant_volume *volume);

// The number of the last call on this volume that failed, 0 if none did; see extant_error.
int extant_volume_error(const struct extant_volume *volume,
                        char *buffer,
                        size_t size);

// Makes durable all that was written.
int extant_sync(const struct extant_volume *volume);

// Makes durable what a path leads to, and all that was done before.
int extant_sync_path(const struct extant_volume *volume,
                     const char *path);

// Used and free room.
int extant_statfs(const struct extant_volume *volume,
                  struct extant_space *space);

// The volume's label, as UTF-8, cut to `size` bytes with the NUL, and the 16 bytes of its UUID;
// either may be NULL. A label needs 17 bytes, 49 where it is no UTF-8.
int extant_identity(const struct extant_volume *volume,
                    char *label,
                    size_t size,
                    uint8_t *uuid);

// How many lines extant_lost has: what EXTANT_FORCE_READ has passed over. 0 for NULL.
size_t extant_lost_count(const struct extant_volume *volume);

// A line about what was lost of a damaged volume, cut to `size` bytes with the NUL.
int extant_lost(const struct extant_volume *volume,
                size_t index,
                char *buffer,
                size_t size);

// What stat tells; symlinks are followed.
int extant_stat(const struct extant_volume *volume,
                const char *path,
                struct extant_metadata *metadata);

// What lstat tells.
int extant_lstat(const struct extant_volume *volume,
                 const char *path,
                 struct extant_metadata *metadata);

// Reads from a file at an offset; `length` gets how many bytes: fewer than `size` only at the end.
int extant_read(const struct extant_volume *volume,
                const char *path,
                uint64_t offset,
                void *buffer,
                size_t size,
                size_t *length);

// The target of a symlink, without a NUL. `length` gets how long it is; ERANGE where the buffer is
// smaller, but a size of 0 only asks.
int extant_readlink(const struct extant_volume *volume,
                    const char *path,
                    char *buffer,
                    size_t size,
                    size_t *length);

// The names of all extended attributes, each with a NUL after it. As for extant_readlink; symlinks
// are not followed.
int extant_list_attributes(const struct extant_volume *volume,
                           const char *path,
                           char *buffer,
                           size_t size,
                           size_t *length);

// The value of an extended attribute ("user.note"); access lists in the form of getxattr. As for
// extant_readlink; symlinks are not followed.
int extant_get_attribute(const struct extant_volume *volume,
                         const char *path,
                         const char *name,
                         void *buffer,
                         size_t size,
                         size_t *length);

// What is in a directory, by name. Symlinks on the way and at the end are followed. The handle
// ends with extant_walk_close.
int extant_list(const struct extant_volume *volume,
                const char *path,
                struct extant_walk **walk);

// A path and all that is below it: a directory before what is in it. Symlinks that are met are not
// followed.
int extant_walk_tree(const struct extant_volume *volume,
                     const char *path,
                     struct extant_walk **walk);

// Goes to the next entry: its path, as it begins at what the walk was asked for, and what lstat
// tells of it. `path` gets NULL at the end, which is no failure; `metadata` may be NULL. What
// cannot be read is a failure in its place, and the next call goes on after it. The string is the
// walk's own, and there until the next call.
int extant_walk_next(const struct extant_walk *walk,
                     const char **path,
                     struct extant_metadata *metadata);

// The number of the last call on this walk that failed, 0 if none did; see extant_error.
int extant_walk_error(const struct extant_walk *walk,
                      char *buffer,
                      size_t size);

// Ends a walk. NULL is no error.
int extant_walk_close(struct extant_walk *walk);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* EXTANT_H */
