//! The tables of policies and presets; what `--list` prints. One static table a trait.
