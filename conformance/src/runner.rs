//! Runs the cases of a suite one after the other against one cluster, names each, and counts: the last line is the one
//! that a test runner prints. A case that fails does not stop the others.

use std::time::Instant;

/// One case: what it shows, and the code that shows it.
pub struct Case<C> {
    pub name: &'static str,
    pub run: fn(&C) -> anyhow::Result<()>,
}

/// `case!(path::to::function)`: the case is named as its function.
#[macro_export]
macro_rules! case {
    ($($path:ident)::+) => {
        $crate::runner::Case { name: stringify!($($path)::+), run: $($path)::+ }
    };
}

/// Runs the cases whose name contains a word of the command line, or all if it has none. True when none failed and one ran.
#[expect(clippy::disallowed_methods, reason = "a person wants to see how long each case took")]
pub fn run<C>(context: &C, cases: &[Case<C>], on_failure: impl Fn(&C)) -> bool {
    let words: Vec<_> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    let chosen: Vec<_> = cases.iter().filter(|case| wanted(&case.name.replace(' ', ""))).collect();
    println!("\nrunning {} tests", chosen.len());
    let start = Instant::now();
    let mut failed = Vec::new();
    for case in &chosen {
        let name = case.name.replace(' ', "");
        let before = Instant::now();
        match (case.run)(context) {
            Ok(()) => println!("test {name} ... ok ({:.1} s)", before.elapsed().as_secs_f64()),
            Err(error) => {
                println!("test {name} ... FAILED\n{error:?}\n");
                on_failure(context);
                failed.push(name);
            }
        }
    }
    for name in &failed {
        println!("failed: {name}");
    }
    let word = if failed.is_empty() { "ok" } else { "FAILED" };
    let passed = chosen.len() - failed.len();
    let all = cases.len() - chosen.len();
    println!(
        "\ntest result: {word}. {passed} passed; {} failed; 0 ignored; 0 measured; {all} filtered out; finished in {:.2}s\n",
        failed.len(),
        start.elapsed().as_secs_f64()
    );
    failed.is_empty() && passed > 0
}
