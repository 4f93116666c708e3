//! `gantry hollow workload`: a drawn workload as JSON lines, or created in the cluster. It decides which of both.

use super::{create, read};
use crate::cli::WorkloadArgs;
use crate::datadir::DataDir;
use crate::problem::Problem;
use anyhow::Context;
use gantry_client::Client;
use gantry_rehearsal::workload::BUILT_IN;
use gantry_rehearsal::{WorkloadProfile, generate};
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;

pub async fn run(args: WorkloadArgs) -> anyhow::Result<()> {
    let profile = profile(&args.profile)?;
    if let Some(out) = &args.out {
        let sink = open(out)?;
        return print(&profile, &args, sink).with_context(|| out.display().to_string());
    }
    let kubeconfig = match args.kubeconfig.or_else(gantry_inspect::kubeconfig_named) {
        Some(path) => path,
        None => DataDir::new(&args.data.data_dir)?.kubeconfig(),
    };
    let client = Client::over_links(&kubeconfig, create::CONNECTIONS).await;
    let client = client.map_err(|error| Problem::new(format!("--kubeconfig {}: {error}", kubeconfig.display())))?;
    let pace = create::Pace { per_second: args.rate, in_flight: usize::from(args.in_flight) };
    create::all(&client.with_user_agent("gantry-hollow"), &profile, args.seed, args.count, pace).await
}

fn profile(name: &str) -> Result<WorkloadProfile, Problem> {
    if let Some(profile) = WorkloadProfile::built_in(name) {
        return Ok(profile);
    }
    let path = Path::new(name);
    if !path.exists() {
        let names = BUILT_IN.map(|(name, _)| name).join(", ");
        return Err(Problem::new(format!("--profile {name}: there is no such file, and it is none of {names}")));
    }
    WorkloadProfile::parse(&read(path)?).map_err(|problem| Problem::new(format!("--profile {name}: {problem}")))
}

/// A file that the person named, as the profile is: one that cannot be opened is theirs to put right.
fn open(out: &Path) -> Result<Box<dyn Write>, Problem> {
    if out == Path::new("-") {
        return Ok(Box::new(std::io::stdout().lock()));
    }
    let file = File::create(out).map_err(|error| Problem::new(format!("--out {}: {error}", out.display())))?;
    Ok(Box::new(file))
}

fn print(profile: &WorkloadProfile, args: &WorkloadArgs, sink: Box<dyn Write>) -> std::io::Result<()> {
    match lines(profile, args, BufWriter::new(sink)) {
        // Who reads has seen enough, as `| head` has.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

fn lines(profile: &WorkloadProfile, args: &WorkloadArgs, mut sink: impl Write) -> std::io::Result<()> {
    for manifest in generate(profile, args.seed, args.count) {
        writeln!(sink, "{manifest}")?;
    }
    sink.flush()
}
