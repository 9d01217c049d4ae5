package worker

import (
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// LookupBatch is the largest number of keys of one Exist call.
const LookupBatch = 256

// Config describes a worker. Zero values of the fields that name a default mean it.
type Config struct {
	// Worker is the number of the worker, from 0. Total is the number of requests it will
	// get, 0 when that is not known; it is passed on with the progress.
	Worker int `json:"worker"`
	Total  int `json:"total"`
	// Model and Seed are part of every key; Seed is also part of the content.
	Model string `json:"model"`
	Seed  uint64 `json:"seed"`
	// PageSize is the size of a block's page in bytes, 8 to 1 GiB.
	PageSize int `json:"page_size"`
	// Window is the number of pages that the worker holds, and of one read or put batch:
	// 1 to 4096, default 32.
	Window int `json:"window"`
	// OpTimeout bounds every call to the pool. Default 30 s.
	OpTimeout time.Duration `json:"op_timeout"`
	// Patience is how long a failing lookup is tried again, for a master that restarts,
	// before the worker gives up. Default 30 s.
	Patience time.Duration `json:"patience"`
	// Think is how long the worker waits after each request, as an engine computes between
	// two: 0 for not at all.
	Think time.Duration `json:"think,omitempty"`
}

// withDefaults returns a complete and valid configuration.
func (c Config) withDefaults() (Config, error) {
	if c.Window == 0 {
		c.Window = 32
	}
	if c.OpTimeout == 0 {
		c.OpTimeout = 30 * time.Second
	}
	if c.Patience == 0 {
		c.Patience = 30 * time.Second
	}
	refuse := func(format string, args ...any) (Config, error) {
		return c, errs.New(errs.InvalidParams, "demo worker", format, args...)
	}
	switch {
	case c.Worker < 0 || c.Total < 0:
		return refuse("worker %d with %d requests: neither may be negative", c.Worker, c.Total)
	case c.Model == "" || len(c.Model) > 128 || strings.ContainsAny(c.Model, "/ \t\r\n"):
		return refuse("model %.140q, want 1 to 128 bytes without a slash or a space", c.Model)
	case c.PageSize < 8 || c.PageSize > 1<<30:
		return refuse("page size is %d bytes, want 8 to %d", c.PageSize, 1<<30)
	case c.Window < 1 || c.Window > 4096:
		return refuse("window is %d pages, want 1 to 4096", c.Window)
	case c.OpTimeout < 0 || c.Patience < 0 || c.Think < 0:
		return refuse("times of %v, %v and %v may not be negative", c.OpTimeout, c.Patience, c.Think)
	}
	return c, nil
}
