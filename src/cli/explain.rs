//! The flags of `gantry explain` and `gantry fits`. They decide nothing.

use super::AskArgs;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerForm {
    Text,
    Yaml,
    Json,
}

/// How the answer is waited for and shown.
#[derive(Args, Debug, Clone)]
pub struct AnswerArgs {
    /// For people, or for scripts (`about`, `verdict`, `result`)
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub output: AnswerForm,
    /// How long the scheduler has to answer
    #[arg(long, default_value_t = 10, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub wait_s: u64,
}

/// The scheduler answers from what it knows now, by the filters that it decides with. Whoever may view the namespace may ask: the answer
/// names machines and what is free on them, and no pod of another namespace. As a kubectl plugin: `kubectl gantry explain pod NAME`.
#[derive(Args, Debug, Clone)]
pub struct ExplainArgs {
    /// `pod`, or pod/NAME
    #[arg(value_name = "pod")]
    pub what: String,
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    #[command(flatten)]
    pub answer: AnswerArgs,
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Nothing is created. Counted is what is free now, pods that wait already aside; quotas and LimitRanges are not looked at. Exit code: 0
/// all fit, 1 not all fit (or no scheduler answered), 2 the command or the manifest is wrong.
#[derive(Args, Debug, Clone)]
pub struct FitsArgs {
    /// A Pod, or what has a template of pods: Deployment, StatefulSet, DaemonSet, Job, CronJob, … (`-`: standard input)
    #[arg(short, long, value_name = "FILE")]
    pub filename: PathBuf,
    /// How many pods [default: as many as the manifest says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub replicas: Option<u32>,
    #[command(flatten)]
    pub answer: AnswerArgs,
    #[command(flatten)]
    pub ask: AskArgs,
}

#[cfg(test)]
mod tests {
    use crate::cli::Cli;
    use clap::Parser;

    #[test]
    fn questions_about_placement() {
        let parse = |words: &str| Cli::try_parse_from(["gantry"].into_iter().chain(words.split_whitespace()));
        assert!(parse("explain pod web -n shop -o json").is_ok());
        assert!(parse("explain pod/web --wait-s 3").is_ok());
        assert!(parse("explain").is_err() && parse("explain pod web --wait-s 0").is_err());
        assert!(parse("fits -f - --replicas 200").is_ok());
        assert!(parse("fits").is_err() && parse("fits -f x --replicas 10001").is_err());
    }
}
