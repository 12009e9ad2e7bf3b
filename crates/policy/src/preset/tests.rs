//! Rows, columns and words.
use super::*;

fn told(words: &str) -> String {
    words.parse::<Policies>().err().unwrap().to_string()
}

#[test]
fn every_row_resolves_and_every_name_stands_once() {
    for row in PRESETS {
        let policies: Policies = row.name.parse().unwrap();
        assert_eq!(policies.names.preset, row.name);
        assert_eq!(policies.names.to_string(), row.name);
        for (column, choice) in policies.names.columns() {
            let entry = COLUMNS.iter().find(|entry| entry.name == column).unwrap();
            assert_eq!((entry.of)(row), choice, "{}", row.name);
        }
    }
    let distinct = |all: Vec<&'static str>| {
        let count = all.len();
        let distinct: std::collections::BTreeSet<_> = all.into_iter().collect();
        assert_eq!(distinct.len(), count);
    };
    distinct(PRESETS.iter().map(|row| row.name).collect());
    distinct(COLUMNS.iter().map(|column| column.name).collect());
    for column in COLUMNS {
        distinct(column.choices.iter().map(|choice| choice.name).collect());
    }
}

#[test]
fn every_choice_can_be_named_alone_and_named_again() {
    for column in COLUMNS {
        for (choice, line) in column.known() {
            assert!(!line.is_empty(), "{}: {choice}", column.name);
            let words = format!("linux-2.4,{}={choice}", column.name);
            let names = words.parse::<Policies>().unwrap().names;
            assert_eq!((names.preset, names.get(column.name)), ("linux-2.4", choice));
            assert_eq!(names.to_string().parse::<Policies>().unwrap().names, names);
            let others = names.columns().filter(|(other, _)| *other != column.name);
            for (other, value) in others {
                let entry = COLUMNS.iter().find(|entry| entry.name == other).unwrap();
                assert_eq!(
                    value,
                    (entry.of)(preset("linux-2.4").unwrap()),
                    "{words} changed {other}"
                );
            }
        }
    }
}

#[test]
fn every_value_of_a_historical_preset_has_one_source() {
    let today = ["modern", "packed"];
    let mut used = 0;
    for preset in PRESETS.iter().filter(|preset| !today.contains(&preset.name)) {
        for column in COLUMNS {
            let rows = SOURCES.iter();
            let rows: Vec<&Source> = rows
                .filter(|row| row.column == column.name && row.presets.contains(&preset.name))
                .collect();
            let [row] = rows[..] else {
                panic!("{}, {}: {} rows, not one", preset.name, column.name, rows.len())
            };
            assert_eq!(row.value, (column.of)(preset), "{}, {}", preset.name, column.name);
            assert_eq!(source(preset.name, column.name), Some(row));
            assert!((1995..=2010).contains(&row.year) && !row.source.is_empty());
            used += 1;
        }
    }
    let stated: usize = SOURCES.iter().map(|row| row.presets.len()).sum();
    assert_eq!(used, stated, "a row for a preset or column that is not there");
    for preset in today {
        assert_eq!(source(preset, "placement"), None);
    }
}

#[test]
fn numbers_in_brackets_are_one_word() {
    let words = "modern,map-blocks=metacluster(middle,1/32),commit=30s";
    let policies: Policies = words.parse().unwrap();
    assert_eq!(policies.names.get("map-blocks"), "metacluster(middle,1/32)");
    assert_eq!(policies.commit_seconds, 30);
    assert!(told("modern,map-blocks=up").starts_with("map-blocks: "));
    assert!(told("modern,commit=0s").starts_with("commit: \"0s\" is not a time"));
    assert!(told("modern,elevator=noop").starts_with("unknown column \"elevator\": "));
}

#[test]
fn what_is_wrong_is_said_with_what_is_known() {
    assert!(told("linux").starts_with("unknown preset \"linux\": known are linux-2.4, "));
    assert!(told("").starts_with("unknown preset \"\": known are linux-2.4, "));
    assert!(
        told("modern,placement=").starts_with("unknown placement \"\": known are spread, parent, ")
    );
    assert!(
        told("speed=high").starts_with("unknown column \"speed\": known are preset, placement, ")
    );
    assert_eq!(told("modern,packed"), "preset is given twice");
    assert_eq!(told("allocation=packed,allocation=packed"), "allocation is given twice");
}
