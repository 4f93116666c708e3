//! Whether an object keeps to the rules of its schema. It decides rule by rule within one budget; what did not change is
//! forgiven, unless the rule compares with the old value.

use super::expressions::{Rule, Rules};
use super::node::Node;
use super::validate::{NOWHERE, Previous};
use crate::cel::{CALL_LIMIT, Error, Val};
use crate::schema::ListType;
use crate::status::{FieldErrorKind, FieldErrors};
use serde_json::Value;

/// What all rules may cost for one object.
const OBJECT_LIMIT: u64 = 10_000_000;
const MAX_MESSAGE: usize = 5 * 1024;

/// Asks all rules, if the object is valid enough to be asked about.
pub(super) fn check(new: &Value, old: Option<&Value>, root: &Node, errors: &mut FieldErrors) {
    if !root.has_rules {
        return;
    }
    let blocking = |kind| {
        matches!(
            kind,
            FieldErrorKind::NotSupported
                | FieldErrorKind::Required
                | FieldErrorKind::TooLong
                | FieldErrorKind::TooMany
                | FieldErrorKind::TypeInvalid
        )
    };
    if errors.iter().any(|error| blocking(error.kind)) {
        let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        return errors.invalid(NOWHERE, Value::Null, why);
    }
    let mut asking = Asking { budget: OBJECT_LIMIT, errors };
    // An error here only says that the budget is used up; the message is already among the others.
    let _ = asking.value(new, Before { value: old, same_around: false }, root, &mut String::new());
}

/// What was there before.
#[derive(Clone, Copy)]
struct Before<'v> {
    value: Option<&'v Value>,
    /// Where items cannot be told apart: whether the whole list is as it was.
    same_around: bool,
}

impl<'v> Before<'v> {
    fn inside(self, value: Option<&'v Value>) -> Before<'v> {
        Before { value, ..self }
    }

    fn is_same(self, new: &Value) -> bool {
        self.value.map_or(self.same_around, |old| old == new)
    }
}

/// No further rules are asked.
struct Spent;

struct Asking<'e> {
    budget: u64,
    errors: &'e mut FieldErrors,
}

