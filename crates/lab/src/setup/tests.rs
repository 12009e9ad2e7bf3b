//! Both tables by the same words: rows, columns, and what is wrong.
use super::machine::ROWS;
use super::*;
use extant_engine::preset::PRESETS;
use std::collections::BTreeSet;

fn setup(words: &str) -> Setup {
    words.parse().unwrap_or_else(|error| panic!("{words}: {error}"))
}

fn told(words: &str) -> String {
    words.parse::<Setup>().err().unwrap().to_string()
}

#[test]
fn every_preset_has_one_row_and_every_column_one_name() {
    let presets: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
    let rows: Vec<&str> = ROWS.iter().map(|row| row.preset).collect();
    assert_eq!(rows, presets);
    for preset in presets {
        let setup = setup(preset);
        assert_eq!((setup.preset(), setup.to_string().as_str()), (preset, preset));
        assert_eq!(Some(setup.policies.costs), costs(preset));
    }
    assert_eq!(names().iter().collect::<BTreeSet<_>>().len(), names().len());
    let told: Vec<&str> = columns().iter().map(|column| column.name).collect();
    assert_eq!(told, names());
    assert_eq!(told[19..], ["elevator", "requests", "plug", "wake-up", "congestion"]);
}

#[test]
fn every_choice_can_be_named_alone_and_named_again() {
    let stock = setup("linux-2.4");
    for column in columns() {
        for (choice, line) in &column.choices {
            assert!(!line.is_empty(), "{}: {choice}", column.name);
            let words = format!("linux-2.4,{}={choice}", column.name);
            let one = setup(&words);
            assert_eq!(setup(&one.to_string()).columns(), one.columns());
            for ((name, value), (_, before)) in one.columns().into_iter().zip(stock.columns()) {
                let expected = if name == column.name { *choice } else { before };
                assert_eq!(value, expected, "{words}: {name}");
            }
        }
    }
}

#[test]
fn every_value_of_a_machine_of_the_past_has_one_source() {
    let today = ["modern", "packed"];
    let mut used = 0;
    for preset in PRESETS.iter().filter(|preset| !today.contains(&preset.name)) {
        for (column, value) in setup(preset.name).machine.columns() {
            let is_its = |row: &&Source| row.column == column && row.presets.contains(&preset.name);
            let rows: Vec<&Source> = MACHINE_SOURCES.iter().filter(is_its).collect();
            let [row] = rows[..] else {
                panic!("{}, {column}: {} rows, not one", preset.name, rows.len())
            };
            assert_eq!(row.value, value, "{}, {column}", preset.name);
            assert_eq!(source(preset.name, column), Some(row));
            assert!((1995..=2010).contains(&row.year) && !row.source.is_empty());
            used += 1;
        }
    }
    let stated: usize = MACHINE_SOURCES.iter().map(|row| row.presets.len()).sum();
    assert_eq!(used, stated, "a row for a preset or column that is not there");
    assert_eq!((source("modern", "elevator"), source("modern", "placement")), (None, None));
}

#[test]
fn words_of_both_tables_are_read_and_changed() {
    let words = "linux-2.6,placement=parent,elevator=read-latency(1,2,3),congestion=wait";
    let both = setup(words);
    assert_eq!(both.to_string(), words);
    assert_eq!(both.policies.names.to_string(), "linux-2.6,placement=parent,congestion=wait");
    assert_eq!(both.machine.queue().elevator.to_string(), "read-latency(1,2,3)");
    let changed = both.changed(&[("requests", "512"), ("placement", "spread")]).unwrap();
    let words = "linux-2.6,placement=spread,elevator=read-latency(1,2,3),requests=512,\
        congestion=wait";
    assert_eq!(changed.to_string(), words);
    assert_eq!(changed.machine.queue().requests_max, 512);
    assert_eq!(changed.policies.costs, both.policies.costs);
}

#[test]
fn what_is_wrong_is_said_with_what_is_known() {
    assert!(told("linux").starts_with("unknown preset \"linux\": known are linux-2.4, "));
    let known = "barrier, commit, atime, elevator, requests, plug, wake-up, congestion";
    assert!(told("speed=high").ends_with(known), "{}", told("speed=high"));
    assert_eq!(told("plug=timed,plug=timed"), "plug is given twice");
    assert!(told("elevator=lift").starts_with("elevator: "));
    assert!(told("requests=3").starts_with("requests: \"3\" is not a number"));
    // The column that comes first in the table, whichever table has it.
    assert!(told("plug=x,placement=x").starts_with("unknown placement "));
    assert!(told("congestion=x,plug=x").starts_with("unknown plug "));
}
