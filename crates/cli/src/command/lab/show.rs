//! `extant lab show`: the file of something that is built in.
use super::page::PageOption;
use extant_chart::Figure;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_lab::page;
use extant_lab::scenario::{BUILTINS, POST_SCENARIOS, builtin};
use extant_sim::drive::presets::PRESETS;

/// Print the TOML file of a built-in scenario (also of a post's) or drive, to be changed and run.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant lab show read-cold > mine.toml
  extant lab show post-4 > follow-up.toml
  extant lab show ide-2001-7200 > faster.toml")]
pub struct Arguments {
    /// A scenario or drive, as `extant lab list` names it.
    #[arg(value_name = "NAME")]
    pub name: String,
    #[command(flatten)]
    pub page: PageOption,
}

/// Prints it. With `--json`: `{"name": .., "kind": "scenario" or "drive", "text": ..}`.
pub fn run(arguments: &Arguments, console: &Console) -> Result<Exit, Error> {
    let name = &arguments.name;
    arguments.page.check()?;
    let Some((kind, text)) = find(name) else {
        let error = Error::usage(format!(
            "{name}: no scenario and no drive of that name is built \
            in"
        ));
        return Err(error.hint(match beginning_with(name) {
            similar if similar.is_empty() => "extant lab list shows all of them".to_owned(),
            similar => format!("there are {}", similar.join(", ")),
        }));
    };
    let figure = || Figure::new("Its file", text.to_owned());
    arguments
        .page
        .write(|| page::of_figures(name, &format!("A {kind} that is built in."), &[figure()]))?;
    match console.is_json() {
        true => {
            let document = serde_json::json!({"name": name, "kind": kind, "text": text});
            console.print_json("extant-lab-show/1", &document)?
        }
        false => console.print(text)?,
    }
    Ok(Exit::Complete)
}

/// Names that are longer: `post-3` means neither of its two scenarios.
fn beginning_with(name: &str) -> Vec<&'static str> {
    let scenarios = BUILTINS.iter().chain(POST_SCENARIOS).map(|builtin| builtin.name);
    let all = scenarios.chain(PRESETS.iter().map(|preset| preset.name));
    all.filter(|known| !name.is_empty() && known.starts_with(name)).collect()
}

fn find(name: &str) -> Option<(&'static str, &'static str)> {
    let scenario = builtin(name);
    let drive = || PRESETS.iter().find(|preset| preset.name == name);
    scenario
        .map(|builtin| ("scenario", builtin.text))
        .or_else(|| drive().map(|preset| ("drive", preset.text)))
}
