//! One combination of values becomes the words of a command line.
//!
//! ```text
//! lab run | --drive=ssd --preset=linux-2.4,placement=orlov --seed=3 | read-cold
//! command | options, by name                                        | operands, in order
//! ```
use crate::kinds::{Kind, Rows, When, Works, Write};
use crate::matrix::Parameters;
use serde_json::Value;

/// What the key of a policy's column begins with.
pub const COLUMN: &str = "column.";

/// The words of a job, as it has them.
pub fn words(kind: &Kind, parameters: &Parameters) -> Vec<String> {
    let mut words: Vec<String> = kind.command.iter().map(|word| (*word).to_owned()).collect();
    let is_operand = |key: &str| kind.operands.iter().any(|(name, _)| *name == key);
    for (key, value) in parameters.iter().filter(|(key, _)| !is_operand(key)) {
        if key.starts_with(COLUMN) {
            continue;
        }
        match (key.as_str(), value) {
            ("preset", value) => {
                words.push(format!("--preset={}", preset(Some(value), parameters)))
            }
            (key, Value::Array(list)) => list.iter().for_each(|one| option(key, one, &mut words)),
            (key, value) => option(key, value, &mut words),
        }
    }
    if !parameters.contains_key("preset") {
        let columns = preset(None, parameters);
        if !columns.is_empty() {
            words.push(format!("--preset={columns}"));
        }
    }
    let mut operands = Vec::new();
    for (key, _) in kind.operands {
        match parameters.get(*key) {
            None | Some(Value::Null) => {}
            Some(Value::Array(list)) => operands.extend(list.iter().map(word)),
            Some(value) => operands.push(word(value)),
        }
    }
    if operands.iter().any(|word| word.starts_with('-')) {
        words.push("--".into());
    }
    words.extend(operands);
    words
}

/// A value as a word.
pub fn word(value: &Value) -> String {
    match value {
        Value::String(word) => word.clone(),
        other => other.to_string(),
    }
}

/// A preset with the columns that are changed.
fn preset(value: Option<&Value>, parameters: &Parameters) -> String {
    let columns = parameters
        .iter()
        .filter_map(|(key, value)| Some(format!("{}={}", key.strip_prefix(COLUMN)?, word(value))));
    value.map(word).into_iter().chain(columns).collect::<Vec<_>>().join(",")
}

fn option(name: &str, value: &Value, words: &mut Vec<String>) {
    let is_short = name.chars().count() == 1;
    let hyphens = if is_short { "-" } else { "--" };
    match value {
        Value::Bool(false) => {}
        Value::Bool(true) => words.push(format!("{hyphens}{name}")),
        // What a letter takes follows it, whatever it begins with.
        value if is_short => words.push(format!("-{name}{}", word(value))),
        value => words.push(format!("--{name}={}", word(value))),
    }
}

/// The files that a job of a kind writes, for those that were asked for.
pub fn writes<'a>(
    kind: &'static Kind,
    asked: &'a [String],
) -> impl Iterator<Item = &'static Write> + 'a {
    let is_written = |write: &&Write| {
        write.when == When::Always || asked.iter().any(|option| option == write.option)
    };
    kind.writes.iter().filter(is_written)
}

/// The whole command line of a job: with `--json`, the file for observations, and the files that it
/// writes, each with its path. A copy takes the place of what it is a copy of.
pub fn whole(
    kind: &Kind,
    words: &[String],
    observations: Option<&str>,
    outputs: &[(&Write, String)],
) -> Vec<String> {
    let (command, rest) = words.split_at(kind.command.len().min(words.len()));
    let mut whole = command.to_vec();
    whole.push("--json".into());
    if kind.rows == Rows::Observations {
        whole.extend(observations.map(|path| format!("--jsonl={path}")));
    }
    let named = outputs.iter().filter_map(|(write, path)| Some(format!("{}={path}", write.word?)));
    whole.extend(named);
    let operands = outputs.iter().filter(|(write, _)| write.word.is_none());
    let mut operands = operands.map(|(_, path)| path.clone()).peekable();
    let (more, rest) = match (kind.works, operands.peek(), rest.split_last()) {
        (Works::Reads, ..) => (&[][..], rest),
        (Works::OnCopy { copied, .. }, Some(_), Some((_, before))) => (copied, before),
        (Works::OnCopy { unasked, .. }, ..) => (unasked, rest),
    };
    whole.extend(more.iter().map(|word| (*word).to_owned()));
    whole.extend_from_slice(rest);
    whole.extend(operands);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::find;
    use serde_json::json;

    fn parameters(value: Value) -> Parameters {
        value.as_object().map(|map| map.clone().into_iter().collect()).unwrap_or_default()
    }

    #[test]
    fn options_come_first_and_columns_join_the_preset() {
        let kind = find("lab run").unwrap();
        let all = parameters(json!({
            "scenario": "read-cold", "seed": 3, "preset": "linux-2.4", "column.placement": "orlov",
            "column.growth": "x", "overwrite": false,
        }));
        let words = words(kind, &all);
        assert_eq!(
            words,
            ["lab", "run", "--preset=linux-2.4,growth=x,placement=orlov", "--seed=3", "read-cold"]
        );
        let save = &kind.writes[0];
        let whole = whole(kind, &words, Some("/t/rows"), &[(save, "/t/a.img".into())]);
        assert_eq!(whole[2..5], ["--json", "--jsonl=/t/rows", "--save=/t/a.img"]);
        assert_eq!(whole[5..], words[2..]);
    }

    #[test]
    fn what_would_be_changed_is_only_read_or_has_a_copy_in_its_place() {
        let all = parameters(json!({ "image": "-a.img", "all": true }));
        let kind = find("repair").unwrap();
        let words = words(kind, &all);
        let whole = whole(kind, &words, None, &[]);
        assert_eq!(whole, ["repair", "--json", "--dry-run", "--all", "--", "-a.img"]);
        let copy = [(&kind.writes[0], "/d/b.img".to_owned())];
        let whole = super::whole(kind, &words, None, &copy);
        assert_eq!(whole, ["repair", "--json", "--no-undo", "--all", "--", "/d/b.img"]);
        let kind = find("heal").unwrap();
        let words = super::words(kind, &parameters(json!({ "image": "a.img" })));
        assert_eq!(super::whole(kind, &words, None, &copy), ["heal", "--json", "/d/b.img"]);
    }

    #[test]
    fn letters_flags_lists_and_odd_operands_are_words_too() {
        let kind = find("build").unwrap();
        let all = parameters(json!({
            "source": ["a", "-b"], "L": "-x", "strict-archive": true, "keep-going": false,
            "exclude": ["*.o", "*.a"],
        }));
        let words = words(kind, &all);
        assert_eq!(
            words,
            [
                "build",
                "-L-x",
                "--exclude=*.o",
                "--exclude=*.a",
                "--strict-archive",
                "--",
                "a",
                "-b"
            ]
        );
        let image = writes(kind, &[]).next().unwrap();
        assert_eq!(whole(kind, &words, None, &[(image, "o.img".into())]).last().unwrap(), "o.img");
        let column = parameters(json!({"column.placement": "orlov", "scenario": "x"}));
        let words = super::words(find("lab run").unwrap(), &column);
        assert_eq!(words, ["lab", "run", "--preset=placement=orlov", "x"]);
    }
}
