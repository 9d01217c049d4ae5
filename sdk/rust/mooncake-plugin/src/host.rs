use serde_json::{Map, Value};
use std::time::SystemTime;
use tokio::sync::watch;

/// The importance of a message in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
#[allow(missing_docs)]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    fn name(self) -> &'static str {
        ["DEBUG", "INFO", "WARN", "ERROR"][self as usize]
    }
}

/// A state of the plugin with its reason, empty for ok.
#[derive(Clone)]
pub(crate) struct Health {
    pub state: &'static str,
    pub reason: String,
}

/// What a plugin gets from the program that it runs in. Cheap to clone, usable on any thread.
#[derive(Clone)]
pub struct Host {
    level: Level,
    health: watch::Sender<Health>,
}

/// The host cuts longer lines.
const MAX_LINE: usize = 15 << 10;

impl Host {
    pub(crate) fn new(level: &str) -> Host {
        let all = [Level::Debug, Level::Info, Level::Warn, Level::Error];
        let level = all.into_iter().find(|l| l.name() == level).unwrap_or(Level::Info);
        Host { level, health: watch::Sender::new(Health { state: "available", reason: String::new() }) }
    }

    /// Writes a line to the log, with attributes: `host.log(Level::Info, "ready", [("path", path.into())])`.
    pub fn log<const N: usize>(&self, level: Level, text: &str, attributes: [(&str, Value); N]) {
        if level < self.level {
            return;
        }
        let mut line = Map::new();
        let now = prost_types::Timestamp::from(SystemTime::now()).to_string();
        line.insert("time".into(), now.into());
        line.insert("level".into(), level.name().into());
        line.insert("msg".into(), text.into());
        line.extend(attributes.map(|(key, value)| (key.to_owned(), value)));
        let mut text = Value::Object(line).to_string();
        text.truncate(text.floor_char_boundary(MAX_LINE));
        eprintln!("{text}");
    }

    /// Tells the host that the plugin works with limits, or `None` that it works fully again.
    pub fn degraded(&self, reason: Option<&str>) {
        match reason {
            Some(r) => self.report("degraded", r),
            None => self.report("ok", ""),
        }
    }

    pub(crate) fn report(&self, state: &'static str, reason: &str) {
        self.health.send_replace(Health { state, reason: reason.to_owned() });
    }

    /// Becomes ok, unless the plugin reported its own health while it started.
    pub(crate) fn started(&self) {
        self.health.send_if_modified(|h| {
            let starting = h.state == "starting";
            if starting {
                h.state = "ok";
            }
            starting
        });
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }
}
