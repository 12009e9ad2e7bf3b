//! What `include/extant.h` says is what the library has: each function, the size of each struct and
//! the place of each field; and no name of it is another library's.
use crate::{here, installed, library};
use extant_testkit::command::{self, program};
use extant_testkit::oracle::require;
use std::collections::BTreeSet;
use std::mem::offset_of;

use extant_capi::structs::{
    BuildOptions, Built, Device, HealOptions, NewFile, OpenOptions, Outcome, Problem,
    RepairOptions, ResizeOptions, Resized, Space, Stat, Time, Trimmed,
};

fn header() -> String {
    std::fs::read_to_string(here().join("include/extant.h")).expect("extant.h")
}

/// The functions that the header has: a name of ours before a parenthesis, in no comment.
fn declared() -> BTreeSet<String> {
    let header = header();
    let code = header.split("/*").map(|part| part.rsplit("*/").next().unwrap_or(part));
    let code: String = code.collect();
    let before = code.split('(').filter_map(|part| {
        let name = part.trim_end();
        let start = name.rfind(|letter: char| !letter.is_alphanumeric() && letter != '_')?;
        name.get(start + 1..)
    });
    before.filter(|name| name.starts_with("extant_")).map(str::to_owned).collect()
}

#[test]
fn every_function_of_the_header_is_in_the_library_and_the_other_way_round() {
    if !require("nm") {
        return;
    }
    let mut nm = program("nm");
    nm.args(["--dynamic", "--defined-only", "--format=posix"]).arg(library("so"));
    let output = command::output(&mut nm).expect("nm");
    let text = String::from_utf8(output.stdout).expect("text");
    let exported: BTreeSet<String> =
        text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    assert!(exported.len() > 50, "{exported:?}");
    assert_eq!(exported, declared());
}

#[test]
fn the_loader_asks_for_the_name_with_the_number_of_the_interface() {
    if !require("readelf") {
        return;
    }
    let output = command::output(program("readelf").arg("-d").arg(library("so"))).expect("readelf");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("Library soname: [libextant.so.0]"), "{text}");
}

/// Name and place of the fields of each struct, and its size.
macro_rules! layout {
    ($($c:literal $rust:ident { $($field:ident)+ })+) => {{
        let mut rows: Vec<(&str, &str, usize)> = Vec::new();
        $($(rows.push(($c, stringify!($field), offset_of!($rust, $field)));)+
        rows.push(($c, "", size_of::<$rust>()));)+
        rows
    }};
}

fn layout() -> Vec<(&'static str, &'static str, usize)> {
    layout! {
        "extant_open_options" OpenOptions {
            struct_size access flags partition journal policies range_start range_bytes cache_bytes
            time
        }
        "extant_device" Device { struct_size context size read_at write_at flush release }
        "extant_time" Time { seconds nanoseconds reserved }
        "extant_metadata" Stat {
            struct_size ino size sectors mode links uid gid device_major device_minor flags
            generation access_time change_time modify_time create_time
        }
        "extant_space" Space {
            struct_size blocks free_blocks available_blocks inodes free_inodes block_size
        }
        "extant_new_file" NewFile {
            struct_size mode uid gid device_major device_minor reserved modify_time content
            content_bytes target
        }
        "extant_build_options" BuildOptions {
            struct_size profile flags block_size uid gid reserved free_bytes size newest label uuid
        }
        "extant_built" Built {
            struct_size bytes blocks free_blocks inodes free_inodes block_size has_journal warnings
            uuid
        }
        "extant_problem" Problem { struct_size code severity reserved ino block }
        "extant_repair_options" RepairOptions { struct_size scope flags }
        "extant_heal_options" HealOptions { struct_size flags reserved }
        "extant_outcome" Outcome {
            struct_size state exit_code changes omitted rounds blocks
        }
        "extant_resize_options" ResizeOptions { struct_size wanted flags size }
        "extant_resized" Resized {
            struct_size block_size blocks_before blocks_after blocks_moved blocks
        }
        "extant_trimmed" Trimmed {
            struct_size block_size free_blocks unread_blocks blocks emptied_bytes
        }
    }
}

#[test]
fn structs_are_laid_out_as_the_compiler_of_c_has_them() {
    if !require("cc") {
        return;
    }
    let installed = installed();
    let rows = layout();
    let mut text = "#include <extant.h>\n#include <stdio.h>\nint main(void) {\n".to_owned();
    for (name, field, _) in &rows {
        text += &match *field {
            "" => format!("printf(\"%zu\\n\", sizeof({name}));\n"),
            field => format!("printf(\"%zu\\n\", offsetof({name}, {field}));\n"),
        };
    }
    let (source, target) = (installed.join("layout.c"), installed.join("layout"));
    std::fs::write(&source, text + "return 0;\n}\n").expect("a file");
    let mut cc = program("cc");
    cc.arg("-I").arg(installed.join("include")).arg("-o").arg(&target).arg(&source);
    command::output(&mut cc).unwrap_or_else(|error| panic!("{error}"));
    let output = command::output(&mut std::process::Command::new(&target)).expect("the layout");
    let said = String::from_utf8(output.stdout).expect("text");
    let found: Vec<usize> = said.lines().map(|line| line.parse().expect("a number")).collect();
    let expected: Vec<usize> = rows.iter().map(|row| row.2).collect();
    assert_eq!(found, expected, "{rows:?}");
}

/// What looks at bytes between fields would refuse what a compiler leaves there.
#[test]
fn no_struct_has_bytes_between_its_fields() {
    assert_eq!(size_of::<Time>(), 16);
    assert_eq!(size_of::<Stat>(), 8 + 3 * 8 + 8 * 4 + 4 * 16);
    assert_eq!(size_of::<OpenOptions>(), 8 + 2 * 4 + 3 * 8 + 4 * 8);
    assert_eq!(size_of::<Device>(), 7 * 8);
    assert_eq!(size_of::<Space>(), 7 * 8);
    assert_eq!(size_of::<NewFile>(), 8 + 6 * 4 + 16 + 3 * 8);
    assert_eq!(size_of::<BuildOptions>(), 8 + 6 * 4 + 3 * 8 + 8 + 16);
    assert_eq!(size_of::<Built>(), 8 + 5 * 8 + 2 * 4 + 8 + 16);
    assert_eq!(size_of::<Problem>(), 2 * 8 + 2 * 4 + 2 * 8);
    assert_eq!(size_of::<RepairOptions>(), 8 + 2 * 4);
    assert_eq!(size_of::<HealOptions>(), 8 + 2 * 4);
    assert_eq!(size_of::<ResizeOptions>(), 8 + 2 * 4 + 8);
    assert_eq!(size_of::<Resized>(), 6 * 8);
    assert_eq!(size_of::<Trimmed>(), 6 * 8);
    assert_eq!(size_of::<Outcome>(), 8 + 2 * 4 + 4 * 8);
}
