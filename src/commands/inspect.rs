//! `gantry get`, `diff` and `why`: the command line's words for `gantry_inspect`.

use crate::cli::{AskArgs, DiffArgs, GetArgs, OutputForm, WhyArgs};
use crate::datadir::DataDir;
use crate::problem::Problem;
use crate::say::say;
use gantry_inspect::{Access, Form, Get, Scope, Since};
use std::io::Read;
use std::path::Path;

async fn open(ask: &AskArgs) -> anyhow::Result<Access> {
    let data = DataDir::new(&ask.data.data_dir)?;
    Access::open(ask.kubeconfig.as_deref(), &data.kubeconfig()).await
}

fn scope(ask: &AskArgs, selector: &str) -> Scope {
    Scope { namespace: ask.namespace.clone(), all_namespaces: ask.all_namespaces, labels: selector.to_owned() }
}

pub async fn get(args: GetArgs) -> anyhow::Result<()> {
    let access = open(&args.ask).await?;
    let form = match args.output {
        OutputForm::Table => Form::Table,
        OutputForm::Wide => Form::Wide,
        OutputForm::Yaml => Form::Yaml,
        OutputForm::Json => Form::Json,
        OutputForm::Name => Form::Name,
    };
    let scope = scope(&args.ask, &args.selector);
    let get = Get { what: args.what, names: args.names, scope, at: args.at, form };
    say!("{}", gantry_inspect::get(&access, &get).await?.trim_end());
    Ok(())
}

pub async fn diff(args: DiffArgs) -> anyhow::Result<()> {
    let access = open(&args.ask).await?;
    let scope = scope(&args.ask, &args.selector);
    let since = Since { since: args.since, until: args.until };
    let text = gantry_inspect::diff(&access, args.what.as_deref(), &args.names, &scope, &since).await?;
    say!("{text}");
    Ok(())
}

pub async fn why(args: WhyArgs) -> anyhow::Result<()> {
    let access = open(&args.ask).await?;
    let scope = scope(&args.ask, "");
    if let Some(path) = &args.filename {
        let manifest = read(path)?;
        say!("{}", gantry_inspect::refused(&access, &manifest, &scope).await?);
        return Ok(());
    }
    let what = args.what.unwrap_or_default();
    let (what, name) = match (what.split_once('/'), args.name) {
        (None, Some(name)) => (what, name),
        (Some((what, name)), None) => (what.to_owned(), name.to_owned()),
        _ => return Err(Problem::new("say which object: `gantry why TYPE NAME` or `gantry why TYPE/NAME`").into()),
    };
    say!("{}", gantry_inspect::why(&access, &what, &name, &scope).await?);
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<String> {
    let failed = |error: std::io::Error| Problem::new(format!("{}: {error}", path.display()));
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(failed)?;
        return Ok(text);
    }
    Ok(std::fs::read_to_string(path).map_err(failed)?)
}
