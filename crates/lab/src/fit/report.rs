//! What was found, as a drive file with remarks and as JSON.
use super::fitting::{Fit, FittedValue, KindScore};
use super::score::Agreement;
use super::{Found, TargetFacts};
use serde::Serialize;
use std::fmt::Write;

/// The name and version of the JSON.
const SCHEMA: &str = "extant-lab-fit/1";

/// From this mean distance on the report says that nothing fits.
const FAR: f64 = 0.2;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'a str,
    target: &'a str,
    bytes: u64,
    sector_bytes: u32,
    write_bytes: u64,
    requests: usize,
    probed_ns: u64,
    kind: &'a str,
    kinds: &'a [KindScore],
    candidates: usize,
    cut_short: bool,
    distance: f64,
    held_out: Option<Agreement>,
    held_out_by_depth: Vec<Depth>,
    values: &'a [FittedValue],
    drive_file: &'a str,
}

#[derive(Serialize)]
struct Depth {
    depth: u32,
    #[serde(flatten)]
    agreement: Agreement,
}

impl Found {
    /// A drive file whose first lines say, as remarks, what was probed and how well the drive of
    /// the file agrees. What the probes do not tell is marked where it stands.
    pub fn to_text(&self) -> String {
        let Found { facts, fit, .. } = self;
        let mut text = format!("# Fitted to {}.\n", one_line(&facts.name));
        let _ = writeln!(
            text,
            "# {} requests in {:.1} s; {}. Mean distance of the probes: {:.1} %.",
            self.requests,
            self.probed_ns as f64 / 1e9,
            written(facts),
            fit.distance * 100.0
        );
        if fit.distance > FAR {
            text.push_str(
                "# None of the kinds explains these times well: the values are of little worth. \
                 Was the device\n# or this machine busy?\n",
            );
        }
        if fit.is_cut_short {
            text.push_str(
                "# The time was over before the search was: a longer --time may find better \
                 values, \
                 and error bars\n# of those that have none.\n",
            );
        }
        text.push_str(&agreement(fit));
        let tried = fit.kinds.iter().map(|KindScore { kind, host, distance }| match host {
            true => format!("{kind} with the host's work {distance:.3}"),
            false => format!("{kind} {distance:.3}"),
        });
        let tried: Vec<String> = tried.collect();
        let _ = writeln!(
            text,
            "# Kinds, by their distance after a short search: {}.",
            tried.join(", ")
        );
        let _ = writeln!(
            text,
            "# The remark of a value is its error bar, the other values being as they are."
        );
        text.push_str(&fit.text);
        text
    }

    /// The same as a document of the schema `extant-lab-fit/1`.
    pub fn to_json(&self) -> String {
        let Found { facts, fit, .. } = self;
        let depths = fit.held_out_by_depth.iter();
        let depths =
            depths.map(|(depth, agreement)| Depth { depth: *depth, agreement: *agreement });
        let document = Document {
            schema: SCHEMA,
            target: &facts.name,
            bytes: facts.bytes,
            sector_bytes: facts.sector_bytes,
            write_bytes: facts.write_bytes,
            requests: self.requests,
            probed_ns: self.probed_ns,
            kind: &fit.kind,
            kinds: &fit.kinds,
            candidates: fit.candidates,
            cut_short: fit.is_cut_short,
            distance: fit.distance,
            held_out: fit.held_out,
            held_out_by_depth: depths.collect(),
            values: &fit.values,
            drive_file: &fit.text,
        };
        // Numbers and words: there is nothing that cannot be written.
        let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
        text.push('\n');
        text
    }
}

fn one_line(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

fn written(facts: &TargetFacts) -> &'static str {
    match facts.write_bytes {
        0 => "nothing was written",
        _ => "reads, writes and flushes",
    }
}

fn agreement(fit: &Fit) -> String {
    let mut text = String::new();
    let all = fit.held_out_by_depth.iter().map(|(depth, one)| (format!("depth {depth}"), one));
    for (what, one) in all.chain(fit.held_out.iter().map(|one| ("all".to_owned(), one))) {
        let _ = writeln!(
            text,
            "# Held out, {what}: {} requests, mean {:.3} ms measured, {:.3} ms modelled ({:+.1} \
             %), demerit {:.1} %, 99th percentile {:+.1} %.",
            one.requests,
            one.measured_mean_ns / 1e6,
            one.model_mean_ns / 1e6,
            one.mean_error * 100.0,
            one.demerit * 100.0,
            one.p99_error * 100.0
        );
    }
    text
}
