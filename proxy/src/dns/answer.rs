//! One question → what is answered for it. Pure; what the world outside the cluster says is fetched by the caller.

use super::zone::{Data, Zone};
use hickory_proto::rr::RecordType;

/// Names may point at names this often.
const MAX_ALIASES: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The name exists; without records, it has none of this type.
    Found,
    NoSuchName,
    /// Somebody else knows.
    Forward,
}

/// The answer section as (name, data) pairs, in order; `Cname`s lead to what follows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub outcome: Outcome,
    pub records: Vec<(String, Data)>,
    /// Addresses of the targets in `records`.
    pub additional: Vec<(String, Data)>,
    /// With `Forward`: the name to ask others for; an alias's target, or the question's name itself.
    pub remaining: String,
}

/// `name` is lower case without the last dot.
pub fn answer(zone: &Zone, name: &str, wanted: RecordType) -> Answer {
    let mut answer =
        Answer { outcome: Outcome::Found, records: vec![], additional: vec![], remaining: name.to_owned() };
    for _ in 0..MAX_ALIASES {
        let name = answer.remaining.clone();
        if !zone.is_ours(&name) {
            answer.outcome = Outcome::Forward;
            return answer;
        }
        let Some(data) = zone.find(&name) else {
            answer.outcome = Outcome::NoSuchName;
            return answer;
        };
        let alias =
            data.iter().find_map(|data| if let Data::Cname(target) = data { Some(target.clone()) } else { None });
        match alias {
            Some(target) if wanted != RecordType::CNAME => {
                answer.records.push((name, Data::Cname(target.clone())));
                answer.remaining = target;
            }
            _ => {
                let matching = data.into_iter().filter(|data| wanted == RecordType::ANY || record_type(data) == wanted);
                answer.records.extend(matching.map(|data| (name.clone(), data)));
                answer.additional = addresses_of_targets(zone, &answer.records);
                return answer;
            }
        }
    }
    answer
}

/// Clients of SRV records need the addresses next; sending them along saves the question.
fn addresses_of_targets(zone: &Zone, records: &[(String, Data)]) -> Vec<(String, Data)> {
    let mut additional: Vec<(String, Data)> = vec![];
    for (_, data) in records {
        if let Data::Srv { target, .. } = data {
            let addresses = zone.find(target).unwrap_or_default();
            let addresses = addresses.into_iter().filter(|data| matches!(data, Data::A(_) | Data::Aaaa(_)));
            additional.extend(addresses.map(|data| (target.clone(), data)));
        }
    }
    additional.sort();
    additional.dedup();
    additional
}

pub fn record_type(data: &Data) -> RecordType {
    match data {
        Data::A(_) => RecordType::A,
        Data::Aaaa(_) => RecordType::AAAA,
        Data::Srv { .. } => RecordType::SRV,
        Data::Cname(_) => RecordType::CNAME,
        Data::Ptr(_) => RecordType::PTR,
        Data::Txt(_) => RecordType::TXT,
    }
}

#[cfg(test)]
mod tests;
