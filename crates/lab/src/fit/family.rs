//! A kind of drive as a list of values, and the drive file that they make. The only place that
//! knows how values become TOML: a candidate of the search is that text, parsed.
use extant_sim::drive::file::{self, DriveSpec};
use std::fmt::Write;

/// The first step of a search that starts anywhere, as a logarithm.
const STEP: f64 = 0.25;

/// What a value may be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scale {
    /// Any number within these bounds; the search takes steps by factors.
    Ratio(f64, f64),
    /// Any number within these bounds, which may be 0 or less; the search takes steps of that
    /// size.
    Linear(f64, f64, f64),
    /// One of these, in rising order.
    Steps(&'static [f64]),
    /// One of these words; the value is its number.
    Words(&'static [&'static str]),
}

/// How a value gets into the file.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Written {
    /// A whole number.
    Whole,
    /// A number with six digits after the point at most.
    Decimal,
    /// As the product with the value of that number: percentiles are factors of their medians.
    Times(usize),
    /// Less the value of that number, where it is above 0: what shows is the sum of both.
    Less(usize),
    /// A point of the seek table: the time for that share of all cylinders.
    Seek(f64),
    /// One of the words of its scale, in quotes.
    Word,
    /// One of the words of its scale, as it is.
    Flag,
}

/// A value of a drive file that is searched for.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameter {
    /// The table, empty at the top.
    pub table: &'static str,
    /// The key in it.
    pub key: String,
    /// What it may be.
    pub scale: Scale,
    /// How it is written.
    pub written: Written,
    /// Where the search begins.
    pub start: f64,
    /// The first step of the search, as a logarithm; 0: the start was read off and stays.
    pub step: f64,
    /// Why the probes say nothing of it, if they cannot.
    pub unknown: Option<&'static str>,
}

/// A kind of drive whose values are known up to the parameters.
#[derive(Clone, PartialEq, Debug)]
pub struct Family {
    /// The `kind` of the file.
    pub kind: &'static str,
    /// What is searched for.
    pub parameters: Vec<Parameter>,
    /// What is not: table, key, value as it is written, and why it is that one.
    pub fixed: Vec<Fixed>,
    /// Of a rotating drive: its capacity in bytes.
    pub capacity: u64,
}

/// A line of the file that no search changes.
#[derive(Clone, PartialEq, Debug)]
pub struct Fixed {
    /// The table, empty at the top.
    pub table: &'static str,
    /// The key in it.
    pub key: &'static str,
    /// As it is written.
    pub value: String,
    /// A remark in the file; empty for none.
    pub remark: &'static str,
}

