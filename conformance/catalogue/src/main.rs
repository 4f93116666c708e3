//! `gantry-catalogue`: runs the catalogue against a cluster and prints the score. It decides what is run and what the exit
//! status is: 0 when every behaviour that is said to pass does, 1 when one does not, 2 when nothing could be run.

#![expect(clippy::disallowed_methods, reason = "a black-box run observes real time")]

use anyhow::Context;
use clap::Parser;
use gantry_catalogue::behaviour::{self, Behaviour, Catalogue, Need, State};
use gantry_catalogue::connect::{Credentials, Server};
use gantry_catalogue::report::{self, Standing, standing};
use gantry_catalogue::run::{self, Outcome, Verdict, World};
use gantry_catalogue::start::Started;
use gantry_catalogue::{kubeconfig, promote};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Runs a catalogue of API behaviours against any Kubernetes cluster and prints how many hold.
///
/// Each behaviour works in namespaces of its own, names everything that is not in a namespace after the run, and removes what it
/// made. It needs the rights of a cluster's administrator, impersonation included: use a test cluster. Exit status: 0 if every
/// behaviour that the catalogue says to pass does, 1 if one does not, 2 if nothing could be run.
#[derive(Parser)]
#[command(name = "gantry-catalogue", version)]
struct Arguments {
    /// The cluster: a kubeconfig with a certificate or a token
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Start a Gantry from this binary (store, API server, controllers; no machines) and run against it instead
    #[arg(long, value_name = "BINARY", conflicts_with_all = ["kubeconfig", "context"])]
    start: Option<PathBuf>,
    /// Only behaviours whose id contains this (repeatable: any of them)
    #[arg(long, value_name = "TEXT")]
    filter: Vec<String>,
    /// Only behaviours of this area, as `--list` names them (repeatable)
    #[arg(long, value_name = "AREA")]
    area: Vec<String>,
    /// Only behaviours of this owner (repeatable)
    #[arg(long, value_name = "OWNER")]
    owner: Vec<String>,
    /// Only behaviours of this state
    #[arg(long, value_name = "passes|pending")]
    state: Option<String>,
    /// Print the behaviours instead of running them
    #[arg(long)]
    list: bool,
    /// So many behaviours at a time
    #[arg(short, long, default_value_t = 8, value_name = "N")]
    jobs: usize,
    /// Also print why pending behaviours do not hold
    #[arg(long)]
    verbose: bool,
    /// Leave everything that behaviours make in the cluster
    #[arg(long)]
    keep: bool,
    /// Write the outcome as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write the outcome as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the score as Markdown; in a page with `<!-- score: begin -->` and `<!-- score: end -->`, between them
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Read the catalogue from this folder instead of the one built in
    #[arg(long, value_name = "FOLDER")]
    catalogue: Option<PathBuf>,
    /// In the folder of --catalogue, take the pending state from behaviours that hold now
    #[arg(long, requires = "catalogue")]
    promote: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match work(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

async fn work(arguments: Arguments) -> anyhow::Result<bool> {
    let Catalogue { fixtures, behaviours } = load(arguments.catalogue.as_deref())?;
    let chosen = chosen(&arguments, behaviours)?;
    if arguments.list {
        list(&chosen);
        return Ok(true);
    }
    let started = arguments.start.as_deref().map(Started::new).transpose()?;
    let file = match (&started, &arguments.kubeconfig) {
        (Some(started), _) => started.kubeconfig(),
        (None, Some(file)) => file.clone(),
        (None, None) => anyhow::bail!("no cluster: give --kubeconfig FILE or --start BINARY"),
    };
    let server = Server::new(kubeconfig::read(&file, arguments.context.as_deref())?)?;
    let version =
        answers(&server).await.with_context(|| started.as_ref().map_or_else(String::new, Started::last_words))?;
    let has = abilities(&server, &version).await?;
    println!(
        "{} {version}; has {has:?}; {} behaviours, {} at a time",
        server.access.server,
        chosen.len(),
        arguments.jobs
    );
    let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let world = World { server, fixtures, run: format!("r{:x}", seconds & 0xf_ffff), has, keep: arguments.keep };
    let began = Instant::now();
    let said = |outcome: &Outcome| {
        if standing(outcome) == Standing::Failed {
            println!("\nFAILED {}", report::failure(outcome).unwrap_or_default());
        }
    };
    let outcomes = run::run(&world, chosen, arguments.jobs, said).await;
    conclude(&arguments, &outcomes, &version, began.elapsed())?;
    Ok(!outcomes.iter().any(|outcome| standing(outcome) == Standing::Failed))
}

fn load(folder: Option<&Path>) -> anyhow::Result<Catalogue> {
    let Some(folder) = folder else {
        return behaviour::read(gantry_catalogue::built_in().iter().copied()).map_err(anyhow::Error::msg);
    };
    let files = files(folder)?;
    behaviour::read(files.iter().map(|(name, text)| (name.as_str(), text.as_str()))).map_err(anyhow::Error::msg)
}

/// The YAML files below the folder.
fn files(folder: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let mut all = Vec::new();
    let mut open = vec![folder.join("behaviours"), folder.join("fixtures.yaml"), folder.join("forms.yaml")];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            for entry in std::fs::read_dir(&path)? {
                open.push(entry?.path());
            }
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
            all.push((name, std::fs::read_to_string(&path).with_context(|| path.display().to_string())?));
        }
    }
    all.sort();
    Ok(all)
}

