//! How much the suites do, and how long they may take: the variables of the environment and the
//! budgets, each in one table. The tests ask here, `xtask suites` sets what a level asks for, and
//! `xtask guide` writes the rows of CONTRIBUTING.md.

/// How much of the suites is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// `make test`: before each commit.
    Test,
    /// `make test-all`: at the gate.
    All,
    /// `make test-night`: what takes hours.
    Night,
}

/// A variable that says how much, or of what, a suite does.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// `EXTANT_..`.
    pub name: &'static str,
    /// The crate whose suite it is.
    pub suite: &'static str,
    /// What it counts or chooses.
    pub about: &'static str,
    /// Its value for [`Level::Test`], [`Level::All`] and [`Level::Night`].
    values: [&'static str; 3],
}

impl Variable {
    /// What the suites do on this level, unless the environment says otherwise.
    pub fn value(&self, level: Level) -> &'static str {
        let [test, all, night] = self.values;
        match level {
            Level::Test => test,
            Level::All => all,
            Level::Night => night,
        }
    }
}

/// A variable that has no value unless somebody sets it.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// `EXTANT_..`.
    pub name: &'static str,
    /// The crates whose suites look at it.
    pub suite: &'static str,
    /// What it is set to, and what happens then.
    pub about: &'static str,
}