impl Parameter {
    /// A number.
    pub fn new(
        place: (&'static str, &str),
        scale: Scale,
        written: Written,
        start: f64,
    ) -> Parameter {
        let (table, key) = place;
        let start = within(scale, start);
        Parameter { table, key: key.to_owned(), scale, written, start, step: STEP, unknown: None }
    }

    /// One that the probes say nothing of, and why.
    pub fn unknown(self, reason: &'static str) -> Parameter {
        Parameter { unknown: Some(reason), ..self }
    }

    /// One whose start is that near to the truth; 0 if it is not searched for.
    pub fn within_about(self, step: f64) -> Parameter {
        Parameter { step, ..self }
    }

    /// The table and the key.
    pub fn name(&self) -> String {
        match (self.table, self.key.as_str()) {
            ("", key) => key.to_owned(),
            (table, key) => format!("{table}.{key}"),
        }
    }

    /// Whether it is a choice of words.
    pub fn is_word(&self) -> bool {
        matches!(self.scale, Scale::Words(_))
    }

    /// Whether it is one of a list.
    pub fn is_listed(&self) -> bool {
        matches!(self.scale, Scale::Steps(_) | Scale::Words(_))
    }

    /// A value as the file and the report have it.
    pub fn shown(&self, value: f64, values: &[f64]) -> String {
        match (self.written, self.scale) {
            (Written::Word, Scale::Words(words)) => format!("{:?}", words[value as usize]),
            (Written::Flag, Scale::Words(words)) => words[value as usize].to_owned(),
            (Written::Whole, _) => format!("{value:.0}"),
            (Written::Times(of), _) => decimal(value * values[of]),
            (Written::Less(of), _) => decimal((value - values[of].max(0.0)).max(0.0)),
            _ => decimal(value),
        }
    }
}

/// Six digits after the point at most.
fn decimal(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The nearest value that the scale has.
pub fn within(scale: Scale, value: f64) -> f64 {
    match scale {
        Scale::Ratio(least, most) | Scale::Linear(least, most, _) => value.clamp(least, most),
        Scale::Steps(steps) => {
            let apart = |step: f64| (step / value.max(f64::MIN_POSITIVE)).ln().abs();
            let nearest = steps.iter().min_by(|one, other| apart(**one).total_cmp(&apart(**other)));
            nearest.copied().unwrap_or(value)
        }
        Scale::Words(words) => value.clamp(0.0, words.len().saturating_sub(1) as f64),
    }
}

impl Family {
    /// Where the search begins.
    pub fn starts(&self) -> Vec<f64> {
        self.parameters.iter().map(|parameter| parameter.start).collect()
    }

    /// Whether the host's work is among the values.
    pub fn has_host(&self) -> bool {
        self.parameters.iter().any(|parameter| parameter.table == "host")
    }

    /// The number of the parameter with that name.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.parameters.iter().position(|parameter| parameter.name() == name)
    }

    fn value(&self, name: &str, values: &[f64]) -> Option<f64> {
        self.number(name).map(|number| values[number])
    }

    /// The values with that one changed. A longer seek takes no less time than a shorter one: where
    /// a seek gets longer or shorter, those that it passes go with it.
    pub fn changed(&self, values: &[f64], number: usize, value: f64) -> Vec<f64> {
        let mut changed = values.to_vec();
        changed[number] = value;
        if self.parameters[number].table == "seek" {
            for (other, parameter) in self.parameters.iter().enumerate() {
                if parameter.table == "seek" {
                    changed[other] = match other < number {
                        true => values[other].min(value),
                        false => changed[other].max(value),
                    };
                }
            }
        }
        changed
    }

    /// The drive of these values; `None` if it is not valid.
    pub fn spec(&self, values: &[f64]) -> Option<DriveSpec> {
        let seeks = self.parameters.iter().zip(values).filter(|(one, _)| one.table == "seek");
        if !seeks.map(|(_, time)| *time).is_sorted() {
            return None;
        }
        file::parse("candidate.toml", &self.text("candidate", values, &[])).ok()
    }

    /// The drive file of these values, with a remark for each parameter where there are any.
    pub fn text(&self, name: &str, values: &[f64], remarks: &[String]) -> String {
        let mut text = format!("name = {name:?}\nkind = \"{}\"\n", self.kind);
        let mut tables = vec![""];
        let all = self.parameters.iter().map(|parameter| parameter.table);
        for table in all.chain(self.fixed.iter().map(|fixed| fixed.table)) {
            if !tables.contains(&table) {
                tables.push(table);
            }
        }
        for table in tables {
            if !table.is_empty() {
                let _ = write!(text, "\n[{table}]\n");
            }
            self.write_table(table, values, remarks, &mut text);
        }
        text
    }

    fn write_table(&self, table: &str, values: &[f64], remarks: &[String], text: &mut String) {
        for fixed in self.fixed.iter().filter(|fixed| fixed.table == table) {
            let _ = write!(text, "{} = {}", fixed.key, fixed.value);
            remark(text, fixed.remark);
        }
        let mut points = Vec::new();
        for (number, parameter) in self.parameters.iter().enumerate() {
            if parameter.table != table {
                continue;
            }
            let said = remarks.get(number).map_or("", String::as_str);
            let shown = parameter.shown(values[number], values);
            if let Written::Seek(share) = parameter.written {
                points.push((share, shown, said));
            } else {
                let _ = write!(text, "{} = {shown}", parameter.key);
                remark(text, said);
            }
        }
        if !points.is_empty() {
            self.write_points(&points, values, text);
        }
    }

    /// The seek table: shares of all cylinders become cylinders.
    fn write_points(&self, points: &[(f64, String, &str)], values: &[f64], text: &mut String) {
        let cylinders = self.cylinders(values);
        let _ = writeln!(text, "points = [");
        let mut last = 0;
        for (share, time, said) in points {
            let distance = ((share * cylinders) as u64).max(last + 1);
            last = distance;
            let _ = write!(text, "    [{distance}, {time}],");
            remark(text, said);
        }
        text.push_str("]\n");
    }

    /// About how many cylinders a drive with these values has, by the sustained rates: what a turn
    /// brings, less what passes while heads and cylinders change.
    fn cylinders(&self, values: &[f64]) -> f64 {
        let of = |name: &str| self.value(name, values).unwrap_or(1.0);
        let first_seek = self.parameters.iter().position(|one| one.table == "seek");
        let (turn, heads) = (60.0 / of("rpm"), of("heads"));
        // Settling is part of the first one.
        let skew = of("head_switch_ms") / 1e3;
        let settle = self.value("write_settle_ms", values).unwrap_or(0.0).max(0.0) / 1e3;
        let step = first_seek.map_or(0.0, |number| values[number] / 1e3) + settle;
        let time = heads * turn + (heads - 1.0) * skew + step.max(skew);
        let rate = (of("geometry.outer_mb_per_s") + of("geometry.inner_mb_per_s")) / 2.0 * 1e6;
        (self.capacity as f64 / (rate * time)).max(64.0)
    }
}

fn remark(text: &mut String, said: &str) {
    match said {
        "" => text.push('\n'),
        said => {
            let _ = writeln!(text, " # {said}");
        }
    }
}
