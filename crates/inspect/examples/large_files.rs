//! A volume full of large files with indirect blocks, as ext3 placed them: each indirect block
//! right before the data that it maps. Data is not written, so that the image is sparse: 400 GiB
//! take half a gigabyte.
//!
//! `large_files IMAGE [GIBIBYTES] [GIBIBYTES OF A FILE]`. mke2fs makes the volume and debugfs the
//! names; the rest is here.
use extant_format::group::GroupDescriptor;
use extant_format::inode::Inode;
use extant_format::superblock::{SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock};
use extant_format::{GroupNo, Ino, bitmap, indirect};
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

const BLOCK: usize = 4096;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let path = words.next().ok_or("large_files IMAGE [GIBIBYTES] [GIBIBYTES OF A FILE]")?;
    let volume_gib: u64 = words.next().map_or(Ok(400), |word| word.parse())?;
    let file_gib: u64 = words.next().map_or(Ok(10), |word| word.parse())?;
    File::create(&path)?.set_len(volume_gib << 30)?;
    succeed(Command::new("mke2fs").args(["-q", "-F", "-t", "ext3", "-b", "4096", &path]))?;
    let files = volume_gib * 63 / 64 / file_gib;
    let names: Vec<String> =
        (0..files).map(|number| format!("write /dev/null file-{number:03}")).collect();
    let script = format!("{path}.names");
    std::fs::write(&script, names.join("\n"))?;
    let named = succeed(Command::new("debugfs").args(["-w", "-f", &script, &path]));
    std::fs::remove_file(&script)?;
    named?;
    Filler::open(&path)?.fill(files, file_gib)
}

fn succeed(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    status.success().then_some(()).ok_or_else(|| format!("{command:?}: {status}").into())
}

/// Hands out the free blocks of a volume in order.
struct Filler {
    file: File,
    superblock: Superblock,
    descriptors: Vec<GroupDescriptor>,
    group: GroupNo,
    /// Of that group.
    bitmap: Vec<u8>,
    next: u32,
}

impl Filler {
    fn open(path: &str) -> Result<Filler, Box<dyn Error>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut bytes = [0; SUPERBLOCK_SIZE];
        file.read_exact_at(&mut bytes, SUPERBLOCK_OFFSET)?;
        let superblock = Superblock::parse(&bytes)?;
        let size = usize::from(superblock.descriptor_size);
        let mut bytes = vec![0; superblock.group_count() as usize * size];
        file.read_exact_at(&mut bytes, BLOCK as u64)?;
        let descriptors =
            bytes.chunks(size).map(|bytes| GroupDescriptor::decode(bytes, &superblock)).collect();
        let mut filler = Filler {
            file,
            superblock,
            descriptors,
            group: GroupNo(0),
            bitmap: vec![0; BLOCK],
            next: 0,
        };
        filler.read_bitmap()?;
        Ok(filler)
    }

    fn read_bitmap(&mut self) -> Result<(), Box<dyn Error>> {
        let place = self.descriptors[self.group.0 as usize].block_bitmap;
        self.file.read_exact_at(&mut self.bitmap, place.0 * BLOCK as u64)?;
        self.next = 0;
        Ok(())
    }

    fn write_bitmap(&mut self) -> Result<(), Box<dyn Error>> {
        let descriptor = &mut self.descriptors[self.group.0 as usize];
        let free = bitmap::count_clear(&self.bitmap, self.superblock.group_length(self.group));
        self.superblock.free_blocks -= u64::from(descriptor.free_blocks - free);
        descriptor.free_blocks = free;
        self.file.write_all_at(&self.bitmap, descriptor.block_bitmap.0 * BLOCK as u64)?;
        Ok(())
    }

    /// The next free block.
    fn block(&mut self) -> Result<u32, Box<dyn Error>> {
        loop {
            let length = self.superblock.group_length(self.group);
            if let Some(bit) = bitmap::next_clear(&self.bitmap, self.next, length) {
                let _ = bitmap::set_run(&mut self.bitmap, bit, 1);
                self.next = bit + 1;
                return Ok(u32::try_from(self.superblock.group_start(self.group).0)? + bit);
            }
            self.write_bitmap()?;
            self.group.0 += 1;
            if self.group.0 == self.superblock.group_count() {
                return Err("the volume is full".into());
            }
            self.read_bitmap()?;
        }
    }

    /// An indirect block `height` levels above the data, and all under it; takes from `left`, adds
    /// to `maps`.
    fn tree(&mut self, height: u32, left: &mut u64, maps: &mut u64) -> Result<u32, Box<dyn Error>> {
        if height == 0 {
            *left -= 1;
            return self.block();
        }
        let block = self.block()?;
        *maps += 1;
        let mut bytes = vec![0; BLOCK];
        for index in 0..1024 {
            if *left > 0 {
                indirect::set_pointer(&mut bytes, index, self.tree(height - 1, left, maps)?);
            }
        }
        self.file.write_all_at(&bytes, u64::from(block) * BLOCK as u64)?;
        Ok(block)
    }

    fn fill(mut self, files: u64, file_gib: u64) -> Result<(), Box<dyn Error>> {
        for number in 0..files {
            let ino = Ino(u32::try_from(12 + number)?);
            let (mut left, mut maps) = ((file_gib << 30) / BLOCK as u64, 0);
            let blocks = left;
            let descriptor = &self.descriptors[0];
            let (table, offset) =
                self.superblock.inode_place(ino, descriptor).ok_or("too many files")?;
            let at = table.0 * BLOCK as u64 + offset as u64;
            let mut bytes = vec![0; self.superblock.inode_size.into()];
            self.file.read_exact_at(&mut bytes, at)?;
            let mut inode = Inode::decode(&bytes, &self.superblock);
            for index in 0..15 {
                let height = index.max(indirect::DIRECT - 1) - (indirect::DIRECT - 1);
                if left > 0 {
                    indirect::set_pointer(
                        &mut inode.block,
                        index,
                        self.tree(height, &mut left, &mut maps)?,
                    );
                }
            }
            inode.size = file_gib << 30;
            inode.sectors = (blocks + maps) * (BLOCK as u64 / 512);
            inode.encode(&mut bytes, ino, &self.superblock);
            self.file.write_all_at(&bytes, at)?;
        }
        self.write_bitmap()?;
        let size = usize::from(self.superblock.descriptor_size);
        let mut bytes = vec![0; self.descriptors.len() * size];
        let groups = (0..).map(GroupNo).zip(&self.descriptors);
        for ((group, descriptor), bytes) in groups.zip(bytes.chunks_mut(size)) {
            descriptor.encode(bytes, group, &self.superblock);
        }
        self.file.write_all_at(&bytes, BLOCK as u64)?;
        self.file.write_all_at(&self.superblock.encode(), SUPERBLOCK_OFFSET)?;
        Ok(())
    }
}