const fn variable(
    name: &'static str,
    suite: &'static str,
    about: &'static str,
    values: [&'static str; 3],
) -> Variable {
    Variable { name, suite, about, values }
}

const fn choice(name: &'static str, suite: &'static str, about: &'static str) -> Choice {
    Choice { name, suite, about }
}

/// Seconds that compiling and the tests of each crate may take in `make test`, on two quiet cores.
pub const BUDGETS: &[(&str, u32)] = &[
    ("compiling", 295),
    ("format", 15),
    ("block", 10),
    ("journal", 15),
    ("engine", 150),
    ("inspect", 65),
    ("repair", 15),
    ("archive", 10),
    ("image", 10),
    ("disk", 5),
    ("edit", 20),
    ("extant", 20),
    ("capi", 10),
    ("mount", 20),
    ("sim", 15),
    ("chart", 5),
    ("lab", 160),
    ("sweep", 5),
    ("crash", 50),
    ("fuzz", 10),
    ("host", 5),
    ("daemon", 5),
    ("names", 5),
    ("cli", 140),
    ("testkit", 10),
    ("xtask", 10),
];

/// How much the suites do.
pub const VARIABLES: &[Variable] = &[
    variable(
        "EXTANT_FEATURES",
        "inspect",
        "combinations of features, and volumes that other tools changed, one in this many",
        ["10", "3", "1"],
    ),
    variable(
        "EXTANT_DAMAGE",
        "inspect",
        "changes to the fields of volumes, judged beside e2fsck",
        ["200", "600", "20000"],
    ),
    variable(
        "EXTANT_REPAIRS",
        "repair",
        "volumes of each kind with random damage, mended and then judged by e2fsck",
        ["20", "60", "3000"],
    ),
    variable(
        "EXTANT_RESIZED",
        "repair",
        "kinds of volumes that get another size: one in this many",
        ["4", "1", "1"],
    ),
    variable(
        "EXTANT_TUNED",
        "cli",
        "lines of tune2fs that are compared with ours: one in this many",
        ["2", "1", "1"],
    ),
    variable(
        "EXTANT_CHAINS",
        "cli",
        "chains of random changes to one volume, each link judged by e2fsck and the kernel",
        ["30", "30", "1000"],
    ),
    variable(
        "EXTANT_FIXTURES",
        "engine",
        "of the volumes whose tree the kernel judges, one in this many",
        ["8", "1", "1"],
    ),
    variable(
        "EXTANT_CUTS",
        "engine",
        "moments of a power cut for each policy",
        ["120", "1500", "30000"],
    ),
    variable(
        "EXTANT_NAMES",
        "engine",
        "names that come to a directory and go one by one",
        ["12000", "100000", "100000"],
    ),
    variable("EXTANT_MODEL_SEEDS", "engine", "lives compared with a model", ["2", "3", "40"]),
    variable(
        "EXTANT_MOMENTS",
        "engine",
        "of the moments at which a recovery, a range and clusters are cut, one in this many",
        ["4", "1", "1"],
    ),
    variable(
        "EXTANT_FRAGMENTS",
        "engine",
        "runs of a file that is changed in small steps",
        ["8000", "40000", "40000"],
    ),
    variable("EXTANT_FULL_SEEDS", "engine", "lives of each volume that is full", ["2", "8", "80"]),
    variable(
        "EXTANT_MODEL_KERNEL_SEEDS",
        "engine",
        "lives whose end the kernel sees as the model",
        ["1", "2", "20"],
    ),
    variable(
        "EXTANT_MODEL_OPERATIONS",
        "engine",
        "operations of a life beside a model",
        ["400", "400", "1000"],
    ),
    variable(
        "EXTANT_MODEL_FAILURES",
        "engine",
        "lives that may differ before the test ends",
        ["1", "1", "10"],
    ),
    variable("EXTANT_THREAD_ROUNDS", "engine", "threads against each other", ["1", "2", "30"]),
    variable(
        "EXTANT_THREAD_CALLS",
        "engine",
        "calls of each thread that moves directories under others",
        ["2000", "10000", "10000"],
    ),
    variable(
        "EXTANT_HOSTILE_ROUNDS",
        "engine",
        "volumes with random damage",
        ["20", "100", "5000"],
    ),
    variable(
        "EXTANT_FAILING_EACH",
        "engine",
        "requests of each call that fail, on each volume, each way",
        ["1", "4", "100000"],
    ),
    variable(
        "EXTANT_RANGES",
        "engine",
        "lives of holes, zeros and moves of ranges, beside the kernel's",
        ["2", "8", "400"],
    ),
    variable(
        "EXTANT_FAST_COMMIT_SEEDS",
        "engine",
        "lives that Linux left in fast commits",
        ["2", "10", "300"],
    ),
    variable(
        "EXTANT_MEMORY_MIB",
        "engine",
        "MiB that the largest cache of the tests of memory may hold",
        ["64", "256", "256"],
    ),
    variable(
        "EXTANT_MEMORY_PRESETS",
        "engine",
        "of the presets whose memory is counted, one in this many",
        ["6", "1", "1"],
    ),
    variable(
        "EXTANT_KERNEL_JOURNALS",
        "engine",
        "logs that the kernel or debugfs wrote",
        ["8", "50", "500"],
    ),
    variable(
        "EXTANT_JOURNAL_LIVES",
        "engine",
        "our logs for others, four cuts each",
        ["4", "20", "250"],
    ),
    variable(
        "EXTANT_EDIT_CUTS",
        "edit",
        "e2fsck judges one medium in this many, too",
        ["31", "7", "1"],
    ),
    variable(
        "EXTANT_CUT_REPAIRS",
        "edit",
        "repairs of volumes with random damage that are cut at every write",
        ["2", "6", "200"],
    ),
    variable(
        "EXTANT_CLUSTERS",
        "disk",
        "lives and cuts of each kind of qcow2 image that is written in place",
        ["1", "4", "60"],
    ),
    variable(
        "EXTANT_MOUNT_CALLS",
        "cli",
        "system calls on a mount beside the kernel's, each way",
        ["2000", "8000", "250000"],
    ),
    variable(
        "EXTANT_BINDINGS",
        "capi",
        "programs in C (`plain`), also under valgrind, one in Go, and the header made anew (`all`)",
        ["plain", "all", "all"],
    ),
    variable(
        "EXTANT_CASES",
        "cli, engine",
        "of what the command's tests go through, one in this many: kinds of damage, of orphans and \
         of fast commits, volumes, features two at a time, sizes, archives of other programs, \
         compressed images, trees, endings of a mount",
        ["6", "1", "1"],
    ),
    variable("EXTANT_FORCE_ROUNDS", "cli", "damaged images read with force", ["8", "40", "2000"]),
    variable("EXTANT_CLAIMS_ROUNDS", "cli", "images that claim too much", ["12", "40", "2000"]),
    variable(
        "EXTANT_BOOT",
        "cli",
        "whether a Debian root boots in QEMU (`yes` or `no`)",
        ["no", "yes", "yes"],
    ),
    variable(
        "EXTANT_CRASH_STATES",
        "crash",
        "power cuts among four processes",
        ["3000", "8000", "100000"],
    ),
    variable(
        "EXTANT_CRASH_SEQUENCES",
        "crash",
        "sequences of one and as many of two operations, on each volume",
        ["12", "40", "1000"],
    ),
    variable(
        "EXTANT_CRASH_SCHEDULES",
        "crash",
        "orders of commits and checkpoints",
        ["200", "500", "10000"],
    ),
    variable(
        "EXTANT_FUZZ",
        "fuzz",
        "inputs of each body, fewer where they are whole volumes",
        ["300", "1500", "300000"],
    ),
    variable("EXTANT_SEEDS", "lab", "seeds of a post whose medians are judged", ["3", "5", "5"]),
    variable(
        "EXTANT_POSTS",
        "lab",
        "posts that are judged at the quick scale: those of a few seconds (`few`), or `all`",
        ["few", "all", "all"],
    ),
    variable(
        "EXTANT_RUNS",
        "lab",
        "built-in scenarios, cuts, profiles of ages and fitted values that are run: one in this \
         many",
        ["7", "1", "1"],
    ),
    variable(
        "EXTANT_AGAIN",
        "lab",
        "of the runs that have to come out the same each time, one in this many is run twice",
        ["8", "1", "1"],
    ),
    variable(
        "EXTANT_FIT",
        "lab",
        "drives brought back: the quickest (`few`), one of each kind (`one`), `all`, or a name",
        ["few", "one", "all"],
    ),
];

/// What runs a failure again alone, keeps what it left, or says what is judged.
pub const CHOICES: &[Choice] = &[
    choice(
        "EXTANT_PROGRAM",
        "cli",
        "the path of the command that is judged, not the one just built",
    ),
    choice("EXTANT_DAMAGE_SEED", "inspect", "which changes to fields are drawn"),
    choice(
        "EXTANT_DAMAGE_BASES",
        "inspect",
        "the volumes whose fields are changed, by name, or `ALL`",
    ),
    choice(
        "EXTANT_DAMAGE_REPAIR",
        "inspect",
        "the program `extant` that mends what is damaged, beside e2fsck",
    ),
    choice("EXTANT_DAMAGE_KEEP", "inspect", "where the volume with the last change is written to"),
    choice("EXTANT_DAMAGE_ONLY", "inspect", "the one change to a named volume that is judged"),
    choice("EXTANT_DAMAGE_HITS", "inspect", "set to anything: how often each field was changed"),
    choice("EXTANT_KEEP", "engine", "where a volume that failed is copied to"),
    choice("EXTANT_MODEL_SEED", "engine", "the first life beside a model"),
    choice("EXTANT_FULL_SEED", "engine", "the first life of a full volume"),
    choice("EXTANT_MODEL_ONLY", "engine", "a part of the names of the lives that are run"),
    choice("EXTANT_HOSTILE_SEED", "engine", "the first damaged volume"),
    choice("EXTANT_JOURNAL_SEED", "engine", "the first of our logs"),
    choice("EXTANT_KERNEL_JOURNALS_SEED", "engine", "the first log of others"),
    choice("EXTANT_KERNEL_JOURNAL", "engine", "a volume that `EXTANT_KEEP` kept, replayed again"),
    choice("EXTANT_FUZZ_SEED", "fuzz", "the first input of each body"),
    choice("EXTANT_CLAIMS_SEED", "cli", "the first image that claims too much"),
];

/// What tests hand to the processes that they start, and the command to those that it starts: not
/// for a person to set.
pub const PRIVATE: &[&str] = &[
    "EXTANT_MOUNT",
    "EXTANT_TABLE",
    "EXTANT_TEST_MEMORY_CASE",
    "EXTANT_TEST_MEMORY_MIB",
    "EXTANT_WHO",
];

/// The value of a variable of [`VARIABLES`]: the environment's, else that of `make test`.
///
/// # Panics
/// The table has no such variable.
pub fn word(name: &str) -> String {
    let row = VARIABLES.iter().find(|row| row.name == name);
    let row = row.unwrap_or_else(|| panic!("{name} is not in the table of variables"));
    std::env::var(name).unwrap_or_else(|_| row.value(Level::Test).to_owned())
}

/// [`word`] as a number.
///
/// # Panics
/// The table has no such variable, or its value is no number.
pub fn number(name: &str) -> u64 {
    let word = word(name);
    word.parse().unwrap_or_else(|_| panic!("{name}={word} is no number"))
}

/// The value of a variable of [`CHOICES`], if somebody set it.
///
/// # Panics
/// The table has no such variable.
pub fn chosen(name: &str) -> Option<String> {
    let is_known = CHOICES.iter().any(|choice| choice.name == name);
    assert!(is_known, "{name} is not in the table of choices");
    std::env::var(name).ok()
}

/// [`chosen`] as the seed to begin with; `otherwise` where nobody chose.
///
/// # Panics
/// The table has no such variable, or its value is no number.
pub fn seed(name: &str, otherwise: u64) -> u64 {
    let word = chosen(name);
    word.map_or(otherwise, |word| {
        word.parse().unwrap_or_else(|_| panic!("{name}={word} is no number"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_waits_for_less_than_twenty_minutes() {
        let sum: u32 = BUDGETS.iter().map(|(_, seconds)| seconds).sum();
        assert!(sum <= 18 * 60, "{sum} s");
    }

    #[test]
    fn each_name_stands_once() {
        let names = VARIABLES.iter().map(|row| row.name);
        let names = names.chain(CHOICES.iter().map(|row| row.name)).chain(PRIVATE.iter().copied());
        let mut names: Vec<_> = names.collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    #[should_panic(expected = "EXTANT_ is not in the table")]
    fn what_the_table_lacks_is_not_read() {
        let _ = number("EXTANT_");
    }
}
