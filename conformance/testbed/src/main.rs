//! The `testbed` program: which behaviour a container shows, chosen by its first argument. It never talks to the API.
//!
//! The same file is also the `pause` image's `/pause`: called by that name it only waits.

mod dns;
mod fetch;
mod server;
mod signals;

use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "\
testbed: small behaviours for demo and test containers

  testbed serve [--port 8080]     answer HTTP; see / for its paths
  testbed task [--seconds 1]      print progress, then exit 0
  testbed sleep [SECONDS]         wait (for ever without a number); SIGTERM ends it
  testbed exit CODE [SECONDS]     exit with CODE, after SECONDS
  testbed eat MEBIBYTES           allocate and touch memory, then wait
  testbed burn SECONDS            keep one CPU busy
  testbed fetch URL [TIMEOUT_S]   GET an http:// URL by name, print the body; exit 1 on failure
  testbed resolve NAME            print the IPv4 addresses of NAME, using /etc/resolv.conf
  testbed echo WORD...            print the words
  testbed env                     print the environment
  testbed cat [FILE]              copy FILE, or standard input, to standard output
  testbed touch FILE | rm FILE    make or remove a file
  testbed stubborn                ignore SIGTERM
  testbed pause                   wait for SIGTERM or SIGINT
";

fn main() -> ExitCode {
    let mut arguments = std::env::args();
    let called = arguments.next().unwrap_or_default();
    let mut rest: Vec<String> = arguments.collect();
    if called.ends_with("pause") {
        rest.insert(0, "pause".to_owned());
    }
    match run(&rest) {
        Ok(code) => ExitCode::from(code),
        Err(message) => {
            eprintln!("testbed: {message}");
            ExitCode::from(1)
        }
    }
}

fn run(arguments: &[String]) -> Result<u8, String> {
    let command = arguments.first().map(String::as_str).unwrap_or("help");
    let rest = arguments.get(1..).unwrap_or_default();
    if command != "stubborn" {
        signals::exit_on_terminate();
    }
    match command {
        "serve" => server::serve(number(option(rest, "--port"), 8080)?),
        "task" => task(number(option(rest, "--seconds"), 1)?),
        "sleep" => sleep(rest.first()),
        "exit" => {
            wait(number(rest.get(1).map(String::as_str), 0)?);
            return number(rest.first().map(String::as_str), 1);
        }
        "eat" => eat(number(rest.first().map(String::as_str), 64)?),
        "burn" => burn(number(rest.first().map(String::as_str), 10)?),
        "fetch" => print_out(&fetch::get(word(rest, 0, "a URL")?, number(rest.get(1).map(String::as_str), 5)?)?),
        "resolve" => resolve(word(rest, 0, "a name")?),
        "echo" => print_out(format!("{}\n", rest.join(" ")).as_bytes()),
        "env" => std::env::vars().try_for_each(|(name, value)| print_out(format!("{name}={value}\n").as_bytes())),
        "cat" => cat(rest.first()),
        "touch" => std::fs::write(word(rest, 0, "a file")?, b"").map_err(|error| error.to_string()),
        "rm" => std::fs::remove_file(word(rest, 0, "a file")?).map_err(|error| error.to_string()),
        "stubborn" => {
            signals::ignore_terminate();
            forever()
        }
        "pause" => forever(),
        "help" | "--help" | "-h" => print_out(USAGE.as_bytes()),
        other => Err(format!("unknown command {other:?}\n\n{USAGE}")),
    }?;
    Ok(0)
}

fn option<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
    let at = arguments.iter().position(|argument| argument == name)?;
    arguments.get(at + 1).map(String::as_str)
}

fn number<T: std::str::FromStr>(text: Option<&str>, default: T) -> Result<T, String> {
    match text {
        None => Ok(default),
        Some(text) => text.parse().map_err(|_| format!("{text:?} is not a number in range")),
    }
}

fn word<'a>(arguments: &'a [String], at: usize, what: &str) -> Result<&'a str, String> {
    arguments.get(at).map(String::as_str).ok_or_else(|| format!("{what} is missing"))
}

fn print_out(bytes: &[u8]) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| error.to_string())
}

#[expect(clippy::disallowed_methods, reason = "the container's whole behaviour is to wait")]
fn wait(seconds: u64) {
    std::thread::sleep(Duration::from_secs(seconds));
}

fn forever() -> Result<(), String> {
    loop {
        wait(3600);
    }
}

fn sleep(seconds: Option<&String>) -> Result<(), String> {
    match seconds {
        None => forever(),
        Some(text) => {
            wait(number(Some(text), 0)?);
            Ok(())
        }
    }
}

fn task(seconds: u64) -> Result<(), String> {
    let index = std::env::var("JOB_COMPLETION_INDEX").unwrap_or_else(|_| "-".to_owned());
    for second in 0..seconds {
        print_out(format!("task {index}: {second} of {seconds} s\n").as_bytes())?;
        wait(1);
    }
    print_out(format!("task {index}: done\n").as_bytes())
}

fn eat(mebibytes: usize) -> Result<(), String> {
    let mut blocks = Vec::new();
    for block in 0..mebibytes {
        blocks.push(vec![(block % 251) as u8 + 1; 1 << 20]);
    }
    print_out(format!("holding {} MiB\n", blocks.len()).as_bytes())?;
    let kept = std::hint::black_box(blocks);
    forever()?;
    drop(kept);
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "burning for a time needs the time")]
fn burn(seconds: u64) -> Result<(), String> {
    let end = std::time::Instant::now() + Duration::from_secs(seconds);
    let mut value = 0u64;
    while std::time::Instant::now() < end {
        for step in 0..10_000u64 {
            value = std::hint::black_box(value.wrapping_mul(31).wrapping_add(step));
        }
    }
    print_out(format!("{value}\n").as_bytes())
}

fn resolve(name: &str) -> Result<(), String> {
    for address in dns::lookup(name)? {
        print_out(format!("{address}\n").as_bytes())?;
    }
    Ok(())
}

fn cat(file: Option<&String>) -> Result<(), String> {
    let mut input: Box<dyn Read> = match file {
        None => Box::new(std::io::stdin()),
        Some(path) => Box::new(std::fs::File::open(path).map_err(|error| format!("{path}: {error}"))?),
    };
    let mut buffer = [0u8; 8192];
    loop {
        match input.read(&mut buffer).map_err(|error| error.to_string())? {
            0 => return Ok(()),
            read => print_out(&buffer[..read])?,
        }
    }
}
