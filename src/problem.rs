//! What a person can put right: one clear line and exit code 2. It never describes a fault of Gantry's own.

use std::fmt;

/// The machine or the command line is not as Gantry needs it. The text says what to do; nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem(String);

impl Problem {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Problem {}

/// The exit code for an error: 2 when the person has to act, 1 for everything else.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    if error.downcast_ref::<Problem>().is_some() || error.downcast_ref::<gantry_inspect::Misused>().is_some() {
        2
    } else {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_exits_with_two() {
        assert_eq!(exit_code(&Problem::new("not root").into()), 2);
        assert_eq!(exit_code(&anyhow::anyhow!("boom")), 1);
        assert_eq!(exit_code(&anyhow::Error::from(Problem::new("x")).context("while starting")), 2);
    }
}
