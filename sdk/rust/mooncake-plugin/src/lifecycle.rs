//! What every plugin serves, whatever its kind: its lifecycle.

use crate::error::{Code, Error, Result};
use crate::host::Host;
use crate::proto::mooncake::plugin::v1 as wire;
use crate::serve::Plugin;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status};

/// The object of a plugin. Start and Stop may wait.
pub(crate) trait Component: Send + Sync + 'static {
    fn start(&self, host: &Host) -> Result<()>;
    /// Stop comes at any time, also twice and before `start`.
    fn stop(&self, within: Duration) -> Result<()>;
}

/// The one object of this process.
pub(crate) struct Shared<C> {
    plugin: Plugin<C>,
    pub host: Host,
    state: Mutex<State<C>>,
}

struct State<C> {
    component: Option<Arc<C>>,
    started: bool,
}

/// Locks. A panic ends the process, so that nothing is ever poisoned.
pub(crate) fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a call that may wait on a thread for it.
pub(crate) async fn wait<T: Send + 'static>(call: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(call)
        .await
        .unwrap_or_else(|e| Err(Error::new(Code::Internal, format!("a call ended: {e}"))))
}

/// How long a stop may take if the host does not say it.
const STOP: Duration = Duration::from_secs(30);

impl<C: Component> Shared<C> {
    pub fn new(plugin: Plugin<C>, host: Host) -> Arc<Self> {
        let state = Mutex::new(State { component: None, started: false });
        Arc::new(Shared { plugin, host, state })
    }

    /// The object, once it is configured.
    pub fn component(&self) -> Result<Arc<C>> {
        lock(&self.state).component.clone().ok_or_else(|| {
            let text = format!("{}: the plugin is not configured yet", self.plugin.id());
            Error::new(Code::UnavailableInCurrentStatus, text)
        })
    }

    /// Stops the object, if there is one.
    pub async fn stop(&self, within: Duration) -> Result<()> {
        match self.component() {
            Ok(c) => wait(move || c.stop(within)).await,
            Err(_) => Ok(()),
        }
    }

    fn configure(&self, m: &wire::ConfigureRequest) -> Result<()> {
        let op = format!("{}: configure", self.plugin.id());
        let mut state = lock(&self.state);
        if state.component.is_some() {
            let text =
                format!("{op}: the plugin is configured already; a new configuration needs a new process");
            return Err(Error::new(Code::UnavailableInCurrentStatus, text));
        }
        let speaks = self.plugin.api();
        if !speaks.contains(&m.api) {
            let text =
                format!("{op}: the host chose contract version {}, the plugin speaks {speaks:?}", m.api);
            return Err(Error::new(Code::InvalidVersion, text));
        }
        state.component = Some(Arc::new(self.plugin.create(&m.config_json)?));
        Ok(())
    }

    async fn start(&self) -> Result<()> {
        let component = {
            let mut state = lock(&self.state);
            let again = state.started;
            state.started = state.component.is_some();
            state.component.clone().filter(|_| !again)
        };
        let Some(component) = component else {
            let text = format!("{}: start comes once, after configure", self.plugin.id());
            return Err(Error::new(Code::UnavailableInCurrentStatus, text));
        };
        self.host.report("starting", "");
        let host = self.host.clone();
        wait(move || component.start(&host)).await.inspect_err(|e| self.host.report("failed", &e.text))?;
        self.host.started();
        Ok(())
    }
}

/// Serves the lifecycle.
pub(crate) struct Lifecycle<C>(pub Arc<Shared<C>>);

#[tonic::async_trait]
impl<C: Component> wire::lifecycle_service_server::LifecycleService for Lifecycle<C> {
    async fn describe(
        &self,
        _: Request<wire::DescribeRequest>,
    ) -> std::result::Result<Response<wire::DescribeResponse>, Status> {
        let manifest_json = self.0.plugin.manifest.as_bytes().to_vec();
        let settings_json = self.0.plugin.accepts.to_string().into_bytes();
        Ok(Response::new(wire::DescribeResponse { manifest_json, settings_json }))
    }

    async fn configure(
        &self,
        m: Request<wire::ConfigureRequest>,
    ) -> std::result::Result<Response<wire::ConfigureResponse>, Status> {
        self.0.configure(m.get_ref())?;
        Ok(Response::new(wire::ConfigureResponse {}))
    }

    async fn start(
        &self,
        _: Request<wire::StartRequest>,
    ) -> std::result::Result<Response<wire::StartResponse>, Status> {
        self.0.start().await?;
        Ok(Response::new(wire::StartResponse {}))
    }

    async fn stop(
        &self,
        m: Request<wire::StopRequest>,
    ) -> std::result::Result<Response<wire::StopResponse>, Status> {
        let within = limit(m.metadata()).unwrap_or(STOP);
        self.0.stop(within).await?;
        self.0.host.report("stopped", "");
        Ok(Response::new(wire::StopResponse {}))
    }

    type WatchHealthStream =
        Pin<Box<dyn Stream<Item = std::result::Result<wire::WatchHealthResponse, Status>> + Send>>;

    async fn watch_health(
        &self,
        _: Request<wire::WatchHealthRequest>,
    ) -> std::result::Result<Response<Self::WatchHealthStream>, Status> {
        let states = WatchStream::new(self.0.host.watch())
            .map(|h| Ok(wire::WatchHealthResponse { state: h.state.into(), reason: h.reason }));
        Ok(Response::new(Box::pin(states)))
    }
}

/// Whether the time that the host gave a call is over, so that it does not get the answer.
pub(crate) struct Late(Instant, Option<Duration>);

impl Late {
    pub fn of<T>(m: &Request<T>) -> Self {
        Late(Instant::now(), limit(m.metadata()))
    }

    pub fn now(&self) -> bool {
        self.1.is_some_and(|limit| self.0.elapsed() >= limit)
    }
}

/// The most digits of the header grpc-timeout.
const MAX_DIGITS: usize = 8;

/// The time that the host gives a call: the header grpc-timeout.
pub(crate) fn limit(m: &tonic::metadata::MetadataMap) -> Option<Duration> {
    let text = m.get("grpc-timeout")?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if number.len() > MAX_DIGITS {
        return None; // Not gRPC, and a clock could not count so far.
    }
    let n: u64 = number.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(n * 3600),
        "M" => Duration::from_secs(n * 60),
        "S" => Duration::from_secs(n),
        "m" => Duration::from_millis(n),
        "u" => Duration::from_micros(n),
        "n" => Duration::from_nanos(n),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::limit;
    use std::time::{Duration, Instant};
    use tonic::metadata::MetadataMap;

    #[test]
    fn the_time_of_a_call() {
        let said = |text: &str| {
            let mut m = MetadataMap::new();
            m.insert("grpc-timeout", text.parse().expect("a header"));
            limit(&m)
        };
        assert_eq!(said("10S"), Some(Duration::from_secs(10)));
        assert_eq!(said("9999999u"), Some(Duration::from_micros(9_999_999)));
        assert_eq!((said("S"), said("10x"), said("-1S")), (None, None, None));
        let longest = said("99999999H").expect("eight digits");
        assert!(Instant::now().checked_add(longest).is_some(), "a deadline after the longest time");
        assert_eq!((said("100000000S"), said("18446744073709551615H")), (None, None));
        assert_eq!(limit(&MetadataMap::new()), None);
    }
}
