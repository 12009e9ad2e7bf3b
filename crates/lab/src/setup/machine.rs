//! The machine's table: what stands between a file system and a drive, and what the processor's
//! work costs, by the names of the engine's presets.
use extant_engine::preset::{Choice, Column, Costs, PresetError, by_name, choose_columns};
use extant_sim::queue::{ELEVATORS, ElevatorChoice, ElevatorError, QueueSettings, Unplug, WakeUp};

/// How long a plug without a timer stays at most, in nanoseconds: the end of the next pass of
/// kupdate pulls it.
const UPDATE_NS: u64 = 5_000_000_000;

/// The queue before a device.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The order of its requests.
    pub elevator: ElevatorChoice,
    /// How many requests of each direction it takes.
    pub requests: u32,
    /// What pulls its plug.
    pub unplug: Unplug,
    /// When it wakes those for whom it had no room.
    pub wake_up: WakeUp,
    /// The choice of each column, in the order of [`MACHINE_COLUMNS`].
    names: Vec<String>,
}

/// One choice of each column of the machine, under a preset's name.
pub(super) struct Row {
    /// The preset.
    pub(super) preset: &'static str,
    elevator: &'static str,
    requests: &'static str,
    plug: &'static str,
    wake_up: &'static str,
    /// What the processor's work costs.
    costs: Costs,
}

/// A machine of 2001: a system call with a path walk, and 330 MB/s through a page cache.
const COSTS_2001: Costs = Costs { call_ns: 5_000, name_ns: 1_000, kib_ns: 3_000 };
/// A machine of 2007 to 2010 (the post of 2007 has 7 us for a read of 4 KiB).
const COSTS_2007: Costs = Costs { call_ns: 2_500, name_ns: 400, kib_ns: 1_000 };
/// A machine of today.
const COSTS_TODAY: Costs = Costs { call_ns: 1_000, name_ns: 100, kib_ns: 100 };

const LINUX_2_4: Row = Row {
    preset: "linux-2.4",
    elevator: "linus",
    requests: "64",
    plug: "until-wait",
    wake_up: "quarter",
    costs: COSTS_2001,
};

const LINUX_2_6: Row = Row {
    preset: "linux-2.6",
    elevator: "cfq-2.6.23",
    requests: "128",
    plug: "timed",
    wake_up: "batches",
    costs: COSTS_2007,
};

const FREEBSD: Row = Row {
    preset: "freebsd-5.2",
    elevator: "disksort",
    requests: "128",
    plug: "timed",
    wake_up: "each",
    costs: COSTS_2007,
};

const TODAY: Row = Row { preset: "modern", elevator: "turns", costs: COSTS_TODAY, ..FREEBSD };

/// One row a preset.
pub(super) static ROWS: &[Row] = &[
    LINUX_2_4,
    Row { preset: "linux-2.4-akpm", requests: "512", ..LINUX_2_4 },
    LINUX_2_6,
    Row { preset: "linux-2.6.20", elevator: "cfq-2.6.20", ..LINUX_2_6 },
    Row { preset: "linux-2.6.23-mm", ..LINUX_2_6 },
    FREEBSD,
    Row { preset: "freebsd-2010", ..FREEBSD },
    TODAY,
    Row { preset: "packed", elevator: "noop", ..TODAY },
];

fn row(preset: &str) -> Result<&'static Row, PresetError> {
    ROWS.iter().find(|row| row.preset == preset).ok_or_else(|| PresetError::Unknown {
        what: "preset",
        name: preset.to_owned(),
        known: ROWS.iter().map(|row| row.preset).collect(),
    })
}

/// What the processor of a preset's time costs; `None` if there is no such preset.
pub fn costs(preset: &str) -> Option<Costs> {
    row(preset).ok().map(|row| row.costs)
}

impl Machine {
    /// The machine of this preset, with other choices in some columns, and what its work costs.
    ///
    /// # Errors
    /// For a name that is not in the table.
    pub(super) fn with(
        preset: &str,
        chosen: &[(&str, &str)],
    ) -> Result<(Machine, Costs), PresetError> {
        let row = row(preset)?;
        // Placeholders, before each column is chosen.
        let mut machine = Machine {
            elevator: ElevatorChoice::of(&ELEVATORS[0]),
            requests: 0,
            unplug: Unplug::OnArrival,
            wake_up: WakeUp::EachSent,
            names: Vec::new(),
        };
        machine.names = choose_columns(MACHINE_COLUMNS, row, chosen, &mut machine)?;
        Ok((machine, row.costs))
    }

