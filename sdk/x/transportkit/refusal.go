package transportkit

import (
	"errors"
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Refusal is how callers see the reason for which a peer refused a request or a connection. The
// label is for metrics. Each transport numbers its reasons itself, as its wire protocol says.
type Refusal struct {
	Label, Text string
	Code        errs.Code
	Class       errs.Class
}

// The reasons that several transports have.
var (
	UnknownRegion = Refusal{"unknown-region", "the peer has no such region (any more)", errs.InvalidKey, errs.ClassTransientPeer}
	WrongToken    = Refusal{"wrong-token", "the key was not issued by this peer for this region", errs.InvalidKey, errs.ClassPermanent}
	OutOfRange    = Refusal{"range", "the range reaches past the end of the peer's region", errs.InvalidParams, errs.ClassPermanent}
	ReadDenied    = Refusal{"read-denied", "the region does not allow peers to read", errs.InvalidRead, errs.ClassPermanent}
	WriteDenied   = Refusal{"write-denied", "the region does not allow peers to write", errs.InvalidWrite, errs.ClassPermanent}
	Draining      = Refusal{"draining", "the peer is withdrawing the region", errs.UnavailableInCurrentStatus, errs.ClassTransientPeer}
	WriteEnded    = Refusal{"write-ended", "the peer takes no write there: the put that had this memory has ended", errs.InvalidWrite, errs.ClassPermanent}
	GrantMissing  = Refusal{"grant-missing", "the peer serves only what the master allowed, and the operation showed no grant of it: security.mode must be mtls here as well, and rpc not in security.plaintext", errs.IllegalClient, errs.ClassPermanent}
	GrantWrong    = Refusal{"grant-wrong", "the peer refused the grant: the master did not make it for this identity, direction and range", errs.IllegalClient, errs.ClassPermanent}
	GrantOver     = Refusal{"grant-over", "the time for which the master allowed the operation is over; ask the master again", errs.LeaseExpired, errs.ClassPermanent}
	BadFrame      = Refusal{"bad-frame", "the peer received bytes that are no frame", errs.TransferFail, errs.ClassTransientPath}
	Stale         = Refusal{"stale", "another process answers there: the peer was restarted", errs.TransferFail, errs.ClassTransientPeer}
	Busy          = Refusal{"busy", "the peer has as many connections as it allows", errs.TransferFail, errs.ClassTransientPeer}
	Stopping      = Refusal{"stopping", "the peer is stopping", errs.TransferFail, errs.ClassTransientPeer}
)

// Refuse returns a refusal for the table of a transport.
func Refuse(label, text string, code errs.Code, class errs.Class) Refusal {
	return Refusal{label, text, code, class}
}

// RefusalOf returns the entry of a transport's table for a number from the wire. A number that the
// table does not have gets class.
func RefusalOf[R ~uint8](table []Refusal, r R, class errs.Class) Refusal {
	if int(r) < len(table) && table[r].Label != "" {
		return table[r]
	}
	return Refusal{fmt.Sprintf("reason-%d", r), fmt.Sprintf("the peer refused, reason %d", r), errs.TransferFail, class}
}

// Error returns the refusal as an error.
func (r Refusal) Error(op string) error {
	return &errs.Error{Code: r.Code, Class: r.Class, Op: op, Err: errors.New(r.Text)}
}

// As returns the refusal with the code and class that a peer sent. A code or class that this
// version does not know counts as unknown.
func (r Refusal) As(code errs.Code, class errs.Class) Refusal {
	r.Code, r.Class = code, class
	if class > errs.ClassPermanent {
		r.Class = errs.ClassUnknown
	}
	if code >= errs.OK {
		r.Code = errs.TransferFail
	}
	return r
}
