//! The processors that runs can be charged for: what the work of calls, names and bytes costs in
//! virtual time, with where each number comes from.
//!
//! A preset has the processor of its time. To compare what systems do, all of them are charged for
//! one: by `processor` in a scenario, `--processor` of a run, or the file of a post.
use crate::setup;
use extant_engine::preset::Costs;

/// A processor that is built in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Processor {
    /// What `--processor` calls it.
    pub name: &'static str,
    /// What its costs are, and where they come from.
    pub line: &'static str,
    /// The preset whose costs these are; `None` costs nothing.
    preset: Option<&'static str>,
}

/// All of them. Nothing of them was measured on a machine of the time but what a line says.
pub const PROCESSORS: &[Processor] = &[
    Processor {
        name: "2001",
        line: "5 us a call, 1 us a name, 3 us a KiB: assumed, of 330 MB/s through a page cache of \
            the time",
        preset: Some("linux-2.4"),
    },
    Processor {
        name: "2007",
        line: "2.5 us a call, 0.4 us a name, 1 us a KiB: assumed, so that a read of 4 KiB takes \
            6.5 us, for which the post of 2007 on readdir has 7; its own name takes 2",
        preset: Some("linux-2.6"),
    },
    Processor {
        name: "today",
        line: "1 us a call, 0.1 us a name, 0.1 us a KiB: assumed, of 10 GB/s through a page cache",
        preset: Some("modern"),
    },
    Processor { name: "none", line: "takes no time", preset: None },
];

impl Processor {
    /// What it costs.
    pub fn costs(&self) -> Costs {
        self.preset.and_then(setup::costs).unwrap_or(Costs::NONE)
    }
}

/// The processor of that name.
///
/// # Errors
/// One line that names those that there are.
pub fn processor(name: &str) -> Result<&'static Processor, String> {
    PROCESSORS.iter().find(|processor| processor.name == name).ok_or_else(|| {
        let known: Vec<&str> = PROCESSORS.iter().map(|processor| processor.name).collect();
        format!("no such processor as {name:?}; there are {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_engine::preset::PRESETS;

    #[test]
    fn every_preset_has_a_processor_that_says_what_it_costs() {
        for row in PRESETS {
            let costs = setup::costs(row.name);
            assert!(PROCESSORS.iter().any(|one| Some(one.costs()) == costs), "{}", row.name);
        }
        for one in PROCESSORS.iter().filter(|one| one.preset.is_some()) {
            let Costs { call_ns, name_ns, kib_ns } = one.costs();
            let us = |ns: u64| (ns as f64 / 1000.0).to_string();
            let said = format!(
                "{} us a call, {} us a name, {} us a KiB",
                us(call_ns),
                us(name_ns),
                us(kib_ns)
            );
            assert!(one.line.starts_with(&said), "{}: {said}", one.name);
        }
        assert!(processor("2002").is_err_and(|words| words.ends_with("2001, 2007, today, none")));
    }
}
