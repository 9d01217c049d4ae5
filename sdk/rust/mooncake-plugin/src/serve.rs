//! The main function of a plugin program.

use crate::error::{Code, Error, Result};
use crate::host::{Host, Level};
use crate::lifecycle::{Component, Lifecycle, Shared};
use crate::process;
use crate::proto::mooncake::plugin::v1::lifecycle_service_server::LifecycleServiceServer;
use crate::proto::plugin::Empty;
use crate::proto::plugin::grpc_controller_server::{GrpcController, GrpcControllerServer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::exit;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

/// The settings of a plugin: a struct with defaults, `#[serde(default, deny_unknown_fields)]`. Its fields and
/// defaults are those of the schema in the manifest.
pub trait Settings: Default + Serialize + DeserializeOwned + Send + Sync + 'static {}
impl<T: Default + Serialize + DeserializeOwned + Send + Sync + 'static> Settings for T {}

const MAX_CONFIG: usize = 1 << 20;
const EXIT_FAILURE: i32 = 1;
const EXIT_USAGE: i32 = 2;
/// How long calls in progress have when the host ends the process, and then the object.
const STOP: Duration = Duration::from_secs(1);
/// How long a connection has for its handshake, and how many may wait to be served.
const HANDSHAKE: Duration = Duration::from_secs(10);
const BACKLOG: usize = 16;

/// What the program serves.
pub(crate) struct Plugin<C> {
    pub manifest: &'static str,
    /// The JSON Schema of the settings that the program accepts.
    pub accepts: Value,
    about: Value,
    make: Make<C>,
}

type Make<C> = Box<dyn Fn(&[u8]) -> Result<C> + Send + Sync>;

impl<C> Plugin<C> {
    /// Describes a plugin. The text of an error says what in the manifest is wrong.
    pub fn new<S: Settings>(
        manifest: &'static str,
        kind: &str,
        create: impl Fn(S) -> std::result::Result<C, String> + Send + Sync + 'static,
    ) -> std::result::Result<Self, String> {
        let about: Value =
            serde_json::from_str(manifest).map_err(|e| format!("the manifest is not JSON: {e}"))?;
        if about["mooncake_plugin_manifest"] != 1 || about["kind"] != kind {
            return Err(format!("the manifest is not one of format 1 and kind {kind}"));
        }
        let id = format!("{kind}/{}", text(&about["name"]));
        compare(&about["config_schema"]["properties"], &S::default(), &id)?;
        let accepts = accepts(&S::default());
        let make = Box::new(move |settings: &[u8]| {
            let decoded = decode(settings).and_then(&create);
            decoded.map_err(|e| Error::new(Code::InvalidParams, format!("{id}: configuration: {e}")))
        });
        let plugin = Plugin { manifest, accepts, about, make };
        if plugin.api().is_empty() {
            return Err("the manifest does not name contract version 1".into());
        }
        Ok(plugin)
    }

    pub fn id(&self) -> String {
        format!("{}/{}", text(&self.about["kind"]), text(&self.about["name"]))
    }

    fn binary(&self) -> String {
        format!("mooncake-plugin-{}-{}", text(&self.about["kind"]), text(&self.about["name"]))
    }

    /// The contract versions that both the manifest and this library name.
    pub fn api(&self) -> Vec<u32> {
        let named = self.about["api"].as_array().map(Vec::as_slice).unwrap_or_default();
        if named.iter().any(|v| *v == 1) { vec![1] } else { Vec::new() }
    }

    pub fn create(&self, settings: &[u8]) -> Result<C> {
        (self.make)(settings)
    }

    /// Answers the flags: the text and the exit code.
    fn answer(&self, args: &[String]) -> (String, i32) {
        let (id, binary) = (self.id(), self.binary());
        let version = text(&self.about["version"]);
        let summary = text(&self.about["summary"]);
        match args {
            [] => {
                let text = format!(
                    "{binary} is a plugin of Mooncake, {id} {version}: {summary}.\n\
                     It is started by mooncake and does nothing when it is run by hand.\n\
                     Put it into a plugin folder and see what mooncake finds there:\n\
                     \x20 mooncake plugins list --plugin-dir DIR\n\
                     Try --help for what it can tell about itself."
                );
                (text, EXIT_USAGE)
            }
            [flag] if flag == "--manifest" => (self.manifest.trim_end().to_owned(), 0),
            [flag] if flag == "--version" => (format!("{id} {version} (contract {:?})", self.api()), 0),
            [flag] if flag == "--help" || flag == "-h" => {
                let text = format!(
                    "{binary} is a plugin of Mooncake, {id} {version}: {summary}.\n\nUsage:\n  \
                     {binary} --manifest   print the manifest as JSON\n  \
                     {binary} --version    print the version\n  \
                     {binary} --help       print this text\n\n\
                     mooncake starts it from a plugin folder (plugins.dirs, --plugin-dir)."
                );
                (text, 0)
            }
            _ => (format!("{binary}: unknown arguments {args:?}; try --help"), EXIT_USAGE),
        }
    }
}

fn text(v: &Value) -> &str {
    v.as_str().unwrap_or_default()
}

/// Describes the settings by their names, types and defaults.
fn accepts<S: Settings>(defaults: &S) -> Value {
    let values = serde_json::to_value(defaults).unwrap_or_default();
    let properties: serde_json::Map<_, _> = values
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, d)| match type_of(d) {
            Some(kind) => (name.clone(), json!({"type": kind, "default": d})),
            None => (name.clone(), json!({})),
        })
        .collect();
    json!({"type": "object", "additionalProperties": false, "properties": properties})
}

