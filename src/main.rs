//! The `gantry` program: reads the command line, starts the role it names, and turns errors into exit codes.
//!
//! It decides nothing about the cluster. Exit codes: 0 done, 1 failed, 2 the person has to act (see `problem`).

mod allocator;
mod cli;
mod commands;
mod containerd;
mod datadir;
mod demo;
mod detached;
mod down;
mod footprint;
mod hollow;
mod images;
mod machine;
mod pki;
mod preflight;
mod problem;
mod roles;
mod say;
mod stop;
mod supervise;
mod up;

use clap::{CommandFactory, FromArgMatches};
use cli::{Cli, Command};
use say::say;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = command_line();
    start_log();
    let outcome = runtime().and_then(|runtime| runtime.block_on(run(cli.command)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gantry: {error:#}");
            ExitCode::from(problem::exit_code(&error))
        }
    }
}

/// kubectl runs a program `kubectl-gantry` as `kubectl gantry`: the same program, whose help then says what one types.
fn command_line() -> Cli {
    let mut command = Cli::command();
    let own = std::env::args_os().next().unwrap_or_default();
    if std::path::Path::new(&own).file_stem().is_some_and(|name| name == "kubectl-gantry") {
        command = command.bin_name("kubectl gantry");
    }
    let matches = command.get_matches_mut();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit())
}

async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Up(args) => up::run(args).await,
        Command::Down(args) => down::run(args).await,
        Command::Status(args) => commands::status(args).await,
        Command::Image(command) => commands::image(command).await,
        Command::Pki(command) => commands::pki(command),
        Command::Store(args) => commands::store(*args).await,
        Command::Apiserver(args) => roles::standalone::apiserver(*args).await,
        Command::Kubelet(args) => roles::kubelet::run(args).await,
        Command::Proxy(args) => roles::proxy::run(args).await,
        Command::Guard(args) => roles::guard::run(args).await,
        Command::Scheduler(args) => roles::standalone::scheduler(args).await,
        Command::Controllers(args) => roles::standalone::controllers(args).await,
        Command::Hollow(args) => hollow::run(*args).await,
        Command::Get(args) => commands::get(args).await,
        Command::Diff(args) => commands::diff(args).await,
        Command::Why(args) => commands::why(args).await,
        Command::Explain(args) => commands::explain(args).await,
        Command::Fits(args) => commands::fits(args).await,
        Command::Demo(args) => demo::run(args).await,
        Command::Version => {
            say!("{}", commands::version());
            Ok(())
        }
    }
}

/// Two workers serve a small machine and keep the idle process small; `TOKIO_WORKER_THREADS` overrides.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    const WORKERS: usize = 2;
    let asked = std::env::var("TOKIO_WORKER_THREADS").ok().and_then(|text| text.parse().ok());
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(asked.unwrap_or(WORKERS)).max_blocking_threads(64).enable_all();
    Ok(builder.build()?)
}

/// Raft tells every turn of its life at these levels; what a person has to know of it, the store says itself.
const DEFAULT_LOG: &str = "info,openraft=error";

/// `GANTRY_LOG` takes tracing's filter syntax, such as `info,gantry_kubelet=debug`.
fn start_log() {
    use std::io::IsTerminal;
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_env("GANTRY_LOG").unwrap_or_else(|_| EnvFilter::new(DEFAULT_LOG));
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours).init();
}