impl Asking<'_> {
    fn value<'v>(
        &mut self,
        new: &'v Value,
        before: Before<'v>,
        node: &'v Node,
        path: &mut String,
    ) -> Result<(), Spent> {
        if !node.has_rules || new.is_null() {
            return Ok(());
        }
        if let Some(rules) = &node.rules {
            self.rules(new, before, node, rules, path)?;
        }
        let length = path.len();
        match new {
            Value::Array(items) => {
                let Some(child) = node.items.as_deref() else { return Ok(()) };
                let previous = Previous::of(before.value, node);
                // A new member or item has nothing around it that is as it was, but for lists without keys.
                let apart = node.list != Some(ListType::Map);
                let before = Before { same_around: apart && before.is_same(new), ..before };
                for (index, item) in items.iter().enumerate() {
                    path.push_str(&format!("[{index}]"));
                    self.value(item, before.inside(previous.of_item(item)), child, path)?;
                    path.truncate(length);
                }
            }
            Value::Object(members) => {
                for (name, member) in members {
                    let Some(Some(child)) = node.member(name) else { continue };
                    match node.properties.contains_key(name) {
                        true if path.is_empty() => path.push_str(name),
                        true => path.extend([".", name]),
                        false => path.extend(["[", name, "]"]),
                    }
                    let old = before.value.and_then(|old| old.get(name));
                    self.value(member, before.inside(old), child, path)?;
                    path.truncate(length);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn rules<'v>(
        &mut self,
        new: &'v Value,
        before: Before<'v>,
        node: &Node,
        rules: &'v Rules,
        path: &str,
    ) -> Result<(), Spent> {
        let place = if path.is_empty() { NOWHERE } else { path };
        let kind = node.kind.map_or("", |kind| kind.word());
        for rule in &rules.list {
            if rule.uses_old() && before.value.is_none() && !rule.optional_old {
                continue;
            }
            let variables = variables(new, before.value, rules, rule);
            let outcome = rule.program.run(variables.clone(), CALL_LIMIT.min(self.budget));
            let Some(left) = self.budget.checked_sub(outcome.cost).filter(|left| *left > 0) else {
                return self.spent(place, kind);
            };
            self.budget = left;
            match outcome.result {
                Ok(Val::Bool(true)) => {}
                Ok(_) if !rule.uses_old() && before.is_same(new) => {}
                Ok(_) => {
                    let message = self.message(rule, variables, place, kind)?;
                    self.refuse(rule, path, kind, &message);
                }
                Err(Error::TooExpensive) => {
                    let why = format!(
                        "'{}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                        Error::TooExpensive,
                        told(rule)
                    );
                    self.errors.invalid(place, kind, why);
                    return Err(Spent);
                }
                Err(Error::Failed(why)) if why.starts_with("no such overload") => {
                    let why = format!(
                        "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                        told(rule)
                    );
                    self.errors.invalid(place, kind, why);
                }
                Err(Error::Failed(why)) => {
                    self.errors.invalid(place, kind, format!("{why} evaluating rule: {}", told(rule)))
                }
            }
        }
        Ok(())
    }

    fn spent<T>(&mut self, place: &str, kind: &str) -> Result<T, Spent> {
        let why = "validation failed due to running out of cost budget, no further validation rules will be run";
        self.errors.invalid(place, kind, why);
        Err(Spent)
    }

    /// The message that the rule's own expression makes, or the one that it has.
    fn message<'v>(
        &mut self,
        rule: &'v Rule,
        variables: Vec<(&'v str, Val<'v>)>,
        place: &str,
        kind: &str,
    ) -> Result<String, Spent> {
        let default =
            || if rule.message.is_empty() { format!("failed rule: {}", rule.text) } else { rule.message.clone() };
        let Some(program) = &rule.message_program else { return Ok(default()) };
        let outcome = program.run(variables, CALL_LIMIT.min(self.budget));
        self.budget = self.budget.saturating_sub(outcome.cost);
        if self.budget == 0 || outcome.result.as_ref().is_err_and(|error| *error == Error::TooExpensive) {
            let why = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
            self.errors.invalid(place, kind, why);
            return Err(Spent);
        }
        let text = outcome.result.ok().and_then(|value| value.as_text().map(|text| text.trim().to_owned()));
        let fits = |text: &String| !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
        Ok(text.filter(fits).unwrap_or_else(default))
    }

    fn refuse(&mut self, rule: &Rule, path: &str, kind: &str, message: &str) {
        let place = match (path.is_empty(), rule.field_path.is_empty()) {
            (true, true) => NOWHERE.to_owned(),
            (true, false) => rule.field_path.clone(),
            (false, true) => path.to_owned(),
            (false, false) if rule.field_path.starts_with('[') => format!("{path}{}", rule.field_path),
            (false, false) => format!("{path}.{}", rule.field_path),
        };
        match rule.reason.as_str() {
            "FieldValueForbidden" => self.errors.forbidden(place, message),
            "FieldValueRequired" => self.errors.required_because(place, message),
            "FieldValueDuplicate" => self.errors.duplicate(place, kind),
            _ => self.errors.invalid(place, kind, message),
        }
    }
}

/// What errors call the rule.
fn told(rule: &Rule) -> &str {
    if rule.message.is_empty() { &rule.text } else { &rule.message }
}

fn variables<'v>(new: &'v Value, old: Option<&'v Value>, rules: &'v Rules, rule: &Rule) -> Vec<(&'v str, Val<'v>)> {
    let mut variables = vec![("self", Val::of(new, &rules.decl))];
    let old = old.filter(|old| !old.is_null()).map(|old| Val::of(old, &rules.decl));
    match (old, rule.optional_old) {
        (Some(old), true) => variables.push(("oldSelf", Val::some(old))),
        (None, true) => variables.push(("oldSelf", Val::Optional(None))),
        (Some(old), false) => variables.push(("oldSelf", old)),
        (None, false) => {}
    }
    variables
}