fn type_of(default: &Value) -> Option<&'static str> {
    Some(match default {
        Value::Null => return None,
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    })
}

/// Compares the schema of the manifest with the defaults of the settings.
fn compare<S: Settings>(schema: &Value, defaults: &S, id: &str) -> std::result::Result<(), String> {
    let ours = serde_json::to_value(defaults).map_err(|e| format!("{id}: the defaults: {e}"))?;
    let empty = serde_json::Map::new();
    let (schema, ours) = (schema.as_object().unwrap_or(&empty), ours.as_object().unwrap_or(&empty));
    for name in schema.keys().chain(ours.keys()) {
        match (schema.get(name), ours.get(name)) {
            (Some(s), Some(d)) if s.get("default").is_none_or(|s| s == d) => {}
            (Some(s), Some(d)) => {
                let said = &s["default"];
                return Err(format!("{id}: the default of {name:?} is {d}, the manifest says {said}"));
            }
            (s, _) => {
                let who = if s.is_some() { "manifest" } else { "program" };
                return Err(format!("{id}: only the {who} has the setting {name:?}"));
            }
        }
    }
    Ok(())
}

/// Decodes settings strictly over the defaults.
fn decode<S: Settings>(settings: &[u8]) -> std::result::Result<S, String> {
    if settings.len() > MAX_CONFIG {
        return Err(format!("{} bytes of settings, at most {MAX_CONFIG} are allowed", settings.len()));
    }
    if settings.trim_ascii().is_empty() {
        return Ok(S::default());
    }
    serde_json::from_slice(settings).map_err(|e| e.to_string())
}

