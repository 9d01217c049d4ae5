package master

import (
	"fmt"

	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// keyText is an error whose text is only built when a caller reads it: a lookup of absent keys
// makes many errors whose text is never read.
type keyText struct{ key, text string }

// Error implements error.
func (k keyText) Error() string {
	const most = 128
	if len(k.key) > most {
		return "\"" + k.key[:most] + "...\": " + k.text
	}
	return "\"" + k.key + "\": " + k.text
}

// keyError names the operation and the key.
func keyError(code errs.Code, class errs.Class, op, key, text string) error {
	return &errs.Error{Code: code, Class: class, Op: op, Err: keyText{key: key, text: text}}
}

// outcomeError turns an outcome into the error of an operation, nil for Done.
func outcomeError(out objects.Outcome, op string, key model.Key) error {
	switch out {
	case objects.Done:
		return nil
	case objects.Missing:
		return keyError(errs.ObjectNotFound, errs.ClassPermanent, op, key, "there is no such object; it was never written, or evicted, removed or lost with its segment")
	case objects.Exists:
		return keyError(errs.ObjectAlreadyExists, errs.ClassPermanent, op, key, "it is there already, or another client is writing it")
	case objects.Unfinished:
		return keyError(errs.ReplicaIsNotReady, errs.ClassUnknown, op, key, "it is still being written")
	case objects.NotPlain:
		return keyError(errs.ReplicaIsNotReady, errs.ClassUnknown, op, key, "no copy of it is one that upstream's clients can read: it lies on a storage tier, in stripes, or where neither tcp nor rdma leads")
	case objects.Foreign:
		return keyError(errs.IllegalClient, errs.ClassPermanent, op, key, "another client began this put; only that one may end or revoke it")
	case objects.Written:
		return keyError(errs.InvalidWrite, errs.ClassPermanent, op, key, "it has been written completely; remove it instead")
	case objects.Superseded:
		return keyError(errs.InvalidWrite, errs.ClassPermanent, op, key, "this put was overdue and another one of this client took its place; what it wrote is discarded")
	case objects.Misfit:
		return keyError(errs.InvalidParams, errs.ClassPermanent, op, key, "the checksums of its grains do not combine to its checksum, or are not as many as its size has; put it again")
	case objects.Leased:
		return keyError(errs.ObjectHasLease, errs.ClassUnknown, op, key, "a reader holds a lease on it; try again later, or force the removal")
	case objects.Probed:
		return keyError(errs.ObjectHasLease, errs.ClassUnknown, op, key, "a lookup found it a moment ago and its reader may be about to come; try again later, or force the removal")
	case objects.Copying:
		return keyError(errs.ObjectHasReplicationTask, errs.ClassUnknown, op, key, "a copy or move of it is in progress; try again when that has ended")
	case objects.NotCopying:
		return keyError(errs.ObjectNoReplicationTask, errs.ClassPermanent, op, key, "no copy or move of it is in progress; it ended, or was given up as overdue")
	case objects.WrongKind:
		return keyError(errs.InvalidParams, errs.ClassPermanent, op, key, "a move is in progress where a copy was meant, or a copy where a move was meant")
	case objects.NoReplica:
		return keyError(errs.ReplicaNotFound, errs.ClassPermanent, op, key, "it has no copy on that segment")
	case objects.SourceGone:
		return keyError(errs.ReplicaIsGone, errs.ClassUnknown, op, key, "the copy that was read, or a target, went away meanwhile; the rest was given up")
	case objects.WrongGroup:
		return keyError(errs.InvalidParams, errs.ClassPermanent, op, key, "it belongs to another group; the group of an object cannot change, remove it first")
	case objects.GroupFull:
		return keyError(errs.InvalidParams, errs.ClassPermanent, op, key,
			fmt.Sprintf("its group has %d members, the most there can be, since they are evicted together; use several groups", objects.MaxGroup))
	case objects.CopyLimit:
		return errs.WithHint(keyError(errs.TaskPendingLimitExceeded, errs.ClassUnknown, op, key, fmt.Sprintf("this client has %d copies and moves in progress, the most there may be", objects.MaxCopies)),
			"end or revoke some, then try again")
	default:
		return keyError(errs.Internal, errs.ClassUnknown, op, key, "unexpected outcome")
	}
}

// validKey names the operation in the error of a malformed key.
func validKey(op string, key model.Key) error {
	if err := model.ValidateKey(key); err != nil {
		return errs.Wrap(errs.InvalidParams, op, err)
	}
	return nil
}

// soughtKey is validKey for a key that is looked for.
func soughtKey(op string, key model.Key) error {
	if err := model.ValidateSought(key); err != nil {
		return errs.Wrap(errs.CodeOf(err), op, err)
	}
	return nil
}
