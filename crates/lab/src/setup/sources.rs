//! Where the machine's values of the historical presets come from: one row for each value of each
//! column, as for the engine's ([`extant_engine::preset::SOURCES`]).
use extant_engine::preset::{Source, source_row as row};

const STOCK: &[&str] = &["linux-2.4"];
const PATCHED: &[&str] = &["linux-2.4-akpm"];
const LINUX_2_4: &[&str] = &["linux-2.4", "linux-2.4-akpm"];
const LINUX_2_6: &[&str] = &["linux-2.6", "linux-2.6.20", "linux-2.6.23-mm"];
const LINUX_2_6_23: &[&str] = &["linux-2.6", "linux-2.6.23-mm"];
const FREEBSD: &[&str] = &["freebsd-5.2", "freebsd-2010"];

/// All rows, by system.
pub(super) static MACHINE_SOURCES: &[Source] = &[
    row(LINUX_2_4, "elevator", "linus", 2001, "elvtune(8): its defaults, 8192 and 16384"),
    row(STOCK, "requests", "64", 2001, "2.4: 128 requests, half for each direction"),
    row(
        PATCHED,
        "requests",
        "512",
        2002,
        "his later patch: one for 0.5 MB of memory, 1,024 at most; the post does not say",
    ),
    row(LINUX_2_4, "plug", "until-wait", 2001, "2.4: no timer; who waits pulls the plug"),
    row(LINUX_2_4, "wake-up", "quarter", 2001, "2.4: sleepers go on at 32 of 128 free"),
    row(
        &["linux-2.6.20"],
        "elevator",
        "cfq-2.6.20",
        2007,
        "2.6.18 and later: CFQ by default, in Ubuntu's desktop flavour too",
    ),
    row(LINUX_2_6_23, "elevator", "cfq-2.6.23", 2007, "2.6.22: CFQ, rewritten"),
    row(LINUX_2_6, "requests", "128", 2007, "2.6: nr_requests, 128 for each direction"),
    row(LINUX_2_6, "plug", "timed", 2007, "2.6: 3 ms or four requests"),
    row(LINUX_2_6, "wake-up", "batches", 2007, "2.6: 32 more for who waited, 192 at most"),
    row(FREEBSD, "elevator", "disksort", 2010, "bioq_disksort(9): one sweep in one direction"),
    row(FREEBSD, "requests", "128", 2010, "assumed: its queue has no limit"),
    row(FREEBSD, "plug", "timed", 2010, "not as it was: it has no plug; post 4 runs with 0 ms"),
    row(FREEBSD, "wake-up", "each", 2010, "of no meaning: its queue has no limit"),
];