/// Answers the flags, or serves until the host ends the conversation.
pub(crate) fn main<C: Component, S: Settings>(
    manifest: &'static str,
    kind: &str,
    create: impl Fn(S) -> std::result::Result<C, String> + Send + Sync + 'static,
    routes: fn(Arc<Shared<C>>, &mut tonic::service::RoutesBuilder),
) -> ! {
    let plugin = Plugin::new(manifest, kind, create).unwrap_or_else(|e| {
        eprintln!("{e}");
        exit(EXIT_FAILURE)
    });
    let args: Vec<String> = std::env::args().skip(1).collect();
    if !args.is_empty() || process::variable(process::COOKIE.0) != process::COOKIE.1 {
        let (text, code) = plugin.answer(&args);
        match code {
            0 => println!("{text}"),
            _ => eprintln!("{text}"),
        }
        exit(code)
    }
    let host = Host::new(&process::variable(process::LOG_LEVEL));
    let log = host.clone();
    std::panic::set_hook(Box::new(move |info| {
        log.log(Level::Error, "the plugin ends: it panicked", [("panic", info.to_string().into())]);
        exit(EXIT_FAILURE)
    }));
    let served = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Error::new(Code::Internal, format!("start the runtime: {e}")))
        .and_then(|r| r.block_on(serve(plugin, host.clone(), routes)));
    if let Err(e) = served {
        host.log(Level::Error, &e.text, []);
        exit(EXIT_FAILURE)
    }
    exit(0)
}

async fn serve<C: Component>(
    plugin: Plugin<C>,
    host: Host,
    routes: fn(Arc<Shared<C>>, &mut tonic::service::RoutesBuilder),
) -> Result<()> {
    let failed =
        |what: &'static str| move |e: std::io::Error| Error::new(Code::Internal, format!("{what}: {e}"));
    let mut stdout = process::keep_stdout().map_err(failed("keep standard output"))?;
    process::watch_host()?;
    let version = process::negotiate(&process::variable(process::VERSIONS), &plugin.api());
    let cert = process::variable(process::CLIENT_CERT);
    if cert.is_empty() {
        let text = "the host sent no certificate; this plugin does not serve without one";
        return Err(Error::new(Code::NotSupported, text));
    }
    let (tls, ours) = process::tls(&cert)?;

    let folder = PathBuf::from(process::variable(process::SOCKETS));
    let path = folder.join("plugin.sock");
    let listener = UnixListener::bind(&path).map_err(failed("listen on a socket of the host's folder"))?;
    let (connections, incoming) = mpsc::channel(BACKLOG);
    tokio::spawn(accept(listener, TlsAcceptor::from(Arc::new(tls)), connections));

    let shared = Shared::new(plugin, host);
    let done = Arc::new(Notify::new());
    let (health, checks) = tonic_health::server::health_reporter();
    health.set_service_status("plugin", tonic_health::ServingStatus::Serving).await;
    let mut builder = Routes::builder();
    builder
        .add_service(LifecycleServiceServer::new(Lifecycle(shared.clone())))
        .add_service(GrpcControllerServer::new(Controller(done.clone())))
        .add_service(checks);
    routes(shared.clone(), &mut builder);
    let drain = Arc::new(Notify::new());
    let draining = drain.clone();
    let served = tokio::spawn(
        tonic::transport::Server::builder().add_routes(builder.routes()).serve_with_incoming_shutdown(
            ReceiverStream::new(incoming),
            async move {
                draining.notified().await;
            },
        ),
    );
    writeln!(stdout, "1|{version}|unix|{}|grpc|{ours}", path.display())
        .and_then(|()| stdout.flush())
        .map_err(failed("say where the plugin listens"))?;

    done.notified().await;
    drain.notify_one();
    let _ = tokio::time::timeout(STOP, served).await; // A watcher of health has a call open for ever.
    let _ = std::fs::remove_file(&path);
    shared.stop(STOP).await
}

/// Accepts the connections of the host.
async fn accept(
    listener: UnixListener,
    tls: TlsAcceptor,
    connections: mpsc::Sender<std::io::Result<TlsStream<UnixStream>>>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, connections) = (tls.clone(), connections.clone());
        tokio::spawn(async move {
            if let Ok(Ok(secure)) = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                let _ = connections.send(Ok(secure)).await;
            }
        });
    }
}

/// Ends the process when the host says so.
struct Controller(Arc<Notify>);

