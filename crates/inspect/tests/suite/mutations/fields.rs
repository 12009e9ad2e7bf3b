//! Which fields the structures on a volume have: what is changed, one row a structure.

/// A field: its name, its first byte, its bytes.
pub struct Field {
    pub name: &'static str,
    pub at: usize,
    pub width: usize,
}

/// A kind of structure and its fields.
pub struct Structure {
    pub name: &'static str,
    /// Bytes from the highest one on, as in the journal.
    pub order: ByteOrder,
    pub fields: &'static [Field],
}

/// How numbers are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteOrder {
    Little,
    Big,
}

macro_rules! structures {
    ($($name:ident $order:ident: $($field:ident $at:literal $width:literal),* $(,)?;)*) => {$(
        pub static $name: Structure = Structure {
            name: stringify!($name),
            order: ByteOrder::$order,
            fields: &[$(Field { name: stringify!($field), at: $at, width: $width },)*],
        };
    )*

        /// All of them.
        pub static ALL: &[&Structure] = &[$(&$name),*];
    };
}

structures! {
    SUPERBLOCK Little:
        inodes_count 0x0 4, blocks_count 0x4 4, reserved_blocks 0x8 4, free_blocks 0xc 4,
        free_inodes 0x10 4, first_data_block 0x14 4, log_block_size 0x18 4,
        log_cluster_size 0x1c 4, blocks_per_group 0x20 4, clusters_per_group 0x24 4,
        inodes_per_group 0x28 4, mount_time 0x2c 4, write_time 0x30 4, mount_count 0x34 2,
        max_mount_count 0x36 2, magic 0x38 2, state 0x3a 2, errors 0x3c 2, minor_revision 0x3e 2,
        last_check 0x40 4, check_interval 0x44 4, creator_os 0x48 4, revision 0x4c 4,
        reserved_uid 0x50 2, reserved_gid 0x52 2, first_inode 0x54 4, inode_size 0x58 2,
        block_group 0x5a 2, compat 0x5c 4, incompat 0x60 4, ro_compat 0x64 4, uuid 0x68 4,
        volume_name 0x78 4, last_mounted 0x88 4, algorithm_usage 0xc8 4, prealloc_blocks 0xcc 1,
        prealloc_dir_blocks 0xcd 1, reserved_descriptors 0xce 2, journal_uuid 0xd0 4,
        journal_inode 0xe0 4, journal_device 0xe4 4, last_orphan 0xe8 4, hash_seed 0xec 4,
        hash_version 0xfc 1, journal_backup_type 0xfd 1, descriptor_size 0xfe 2,
        mount_options 0x100 4, first_meta_group 0x104 4, made_time 0x108 4,
        journal_backup 0x10c 4, journal_backup_last 0x148 4, blocks_count_high 0x150 4,
        reserved_blocks_high 0x154 4, free_blocks_high 0x158 4, min_extra_size 0x15c 2,
        want_extra_size 0x15e 2, flags 0x160 4, raid_stride 0x164 2, mmp_interval 0x166 2,
        mmp_block 0x168 8, raid_stripe_width 0x170 4, log_groups_per_flex 0x174 1,
        checksum_type 0x175 1, encryption_level 0x176 1, reserved_pad 0x177 1,
        kbytes_written 0x178 8, snapshot_inode 0x180 4, error_count 0x194 4,
        first_error_time 0x198 4, mount_options_text 0x200 4, user_quota_inode 0x240 4,
        group_quota_inode 0x244 4, overhead 0x248 4, backup_groups 0x24c 4,
        second_backup_group 0x250 4, encryption_algorithms 0x254 4, encryption_salt 0x258 4,
        lost_found_inode 0x268 4, project_quota_inode 0x26c 4, checksum_seed 0x270 4,
        write_time_high 0x274 1, encoding 0x27c 2, encoding_flags 0x27e 2,
        orphan_file_inode 0x280 4, reserved 0x284 4, checksum 0x3fc 4;
    DESCRIPTOR Little:
        block_bitmap 0x0 4, inode_bitmap 0x4 4, inode_table 0x8 4, free_blocks 0xc 2,
        free_inodes 0xe 2, directories 0x10 2, flags 0x12 2, exclude_bitmap 0x14 4,
        block_bitmap_checksum 0x18 2, inode_bitmap_checksum 0x1a 2, unused_inodes 0x1c 2,
        checksum 0x1e 2;
    WIDE_DESCRIPTOR Little:
        block_bitmap_high 0x20 4, inode_bitmap_high 0x24 4, inode_table_high 0x28 4,
        free_blocks_high 0x2c 2, free_inodes_high 0x2e 2, directories_high 0x30 2,
        unused_inodes_high 0x32 2, block_bitmap_checksum_high 0x38 2,
        inode_bitmap_checksum_high 0x3a 2;
    INODE Little:
        mode 0x0 2, uid 0x2 2, size 0x4 4, access_time 0x8 4, change_time 0xc 4,
        modify_time 0x10 4, delete_time 0x14 4, gid 0x18 2, links 0x1a 2, sectors 0x1c 4,
        flags 0x20 4, version 0x24 4, map_first 0x28 4, map_second 0x2c 4, map_third 0x30 4,
        map_fourth 0x34 4, map_fifth 0x38 4, map_sixth 0x3c 4, map_indirect 0x58 4,
        map_double 0x5c 4, map_triple 0x60 4, generation 0x64 4, attribute_block 0x68 4,
        size_high 0x6c 4, fragment 0x70 4, sectors_high 0x74 2, attribute_block_high 0x76 2,
        uid_high 0x78 2, gid_high 0x7a 2, checksum 0x7c 2, reserved 0x7e 2;
    WIDE_INODE Little:
        extra_size 0x80 2, checksum_high 0x82 2, change_time_extra 0x84 4,
        modify_time_extra 0x88 4, access_time_extra 0x8c 4, create_time 0x90 4,
        create_time_extra 0x94 4, version_high 0x98 4, project 0x9c 4;
    EXTENT_HEADER Little: magic 0x0 2, entries 0x2 2, limit 0x4 2, depth 0x6 2, generation 0x8 4;
    EXTENT Little: file_block 0x0 4, length 0x4 2, start_high 0x6 2, start 0x8 4;
    EXTENT_INDEX Little: file_block 0x0 4, child 0x4 4, child_high 0x8 2, unused 0xa 2;
    POINTER Little: block 0x0 4;
    ENTRY Little: ino 0x0 4, length 0x4 2, name_length 0x6 1, file_type 0x7 1, name 0x8 1;
    LEAF_TAIL Little: ino 0x0 4, length 0x4 2, name_length 0x6 1, file_type 0x7 1, checksum 0x8 4;
    INDEX_ROOT Little:
        reserved 0x18 4, hash_version 0x1c 1, info_length 0x1d 1, levels 0x1e 1, flags 0x1f 1,
        limit 0x20 2, count 0x22 2, first_block 0x24 4, hash 0x28 4, block 0x2c 4;
    INDEX_NODE Little:
        fake_ino 0x0 4, fake_length 0x4 2, limit 0x8 2, count 0xa 2, first_block 0xc 4,
        hash 0x10 4, block 0x14 4;
    ATTRIBUTE_HEADER Little: magic 0x0 4, references 0x4 4, blocks 0x8 4, hash 0xc 4,
        checksum 0x10 4, reserved 0x14 4;
    TAIL_HEADER Little: magic 0x0 4;
    ATTRIBUTE Little: name_length 0x0 1, prefix 0x1 1, value_offset 0x2 2, value_inode 0x4 4,
        value_size 0x8 4, hash 0xc 4, name 0x10 1;
    JOURNAL Big:
        magic 0x0 4, kind 0x4 4, sequence 0x8 4, block_size 0xc 4, blocks 0x10 4, first 0x14 4,
        first_sequence 0x18 4, start 0x1c 4, error 0x20 4, compat 0x24 4, incompat 0x28 4,
        ro_compat 0x2c 4, uuid 0x30 4, users 0x40 4, dynamic_superblock 0x44 4,
        max_transaction 0x48 4, max_data 0x4c 4, checksum_type 0x50 1, fast_blocks 0x54 4,
        head 0x58 4, checksum 0xfc 4, user 0x100 4;
    QUOTA_HEADER Little: magic 0x0 4, version 0x4 4, block_grace 0x8 4, inode_grace 0xc 4,
        flags 0x10 4, blocks 0x14 4, free_block 0x18 4, free_entry 0x1c 4;
    QUOTA_POINTER Little: block 0x0 4;
    QUOTA_LEAF Little: next_free 0x0 4, previous_free 0x4 4, entries 0x8 2;
    QUOTA_ENTRY Little: id 0x0 4, unused 0x4 4, inode_limit 0x8 8, inode_soft 0x10 8,
        inodes 0x18 8, block_limit 0x20 8, block_soft 0x28 8, bytes 0x30 8, inode_time 0x38 8,
        block_time 0x40 8;
    ORPHANS Little: first 0x0 4, second 0x4 4;
    ORPHAN_TAIL Little: magic 0x0 4, checksum 0x4 4;
    MOUNT_BLOCK Little: magic 0x0 4, sequence 0x4 4, time 0x8 8, node 0x10 4, device 0x50 4,
        interval 0x70 2, checksum 0x3fc 4;
    BITS Little: bits 0x0 1;
    INLINE_DIRECTORY Little: parent 0x0 4;
    TARGET Little: text 0x0 1;
}
