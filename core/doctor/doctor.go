// Package doctor looks at the machine that a role is to run on and says what will not
// work, or not well: what was found, why it matters, and what to do.
//
// It changes nothing: the file with which it tries a folder for a storage tier has no name. All of
// the machine is read through an fs.FS and a few functions, so that tests look at recorded machines.
// Every check has a bound in time, and one that does not come back does not keep the others.
package doctor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/config"
)

// DefaultTimeout bounds one check.
const DefaultTimeout = 2 * time.Second

// Status is the outcome of a check.
type Status string

// The outcomes. Warn is for what works, but badly or only so far; Fail for what does not.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Result is what one check has to say.
type Result struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	// Found is what there is, in a line; Details are more of it.
	Found   string   `json:"found"`
	Details []string `json:"details,omitempty"`
	// Why says what comes of it and Do what to do, both empty where all is well.
	Why string `json:"why,omitempty"`
	Do  string `json:"do,omitempty"`
}

// Request says what to look for.
type Request struct {
	Config config.Config
	// Role is the process that is to run here. RoleAll looks at everything, and does not
	// expect the other processes to run yet.
	Role config.Role
	// Timeout bounds each check; 0 means DefaultTimeout.
	Timeout time.Duration
}

// exam is one look at a machine.
type exam struct {
	Machine
	cfg  config.Config
	role config.Role
}

type check struct {
	name string
	// wanted says whether the check concerns the role.
	wanted func(*exam) bool
	run    func(*exam, context.Context) Result
}

func (e *exam) checks() []check {
	always := func(*exam) bool { return true }
	all := []check{
		{"kernel", always, (*exam).kernel},
		{"cpu", always, (*exam).cpu},
		{"checksum", always, (*exam).checksum},
		{"memory", always, (*exam).memory},
		{"hugepages", (*exam).node, (*exam).hugepages},
		{"transparent hugepages", (*exam).node, (*exam).transparent},
		{"numa", (*exam).node, (*exam).numa},
		{"shared memory", (*exam).node, (*exam).shm},
		{"kept memory", (*exam).keepsFiles, (*exam).kept},
		{"storage tiers", (*exam).tiered, (*exam).tiers},
	}
	for _, path := range e.tierFolders() {
		all = append(all, check{"storage tier", always, func(e *exam, ctx context.Context) Result { return e.tierFolder(ctx, path) }})
	}
	return append(all, []check{
		{"memlock", (*exam).node, (*exam).memlock},
		{"open files", always, (*exam).files},
		{"rdma", (*exam).node, (*exam).rdma},
		{"quic network", (*exam).asksQUIC, (*exam).quicNetwork},
		{"quic certificates", (*exam).asksQUIC, (*exam).quicCerts},
		{"clock", always, (*exam).clock},
		{"ports", always, (*exam).ports},
		{"security", always, (*exam).security},
		{"plugins", always, (*exam).plugins},
		{"plugin security", always, (*exam).pluginSecurity},
		{"master", (*exam).node, (*exam).master},
		{"metadata", (*exam).node, (*exam).metadata},
	}...)
}

// Run does the checks that concern the role, all at once, and returns their results in a
// fixed order. It is over within the timeout, whatever the machine does; a check that was
// given up is a warning.
func Run(ctx context.Context, m Machine, r Request) Report {
	if r.Timeout <= 0 {
		r.Timeout = DefaultTimeout
	}
	e := &exam{Machine: m, cfg: r.Config, role: r.Role}
	var todo []check
	for _, c := range e.checks() {
		if c.wanted(e) {
			todo = append(todo, c)
		}
	}
	report := Report{Results: make([]Result, len(todo))}
	var wg sync.WaitGroup
	for i, c := range todo {
		wg.Go(func() { report.Results[i] = bounded(ctx, e, c, r.Timeout) })
	}
	wg.Wait()
	return report
}

// bounded runs one check. A check that hangs in a read of a file system keeps its
// goroutine until the read returns, and nothing else.
func bounded(ctx context.Context, e *exam, c check, timeout time.Duration) Result {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	done := make(chan Result, 1)
	go func() { done <- c.run(e, ctx) }()
	var r Result
	select {
	case r = <-done:
	case <-ctx.Done():
		select {
		case r = <-done: // It heeded the bound itself and can say more.
		case <-time.After(timeout / 10):
			r = Result{Status: Warn, Found: fmt.Sprintf("no answer within %v", timeout),
				Why: "whether this is in order is not known",
				Do:  "look for a file system or a network that hangs, or give it longer with --timeout"}
		}
	}
	r.Check = c.name
	return r
}

func (e *exam) node() bool {
	return e.role == config.RoleStore || e.role == config.RoleClient || e.role == config.RoleAll
}

// usesRDMA reports whether the node is to move data over RDMA.
func (e *exam) usesRDMA() bool {
	for _, t := range e.cfg.Store.Transports {
		if t == "rdma" {
			return true
		}
	}
	return e.cfg.Store.Protocol == "rdma"
}

// ok, warn and fail make results.
func ok(format string, args ...any) Result {
	return Result{Status: OK, Found: fmt.Sprintf(format, args...)}
}

func warn(found, why, do string) Result {
	return Result{Status: Warn, Found: found, Why: why, Do: do}
}

func fail(found, why, do string) Result {
	return Result{Status: Fail, Found: found, Why: why, Do: do}
}
