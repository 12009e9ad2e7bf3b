//! `extant completions`: what a shell needs to complete our words.
use clap::ValueEnum;
use clap_complete::Shell;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};

/// Print the completions for a shell.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant completions bash > /usr/share/bash-completion/completions/extant
  extant completions zsh > ~/.zfunc/_extant
  extant completions fish > ~/.config/fish/completions/extant.fish")]
pub struct Arguments {
    /// The shell.
    #[arg(value_name = "SHELL")]
    pub shell: Supported,
}

/// The shells that we make completions for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Supported {
    Bash,
    Zsh,
    Fish,
}

/// Prints them. With `--json`: `{"shell": .., "script": ..}`.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let shell = match arguments.shell {
        Supported::Bash => Shell::Bash,
        Supported::Zsh => Shell::Zsh,
        Supported::Fish => Shell::Fish,
    };
    let script = script(shell);
    if console.is_json() {
        let document = serde_json::json!({"shell": shell.to_string(), "script": script});
        console.print_json("extant-completions/1", &document)?;
    } else {
        console.print(&script)?;
    }
    Ok(Exit::Complete)
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut super::table(), "extant", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_learns_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for command in super::super::table().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
        }
    }
}
