use crate::proto::mooncake::plugin::v1 as wire;
use prost::Message;
use tonic::{Code as Grpc, Status};

/// The codes that a plugin has a use for; sdk/errs/code.go has all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Code {
    Internal = -1,
    SegmentNotFound = -101,
    NoAvailableHandle = -200,
    InvalidVersion = -300,
    InvalidKey = -400,
    InvalidParams = -600,
    InvalidWrite = -700,
    InvalidRead = -701,
    ObjectNotFound = -704,
    TransferFail = -800,
    ChecksumMismatch = -801,
    RpcFail = -900,
    RpcTimeout = -901,
    UnavailableInCurrentStatus = -1010,
    NotSupported = -1012,
    FileOpenFail = -1101,
    FileReadFail = -1102,
    FileWriteFail = -1103,
}

impl Code {
    fn grpc(self) -> Grpc {
        match self {
            Code::SegmentNotFound | Code::ObjectNotFound => Grpc::NotFound,
            Code::NoAvailableHandle => Grpc::ResourceExhausted,
            Code::InvalidVersion | Code::UnavailableInCurrentStatus => Grpc::FailedPrecondition,
            Code::InvalidParams | Code::InvalidKey => Grpc::InvalidArgument,
            Code::RpcFail | Code::TransferFail => Grpc::Unavailable,
            Code::RpcTimeout => Grpc::DeadlineExceeded,
            Code::NotSupported => Grpc::Unimplemented,
            _ => Grpc::Internal,
        }
    }
}

/// What the host may do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// This connection failed; another way to the same peer may work.
    TransientPath = 1,
    /// The peer is down, restarted or overloaded; another copy may be read.
    TransientPeer = 2,
    /// Something of this machine failed.
    LocalDevice = 3,
    /// The request is wrong and will fail everywhere.
    Permanent = 4,
}

/// An error for the host: it says what happened, to what, and what to do about it.
#[derive(Clone, Debug)]
pub struct Error {
    /// What went wrong.
    pub code: Code,
    /// What the host may do about it.
    pub class: Class,
    /// The text for a person.
    pub text: String,
}

/// The result of a call of a plugin.
pub type Result<T> = std::result::Result<T, Error>;

const MAX_TEXT: usize = 4 << 10;
const MAX_ITEM_TEXT: usize = 512;

impl Error {
    /// Makes an error with the usual class of the code.
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        let class = match code {
            Code::Internal | Code::FileOpenFail | Code::FileReadFail | Code::FileWriteFail => {
                Class::LocalDevice
            }
            Code::TransferFail | Code::RpcFail | Code::RpcTimeout => Class::TransientPath,
            _ => Class::Permanent,
        };
        Error { code, class, text: text.into() }
    }

    /// Changes the class.
    pub fn class(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Error::new(Code::InvalidParams, text)
    }

    fn message(&self, limit: usize) -> wire::Error {
        let end = self.text.floor_char_boundary(limit);
        wire::Error { code: self.code as i32, class: self.class as u32, message: self.text[..end].to_owned() }
    }

    /// The message of the error of one item.
    pub(crate) fn item(&self) -> wire::Error {
        self.message(MAX_ITEM_TEXT)
    }
}

/// google.rpc.Status.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

impl From<Error> for Status {
    /// The host finds code and class in the details of the status.
    fn from(e: Error) -> Status {
        let m = e.message(MAX_TEXT);
        let detail = prost_types::Any {
            type_url: "type.googleapis.com/mooncake.plugin.v1.Error".into(),
            value: m.encode_to_vec(),
        };
        let code = e.code.grpc();
        let status = RpcStatus { code: code as i32, message: m.message.clone(), details: vec![detail] };
        Status::with_details(code, m.message, status.encode_to_vec().into())
    }
}

/// Checks that the columns of a message are equally long and not too long.
pub(crate) fn columns(op: &str, limit: usize, n: usize, others: &[usize]) -> Result<()> {
    if n > limit {
        return Err(Error::invalid(format!("{op}: {n} items in one message, at most {limit} are allowed")));
    }
    match others.iter().find(|o| **o != n) {
        Some(o) => Err(Error::invalid(format!("{op}: columns have {n} and {o} items, want equally many"))),
        None => Ok(()),
    }
}
