//! A catalogue of what a Kubernetes API does, each behaviour in words and as steps, and a runner that asks any cluster.
//!
//! It is black-box: it knows the API and nothing of the server behind it. The pure part reads files ([`behaviour`],
//! [`template`], [`step`]) and compares ([`path`], [`pattern`], [`expect`], [`report`]); the rest talks to the server.

pub mod behaviour;
pub mod connect;
pub mod exchange;
pub mod expect;
pub mod kubeconfig;
pub mod path;
pub mod pattern;
pub mod promote;
pub mod report;
pub mod run;
pub mod special;
pub mod start;
pub mod step;
pub mod template;
pub mod watching;

mod files {
    include!(concat!(env!("OUT_DIR"), "/files.rs"));
}

/// The catalogue's files as they were when the program was built: paths below its folder, and texts.
pub fn built_in() -> &'static [(&'static str, &'static str)] {
    files::FILES
}

#[cfg(test)]
mod tests {
    use crate::behaviour::State;

    #[test]
    fn the_catalogue_can_be_read_and_keeps_its_size() {
        let catalogue =
            crate::behaviour::read(crate::built_in().iter().copied()).unwrap_or_else(|error| panic!("{error}"));
        let passing = catalogue.behaviours.iter().filter(|behaviour| behaviour.state == State::Passes).count();
        assert!(passing >= 600, "{passing} behaviours are said to pass; there were 600");
    }
}
