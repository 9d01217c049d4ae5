package master

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	opPutStart = "master: put start"
	// maxPreferred bounds the preferred segments of one call.
	maxPreferred = 1024
	// maxGroup bounds the name of a group, in bytes.
	maxGroup = 1 << 10
)

// PutStart allocates room for objects and enters them as being written.
func (s *Service) PutStart(ctx context.Context, caller model.Caller, items []model.PutItem, cfg model.ReplicateConfig, _ *model.Answer[[]model.Replica]) ([]model.Result[[]model.Replica], error) {
	if err := s.admit(ctx, opPutStart, len(items)); err != nil {
		return nil, err
	}
	if err := s.checkPut(caller.Client, cfg); err != nil {
		return nil, err
	}
	c, err := s.scopedWrite(opPutStart, caller)
	if err != nil {
		return nil, err
	}
	p := s.newPut(caller, c, items, cfg)
	p.admit()
	p.charge(ctx)
	p.run(ctx)
	p.settle()
	if err := ctx.Err(); err != nil {
		p.takeBack(ctx)
		s.counters.PutStart.Done(len(items), len(items))
		return nil, errs.Wrap(errs.RPCTimeout, opPutStart, err)
	}
	failed := 0
	for i := range p.out {
		if p.out[i].Err != nil {
			failed++
		} else {
			s.counters.ValueSizes.Observe(items[i].Size)
		}
	}
	s.counters.PutStart.Done(len(items), failed)
	s.feed(ctx)
	return p.out, nil
}

func (s *Service) checkPut(client model.ClientID, cfg model.ReplicateConfig) error {
	switch pin := cfg.SoftPin; {
	case client.IsZero():
		return errs.New(errs.InvalidParams, opPutStart, "the client ID is zero")
	case cfg.ReplicaNum == 0:
		return errs.New(errs.InvalidParams, opPutStart, "the number of copies is 0; it must be at least 1")
	case len(cfg.PreferredSegments) > maxPreferred:
		return errs.New(errs.InvalidParams, opPutStart, "%d preferred segments are named; the most is %d", len(cfg.PreferredSegments), maxPreferred)
	case pin.Action > model.SoftPinDisable:
		return errs.New(errs.InvalidParams, opPutStart, "the soft pin action is %d; it must be 0 to %d", pin.Action, model.SoftPinDisable)
	case pin.TTL != nil && pin.Action != model.SoftPinEnable:
		return errs.New(errs.InvalidParams, opPutStart, "a time is given for a soft pin that is not to be enabled")
	case pin.TTL != nil && (*pin.TTL < 0 || *pin.TTL > s.cfg.MaxSoftPinTTL):
		return errs.New(errs.InvalidParams, opPutStart, "the soft pin is to last %s; the most is %s (max_kv_soft_pin_ttl)", *pin.TTL, s.cfg.MaxSoftPinTTL)
	case cfg.DataType < 0 || cfg.DataType > model.DataGeneral:
		return errs.New(errs.InvalidParams, opPutStart, "the data type is %d; it must be 0 to %d", cfg.DataType, model.DataGeneral)
	}
	return nil
}

func (s *Service) softTTL(pin model.SoftPin) time.Duration {
	switch {
	case pin.Action != model.SoftPinEnable:
		return 0
	case pin.TTL != nil:
		return *pin.TTL
	}
	return s.cfg.SoftPinTTL
}
