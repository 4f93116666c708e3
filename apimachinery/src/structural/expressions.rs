//! The rules of a schema, `x-kubernetes-validations`, made ready to run. It decides which are refused: those that do not
//! compile, cost too much or look at old values that cannot be told apart.

use super::checks::PATTERN_MEMORY;
use super::declare::{Declared, Inside, declare};
use super::field_path;
use super::node::{Additional, Node};
use super::view::View;
use crate::cel::{self, Decl, MAX_SIZE, Program, Type};
use crate::schema::ListType;
use crate::status::FieldErrors;
use serde_json::Value;

const KEYWORD: &str = "x-kubernetes-validations";
/// The estimated cost that one rule may have, in all places of one object.
const RULE_COST: u64 = 10_000_000;
/// The estimated cost of all rules of a schema.
const SCHEMA_COST: u64 = 100_000_000;

/// The rules of one schema.
#[derive(Debug)]
pub(super) struct Rules {
    /// What `self` is.
    pub decl: Decl,
    pub list: Vec<Rule>,
}

#[derive(Debug)]
pub(super) struct Rule {
    pub program: Program,
    /// As it was written, trimmed.
    pub text: String,
    pub message: String,
    pub message_program: Option<Program>,
    pub reason: String,
    /// Where the error stands, below the value.
    pub field_path: String,
    /// `oldSelf` is an optional value, and the rule also runs without one.
    pub optional_old: bool,
}

impl Rule {
    pub fn uses_old(&self) -> bool {
        self.program.uses("oldSelf")
    }
}

/// Compiles all rules of a tree of schemas.
pub(super) fn compile(root: &mut Node, view: View<'_>, path: &str, errors: &mut FieldErrors) {
    let mut compiler = Compiler { errors, types: 0, memory: 0, total: 0, expensive: Vec::new() };
    compiler.node(root, view, Place { resource: true, bound: Some(1), apart: None }, path);
    if compiler.total > SCHEMA_COST {
        let mut expensive = compiler.expensive;
        expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
        for (_, place) in expensive.into_iter().take(4) {
            let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            compiler.errors.forbidden(place, why);
        }
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        compiler.errors.forbidden(path, over_budget(name, compiler.total, SCHEMA_COST));
    }
}

#[derive(Clone, Copy)]
struct Place<'p> {
    /// The value has a header.
    resource: bool,
    /// How often the value occurs, if lists and maps around it are bounded.
    bound: Option<u64>,
    /// The schema inside of which values of old and new objects cannot be told to be the same.
    apart: Option<&'p str>,
}

struct Compiler<'e> {
    errors: &'e mut FieldErrors,
    /// Counts types, which are told apart by their names.
    types: usize,
    /// What regular expressions take so far.
    memory: usize,
    total: u64,
    expensive: Vec<(u64, String)>,
}

