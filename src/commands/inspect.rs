//! `gantry get`, `diff`, `why`, `explain` and `fits`: the command line's words for `gantry_inspect`.

use crate::cli::{AnswerArgs, AnswerForm, AskArgs, DiffArgs, ExplainArgs, FitsArgs, GetArgs, OutputForm, WhyArgs};
use crate::datadir::DataDir;
use crate::problem::Problem;
use crate::say::say;
use gantry_inspect::{Access, Form, Get, Manner, Scope, Since};
use std::io::Read;
use std::path::Path;
use std::time::Duration;

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
    let which = "say which object: `gantry why TYPE NAME` or `gantry why TYPE/NAME`";
    let (what, name) = named(args.what.unwrap_or_default(), args.name).ok_or_else(|| Problem::new(which))?;
    say!("{}", gantry_inspect::why(&access, &what, &name, &scope).await?);
    Ok(())
}

pub async fn explain(args: ExplainArgs) -> anyhow::Result<()> {
    let which = "say which pod: `gantry explain pod NAME` or `gantry explain pod/NAME`";
    let (what, name) = named(args.what, args.name).ok_or_else(|| Problem::new(which))?;
    let access = open(&args.ask).await?;
    let (scope, manner) = (scope(&args.ask, ""), manner(&args.answer));
    say!("{}", gantry_inspect::explain(&access, &what, &name, &scope, manner).await?.trim_end());
    Ok(())
}

pub async fn fits(args: FitsArgs) -> anyhow::Result<()> {
    let manifest = read(&args.filename)?;
    let access = open(&args.ask).await?;
    let (scope, manner) = (scope(&args.ask, ""), manner(&args.answer));
    let fit = gantry_inspect::fits(&access, &manifest, args.replicas, &scope, manner).await?;
    say!("{}", fit.text.trim_end());
    match fit.lacks {
        None => Ok(()),
        Some(lacks) => Err(anyhow::anyhow!(lacks)),
    }
}

fn manner(answer: &AnswerArgs) -> Manner {
    let form = match answer.output {
        AnswerForm::Text => Form::Table,
        AnswerForm::Yaml => Form::Yaml,
        AnswerForm::Json => Form::Json,
    };
    Manner { form, patience: Duration::from_secs(answer.wait_s) }
}

/// `TYPE NAME` or `TYPE/NAME`.
fn named(what: String, name: Option<String>) -> Option<(String, String)> {
    match (what.split_once('/'), name) {
        (None, Some(name)) => Some((what, name)),
        (Some((what, name)), None) => Some((what.to_owned(), name.to_owned())),
        _ => None,
    }
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