#[tonic::async_trait]
impl GrpcController for Controller {
    async fn shutdown(&self, _: Request<Empty>) -> std::result::Result<Response<Empty>, Status> {
        self.0.notify_one();
        Ok(Response::new(Empty {}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Config {
        count: u64,
    }

    impl Default for Config {
        fn default() -> Self {
            Config { count: 7 }
        }
    }

    const MANIFEST: &str = r#"{"mooncake_plugin_manifest":1, "kind":"evict", "name":"x", "api":[1],
        "config_schema":{"properties":{"count":{"default":7}}}}"#;

    fn plugin(manifest: &'static str) -> std::result::Result<Plugin<Config>, String> {
        let valid = |c: Config| if c.count < 100 { Ok(c) } else { Err("count is above 99".into()) };
        Plugin::new(manifest, "evict", valid)
    }

    #[test]
    fn settings() {
        let p = plugin(MANIFEST).expect("a manifest that fits");
        assert_eq!((p.id(), p.binary()), ("evict/x".into(), "mooncake-plugin-evict-x".into()));
        for (text, count) in [("", 7), (" {} ", 7), (r#"{"count":9}"#, 9)] {
            assert_eq!(p.create(text.as_bytes()).expect(text), Config { count });
        }
        let long = " ".repeat(MAX_CONFIG + 1);
        for (text, says) in [
            (r#"{"cuont":1}"#, "unknown field `cuont`, expected `count`"),
            (r#"{"count":true}"#, "invalid type: boolean"),
            (r#"{"count":100}"#, "count is above 99"),
            ("{", "EOF"),
            (&long, "at most"),
        ] {
            let e = p.create(text.as_bytes()).expect_err(text);
            assert_eq!(e.code, Code::InvalidParams);
            assert!(e.text.starts_with("evict/x: configuration: ") && e.text.contains(says), "{}", e.text);
        }
    }

    #[test]
    fn mutated_settings() {
        let p = plugin(MANIFEST).expect("a manifest that fits");
        let mut refused = 0;
        for text in crate::hostile::mutants(br#"{"count": 42}"#, 5000).chain([vec![b'['; MAX_CONFIG]]) {
            match p.create(&text) {
                Ok(c) => assert!(c.count < 100),
                Err(e) => {
                    refused += 1;
                    assert_eq!(e.code, Code::InvalidParams);
                    assert!(e.text.starts_with("evict/x: configuration: "), "{}", e.text);
                }
            }
        }
        assert!(refused > 0 && refused < 5001, "{refused}");
    }

    #[test]
    fn manifests_that_do_not_fit() {
        for (manifest, says) in [
            ("{", "not JSON"),
            (r#"{"mooncake_plugin_manifest":1, "kind":"alloc"}"#, "kind evict"),
            (r#"{"mooncake_plugin_manifest":1, "kind":"evict", "name":"x", "api":[1]}"#, "only the program"),
            (
                r#"{"mooncake_plugin_manifest":1, "kind":"evict", "name":"x", "api":[1],
                    "config_schema":{"properties":{"count":{"default":8}}}}"#,
                "is 7, the manifest says 8",
            ),
            (
                r#"{"mooncake_plugin_manifest":1, "kind":"evict", "name":"x", "api":[9],
                    "config_schema":{"properties":{"count":{}}}}"#,
                "contract version 1",
            ),
        ] {
            let e = plugin(manifest).err().expect(manifest);
            assert!(e.contains(says), "{e}");
        }
    }

    #[test]
    fn flags() {
        let p = plugin(MANIFEST).expect("a manifest that fits");
        let answer = |args: &[&str]| p.answer(&args.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>());
        assert_eq!(answer(&["--manifest"]), (MANIFEST.to_owned(), 0));
        assert_eq!(answer(&["--help"]).1, 0);
        for args in [&[][..], &["--what"], &["--version", "x"]] {
            assert_eq!(answer(args).1, EXIT_USAGE);
        }
    }
}