    /// All columns with their choices.
    pub(super) fn columns(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let names = self.names.iter().map(String::as_str);
        MACHINE_COLUMNS.iter().map(|column| column.name).zip(names)
    }

    /// The queue before a drive.
    pub fn queue(&self) -> QueueSettings {
        let settings = QueueSettings::default();
        QueueSettings {
            elevator: self.elevator,
            requests_max: self.requests,
            unplug: self.unplug,
            wake_up: self.wake_up,
            plug_ns: match self.unplug {
                Unplug::OnArrival => settings.plug_ns,
                Unplug::OnWait => UPDATE_NS,
            },
            ..settings
        }
    }
}

type MachineColumn = Column<Row, Machine>;

/// The names that can be chosen in a column.
pub(super) fn known(column: &MachineColumn) -> Vec<(&'static str, &'static str)> {
    match column.name {
        "elevator" => ELEVATORS.iter().map(|entry| (entry.name, entry.summary)).collect(),
        _ => column.known(),
    }
}

fn elevator(
    column: &MachineColumn,
    words: &str,
    machine: &mut Machine,
) -> Result<String, PresetError> {
    machine.elevator = words.parse().map_err(|error: ElevatorError| PresetError::Wrong {
        column: column.name,
        reason: error.to_string(),
    })?;
    Ok(words.to_owned())
}

fn requests(
    column: &MachineColumn,
    words: &str,
    machine: &mut Machine,
) -> Result<String, PresetError> {
    let number: Option<u32> = words.parse().ok().filter(|number| (4..=65536).contains(number));
    machine.requests = number.ok_or_else(|| PresetError::Wrong {
        column: column.name,
        reason: format!("{words:?} is not a number from 4 to 65536"),
    })?;
    Ok(words.to_owned())
}

/// The columns of the machine.
pub(super) static MACHINE_COLUMNS: &[MachineColumn] = &[
    Column {
        name: "elevator",
        line: "the order of the device's queue, in the laboratory",
        choices: &[],
        of: |row| row.elevator,
        choose: elevator,
    },
    Column {
        name: "requests",
        line: "requests of each direction that the queue takes, in the laboratory: a number",
        choices: &[],
        of: |row| row.requests,
        choose: requests,
    },
    Column {
        name: "plug",
        line: "what lets the queue of an idle device go, in the laboratory",
        choices: PLUGS,
        of: |row| row.plug,
        choose: by_name,
    },
    Column {
        name: "wake-up",
        line: "when those go on who found that queue full, in the laboratory",
        choices: WAKE_UPS,
        of: |row| row.wake_up,
        choose: by_name,
    },
];

const PLUGS: &[Choice<Machine>] = &[
    Choice {
        name: "timed",
        line: "a request that is waited for, when it arrives or later, four requests, or 3 ms \
            (Linux 2.6)",
        set: |machine| machine.unplug = Unplug::OnArrival,
    },
    Choice {
        name: "until-wait",
        line: "a process that starts to wait, a full queue, or the end of kupdate's pass: what is \
            asked for before that merges (Linux 2.4)",
        set: |machine| machine.unplug = Unplug::OnWait,
    },
];

const WAKE_UPS: &[Choice<Machine>] = &[
    Choice {
        name: "each",
        line: "when a request is sent, one goes on",
        set: |machine| machine.wake_up = WakeUp::EachSent,
    },
    Choice {
        name: "quarter",
        line: "when a quarter of all requests are free, 32 of 128; until then they sleep (Linux \
            2.4)",
        set: |machine| machine.wake_up = WakeUp::QuarterFree,
    },
    Choice {
        name: "batches",
        line: "when a request has ended; whoever waited, or took the last, takes up to 32 more, of \
            192 (Linux 2.6)",
        set: |machine| machine.wake_up = WakeUp::Batches,
    },
];
