//! `gantry get`: objects as they are, or as they were.

use crate::access::{Access, TABLE, query};
use crate::render::{self, cell};
use crate::resources::Resource;
use crate::{Misused, Scope};
use anyhow::Context;
use gantry_client::ApiError;
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Table,
    Wide,
    Yaml,
    Json,
    Name,
}

/// What to get.
#[derive(Clone, Debug)]
pub struct Get {
    /// A resource type, or several with commas.
    pub what: String,
    /// None: all.
    pub names: Vec<String>,
    pub scope: Scope,
    /// Empty: now.
    pub at: String,
    pub form: Form,
}

/// The text to print. What is not there is an error, as is everything else that was not found.
pub async fn get(access: &Access, get: &Get) -> anyhow::Result<String> {
    let (what, names) = named(&get.what, &get.names)?;
    let resources = access.resources().await?;
    let kinds: Vec<&Resource> = what.split(',').map(|name| resources.find(name)).collect::<Result<_, _>>()?;
    if kinds.len() == 1 {
        return kind(access, get, kinds[0], &names, false).await;
    }
    if !names.is_empty() {
        return Err(Misused("a name is of one type: name several types without names".into()).into());
    }
    let mut blocks = Vec::new();
    for resource in kinds {
        let block = kind(access, get, resource, &names, true).await?;
        if block != NONE {
            blocks.push(block);
        }
    }
    Ok(if blocks.is_empty() { NONE.into() } else { blocks.join(between(get.form)) })
}

const NONE: &str = "No resources found.";

fn between(form: Form) -> &'static str {
    match form {
        Form::Table | Form::Wide => "\n\n",
        Form::Yaml => "---\n",
        Form::Json | Form::Name => "\n",
    }
}

/// What is asked of one kind; with its name before those of objects if there are several kinds.
async fn kind(
    access: &Access,
    get: &Get,
    resource: &Resource,
    names: &[&str],
    several: bool,
) -> anyhow::Result<String> {
    if get.scope.all_namespaces && resource.namespaced && !names.is_empty() {
        return Err(Misused("a name is of one namespace: leave out -A, or the names".into()).into());
    }
    let namespace = access.namespace(&get.scope);
    let paths: Vec<String> = match names {
        [] => vec![resource.path(&namespace, "")],
        names => names.iter().map(|name| resource.path(&namespace, name)).collect(),
    };
    let mut answers = Vec::new();
    for path in paths {
        answers.push(one(access, get, &path).await?);
    }
    show(together(answers), get, several.then(|| resource.singular_name()).as_deref())
}

/// `pod/a` names both.
fn named<'a>(what: &'a str, names: &'a [String]) -> Result<(&'a str, Vec<&'a str>), Misused> {
    match what.split_once('/') {
        Some((what, name)) if names.is_empty() => Ok((what, vec![name])),
        Some(_) => Err(Misused(format!("{what} names an object already: leave out the other names"))),
        None => Ok((what, names.iter().map(String::as_str).collect())),
    }
}

async fn one(access: &Access, get: &Get, path: &str) -> anyhow::Result<Value> {
    let path = format!("{path}{}", query(&[("labelSelector", &get.scope.labels), ("at", &get.at)]));
    let answer = match get.form {
        Form::Table | Form::Wide => access.get_as(&path, TABLE).await,
        _ => access.get(&path).await,
    };
    answer.map_err(|error| explain(error, &get.at))
}

/// One answer of several: tables by their rows, objects as a list.
fn together(mut answers: Vec<Value>) -> Value {
    if answers.len() < 2 {
        return answers.pop().unwrap_or_default();
    }
    if !answers[0]["rows"].is_array() {
        return json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": answers});
    }
    let rows = answers.iter_mut().filter_map(|answer| match answer["rows"].take() {
        Value::Array(rows) => Some(rows),
        _ => None,
    });
    let rows: Vec<Value> = rows.flatten().collect();
    let mut first = answers.swap_remove(0);
    first["rows"] = rows.into();
    first
}

fn show(mut answer: Value, get: &Get, kind: Option<&str>) -> anyhow::Result<String> {
    Ok(match get.form {
        Form::Table | Form::Wide => {
            if answer["rows"].as_array().is_none_or(Vec::is_empty) {
                return Ok(NONE.into());
            }
            for row in answer["rows"].as_array_mut().into_iter().flatten() {
                if let (Some(kind), Some(first)) = (kind, row["cells"].get_mut(0)) {
                    *first = format!("{kind}/{}", cell(first)).into();
                }
            }
            render::table(&answer, get.form == Form::Wide, get.scope.all_namespaces)
        }
        Form::Yaml => render::yaml(&answer)?,
        Form::Json => serde_json::to_string_pretty(&answer).context("writing JSON")?,
        Form::Name => {
            let items = answer["items"].as_array().map_or_else(|| vec![&answer], |items| items.iter().collect());
            let names = items.into_iter().map(|item| cell(&item["metadata"]["name"]));
            names.collect::<Vec<_>>().join("\n")
        }
    })
}

/// What is asked of the past and not had, with the time that was asked for.
pub fn explain(error: ApiError, at: &str) -> anyhow::Error {
    let wrong = matches!(&error, ApiError::Other(status) if status.code == 400);
    if error.is_gone() || wrong {
        return Misused(error.to_string()).into();
    }
    let was = !at.is_empty() && error.is_not_found();
    let error = anyhow::Error::from(error);
    if was { error.context(format!("as of {at}")) } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_and_a_name_may_be_one_word() {
        let names = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(named("pod/a", &[]), Ok(("pod", vec!["a"])));
        assert_eq!(named("pod", &names(&["a", "b"])), Ok(("pod", vec!["a", "b"])));
        assert!(named("pod/a", &names(&["b"])).is_err());
    }

    #[test]
    fn several_answers_are_one() {
        let table = |name: &str| json!({"columnDefinitions": [{"name": "Name"}], "rows": [{"cells": [name]}]});
        let rows = together(vec![table("a"), table("b")]);
        assert_eq!(render::table(&rows, false, false), "NAME\na\nb");
        let list = together(vec![json!({"kind": "A"}), json!({"kind": "B"})]);
        assert_eq!((&list["kind"], &list["items"][1]["kind"]), (&json!("List"), &json!("B")));
        assert_eq!(together(vec![json!(1)]), json!(1));
    }
}
