package tasks

import (
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Config bounds what the manager holds.
type Config struct {
	// MaxPending is how many tasks may wait to be fetched (max_total_pending_tasks);
	// further ones are refused.
	MaxPending int
	// MaxProcessing is how many tasks may be in progress (max_total_processing_tasks). Further
	// ones are not given out.
	MaxProcessing int
	// MaxFinished is how many are remembered after their end (max_total_finished_tasks);
	// the oldest go.
	MaxFinished int
	// PendingTimeout is how long a task may wait, ProcessingTimeout how long it may be under
	// way, before it fails. 0 is forever.
	PendingTimeout, ProcessingTimeout time.Duration
	// MaxRetries is passed to the nodes that carry tasks out.
	MaxRetries uint32
}

// DefaultConfig returns upstream's defaults.
func DefaultConfig() Config {
	return Config{
		MaxPending: 10_000, MaxProcessing: 10_000, MaxFinished: 10_000,
		PendingTimeout: 300 * time.Second, ProcessingTimeout: 300 * time.Second,
		MaxRetries: 10,
	}
}

// Validate reports negative values, code InvalidParams.
func (c Config) Validate() error {
	if c.MaxPending < 0 || c.MaxProcessing < 0 || c.MaxFinished < 0 || c.PendingTimeout < 0 || c.ProcessingTimeout < 0 {
		return errs.New(errs.InvalidParams, "tasks", "a limit or timeout is negative: %+v", c)
	}
	return nil
}

// MaxTargets is how many targets a copy may have.
const MaxTargets = 256

// maxName is the most bytes of a segment's name.
const maxName = 1 << 10

// Validate reports a task that makes no sense whatever the pool holds, code InvalidParams:
// a bad key or tenant, no target or too many, a move with more than one, or whose source
// is its target, a target named twice.
func Validate(spec model.TaskSpec) error {
	op := "task: " + spec.Kind.String()
	if err := model.ValidateKey(spec.Key); err != nil {
		return errs.Wrap(errs.InvalidParams, op, err)
	}
	if err := model.ValidateTenant(spec.Tenant); err != nil {
		return errs.Wrap(errs.InvalidParams, op, err)
	}
	switch {
	case spec.Kind != model.CopyObject && spec.Kind != model.MoveObject:
		return errs.New(errs.InvalidParams, op, "%d is no kind of task; 0 is a copy, 1 a move", spec.Kind)
	case spec.Kind == model.MoveObject && (spec.Source == "" || len(spec.Targets) != 1):
		return errs.New(errs.InvalidParams, op, "a move has one source and one target, not %q and %d", spec.Source, len(spec.Targets))
	case len(spec.Targets) == 0 || len(spec.Targets) > MaxTargets:
		return errs.New(errs.InvalidParams, op, "it has %d targets; 1 to %d are allowed", len(spec.Targets), MaxTargets)
	case len(spec.Source) > maxName:
		return errs.New(errs.InvalidParams, op, "the name of the source has %d bytes; the most is %d", len(spec.Source), maxName)
	}
	seen := make(map[string]bool, len(spec.Targets))
	for _, target := range spec.Targets {
		switch {
		case target == "" || len(target) > maxName:
			return errs.New(errs.InvalidParams, op, "the name of a target has %d bytes; 1 to %d are allowed", len(target), maxName)
		case target == spec.Source && spec.Kind == model.MoveObject:
			return errs.New(errs.InvalidParams, op, "segment %q is source and target", target)
		case seen[target]:
			return errs.New(errs.InvalidParams, op, "target %q is named twice", target)
		}
		seen[target] = true
	}
	return nil
}
