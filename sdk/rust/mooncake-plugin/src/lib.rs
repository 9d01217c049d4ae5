//! What a plugin of Mooncake needs to be a program of its own.
//!
//! A plugin is a manifest, a struct with its settings, and an object of its kind: an [`evict::Policy`],
//! an [`alloc::Allocator`], a [`tier::Store`] or a [`transport::Transport`]. `evict::serve`, `alloc::serve`,
//! `tier::serve` and `transport::serve` are the whole main function. They speak the protocol of docs/plugins/languages.md: handshake, mutual TLS,
//! lifecycle, health, logs and the calls of the kind.
//!
//! A panic ends the process, with a line in the log: the host starts the next one.

pub mod alloc;
mod error;
pub mod evict;
mod host;
mod lifecycle;
mod memory;
mod path;
mod process;
mod queue;
mod regions;
mod ring;
mod serve;
mod stream;
pub mod tier;
pub mod transport;

pub use error::{Class, Code, Error, Result};
pub use host::{Host, Level};
pub use serve::Settings;

/// The messages and services of the wire.
#[allow(missing_docs, clippy::all)]
mod proto {
    pub mod mooncake {
        pub mod plugin {
            pub mod v1 {
                tonic::include_proto!("mooncake.plugin.v1");
            }
        }
        pub mod evict {
            pub mod v1 {
                tonic::include_proto!("mooncake.evict.v1");
            }
        }
        pub mod alloc {
            pub mod v1 {
                tonic::include_proto!("mooncake.alloc.v1");
            }
        }
        pub mod tier {
            pub mod v1 {
                tonic::include_proto!("mooncake.tier.v1");
            }
        }
        pub mod transport {
            pub mod v1 {
                tonic::include_proto!("mooncake.transport.v1");
            }
        }
    }
    pub mod plugin {
        tonic::include_proto!("plugin");
    }
}
