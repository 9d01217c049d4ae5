package verbs

import "strconv"

// Status is how a work request ended: 0 is success. The values are those of the library, but
// for StatusClosed.
type Status uint32

// The statuses that callers tell apart. Others exist; see String.
const (
	StatusSuccess          Status = 0
	StatusLocalLength      Status = 1
	StatusLocalQPOperation Status = 2
	StatusLocalProtection  Status = 4
	// StatusFlushed: the QP failed before this request was executed, or was moved to the error
	// state. It is unknown which of the bytes moved.
	StatusFlushed         Status = 5
	StatusMWBind          Status = 6
	StatusBadResponse     Status = 7
	StatusLocalAccess     Status = 8
	StatusRemoteInvalid   Status = 9
	StatusRemoteAccess    Status = 10
	StatusRemoteOperation Status = 11
	// StatusRetryExceeded: the peer did not answer.
	StatusRetryExceeded    Status = 12
	StatusRNRRetryExceeded Status = 13
	StatusFatal            Status = 19
	StatusResponseTimeout  Status = 20
	StatusGeneral          Status = 21
	// StatusClosed: the QP was closed before the request ended. The device no longer touches
	// the memory of this side.
	StatusClosed Status = 256
)

var statusNames = map[Status]string{
	StatusSuccess: "success", StatusLocalLength: "local length error",
	StatusLocalQPOperation: "local QP operation error", 3: "local EE context operation error",
	StatusLocalProtection: "local protection error", StatusFlushed: "flushed",
	StatusMWBind: "memory window bind error", StatusBadResponse: "bad response",
	StatusLocalAccess: "local access error", StatusRemoteInvalid: "remote invalid request",
	StatusRemoteAccess: "remote access error", StatusRemoteOperation: "remote operation error",
	StatusRetryExceeded: "transport retries exceeded", StatusRNRRetryExceeded: "receiver-not-ready retries exceeded",
	14: "local RDD violation", 15: "remote invalid RD request", 16: "remote aborted",
	17: "invalid EE context number", 18: "invalid EE context state", StatusFatal: "fatal error",
	StatusResponseTimeout: "response timeout", StatusGeneral: "general error",
	22: "tag matching error", 23: "tag matching rendezvous incomplete", StatusClosed: "QP closed",
}

// String names the status.
func (s Status) String() string {
	if n, ok := statusNames[s]; ok {
		return n
	}
	return "status " + strconv.Itoa(int(s))
}

// Flushed reports whether the request ended because of what happened to the QP, not to
// itself.
func (s Status) Flushed() bool { return s == StatusFlushed || s == StatusClosed }

// Local reports whether the fault lies with this side's memory or QP, so that another device
// of this side may do better.
func (s Status) Local() bool {
	switch s {
	case StatusLocalLength, StatusLocalQPOperation, StatusLocalProtection, StatusLocalAccess, StatusMWBind:
		return true
	}
	return false
}
