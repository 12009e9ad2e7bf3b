//! The structures on images made by mke2fs: read as they are, written anew by us, and judged by
//! e2fsck.
use extant_format::attribute::{self, Attribute};
use extant_format::checksum::inode_seed;
use extant_format::directory::{Form, IndexPlace, Style};
use extant_format::extent::{self, Extent, Node, State};
use extant_format::hash::{Hasher, NameHash};
use extant_format::inode::{FileType, Inode};
use extant_format::superblock::{Feature, Superblock};
use extant_format::{BlockNo, FileBlock, Ino};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder of this test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("extant-format-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("tree")).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether e2fsprogs is here. A machine that says CI=true must have it.
fn has_tools() -> bool {
    ["mke2fs", "e2fsck", "debugfs"].into_iter().all(extant_testkit::oracle::require)
}

fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().unwrap()
}

/// An image file and what its superblock says.
struct Image {
    path: PathBuf,
    file: File,
    superblock: Superblock,
}

impl Image {
    fn make(folder: &Folder, block_size: u32, options: &str) -> Image {
        let path = folder.0.join("image");
        let _ = std::fs::remove_file(&path);
        let tree = folder.0.join("tree");
        let block_size = block_size.to_string();
        let mut arguments = vec!["-q", "-F", "-b", &block_size, "-d", tree.to_str().unwrap()];
        arguments.extend(options.split_whitespace());
        arguments.extend([path.to_str().unwrap(), "48M"]);
        let output = run("mke2fs", &arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Image::open(path)
    }

    fn open(path: PathBuf) -> Image {
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let mut bytes = [0; 1024];
        file.read_exact_at(&mut bytes, 1024).unwrap();
        Image { path, file, superblock: Superblock::parse(&bytes).unwrap() }
    }

    fn debugfs(&self, command: &str) -> String {
        let output = run("debugfs", &["-w", "-R", command, self.path.to_str().unwrap()]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// e2fsck finds nothing, and says nothing but its passes.
    fn assert_clean(&self) {
        let output = run("e2fsck", &["-fn", self.path.to_str().unwrap()]);
        let words = String::from_utf8_lossy(&output.stdout);
        let is_quiet =
            words.lines().all(|line| line.starts_with("Pass ") || line.contains(" files ("));
        assert!(output.status.success() && is_quiet, "{words}");
    }

    /// Number and place of an inode, as debugfs prints it: "Inode 13 is part ... located at block
    /// 101, offset 0x0100".
    fn locate(&self, path: &str) -> (Ino, u64) {
        let answer = self.debugfs(&format!("imap {path}"));
        let words: Vec<&str> = answer.split([' ', ',', '\n']).collect();
        let after = |word: &str| words[words.iter().position(|other| *other == word).unwrap() + 1];
        let offset = u64::from_str_radix(after("offset").trim_start_matches("0x"), 16).unwrap();
        let block: u64 = words
            .windows(2)
            .find(|pair| pair[0] == "block" && pair[1].parse::<u64>().is_ok())
            .unwrap()[1]
            .parse()
            .unwrap();
        (
            Ino(after("Inode").parse().unwrap()),
            block * u64::from(self.superblock.block_size()) + offset,
        )
    }

    fn inode(&self, path: &str) -> (Ino, Inode) {
        let (ino, offset) = self.locate(path);
        let mut bytes = vec![0; usize::from(self.superblock.inode_size)];
        self.file.read_exact_at(&mut bytes, offset).unwrap();
        (ino, Inode::parse(&bytes, ino, &self.superblock).unwrap())
    }

    fn write_inode(&self, path: &str, inode: &Inode) {
        let (ino, offset) = self.locate(path);
        let mut bytes = vec![0; usize::from(self.superblock.inode_size)];
        inode.encode(&mut bytes, ino, &self.superblock);
        self.file.write_all_at(&bytes, offset).unwrap();
    }

    fn read(&self, block: BlockNo) -> Vec<u8> {
        let mut bytes = vec![0; self.superblock.block_size() as usize];
        self.file
            .read_exact_at(&mut bytes, block.0 * u64::from(self.superblock.block_size()))
            .unwrap();
        bytes
    }

    fn write(&self, block: BlockNo, bytes: &[u8]) {
        self.file.write_all_at(bytes, block.0 * u64::from(self.superblock.block_size())).unwrap();
    }

    /// Where the blocks of a file are.
    fn blocks(&self, path: &str, count: u64) -> Vec<BlockNo> {
        let script: String = (0..count).map(|at| format!("bmap {path} {at}\n")).collect();
        let commands = self.path.with_extension("commands");
        std::fs::write(&commands, script).unwrap();
        let output =
            run("debugfs", &["-f", commands.to_str().unwrap(), self.path.to_str().unwrap()]);
        let answer = String::from_utf8_lossy(&output.stdout);
        let blocks: Vec<_> =
            answer.lines().filter_map(|line| line.trim().parse().ok().map(BlockNo)).collect();
        assert_eq!(blocks.len() as u64, count, "{answer}");
        blocks
    }

    fn seed(&self, ino: Ino, inode: &Inode) -> u32 {
        inode_seed(self.superblock.checksum_seed, ino, inode.generation)
    }
}

/// A node (`None` without a second level) and the leaves below it, with the lowest hash of each.
type Branch = (Option<FileBlock>, Vec<(u32, FileBlock)>);

/// A hashed directory in memory: its blocks, and the tree as file blocks.
struct Hashed {
    style: Style,
    hasher: Hasher,
    seed: u32,
    places: Vec<BlockNo>,
    nodes: Vec<Branch>,
}

type Named = (NameHash, Vec<u8>, Ino, FileType);

impl Hashed {
    fn read(image: &Image, path: &str) -> Hashed {
        let (ino, inode) = image.inode(path);
        assert_ne!(inode.flags & extant_format::inode::flags::INDEX, 0);
        let superblock = &image.superblock;
        let style = Style {
            block_size: superblock.block_size(),
            typed: superblock.has(Feature::FILETYPE),
            checksummed: superblock.has(Feature::METADATA_CSUM),
        };
        let places = image.blocks(path, inode.size / u64::from(superblock.block_size()));
        let seed = image.seed(ino, &inode);
        for (at, place) in places.iter().enumerate() {
            style.verify(&image.read(*place), FileBlock(at as u32), Form::Indexed, seed).unwrap();
        }
        let bytes = image.read(places[0]);
        let (info, view) = style.root(&bytes).unwrap();
        let hasher = Hasher { version: info.hash, ..Hasher::of(superblock) };
        let children = (0..view.len()).map(|at| view.get(at));
        let nodes = if info.levels == 0 {
            vec![(None, children.collect())]
        } else {
            children
                .map(|(_, node)| {
                    let bytes = image.read(places[node.0 as usize]);
                    let view = style.node(&bytes).unwrap();
                    (Some(node), (0..view.len()).map(|at| view.get(at)).collect())
                })
                .collect()
        };
        Hashed { style, hasher, seed, places, nodes }
    }

    fn place(&self, block: FileBlock) -> BlockNo {
        self.places[block.0 as usize]
    }

    /// All names but "." and "..", each checked to be in the leaf that its hash leads to.
    fn names(&self, image: &Image) -> Vec<Named> {
        let mut names = Vec::new();
        let bytes = image.read(self.place(FileBlock(0)));
        let root = self.style.root(&bytes).unwrap().1;
        for (_, leaves) in &self.nodes {
            for (_, leaf) in leaves {
                for entry in self.style.entries(&image.read(self.place(*leaf))).map(Result::unwrap)
                {
                    let hash = self.hasher.hash(entry.name);
                    let node = if self.nodes[0].0.is_some() { root.find(hash.major) } else { 0 };
                    let (_, lows) = &self.nodes[node];
                    let found = lows.iter().rposition(|(low, _)| *low <= hash.major).unwrap_or(0);
                    assert_eq!(lows[found].1, *leaf, "{}", entry.name.escape_ascii());
                    names.push((
                        hash,
                        entry.name.to_vec(),
                        entry.ino,
                        entry.file_type.unwrap_or(FileType::Regular),
                    ));
                }
            }
        }
        names
    }

    /// Writes the same names into the same blocks, in a tree of the same shape made by us alone.
    fn rewrite(&self, image: &Image, mut names: Vec<Named>, ino: Ino, parent: Ino) {
        names.sort_by_key(|(hash, ..)| *hash);
        let leaves: usize = self.nodes.iter().map(|(_, leaves)| leaves.len()).sum();
        let mut chunks = (0..leaves)
            .map(|at| &names[at * names.len() / leaves..(at + 1) * names.len() / leaves]);
        let mut last = None;
        let mut top = Vec::new();
        for (node, leaves) in &self.nodes {
            let mut index = Vec::new();
            for ((_, leaf), chunk) in leaves.iter().zip(&mut chunks) {
                let low = chunk[0].0.major;
                // The lowest bit says that names of this very hash are in the leaf before, too.
                index.push((if last == Some(low) { low | 1 } else { low }, *leaf));
                last = chunk.last().map(|(hash, ..)| hash.major);
                self.write(image, *leaf, |style, bytes| fill(style, bytes, chunk));
            }
            match node {
                None => top = index,
                Some(node) => {
                    self.write(image, *node, |style, bytes| {
                        style.initialize_node(bytes);
                        style.set_index(bytes, IndexPlace::Node, &index);
                    });
                    top.push((index[0].0, *node));
                }
            }
        }
        self.write(image, FileBlock(0), |style, bytes| {
            style.initialize_root(bytes, ino, parent, self.hasher.version, top[0].1);
            for (at, (hash, child)) in top.iter().enumerate().skip(1) {
                style.insert_index(bytes, IndexPlace::Root, at, *hash, *child);
            }
            style.set_levels(bytes, u8::from(self.nodes[0].0.is_some()));
        });
    }

    fn write(&self, image: &Image, block: FileBlock, fill: impl FnOnce(&Style, &mut [u8])) {
        let mut bytes = vec![0xcc; self.style.block_size as usize];
        fill(&self.style, &mut bytes);
        self.style.seal(&mut bytes, block, Form::Indexed, self.seed);
        image.write(self.place(block), &bytes);
    }
}

/// Half of the leaves by packing, half by inserting and removing.
fn fill(style: &Style, bytes: &mut [u8], names: &[Named]) {
    if names[0].0.major & 2 == 0 {
        return style
            .pack(bytes, names.iter().map(|(_, name, ino, kind)| (name.as_slice(), *ino, *kind)));
    }
    style.initialize(bytes);
    for (_, name, ino, kind) in names {
        assert!(style.insert(bytes, b"gone", Ino(1), FileType::Fifo).unwrap());
        assert!(style.remove(bytes, b"gone").unwrap());
        assert!(style.insert(bytes, name, *ino, *kind).unwrap());
    }
}

fn hashed_directory(
    name: &str,
    files: usize,
    width: usize,
    block_size: u32,
    options: &str,
    levels: usize,
) {
    if !has_tools() {
        return;
    }
    let folder = Folder::new(name);
    let directory = folder.0.join("tree/d");
    std::fs::create_dir_all(&directory).unwrap();
    let mut wanted: Vec<Vec<u8>> = Vec::new();
    for at in 0..files {
        let file =
            if at % 3 == 0 { format!("nämé_{at:width$}") } else { format!("file_{at:0width$}") };
        if at % 5 == 0 {
            std::os::unix::fs::symlink("x", directory.join(&file)).unwrap();
        } else {
            File::create(directory.join(&file)).unwrap();
        }
        wanted.push(file.into_bytes());
    }
    let image = Image::make(&folder, block_size, options);
    // mke2fs makes linear directories; e2fsck -D makes the index.
    let output = run("e2fsck", &["-fyD", image.path.to_str().unwrap()]);
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    let image = Image::open(image.path);
    let hashed = Hashed::read(&image, "/d");
    assert_eq!(hashed.nodes[0].0.is_some(), levels == 2);
    let names = hashed.names(&image);
    let mut found: Vec<_> = names.iter().map(|(_, name, ..)| name.clone()).collect();
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);

    let ino = image.locate("/d").0;
    hashed.rewrite(&image, names, ino, Ino::ROOT);
    image.assert_clean();
    let again = Hashed::read(&image, "/d");
    assert_eq!(again.names(&image).len(), files);
    // A single bit, and e2fsck is no longer content (where there are checksums), nor are we.
    if hashed.style.checksummed {
        let mut bytes = image.read(hashed.places[1]);
        bytes[9] ^= 1;
        assert!(hashed.style.verify(&bytes, FileBlock(1), Form::Indexed, hashed.seed).is_err());
    }
}

#[test]
fn hashed_directory_of_one_level() {
    hashed_directory(
        "one",
        700,
        20,
        1024,
        "-t ext4 -O metadata_csum -E hash_seed=01020304-0506-0708-090a-0b0c0d0e0f10",
        1,
    );
    hashed_directory("plain", 700, 20, 1024, "-t ext2 -O dir_index,^filetype", 1);
}

#[test]
fn hashed_directory_of_two_levels() {
    hashed_directory("two", 900, 200, 1024, "-t ext4 -O metadata_csum,metadata_csum_seed", 2);
    hashed_directory("two-plain", 900, 200, 1024, "-t ext3", 2);
}

#[test]
fn hashed_directory_in_large_blocks() {
    hashed_directory("4k", 1500, 60, 4096, "-t ext4 -O metadata_csum", 1);
    hashed_directory("64k", 1500, 150, 65536, "-t ext4 -N 4000 -O metadata_csum", 1);
    hashed_directory("64k-plain", 1500, 150, 65536, "-t ext2 -N 4000 -O dir_index", 1);
}

fn attribute(name: &[u8], value: &[u8]) -> Attribute {
    Attribute { name: name.to_vec(), value: value.to_vec() }
}

/// `large`: bytes of a value that the inode has no room for.
fn attributes(name: &str, block_size: u32, options: &str, large: usize) {
    if !has_tools() {
        return;
    }
    let folder = Folder::new(name);
    std::fs::write(folder.0.join("tree/f"), "x").unwrap();
    let image = Image::make(&folder, block_size, options);
    let value = folder.0.join("value");
    let mut wanted = Vec::new();
    for (name, size) in [("user.small", 3), ("security.middle", 44), ("trusted.large", large)] {
        let bytes: Vec<u8> = (0..size).map(|at| (at * 7 + 1) as u8).collect();
        std::fs::write(&value, &bytes).unwrap();
        image.debugfs(&format!("ea_set -f {} /f {name}", value.display()));
        wanted.push(attribute(name.as_bytes(), &bytes));
    }
    let (_, mut inode) = image.inode("/f");
    let block = inode.attribute_block;
    assert_ne!(block, BlockNo(0));
    let mut found = attribute::parse_tail(&inode.tail).unwrap().attributes;
    found.extend(
        attribute::parse_block(&image.read(block), block, &image.superblock).unwrap().attributes,
    );
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);

    // Now a list of ours, in both places.
    let list = [
        attribute(b"user.empty", b""),
        attribute(b"user.a", b"odd"),
        attribute("user.nämé".as_bytes(), "välüé".as_bytes()),
        attribute(
            b"security.capability",
            &[1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
        attribute(b"trusted.large", &[0xfe; 700]),
        attribute(&[b"user.".as_slice(), &[b'n'; 150]].concat(), b"of a long name"),
    ];
    let placed = attribute::place(&list, inode.tail.len(), &image.superblock).unwrap();
    let mut bytes = placed.block.expect("too much for an inode");
    attribute::seal_block(&mut bytes, block, &image.superblock);
    image.write(block, &bytes);
    inode.tail = placed.tail;
    image.write_inode("/f", &inode);
    image.assert_clean();
    for Attribute { name, value: wanted } in &list {
        let name = std::str::from_utf8(name).unwrap();
        std::fs::write(&value, "not written").unwrap();
        image.debugfs(&format!("ea_get -f {} /f {name}", value.display()));
        assert_eq!(&std::fs::read(&value).unwrap(), wanted, "{name}");
    }
}

#[test]
fn attributes_of_an_image() {
    attributes("attributes", 1024, "-t ext4 -O metadata_csum", 700);
    attributes("attributes-64k", 65536, "-t ext4 -I 1024 -O metadata_csum,metadata_csum_seed", 900);
    attributes("attributes-small", 4096, "-t ext2 -I 128", 700);
    attributes("attributes-ext3", 4096, "-t ext3 -I 256", 700);
}

/// A file whose extents, one a block of data, need a block below the root.
fn extents(name: &str, block_size: u32, options: &str) {
    if !has_tools() {
        return;
    }
    let folder = Folder::new(name);
    let file = File::create(folder.0.join("tree/sparse")).unwrap();
    for at in 0..60_u64 {
        file.write_all_at(b"data", at * 3 * u64::from(block_size)).unwrap();
    }
    drop(file);
    assert_sparse(&folder.0.join("tree/sparse"));
    let image = Image::make(&folder, block_size, options);
    let (ino, inode) = image.inode("/sparse");
    let blocks_count = image.superblock.blocks_count;
    let root = Node::parse(&inode.block, None, blocks_count).unwrap();
    assert_eq!((root.depth(), root.len(), root.capacity()), (1, 1, 4));
    let child = root.index(0).child;
    let bytes = image.read(child);
    let seed = image.seed(ino, &inode);
    let is_checksummed = image.superblock.has(Feature::METADATA_CSUM);
    if is_checksummed {
        extent::verify(&bytes, seed).unwrap();
    }
    let leaf = Node::parse(&bytes, Some(0), blocks_count).unwrap();
    assert_eq!((leaf.len(), leaf.capacity()), (60, extent::capacity(block_size as usize)));
    let places = image.blocks("/sparse", 60 * 3 - 2);
    let mut anew = vec![0x99; block_size as usize];
    extent::initialize(&mut anew, 0);
    for (at, found) in (0..leaf.len()).map(|at| (at, leaf.extent(at))) {
        let file_block = FileBlock(at as u32 * 3);
        let wanted = Extent { file_block, length: 1, start: places[at * 3], state: State::Written };
        assert_eq!(found, wanted);
        // Every second one loses its data: allocated, and not written.
        let state = if at % 2 == 0 { State::Unwritten } else { State::Written };
        extent::insert_extent(&mut anew, at, Extent { state, ..wanted });
    }
    if is_checksummed {
        extent::seal(&mut anew, seed);
    }
    image.write(child, &anew);
    image.assert_clean();
    let listing = image.debugfs("ex /sparse");
    assert_eq!(listing.matches("Uninit").count(), 30, "{listing}");
}

fn assert_sparse(path: &Path) {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).unwrap();
    assert!(metadata.blocks() * 512 < metadata.size(), "the temporary folder keeps no holes");
}

#[test]
fn extents_of_an_image() {
    extents("extents", 4096, "-t ext4 -O metadata_csum");
    extents("extents-plain", 4096, "-t ext4 -O ^metadata_csum");
    extents("extents-64k", 65536, "-t ext4 -O metadata_csum");
}
