//! A report as tables: what changed from the first sample to the last, and each series over the
//! months.
use super::report::{AgeingReport, Better, Form, Metric, Sample, Series};
use extant_chart::{Alignment, Table, wrapped};
use std::fmt::Write;

fn value(metric: &Metric, sample: &Sample) -> String {
    match (metric.value)(sample) {
        Some(value) => format!("{value:.*}", usize::from(metric.digits)),
        None => String::new(),
    }
}

fn head(metric: &Metric) -> String {
    match metric.unit {
        "" => metric.name.to_owned(),
        unit => format!("{} ({unit})", metric.name),
    }
}

impl AgeingReport {
    /// Tables of text, in lines of at most `width` columns.
    pub fn to_text(&self, width: usize) -> String {
        let mut text = format!("{}: {}\n", self.name, self.line);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "profile {}: {}", self.profile.name, self.profile.line);
        let form = match self.form {
            Form::Quick => ", quick form",
            Form::Full => "",
        };
        let gigabytes = self.volume_bytes as f64 / 1e9;
        let _ = writeln!(
            text,
            "volume {gigabytes:.1} GB, drive {}, seed {}{form}",
            self.drive, self.seed
        );
        let mut text = wrapped(&text, width, 2);
        text.push_str(&self.summary(width));
        self.series.iter().for_each(|series| text.push_str(&self.months(series, width)));
        text
    }

    /// First and last samples side by side.
    fn summary(&self, width: usize) -> String {
        let days =
            self.series.iter().filter_map(|series| series.samples.last()).map(|sample| sample.day);
        let title = format!("Filled -> after {} days", days.max().unwrap_or(0));
        let mut columns = vec![("", Alignment::Left)];
        columns.extend(self.series.iter().map(|series| (series.name.as_str(), Alignment::Right)));
        let mut table = Table::new(&title, &columns);
        for metric in self.drawable() {
            let better = match metric.better {
                Better::Higher => " +",
                Better::Lower => " -",
                Better::Neither => "",
            };
            let cell = |series: &Series| match (series.samples.first(), series.samples.last()) {
                (Some(first), Some(last)) => {
                    format!("{} -> {}", value(metric, first), value(metric, last))
                }
                _ => String::new(),
            };
            let cells = self.series.iter().map(cell);
            table.row(std::iter::once(head(metric) + better).chain(cells));
        }
        let refused = self.series.iter().map(|series| series.refused.to_string());
        table.row(std::iter::once("refused, the volume being full".to_owned()).chain(refused));
        table.render(width) + "+ the more the better, - the less the better\n"
    }

    /// A series, sample by sample.
    fn months(&self, series: &Series, width: usize) -> String {
        let metrics: Vec<&Metric> = self.drawable().collect();
        let heads: Vec<String> = metrics.iter().map(|metric| head(metric)).collect();
        let mut columns = vec![("day", Alignment::Right)];
        columns.extend(heads.iter().map(|head| (head.as_str(), Alignment::Right)));
        let title = match series.name == series.policies {
            true => series.name.clone(),
            false => format!("{} ({})", series.name, series.policies),
        };
        let mut table = Table::new(&title, &columns);
        for sample in &series.samples {
            let cells = metrics.iter().map(|metric| value(metric, sample));
            table.row(std::iter::once(sample.day.to_string()).chain(cells));
        }
        table.render(width)
    }
}