fn chosen(arguments: &Arguments, behaviours: Vec<Behaviour>) -> anyhow::Result<Vec<Arc<Behaviour>>> {
    let any =
        |wanted: &[String], fits: &dyn Fn(&str) -> bool| wanted.is_empty() || wanted.iter().any(|text| fits(text));
    let state = match arguments.state.as_deref() {
        None => None,
        Some("passes") => Some(true),
        Some("pending") => Some(false),
        Some(other) => anyhow::bail!("--state {other}: passes or pending"),
    };
    let chosen: Vec<Arc<Behaviour>> = behaviours
        .into_iter()
        .filter(|behaviour| any(&arguments.filter, &|text| behaviour.id.contains(text)))
        .filter(|behaviour| any(&arguments.area, &|text| behaviour.area == text))
        .filter(|behaviour| any(&arguments.owner, &|text| behaviour.owner == text))
        .filter(|behaviour| state.is_none_or(|passes| (behaviour.state == State::Passes) == passes))
        .map(Arc::new)
        .collect();
    anyhow::ensure!(!chosen.is_empty(), "no behaviour is like that; --list shows them all");
    Ok(chosen)
}

fn list(behaviours: &[Arc<Behaviour>]) {
    for behaviour in behaviours {
        let state = match &behaviour.state {
            State::Passes => "passes".to_owned(),
            State::Pending(why) => format!("pending: {why}"),
        };
        println!(
            "{} ({}, {}; {state})\n    {}\n    from: {}",
            behaviour.id, behaviour.area, behaviour.owner, behaviour.says, behaviour.from
        );
    }
    println!("{} behaviours", behaviours.len());
}

/// Waits until the server is ready, and says which it is.
async fn answers(server: &Server) -> anyhow::Result<String> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let get = |path| server.send(&Credentials::Own, http::Request::builder(), path, bytes::Bytes::new());
        let ready = get("/readyz").await;
        if ready.as_ref().is_ok_and(|reply| reply.status == 200) {
            let version = get("/version").await?;
            return version.value["gitVersion"].as_str().map(str::to_owned).context("its /version has no gitVersion");
        }
        if Instant::now() > deadline {
            return match ready {
                Ok(reply) => Err(anyhow::anyhow!("it is not ready: {} {}", reply.status, reply.text)),
                Err(error) => Err(error),
            };
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// What there is beside the API server.
async fn abilities(server: &Server, version: &str) -> anyhow::Result<BTreeSet<Need>> {
    let get = |path| server.send(&Credentials::Own, http::Request::builder(), path, bytes::Bytes::new());
    let mut has = BTreeSet::new();
    if version.contains("gantry") {
        has.insert(Need::Gantry);
    }
    let nodes = get("/api/v1/nodes").await?;
    let ready = |node: &serde_json::Value| {
        let conditions = node["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
    };
    if nodes.value["items"].as_array().into_iter().flatten().any(ready) {
        has.insert(Need::Nodes);
    }
    // Control loops give the first namespace its account within moments of their start.
    let deadline = Instant::now() + Duration::from_secs(15);
    while Instant::now() < deadline {
        if get("/api/v1/namespaces/default/serviceaccounts/default").await?.status == 200 {
            has.insert(Need::Controllers);
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(has)
}

fn conclude(arguments: &Arguments, outcomes: &[Outcome], version: &str, took: Duration) -> anyhow::Result<()> {
    let of = |wanted: Standing| outcomes.iter().filter(move |outcome| standing(outcome) == wanted);
    if arguments.verbose {
        of(Standing::Pending)
            .for_each(|outcome| println!("\npending {}", report::failure(outcome).unwrap_or_default()));
    }
    for outcome in of(Standing::Promotable) {
        println!("passes now, promote it: {}", outcome.behaviour.id);
    }
    let mut slowest: Vec<&Outcome> =
        outcomes.iter().filter(|outcome| !matches!(outcome.verdict, Verdict::Skipped(_))).collect();
    slowest.sort_by_key(|outcome| std::cmp::Reverse(outcome.took));
    let slowest: Vec<String> = slowest
        .iter()
        .take(3)
        .map(|outcome| format!("{} {:.1} s", outcome.behaviour.id, outcome.took.as_secs_f64()))
        .collect();
    println!("\n{}\n\nin {:.1} s; slowest: {}", report::table(outcomes), took.as_secs_f64(), slowest.join(", "));
    let write = |file: &Path, text: String| std::fs::write(file, text).with_context(|| file.display().to_string());
    if let Some(file) = &arguments.junit {
        write(file, report::junit(outcomes))?;
    }
    if let Some(file) = &arguments.json {
        write(file, format!("{:#}\n", report::json(outcomes, version)))?;
    }
    if let Some(file) = &arguments.markdown {
        let score = report::markdown(outcomes, version);
        let page = std::fs::read_to_string(file).ok().and_then(|page| report::into_page(&page, &score));
        write(file, page.unwrap_or(score))?;
    }
    if let Some(folder) = arguments.catalogue.as_deref().filter(|_| arguments.promote) {
        let ids: Vec<&str> = of(Standing::Promotable).map(|outcome| outcome.behaviour.id.as_str()).collect();
        for (name, text) in files(folder)? {
            let (promoted, taken) = promote::promote(&text, &ids);
            if taken > 0 {
                write(&folder.join(name), promoted)?;
            }
        }
    }
    Ok(())
}