impl Compiler<'_> {
    fn node(&mut self, node: &mut Node, view: View<'_>, place: Place<'_>, path: &str) -> Option<Declared> {
        let mut inside = Inside::default();
        for (name, child) in &mut node.properties {
            let Some(view) = view.property(name) else { continue };
            let place = Place { resource: child.embedded, ..place };
            let declared = self.node(child, view, place, &format!("{path}.properties[{name}]"));
            node.has_rules |= child.has_rules;
            inside.properties.extend(declared.map(|declared| (name.clone(), declared)));
        }
        let times = |bound: Option<u64>, max: Option<u64>| Some(bound?.saturating_mul(max?));
        if let (Some(Additional::Of(child)), Some(view)) = (&mut node.additional, view.schema("additionalProperties")) {
            let bound = times(place.bound, node.checks.as_ref().and_then(|checks| checks.max_properties));
            let place = Place { resource: child.embedded, bound, ..place };
            inside.values = self.node(child, view, place, &format!("{path}.additionalProperties"));
            node.has_rules |= child.has_rules;
        }
        if let (Some(child), Some(view)) = (&mut node.items, view.schema("items")) {
            let bound = times(place.bound, node.checks.as_ref().and_then(|checks| checks.max_items));
            let apart = place.apart.or_else(|| (node.list != Some(ListType::Map)).then_some(path));
            let place = Place { resource: child.embedded, bound, apart };
            inside.items = self.node(child, view, place, &format!("{path}.items"));
            node.has_rules |= child.has_rules;
        }
        self.types += 1;
        let declared = declare(node, inside, place.resource, &format!("object{}", self.types));
        if !view.list(KEYWORD).is_empty() {
            self.rules(node, view, declared.as_ref(), place, path);
        }
        declared
    }

    fn rules(&mut self, node: &mut Node, view: View<'_>, declared: Option<&Declared>, place: Place<'_>, path: &str) {
        let path = format!("{path}.{KEYWORD}");
        let Some(declared) = declared else {
            let (kind, open) = (view.text("type"), node.preserve);
            let why = format!(
                "rule declared on schema that does not support validation rules type: '{kind}' x-kubernetes-preserve-unknown-fields: '{open}'"
            );
            return self.errors.invalid(path, kind, why);
        };
        let count = place.bound.unwrap_or_else(|| (MAX_SIZE - 2) / (declared.min_bytes + 1));
        let mut list = Vec::new();
        for (index, raw) in view.list(KEYWORD).iter().enumerate() {
            let path = format!("{path}[{index}]");
            let Some(view) = View::of(raw) else { continue };
            list.extend(self.rule(view, raw, declared, place, count, node, &path));
        }
        node.has_rules = true;
        node.rules = Some(Box::new(Rules { decl: declared.decl.clone(), list }));
    }

    #[expect(clippy::too_many_arguments, reason = "one call site that has them all at hand")]
    fn rule(
        &mut self,
        view: View<'_>,
        raw: &Value,
        declared: &Declared,
        place: Place<'_>,
        count: u64,
        node: &Node,
        path: &str,
    ) -> Option<Rule> {
        let optional_old = view.flag("optionalOldSelf");
        let old = if optional_old { Decl::optional(declared.decl.clone()) } else { declared.decl.clone() };
        let variables = [("self", declared.decl.clone()), ("oldSelf", old)];
        let text = view.text("rule").trim();
        let place_of_rule = format!("{path}.rule");
        if self.memory > PATTERN_MEMORY {
            self.errors.forbidden(place_of_rule, "the schema's regular expressions are too large together");
            return None;
        }
        let program = match cel::compile(text, &variables) {
            Ok(program) if *program.result() == Type::Bool => program,
            Ok(_) => {
                self.errors.invalid(place_of_rule, raw.clone(), "cel expression must evaluate to a bool");
                return None;
            }
            Err(error) => {
                self.errors.invalid(place_of_rule, raw.clone(), format!("compilation failed: {error}"));
                return None;
            }
        };
        self.charge(&program, count, place_of_rule.as_str(), "estimated rule cost");
        let message_program = self.message(view, raw, &variables, count, path);
        if program.uses("oldSelf") {
            if let Some(apart) = place.apart {
                let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {apart}");
                self.errors.invalid(place_of_rule, text, why);
            }
        } else if let Some(flag) = view.get("optionalOldSelf") {
            let why = "may not be set if oldSelf is not used in rule";
            self.errors.invalid(format!("{path}.optionalOldSelf"), flag.clone(), why);
        }
        Some(Rule {
            program,
            text: text.to_owned(),
            message: view.text("message").trim().to_owned(),
            message_program,
            reason: view.text("reason").to_owned(),
            field_path: field_path::normalized(view.text("fieldPath"), node).unwrap_or_default(),
            optional_old,
        })
    }

    fn message(
        &mut self,
        view: View<'_>,
        raw: &Value,
        variables: &[(&str, Decl)],
        count: u64,
        path: &str,
    ) -> Option<Program> {
        let text = view.text("messageExpression").trim();
        if text.is_empty() {
            return None;
        }
        let place = format!("{path}.messageExpression");
        match cel::compile(text, variables) {
            Ok(program) if *program.result() == Type::String => {
                self.charge(&program, count, &place, "estimated messageExpression cost");
                return Some(program);
            }
            Ok(_) => self.errors.invalid(place, raw.clone(), "messageExpression must evaluate to a string"),
            Err(error) => {
                let why = format!("messageExpression compilation failed: {error}");
                self.errors.invalid(place, raw.clone(), why);
            }
        }
        None
    }

    fn charge(&mut self, program: &Program, count: u64, place: &str, name: &str) {
        self.memory += program.regex_memory();
        let cost = program.estimated_cost().saturating_mul(count);
        if cost > RULE_COST {
            self.errors.forbidden(place, over_budget(name, cost, RULE_COST));
        }
        self.total = self.total.saturating_add(cost);
        self.expensive.push((cost, place.to_owned()));
    }
}

fn over_budget(name: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        f if f > 100.0 => "more than 100x".to_owned(),
        f if f < 1.5 => format!("{f:.6}x"),
        f => format!("{f:.1}x"),
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
