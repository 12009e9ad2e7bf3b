//! Trees onto an empty volume at once: what is there before anything is measured, millions of files
//! in seconds of the host.
//!
//! Inodes are numbered as each tree asks for it (`inode_order.rs`). Directories, maps and data get
//! their blocks by the policies of the file system. The drive has no part in it.
use super::inode_order::{Inodes, Numbered, Source, order};
use super::placing::{LOST_AND_FOUND, first_free, node};
use super::process::{Outcome, Stop, Worker};
use super::step::PlacedTree;
use super::tree::{Entry, Tree};
use extant_engine::Filesystem;
use extant_engine::Packing;
use extant_engine::import::{Import, NewEntry};
use extant_format::Ino;
use extant_format::inode::FileType;
use extant_sim::random::Random;
use std::sync::Arc;

/// Objects between two looks at memory.
const LOOK_OBJECTS: usize = 64;

/// A tree on its way: where its entries get their numbers.
struct Planted {
    tree: Arc<Tree>,
    /// Its name at the top of the file system.
    name: String,
    /// Of directory 0 on; 0 is the directory that the tree is put at.
    directories: Vec<Ino>,
    files: Vec<Ino>,
    /// The directories of each directory.
    below: Vec<Vec<u32>>,
    /// The files of each directory.
    within: Vec<Vec<u32>>,
}

impl Worker {
    /// Puts trees at the top of a file system that holds none.
    pub(super) fn place_trees(&mut self, placed: &[PlacedTree]) -> Outcome {
        let world = Arc::clone(&self.world);
        let mut planted = Vec::new();
        for one in placed {
            planted.push(Planted::new(self.tree(&one.tree)?, one.at.trim_matches('/')));
        }
        let mut random = Random::for_part(world.scenario.seed, "scattered inodes");
        let mount = &world.mounts[self.mount()?];
        mount
            .at_once(|filesystem| {
                let trees = placed.iter().zip(&planted);
                let sources: Vec<Source> = trees
                    .map(|(one, planted)| Source {
                        tree: &planted.tree,
                        within: &planted.within,
                        inodes: one.inodes,
                    })
                    .collect();
                let superblock = filesystem.superblock();
                let inodes = Inodes {
                    first: first_free(filesystem)?,
                    per_group: superblock.inodes_per_group,
                    groups: superblock.group_count(),
                };
                let order = order(&sources, inodes, &mut random)?;
                plant(filesystem, &mut planted, &order)
            })
            .map_err(Stop::Failed)?;
        for one in &planted {
            let totals = one.tree.totals();
            self.work.directories += totals.directories + 1;
            self.work.files += totals.files;
            self.work.bytes_written += totals.bytes;
        }
        Ok(())
    }
}

impl Planted {
    fn new(tree: Arc<Tree>, name: &str) -> Planted {
        let totals = tree.totals();
        let (files, directories) = (totals.files as usize, totals.directories as usize + 1);
        let mut below = vec![Vec::new(); directories];
        let mut within = vec![Vec::new(); directories];
        for entry in tree.entries() {
            match entry {
                Entry::Directory(number) => below[tree.parent_of(number)].push(number as u32),
                Entry::File(number) => within[tree.directory_of(number)].push(number as u32),
            }
        }
        Planted {
            name: name.to_owned(),
            directories: vec![Ino(0); directories],
            files: vec![Ino(0); files],
            below,
            within,
            tree,
        }
    }

    /// The names of a directory, in the order in which the volume keeps them.
    fn names(&self, directory: usize, packing: &Packing) -> Vec<(String, Ino, FileType)> {
        let directories = self.below[directory].iter().map(|number| {
            let name = self.tree.directory_name(*number as usize);
            (name, self.directories[*number as usize], FileType::Directory)
        });
        let files = self.within[directory].iter().map(|number| {
            let name = self.tree.file_name(*number as usize);
            (name, self.files[*number as usize], FileType::Regular)
        });
        let mut names: Vec<_> = directories.chain(files).collect();
        names.sort_by_cached_key(|(name, _, _)| packing.hash_key(name.as_bytes()));
        names
    }
}

fn plant(
    filesystem: &Filesystem,
    planted: &mut [Planted],
    order: &[Numbered],
) -> Result<(), String> {
    let first = first_free(filesystem)?;
    for Numbered { ino, object, .. } in order.iter().copied() {
        let tree = &mut planted[object.tree as usize];
        match object.entry {
            Entry::Directory(directory) => tree.directories[directory] = ino,
            Entry::File(file) => tree.files[file] = ino,
        }
    }
    let mut import = filesystem.import();
    let packing = import.packing();
    top(&mut import, &packing, planted, first)?;
    for (number, Numbered { ino, object, process }) in order.iter().copied().enumerate() {
        import.skip_to(ino);
        if let Some(process) = process {
            import.as_process(process);
        }
        if number % LOOK_OBJECTS == 0 {
            import.balance().map_err(|error| error.to_string())?;
        }
        make(&mut import, &packing, &planted[object.tree as usize], object.entry)?;
    }
    Ok(())
}

/// The root directory with the trees' names.
fn top(
    import: &mut Import,
    packing: &Packing,
    planted: &[Planted],
    first: Ino,
) -> Result<(), String> {
    let mut names = vec![(LOST_AND_FOUND, Ino(first.0 - 1))];
    names.extend(planted.iter().map(|one| (one.name.as_str(), one.directories[0])));
    names.sort_by_cached_key(|(name, _)| packing.hash_key(name.as_bytes()));
    let mut entries = names.iter().map(|(name, ino)| NewEntry {
        name: name.as_bytes(),
        ino: *ino,
        file_type: FileType::Directory,
    });
    let links = planted.len() as u32 + 3;
    import.root(&node(0o755, links), &mut entries).map_err(|error| error.to_string())
}

fn make(
    import: &mut Import,
    packing: &Packing,
    planted: &Planted,
    entry: Entry,
) -> Result<(), String> {
    let (made, wanted) = match entry {
        Entry::Directory(number) => {
            let parent = match number {
                0 => Ino::ROOT,
                number => planted.directories[planted.tree.parent_of(number)],
            };
            let names = planted.names(number, packing);
            let links = u32::try_from(planted.below[number].len())
                .map_or(u32::MAX, |below| below.saturating_add(2));
            let mut entries = names.iter().map(|(name, ino, file_type)| NewEntry {
                name: name.as_bytes(),
                ino: *ino,
                file_type: *file_type,
            });
            let made = import.directory(&node(0o755, links), parent, &mut entries);
            (made, planted.directories[number])
        }
        Entry::File(number) => {
            let bytes = planted.tree.bytes(number);
            let whole = 0..bytes;
            let mut data = std::iter::once(whole).filter(|data| !data.is_empty());
            let made = import.file(&node(0o644, 1), bytes, &mut data, &mut |_| {});
            (made, planted.files[number])
        }
    };
    let made = made.map_err(|error| format!("/{}: {error}", planted.name))?;
    match made == wanted {
        true => Ok(()),
        false => Err(format!("/{}: inode {} was not free", planted.name, wanted.0)),
    }
}
