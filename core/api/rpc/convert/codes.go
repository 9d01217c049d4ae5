package convert

import (
	"google.golang.org/grpc/codes"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// grpcCodes maps error codes to gRPC codes, for tools that know nothing of Mooncake; our
// own client reads the exact code from the status detail. A code that is not listed is
// codes.Unknown.
var grpcCodes = map[errs.Code]codes.Code{
	errs.Internal:                   codes.Internal,
	errs.BufferOverflow:             codes.OutOfRange,
	errs.SegmentNotFound:            codes.NotFound,
	errs.SegmentAlreadyExists:       codes.AlreadyExists,
	errs.ClientNotFound:             codes.NotFound,
	errs.NoAvailableHandle:          codes.ResourceExhausted,
	errs.InvalidVersion:             codes.Unimplemented,
	errs.InvalidKey:                 codes.InvalidArgument,
	errs.InvalidParams:              codes.InvalidArgument,
	errs.IllegalClient:              codes.PermissionDenied,
	errs.ObjectNotFound:             codes.NotFound,
	errs.ObjectAlreadyExists:        codes.AlreadyExists,
	errs.ObjectHasLease:             codes.FailedPrecondition,
	errs.RPCFail:                    codes.Unavailable,
	errs.RPCTimeout:                 codes.DeadlineExceeded,
	errs.UnavailableInCurrentStatus: codes.FailedPrecondition,
	errs.UnavailableInCurrentMode:   codes.FailedPrecondition,
	errs.NotSupported:               codes.Unimplemented,
	errs.DeserializeFail:            codes.InvalidArgument,
}

// errsCodes maps the codes of a status that carries no detail, which gRPC itself made: the
// other side was not reached, did not answer in time, or does not know the call.
var errsCodes = map[codes.Code]errs.Code{
	codes.Unavailable:        errs.RPCFail,
	codes.Canceled:           errs.RPCFail,
	codes.Unknown:            errs.RPCFail,
	codes.DeadlineExceeded:   errs.RPCTimeout,
	codes.Unimplemented:      errs.NotSupported,
	codes.InvalidArgument:    errs.InvalidParams,
	codes.ResourceExhausted:  errs.BufferOverflow,
	codes.Internal:           errs.Internal,
	codes.DataLoss:           errs.Internal,
	codes.FailedPrecondition: errs.UnavailableInCurrentStatus,
}

// toGRPC returns the gRPC code of an error code.
func toGRPC(c errs.Code) codes.Code {
	if g, ok := grpcCodes[c]; ok {
		return g
	}
	return codes.Unknown
}

// FromGRPC returns the error code of a status without a detail.
func FromGRPC(g codes.Code) errs.Code {
	if c, ok := errsCodes[g]; ok {
		return c
	}
	return errs.RPCFail
}
